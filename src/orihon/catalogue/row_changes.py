"""Changes of one task's row inside a transaction, for every part that makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orihon.catalogue.rows import TaskRow, encoded, row_from
from orihon.catalogue.tasks_db import Statements
from orihon.errors import InvalidInput, StaleWriter, TaskNotFound
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
