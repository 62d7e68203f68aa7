"""The rows of the catalogue: registered, taken out, changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from orihon.catalogue.grants import DAY, Taken, taken_by
from orihon.catalogue.rows import TaskRow, encoded, record_from, row_from
from orihon.catalogue.tasks_db import Statements, TasksDatabase
from orihon.errors import IllegalTransition, InvalidInput, StaleWriter, TaskNotFound
from orihon.system.clock import process_identity, utc_now
from orihon.values.task import FINISHED, TaskKey, TaskStatus, check_change, check_id

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
#: More tokens than this in one call are a mistake of the provider's, and would spoil every sum.
MOST_TOKENS_PER_CALL = 10**9

#: Raises where a user who has this much may not have one more task.
Admit = Callable[[Taken], None]


class Tasks:
    """What the catalogue does with rows."""

    _db: TasksDatabase

    def register(
        self,
        key: TaskKey,
        uuid: str,
        *,
        status: TaskStatus = TaskStatus.RUNNING,
        llm_provider: str | None = None,
        model: str | None = None,
        context_length: int | None = None,
        backend: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        parent_uuid: str | None = None,
        inherits_from: str | None = None,
        priority: int = 0,
        available_at: str | None = None,
        max_retries: int | None = None,
        source: str = "",
        prompt: str = "",
        admit: Admit | None = None,
    ) -> TaskRow:
        """A new task, queued or running at once, unless ``admit`` refuses its user one more."""
        if status not in (TaskStatus.QUEUED, TaskStatus.RUNNING):
            raise IllegalTransition("change", old="-", new=status.value, legal="queued, running")
        row = replace(
            _new_row(key, uuid, status),
            llm_provider=llm_provider,
            model=model,
            context_length=context_length,
            backend=backend,
            metadata=metadata or {},
            parent_uuid=parent_uuid,
            inherits_from=inherits_from,
            priority=priority,
            available_at=available_at,
            max_retries=max_retries,
            source=source,
            prompt=prompt,
        )
        return self.adopt(row, admit=admit)

    def adopt(self, row: TaskRow, *, admit: Admit | None = None) -> TaskRow:
        """Take in a row as it is, without its lease: what the doctor does with a folder that has none."""
        check_id(row.uuid)
        was_ours = False

        def action(statements: Statements) -> TaskRow:
            nonlocal was_ours
            if admit is not None:
                _admit(statements, row, admit)
            if statements.one("erased", uuid=row.uuid) is not None:
                raise IllegalTransition("erased", uuid=row.uuid)
            is_new = statements.run("insert_task", **record_from(row)) > 0
            stored = require(statements, row.uuid)
            # Where the answer to our insert was lost, the row that is there is ours.
            was_ours = is_new or (was_ours and stored.created_at == row.created_at)
            if not was_ours:
                raise IllegalTransition("exists", uuid=row.uuid, status=stored.status.value)
            return stored

        return self._db.change(action)

    def remove(self, uuid: str, *, epoch: int, requested: str | None) -> bool:
        """Take out a row that is in another catalogue now; False when somebody has changed it since."""
        was_there = False

        def action(statements: Statements) -> bool:
            nonlocal was_there
            was_there = statements.run("remove_task", uuid=uuid, epoch=epoch, requested=requested) > 0
            if was_there:
                statements.run("remove_usage", uuid=uuid)
            return was_there

        def done(statements: Statements) -> bool | None:
            return True if was_there and statements.one("task_to_change", uuid=uuid) is None else None

        return self._db.change(action, done=done)

    # ---- changing -----------------------------------------------------------------------------------------
    # An ``epoch`` below the stored one is a stale owner's, and refused.

    def change_status(
        self,
        uuid: str,
        new: TaskStatus,
        *,
        error_message: str | None = None,
        epoch: int | None = None,
        statistics: Mapping[str, int] | None = None,
        available_at: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        keep_lease: bool = False,
    ) -> TaskRow:
        """A legal change of status, with the totals and the metadata that belong to it.

        Whatever is not running has no owner: the lease is released, unless ``keep_lease`` asks to hold it
        until the folder has followed.
        """
        now = utc_now()

        def action(statements: Statements) -> TaskRow:
            row = require(statements, uuid)
            refuse_stale(row, epoch)
            # The owner's second word on an end whose answer it has not got is no other word.
            if not (keep_lease and row.status is new and row.epoch == epoch and row.lease_owner is not None):
                check_change(row.status, new)
            if statistics:
                _set_totals(statements, uuid, statistics, now)
            set_status(statements, uuid, new, error_message, available_at, now)
            if metadata is not None:
                _update(statements, uuid, {"metadata": metadata}, now)
            if new is not TaskStatus.RUNNING and not keep_lease:
                statements.run("drop_lease", uuid=uuid, epoch=row.epoch)
            return require(statements, uuid)

        def done(statements: Statements) -> TaskRow | None:
            row = require(statements, uuid)
            return row if row.status is new and (row.updated_at == now or row.epoch == epoch) else None

        return self._db.change(action, done=done)

    def add_statistics(
        self,
        uuid: str,
        *,
        llm_calls: int = 0,
        tool_calls: int = 0,
        tokens: int = 0,
        compressions: int = 0,
        messages: int = 0,
        epoch: int | None = None,
    ) -> None:
        """Add to the counters; a number of tokens that cannot be is not believed."""
        tokens = tokens if 0 <= tokens <= MOST_TOKENS_PER_CALL else 0
        expected: tuple[int, ...] = ()

        def action(statements: Statements) -> bool:
            nonlocal expected
            row = require(statements, uuid)
            refuse_stale(row, epoch)
            added = (llm_calls, tool_calls, tokens, compressions, messages)
            expected = tuple(before + more for before, more in zip(_counters(row), added, strict=True))
            statements.run(
                "add_statistics",
                uuid=uuid,
                llm_calls=llm_calls,
                tool_calls=tool_calls,
                tokens=tokens,
                compressions=compressions,
                messages=messages,
                now=utc_now(),
            )
            return True

        self._db.change(action, done=lambda statements: _counters(require(statements, uuid)) == expected or None)

    def set_totals(self, uuid: str, /, *, epoch: int | None = None, **totals: int) -> None:
        """Set totals (``TOTALS``); the others stay."""

        def action(statements: Statements) -> None:
            refuse_stale(require(statements, uuid), epoch)
            _set_totals(statements, uuid, totals, utc_now())

        self._db.change(action)

    def update(self, uuid: str, /, *, epoch: int | None = None, **columns: Any) -> TaskRow:
        """Set columns that are nobody's business but the caller's (``CHANGEABLE``)."""
        _refuse_unknown(columns, CHANGEABLE)

        def action(statements: Statements) -> TaskRow:
            refuse_stale(require(statements, uuid), epoch)
            _update(statements, uuid, columns, utc_now())
            return require(statements, uuid)

        return self._db.change(action)


def _admit(statements: Statements, row: TaskRow, admit: Admit) -> None:
    """Let ``admit`` see what the user has, while nobody else takes in a task of that user."""
    statements.run("hold_user", user=row.user)
    # Where the answer to our insert was lost, the row is among those that would be counted.
    if statements.one("task", uuid=row.uuid) is None:
        admit(taken_by(statements, row.user, row.created_at[:DAY]))


def _new_row(key: TaskKey, uuid: str, status: TaskStatus) -> TaskRow:
    now, me = utc_now(), process_identity()
    running = status is TaskStatus.RUNNING
    return TaskRow.of(
        key,
        uuid,
        status,
        created_at=now,
        updated_at=now,
        started_at=now if running else None,
        process_id=me.pid if running else None,
        hostname=me.host if running else None,
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


def _counters(row: TaskRow) -> tuple[int, ...]:
    added_to = (row.llm_call_count, row.tool_call_count, row.total_tokens, row.compression_count)
    return (*added_to, row.total_messages)


def _update(statements: Statements, uuid: str, columns: Mapping[str, Any], now: str) -> None:
    given = dict(columns)
    if isinstance(given.get("metadata"), Mapping):
        given["metadata"] = encoded(given["metadata"])
    if "keep" in given:
        given["keep"] = int(bool(given["keep"]))
    bindings = {name: given.get(name) for name in CHANGEABLE}
    switches = {f"set_{name}": int(name in given) for name in CHANGEABLE}
    statements.run("update_task", uuid=uuid, now=now, **bindings, **switches)


def _set_totals(statements: Statements, uuid: str, totals: Mapping[str, int], now: str) -> None:
    _refuse_unknown(totals, TOTALS)
    statements.run("set_totals", uuid=uuid, now=now, **{name: totals.get(name) for name in TOTALS})


def _refuse_unknown(given: Mapping[str, object], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise InvalidInput("column", name=name, known=", ".join(known))
