"""Statistics over all tasks, read from the rollups: their cost follows the number of groups, not of tasks."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import itemgetter

from orihon.catalogue.rows import Rollup, RollupDifference, TaskRow, TokenUsage, known_status, rows_from
from orihon.catalogue.tasks_db import Reading, TasksDatabase
from orihon.values.task import TaskStatus

#: As much of a time as names its day.
DAY = len("2026-11-15")
_figures = itemgetter(*(column.name for column in fields(Rollup)))


@dataclass(frozen=True, slots=True)
class PeriodStatistics:
    """What happened in a time."""

    created: int
    ended: dict[str, int]  # tasks, by the status that they have now
    notifications: dict[str, int]  # by kind, as far as they are still there
    biggest: tuple[TaskRow, ...]


@dataclass(frozen=True, slots=True)
class Position:
    """Sums over tasks that are ``active``, ``archived``, ``old`` or ``cleaned``."""

    name: str
    tasks: int
    bytes: int
    unmeasured: int  # have records, and no size in their rows
    summaries: int


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """What one user has: tasks that are not finished, bytes, and tokens of one day."""

    tasks: int
    bytes: int
    tokens: int


class Statistics:
    """What the catalogue adds up."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def rollups(self) -> list[Rollup]:
        """The sums of every user, repository and status."""
        return [Rollup(*figures) for figures in self._db.values("rollups")]

    def count_by_status(self, user: str | None = None) -> dict[TaskStatus, int]:
        """How many tasks stand where; ``user``: of that user's."""
        conditions, whose = ((), {}) if user is None else (("having_user",), {"user": user})
        found = self._db.all("count_by_status", *conditions, **whose)
        return {known_status(record["status"], self._db.where): record["tasks"] for record in found}

    def count_by_user_and_status(self) -> dict[str, dict[TaskStatus, int]]:
        """How many tasks of each user stand where."""
        counts: dict[str, dict[TaskStatus, int]] = {}
        for user, status, tasks in self._db.values("count_by_user_and_status"):
            counts.setdefault(user, {})[known_status(status, self._db.where)] = tasks
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

    def family_usage(self, uuid: str) -> tuple[int, int]:
        """Calls of the model and tokens of a task together with those that it has started as parts of its work."""
        sums = self._db.one("family_figures", uuid=uuid) or {}
        return sums.get("llm_calls") or 0, sums.get("tokens") or 0

    def count_old_tasks(self, before: str) -> int:
        """Finished tasks that ended before that and are neither archived, cleaned up nor to be kept."""
        found = self._db.one("count_old_tasks", before=before)
        return 0 if found is None else int(found["tasks"])

    def happened_between(self, first: str, beyond: str, biggest: int) -> PeriodStatistics:
        """What happened to tasks in a time, with the biggest of those that ended in it."""
        span: dict[str, str] = {"first": first, "beyond": beyond}
        created = self._db.one("created_between", **span)
        told = self._db.all("notifications_between", **span)
        return PeriodStatistics(
            created=0 if created is None else int(created["tasks"]),
            ended={record["status"]: int(record["tasks"]) for record in self._db.all("ended_between", **span)},
            notifications={record["kind"]: int(record["notifications"]) for record in told},
            biggest=tuple(rows_from(self._db.all("largest_between", limit=biggest, **span))),
        )

    def ended_by_day(self, first: str, beyond: str, user: str | None = None) -> dict[str, dict[str, int]]:
        """How many tasks (``user``: of that user) ended on each day, by the status that they have now."""
        days: dict[str, dict[str, int]] = {}
        statement, whose = ("ended_by_day", {}) if user is None else ("ended_by_day_of_user", {"user": user})
        for day, status, tasks in self._db.values(statement, first=first, beyond=beyond, **whose):
            days.setdefault(day, {})[status] = tasks
        return days

    def sizes_by_position(self, old: str) -> list[Position]:
        """The sums; ``old`` tasks ended before that time."""
        return [Position(name, *map(int, sums)) for name, *sums in self._db.values("sizes_by_position", old=old)]

    def largest_tasks(self, limit: int) -> list[TaskRow]:
        """The largest ones first."""
        return rows_from(self._db.all("largest_tasks", limit=limit))

    def unmeasured_tasks(self, limit: int) -> list[TaskRow]:
        """Tasks that have records and no size: at work, or of before sizes were kept."""
        return rows_from(self._db.all("unmeasured_tasks", limit=limit))

    def database_bytes(self) -> int:
        """Bytes of the database that the catalogue is in."""
        found = self._db.one("database_bytes")
        return 0 if found is None else int(found["bytes"])

    def quota_usage(self, user: str, day: str) -> QuotaUsage:
        """What a user has; the tokens are those of that day."""
        return quota_usage(self._db, user, day)

    def check_rollups(self) -> list[RollupDifference]:
        """Where the rollups are not what the tasks add up to; for the doctor."""
        found: dict[tuple[str, str, str], dict[bool, Rollup]] = {}
        for record in self._db.all("rollup_differences"):
            rollup = Rollup(*_figures(record))
            group = found.setdefault((rollup.user, rollup.repository, rollup.status), {})
            group[bool(record["is_stored"])] = rollup
        return [RollupDifference(sides.get(True), sides.get(False)) for sides in found.values()]

    def rebuild_rollups(self) -> None:
        """Count everything again."""
        with self._db.write() as statements:
            statements.run("rebuild_rollups")

    def merge_rollups(self) -> None:
        """Leave no part of the sums that names somebody who is gone."""
        self._db.merge_rollups()


def quota_usage(reading: Reading, user: str, day: str) -> QuotaUsage:
    """What a user has, inside of a transaction or not."""
    record = reading.one("quota_usage", user=user, day=day)
    return QuotaUsage(0, 0, 0) if record is None else QuotaUsage(**record)
