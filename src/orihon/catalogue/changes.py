"""Which tasks have changed, for whoever keeps something that is derived from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orihon.catalogue.rows import CLEANED
from orihon.catalogue.tasks_db import TasksDatabase
from orihon.system import jsonio


@dataclass(frozen=True, slots=True)
class ChangedTask:
    """A few columns of a task: there may be a hundred thousand of them."""

    uuid: str
    status: str
    updated_at: str
    backend: str | None
    is_live: bool  # somebody may be writing to it, without a word to the catalogue
    is_cleaned: bool

    @property
    def state(self) -> str:
        """Is another one when the row has changed."""
        return f"{self.status} {self.updated_at}"


class ChangeFeed:
    """What the catalogue tells of changes."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def tasks(self, since: str = "") -> list[ChangedTask]:
        """The tasks that have changed since that time or are being worked on, the oldest first; without a time, all."""
        name, bindings = ("tasks_at_work", {"since": since}) if since else ("states_of_tasks", {})
        rows = {row[0]: row for row in self._db.values(name, **bindings)}
        return [
            ChangedTask(
                uuid, status, updated, backend, status == "running" or bool(held), self._is_cleaned(uuid, maybe)
            )
            for uuid, status, updated, backend, held, maybe, _ in sorted(rows.values(), key=_age)
        ]

    def version(self) -> object:
        """Is another one when somebody else may have changed anything; a look at nothing but that."""
        return self._db.values("version")

    def task(self, uuid: str) -> ChangedTask | None:
        """One task, as it is now."""
        record = self._db.one("task", uuid=uuid)
        if record is None:
            return None
        is_live = record["status"] == "running" or record["lease_owner"] is not None
        maybe = f'"{CLEANED}"' in record["metadata"]
        status, updated, backend = record["status"], record["updated_at"], record["backend"]
        return ChangedTask(uuid, status, updated, backend, is_live, self._is_cleaned(uuid, maybe))

    def _is_cleaned(self, uuid: str, maybe: object) -> bool:
        """The text of the metadata may only look like it."""
        if not maybe:
            return False
        record = self._db.one("task", uuid=uuid)
        return record is not None and CLEANED in jsonio.decode(record["metadata"])


def _age(row: tuple[Any, ...]) -> tuple[Any, Any]:
    uuid, *_, created_at = row
    return created_at, uuid
