"""The rows of the catalogue: registered, found, changed, taken out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orihon.catalogue.leases import take
from orihon.catalogue.row_changes import (
    CHANGEABLE,
    refuse_stale,
    refuse_unknown,
    require,
    set_status,
    set_totals,
    update_row,
)
from orihon.catalogue.rows import TaskRow, record_from, row_from, rows_from
from orihon.catalogue.statistics import DAY, QuotaUsage, quota_usage
from orihon.catalogue.tasks_db import Statements, TasksDatabase
from orihon.errors import IllegalTransition, TaskNotFound
from orihon.system import jsonio
from orihon.system.clock import process_identity, utc_now
from orihon.values.task import TaskKey, TaskStatus, check_change, check_id

#: More tokens than this in one call are a mistake of the provider's, and would spoil every sum.
MOST_TOKENS_PER_CALL = 10**9

_BEYOND_IDS = "\x7f"  # sorts after every character of an id

#: Raises where a user who has this much may not have one more task.
Admit = Callable[[QuotaUsage], None]


class Tasks:
    """What the catalogue does with rows."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

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
        owned_for: float | None = None,
    ) -> TaskRow:
        """A new task, queued or running at once, unless ``admit`` refuses its user one more.

        ``owned_for``: with a lease of so many seconds for this process (``lease_in``).
        """
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
        return self.adopt(row, admit=admit, owned_for=owned_for)

    def adopt(self, row: TaskRow, *, admit: Admit | None = None, owned_for: float | None = None) -> TaskRow:
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
            if owned_for is None or stored.lease_owner is not None:
                return stored
            return take(statements, row.uuid, None, owned_for, process_identity())[0]

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
                set_totals(statements, uuid, statistics, now)
            set_status(statements, uuid, new, error_message, available_at, now)
            if metadata is not None:
                update_row(statements, uuid, {"metadata": metadata}, now)
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

        # What a power failure loses of them the log still says.
        done = lambda statements: _counters(require(statements, uuid)) == expected or None  # noqa: E731
        self._db.change(action, done=done, durable=False)

    def set_totals(self, uuid: str, /, *, epoch: int | None = None, **totals: int) -> None:
        """Set totals (``TOTALS``); the others stay."""
        self._set_totals(uuid, totals, epoch, durable=True)

    def note_totals(self, uuid: str, totals: Mapping[str, int], *, epoch: int | None = None) -> None:
        """The same without waiting for the disk: of a task that is being worked on, its records say them again."""
        self._set_totals(uuid, totals, epoch, durable=False)

    def _set_totals(self, uuid: str, totals: Mapping[str, int], epoch: int | None, *, durable: bool) -> None:
        def action(statements: Statements) -> None:
            refuse_stale(require(statements, uuid), epoch)
            set_totals(statements, uuid, totals, utc_now())

        self._db.change(action, durable=durable)

    def update(self, uuid: str, /, *, epoch: int | None = None, durable: bool = True, **columns: Any) -> TaskRow:
        """Set columns that are nobody's business but the caller's (``CHANGEABLE``)."""
        refuse_unknown(columns, CHANGEABLE)

        def action(statements: Statements) -> TaskRow:
            refuse_stale(require(statements, uuid), epoch)
            update_row(statements, uuid, columns, utc_now())
            return require(statements, uuid)

        return self._db.change(action, durable=durable)

    def erase(self, uuid: str) -> None:
        """Take out the row of a task whose name is buried, with its notices and figures."""

        def action(statements: Statements) -> None:
            if statements.one("erased", uuid=uuid) is None:
                raise IllegalTransition("not_buried", uuid=uuid)
            for name in ("erase_notices", "remove_usage", "erase_row"):
                statements.run(name, uuid=uuid)

        self._db.change(action)

    def rename_user(self, uuid: str, name: str) -> None:
        """Call the user of a task otherwise."""
        self._db.change(lambda statements: statements.run("rename_user", uuid=uuid, user=name))

    # ---- finding ------------------------------------------------------------------------------------------

    def find(self, uuid: str) -> TaskRow | None:
        """The task, if there is one."""
        record = self._db.one("task", uuid=uuid)
        return None if record is None else row_from(record)

    def get(self, uuid: str) -> TaskRow:
        """The task; ``TaskNotFound`` when there is none."""
        row = self.find(uuid)
        if row is None:
            raise TaskNotFound("uuid", uuid=uuid)
        return row

    def find_by_prefix(self, prefix: str, limit: int = 10, *, user: str | None = None) -> list[TaskRow]:
        """The tasks whose UUID begins so, as people type it; ``user``: those of that user."""
        first = check_id(prefix, "prefix")
        conditions, whose = ((), {}) if user is None else (("having_user",), {"user": user})
        span = {"first": first, "beyond": first + _BEYOND_IDS}
        return rows_from(self._db.all("tasks_by_prefix", *conditions, limit=limit, **span, **whose))

    def page(
        self,
        *,
        status: TaskStatus | None = None,
        user: str | None = None,
        repository: str | None = None,
        source: str | None = None,
        since: str | None = None,
        words: Sequence[str] = (),
        limit: int = 100,
        before: str | None = None,
    ) -> list[TaskRow]:
        """One page, newest first; the next one begins ``before`` the last UUID of this one.

        ``since`` is a time as the catalogue writes it. Each of the ``words`` stands in the task's key, user, prompt
        or title, in capitals or not.
        """
        wanted = {
            "having_status": ("status", None if status is None else status.value),
            "having_user": ("user", user),
            "having_repository": ("repository", repository),
            "having_source": ("source", source),
            "having_since": ("since", since),
            "having_words": ("words", jsonio.encode([word.lower() for word in words]).decode() if words else None),
            "older_than": ("before", before),
        }
        conditions = [condition for condition, (_, value) in wanted.items() if value is not None]
        bindings = {name: value for name, value in wanted.values() if value is not None}
        return rows_from(self._db.all("list_tasks", *conditions, limit=limit, **bindings))

    def find_all(self, uuids: Sequence[str]) -> list[TaskRow]:
        """Those of these tasks that there are, newest first."""
        return rows_from(self._db.all("tasks_of", uuids=jsonio.encode(list(uuids)).decode()))

    def about(
        self,
        task_id: str,
        *,
        source: str | None = None,
        place: str | None = None,
        is_merge_request: bool = False,
        limit: int = 100,
    ) -> list[TaskRow]:
        """The tasks on the issue, merge request … of this number, newest first.

        ``place`` is the repository, or the type of a task that has none.
        """
        wanted = {"having_source": ("source", source), "having_place": ("place", place)}
        conditions = [condition for condition, (_, value) in wanted.items() if value is not None]
        bindings = {name: value for name, value in wanted.values() if value is not None}
        kind = "having_merge_request" if is_merge_request else "having_no_merge_request"
        return rows_from(self._db.all("tasks_about", *conditions, kind, task_id=task_id, limit=limit, **bindings))

    def in_move(self, *, unfinished: bool = False) -> list[str]:
        """The tasks whose move to another back end is under way or was interrupted.

        ``unfinished``: those alone that are not over, which are found without a look at every task.
        """
        return [record["uuid"] for record in self._db.all("unfinished_in_move" if unfinished else "tasks_in_move")]

    def previous(self, key: TaskKey, limit: int = 10) -> list[TaskRow]:
        """The completed and failed tasks on the same key, the last one first."""
        return rows_from(self._db.all("previous_tasks", **key.as_dict(), user=key.user, limit=limit))

    def unfinished(self, key: TaskKey) -> list[TaskRow]:
        """The tasks on the same key that are not over, the youngest first."""
        return rows_from(self._db.all("open_tasks", **key.as_dict(), user=key.user))

    def of_key(self, key: TaskKey, limit: int = 50) -> list[TaskRow]:
        """The tasks on the same key, its user included, the youngest first."""
        return rows_from(self._db.all("tasks_of_key", **key.as_dict(), user=key.user, limit=limit))

    def children(self, uuid: str) -> list[TaskRow]:
        """The tasks that a task has started as parts of its work."""
        return rows_from(self._db.all("children", uuid=uuid))

    def running(self) -> list[TaskRow]:
        """What is being worked on, the youngest first."""
        return rows_from(self._db.all("running_tasks"))

    def failed(self, limit: int = 10) -> list[TaskRow]:
        """The last tasks that failed."""
        return rows_from(self._db.all("failed_tasks", limit=limit))


def _admit(statements: Statements, row: TaskRow, admit: Admit) -> None:
    """Let ``admit`` see what the user has, while nobody else takes in a task of that user."""
    statements.run("hold_user", user=row.user)
    # Where the answer to our insert was lost, the row is among those that would be counted.
    if statements.one("task", uuid=row.uuid) is None:
        admit(quota_usage(statements, row.user, row.created_at[:DAY]))


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


def _counters(row: TaskRow) -> tuple[int, ...]:
    added_to = (row.llm_call_count, row.tool_call_count, row.total_tokens, row.compression_count)
    return (*added_to, row.total_messages)
