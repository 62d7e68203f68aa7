"""What the tasks take up, as far as their rows say: added up by position, and the largest."""

from __future__ import annotations

from dataclasses import dataclass

from orihon.catalogue.rows import TaskRow, row_from
from orihon.catalogue.tasks_db import TasksDatabase


@dataclass(frozen=True, slots=True)
class Position:
    """Sums over tasks that are ``active``, ``archived``, ``old`` or ``cleaned``."""

    name: str
    tasks: int
    bytes: int
    unmeasured: int  # have records, and no size in their rows
    summaries: int


class Sizes:
    """What the catalogue knows of sizes."""

    _db: TasksDatabase

    def sizes_by_position(self, old: str) -> list[Position]:
        """The sums; ``old`` tasks ended before that time."""
        return [Position(name, *map(int, sums)) for name, *sums in self._db.values("sizes_by_position", old=old)]

    def largest_tasks(self, limit: int) -> list[TaskRow]:
        """The largest ones first."""
        return [row_from(record) for record in self._db.all("largest_tasks", limit=limit)]

    def unmeasured_tasks(self, limit: int) -> list[TaskRow]:
        """Tasks that have records and no size: at work, or of before sizes were kept."""
        return [row_from(record) for record in self._db.all("unmeasured_tasks", limit=limit)]
