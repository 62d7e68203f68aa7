"""Figures over all tasks, read from the rollups: their cost follows the number of groups, not of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from operator import itemgetter
from typing import Any

from orihon.catalogue.rows import Rollup, RollupDifference, TokenUsage
from orihon.catalogue.tasks_db import TasksDatabase
from orihon.task import TaskStatus

_figures = itemgetter(*(column.name for column in fields(Rollup)))


class Statistics:
    """What the catalogue adds up."""

    _db: TasksDatabase

    def rollups(self) -> list[Rollup]:
        """The sums of every user, repository and status."""
        return [Rollup(*figures) for figures in self._db.values("rollups")]

    def count_by_status(self) -> dict[TaskStatus, int]:
        """How many tasks stand where."""
        return {TaskStatus(record["status"]): record["tasks"] for record in self._db.all("count_by_status")}

    def count_by_user_and_status(self) -> dict[str, dict[TaskStatus, int]]:
        """How many tasks of each user stand where."""
        counts: dict[str, dict[TaskStatus, int]] = {}
        for user, status, tasks in self._db.values("count_by_user_and_status"):
            counts.setdefault(user, {})[TaskStatus(status)] = tasks
        return counts

    def average_minutes(self) -> float | None:
        """From start to end, over the completed tasks."""
        sums = self._db.one("run_time") or {}
        return sums["run_milliseconds"] / sums["timed_tasks"] / 60_000 if sums.get("timed_tasks") else None

    def token_usage(self) -> TokenUsage:
        """Tokens of the completed tasks."""
        sums = self._db.one("token_usage") or {}
        total, tasks = sums.get("tokens") or 0, sums.get("tasks") or 0
        return TokenUsage(total, total / tasks if tasks else None)

    def family_figures(self, uuid: str) -> tuple[int, int]:
        """Calls of the model and tokens of a task together with those that it has started as parts of its work."""
        sums = self._db.one("family_figures", uuid=uuid) or {}
        return sums.get("llm_calls") or 0, sums.get("tokens") or 0

    def check_rollups(self) -> list[RollupDifference]:
        """Where the rollups are not what the tasks add up to; for the doctor."""
        found: dict[tuple[str, str, str], dict[bool, Rollup]] = {}
        for record in self._db.all("rollup_differences"):
            rollup = _rollup(record)
            group = found.setdefault((rollup.user, rollup.repository, rollup.status), {})
            group[bool(record["is_stored"])] = rollup
        return [RollupDifference(sides.get(True), sides.get(False)) for sides in found.values()]

    def rebuild_rollups(self) -> None:
        """Count everything again."""
        with self._db.write() as statements:
            statements.run("rebuild_rollups")


def _rollup(record: Mapping[str, Any]) -> Rollup:
    return Rollup(*_figures(record))
