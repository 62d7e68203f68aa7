"""The names of tasks that were erased: none of them is ever a task's again."""

from __future__ import annotations

from dataclasses import dataclass

from orihon.catalogue.tasks_db import TasksDatabase
from orihon.system.clock import utc_now


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a task that was erased."""

    uuid: str
    erased_at: str
    erased_by: str


class Tombstones:
    """What is left of erased tasks."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def bury(self, uuid: str, *, erased_by: str, at: str | None = None) -> None:
        """Never let this name be a task's again. ``at`` is when it was erased, if not now."""
        now = at or utc_now()
        self._db.change(lambda statements: statements.run("bury_name", uuid=uuid, now=now, erased_by=erased_by))

    def find(self, uuid: str) -> Tombstone | None:
        """What is left of a task that was erased; ``None`` for any other."""
        record = self._db.one("erased", uuid=uuid)
        return None if record is None else Tombstone(**record)

    def all(self) -> list[Tombstone]:
        """Of every task that was erased."""
        return [Tombstone(**record) for record in self._db.all("all_erased")]
