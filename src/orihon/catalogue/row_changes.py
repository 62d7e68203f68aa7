"""Changes of one task's row inside a transaction, for every part that makes them.

Which tasks have changed, for whoever keeps something that is derived from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orihon.catalogue.rows import CLEANED, TaskRow, encoded, row_from
from orihon.catalogue.tasks_db import Statements, TasksDatabase
from orihon.errors import InvalidInput, StaleWriter, TaskNotFound
from orihon.system import jsonio
from orihon.values.task import FINISHED, TaskStatus

CHANGEABLE = (
    "llm_provider",
    "model",
    "context_length",
    "backend",
    "correction",
    "view_tokens",
    "error_message",
    "prompt",
    "metadata",
    "max_retries",
    "priority",
    "available_at",
    "parent_uuid",
    "inherits_from",
    "keep",
    "completed_at",
)
TOTALS = (
    "total_messages",
    "total_summaries",
    "total_tool_calls",
    "final_token_count",
    "final_message_count",
    "view_tokens",
    "size_bytes",
)


def require(statements: Statements, uuid: str) -> TaskRow:
    """The task inside a transaction, which nobody else changes now; ``TaskNotFound`` when there is none."""
    record = statements.one("task_to_change", uuid=uuid)
    if record is None:
        raise TaskNotFound("uuid", uuid=uuid)
    return row_from(record)


def set_status(
    statements: Statements,
    uuid: str,
    status: TaskStatus,
    error_message: str | None,
    available_at: str | None,
    now: str,
) -> None:
    """A new status inside a transaction, legal or not."""
    statements.run(
        "change_status",
        uuid=uuid,
        status=status.value,
        finishing=int(status in FINISHED),
        error_message=error_message,
        available_at=available_at,
        now=now,
    )


def refuse_stale(row: TaskRow, epoch: int | None) -> None:
    """An owner whose task another one has taken over since may not change it."""
    if epoch is not None and epoch < row.epoch:
        raise StaleWriter("lease", uuid=row.uuid, epoch=epoch, current=row.epoch)


def update_row(statements: Statements, uuid: str, columns: Mapping[str, Any], now: str) -> None:
    given = dict(columns)
    if isinstance(given.get("metadata"), Mapping):
        given["metadata"] = encoded(given["metadata"])
    if "keep" in given:
        given["keep"] = int(bool(given["keep"]))
    bindings = {name: given.get(name) for name in CHANGEABLE}
    switches = {f"set_{name}": int(name in given) for name in CHANGEABLE}
    statements.run("update_task", uuid=uuid, now=now, **bindings, **switches)


def set_totals(statements: Statements, uuid: str, totals: Mapping[str, int], now: str) -> None:
    refuse_unknown(totals, TOTALS)
    statements.run("set_totals", uuid=uuid, now=now, **{name: totals.get(name) for name in TOTALS})


def refuse_unknown(given: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise InvalidInput("column", name=name, known=", ".join(known))


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
