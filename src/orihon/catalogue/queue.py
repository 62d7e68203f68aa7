"""The queue of tasks that wait for a worker: claimed, put back, put off, and what is wanted of them.

Three kinds of tasks are in it: queued ones that are due, paused ones that shall go on, and running ones whose worker
is gone. A claim counts as an attempt before the work begins, so that a task which kills its worker is found out. A
retry waits on the clock of the leases: setting a machine's wall clock neither hastens nor delays it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from orihon.catalogue.leases import LEASE_SECONDS, Lease, PendingLease, is_held, take, whereabouts
from orihon.catalogue.row_changes import refuse_stale, require, set_status
from orihon.catalogue.rows import TaskRow, known_status, row_from, rows_from
from orihon.catalogue.tasks_db import DatabaseRow, Moment, Reading, Statements, TasksDatabase, Value
from orihon.catalogue.workers import WorkerStatistics, note_statistics
from orihon.system.clock import process_identity, utc_now
from orihon.values.task import TaskStatus

#: A retry that is due later than this was written before a boot, on a system that does not name its boots.
LONGEST_DELAY = 86_400.0
#: Wanted of a task that has ended: that its source hears of it.
TELL = "tell"
_NO_LIMIT = 2**62


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """Which tasks a claim passes over."""

    max_attempts: int = _NO_LIMIT  # for tasks that do not say it themselves
    tasks_per_user: int = _NO_LIMIT  # running at a time; tasks without a user are not counted

    @property
    def on_users(self) -> dict[str, Value]:
        """The limit as the statements take it."""
        return {"per_user": self.tasks_per_user, "is_limited": int(self.tasks_per_user < _NO_LIMIT)}

    def is_spent(self, row: TaskRow) -> bool:
        """Has the task been tried as often as it may?"""
        allowed = self.max_attempts if row.max_retries is None else row.max_retries + 1
        return row.attempts >= allowed

    def is_killer(self, row: TaskRow) -> bool:
        """Has a task whose worker is gone taken as many workers as it may? One that was drained does not count."""
        return row.requested != "resume" and self.is_spent(row)


@dataclass(frozen=True, slots=True)
class TaskRequest:
    """What a worker looks at between two steps."""

    status: TaskStatus
    requested: str | None
    epoch: int
    lease_owner: str | None


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Tasks that wait for something else than the next free worker."""

    put_off: int  # for a time to come
    to_resume: int  # paused, and to be gone on with


class Queue:
    """What the catalogue does with waiting tasks."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def claim_next(
        self,
        owner: str | None = None,
        seconds: float = LEASE_SECONDS,
        *,
        limits: ClaimLimits | None = None,
        abandoned: bool = False,
        near: bool = False,
        worker: WorkerStatistics | None = None,
    ) -> tuple[TaskRow, Lease] | None:
        """Start the first task of the queue: one without its worker, one to go on with, or by priority and age.

        ``None`` when none is due. ``abandoned`` looks for dead workers too, ``near`` for those of this machine only.
        ``worker`` is written down with the claim.
        """
        limits = limits or ClaimLimits()
        # A worker that only asks must not take the write lock.
        moments = _moments(self._db.moment())
        if not (abandoned and self.abandoned(near=near)) and self._db.one("any_claimable", **moments) is None:
            return None

        def first(statements: Statements) -> str | None:
            gone_on = _first_abandoned(statements, limits, near=near) if abandoned else None
            return gone_on or _first_waiting(statements, limits)

        return self._claimed(first, owner, seconds, limits, worker)

    def claim(
        self,
        uuid: str,
        owner: str | None = None,
        seconds: float = LEASE_SECONDS,
        *,
        limits: ClaimLimits | None = None,
        worker: WorkerStatistics | None = None,
    ) -> tuple[TaskRow, Lease] | None:
        """Start this one task, if ``claim_next`` could: it is in the queue and due, or its worker is gone."""
        limits = limits or ClaimLimits()
        if not _is_claimable(self._db, uuid, limits):  # whoever hears of a task late must not take the write lock
            return None

        def this(statements: Statements) -> str | None:
            is_there = statements.one("task_to_change", uuid=uuid) is not None
            return uuid if is_there and _is_claimable(statements, uuid, limits) else None

        return self._claimed(this, owner, seconds, limits, worker)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait until a task may have come into the queue, at most so long; not any longer when ``stop`` is set."""
        self._db.wait_for_tasks(seconds, stop)

    def _claimed(
        self,
        choose: Callable[[Statements], str | None],
        owner: str | None,
        seconds: float,
        limits: ClaimLimits,
        worker: WorkerStatistics | None,
    ) -> tuple[TaskRow, Lease] | None:
        """The chosen task, claimed in one transaction; while there is a limit on users, one at a time."""
        pending = PendingLease()

        def action(statements: Statements) -> tuple[TaskRow, Lease] | None:
            if limits.tasks_per_user < _NO_LIMIT:
                statements.one("hold_claims")
            uuid = choose(statements)
            if uuid is None:
                return None
            claim = take(statements, uuid, owner, seconds, process_identity(), statement="claim_task")
            if worker is not None:
                note_statistics(statements, worker, "working", uuid)
            return pending.note(claim)

        # Where a power failure ends every lease it may take the claim with it: the task is queued again then, and no
        # sync is needed. A server may lose it and the worker live on: then the same epoch would be given out twice.
        return self._db.change(action, done=pending.still, durable=not self._db.dies_with_us)

    def abandoned(self, *, near: bool = False) -> list[TaskRow]:
        """Tasks out of the queue whose worker is gone; ``near`` as for ``Leases.stale``."""
        moment = self._db.moment()
        return _without_worker(_claimed(self._db.all("owned_tasks", **whereabouts(moment, near=near))), moment)

    def cancelled_pauses(self) -> list[TaskRow]:
        """Paused tasks that were to be cancelled when their worker died."""
        return rows_from(self._db.all("cancelled_pauses"))

    def untold_ends(self) -> list[TaskRow]:
        """Tasks that have ended and whose source has not heard of it."""
        return rows_from(self._db.all("untold_ends"))

    def put_back(self, uuid: str, *, epoch: int, error_message: str, delay: float) -> TaskRow:
        """A running or failed task back to the queue, due after ``delay`` seconds; its lease is released."""

        def action(statements: Statements) -> TaskRow:
            row = require(statements, uuid)
            refuse_stale(row, epoch)
            set_status(statements, uuid, TaskStatus.QUEUED, error_message, None, utc_now())
            statements.run("drop_lease", uuid=uuid, epoch=row.epoch)
            if delay > 0:
                due, moment = datetime.now(UTC) + timedelta(seconds=delay), statements.moment()
                statements.run(
                    "put_off",
                    uuid=uuid,
                    available_at=due.isoformat(timespec="microseconds"),
                    due=moment.seconds + delay,
                    boot=moment.era,
                )
            return require(statements, uuid)

        def done(statements: Statements) -> TaskRow | None:
            row = require(statements, uuid)
            return row if row.status is TaskStatus.QUEUED and row.epoch == epoch else None

        return self._db.change(action, done=done)

    def bury(self, uuid: str, *, epoch: int, error_message: str) -> TaskRow:
        """A running or failed task is not tried again (``dead``); its lease is kept until the folder has followed."""

        def action(statements: Statements) -> TaskRow:
            refuse_stale(require(statements, uuid), epoch)
            set_status(statements, uuid, TaskStatus.DEAD, error_message, None, utc_now())
            return require(statements, uuid)

        return self._db.change(action)

    def count_waiting(self) -> tuple[int, int]:
        """How many tasks are queued or put off, and how many are with workers."""
        counts = self._db.one("count_waiting")
        assert counts is not None
        return counts["waiting"], counts["running"]

    def depth(self) -> QueueDepth:
        """How many tasks are put off, and how many wait to be resumed."""
        counts = self._db.one("queue_depth", now=utc_now(), moment=self._db.moment().seconds)
        assert counts is not None
        return QueueDepth(counts["put_off"], counts["to_resume"])

    def forgive_attempt(self, uuid: str, *, all_of_them: bool = False) -> None:
        """The last claim, or every one, does not count as an attempt: the task was given back in good order."""
        forgiven: list[int] = []

        def action(statements: Statements) -> bool:
            forgiven[:] = [0 if all_of_them else max(0, require(statements, uuid).attempts - 1)]
            return statements.run("set_attempts", uuid=uuid, change=-1, keep=int(not all_of_them)) > 0

        self._db.change(action, done=lambda statements: [require(statements, uuid).attempts] == forgiven or None)

    def request(
        self,
        uuid: str,
        wanted: str | None,
        status: TaskStatus,
        *,
        over: bool = True,
        instead_of: str | None = None,
    ) -> bool:
        """Say what is wanted of a task: ``pause``, ``cancel``, ``resume``, ``tell``, or nothing any more.

        False when the task no longer has this status, or when something else than ``instead_of`` is wanted of it and
        may not be written ``over``; then nothing is written.
        """

        def action(statements: Statements) -> bool:
            changed = statements.run(
                "set_request",
                uuid=uuid,
                requested=wanted,
                status=status.value,
                over=int(over),
                instead_of=instead_of,
                now=utc_now(),
            )
            return changed > 0

        def done(statements: Statements) -> bool | None:
            row = require(statements, uuid)
            return True if (row.status, row.requested) == (status, wanted) else None

        return self._db.change(action, done=done)

    def requested(self, uuid: str) -> TaskRequest | None:
        """What is wanted of a task, and whose it is; cheap enough to ask at every step."""
        record = self._db.one("request", uuid=uuid)
        if record is None:
            return None
        status = known_status(record["status"], self._db.where)
        return TaskRequest(status, record["requested"], record["epoch"], record["lease_owner"])


def _is_claimable(database: Reading, uuid: str, limits: ClaimLimits) -> bool:
    moment = database.moment()
    if database.one("task_in_queue", uuid=uuid, **limits.on_users, **_moments(moment)) is not None:
        return True
    record = database.one("claimed_task", uuid=uuid)
    return record is not None and bool(_free_to_go_on([record], limits, moment))


def _free_to_go_on(claimed: list[DatabaseRow], limits: ClaimLimits, moment: Moment) -> list[TaskRow]:
    rows = _without_worker(claimed, moment)
    return [row for row in rows if row.requested in (None, "resume") and not limits.is_killer(row)]


def _first_abandoned(statements: Statements, limits: ClaimLimits, *, near: bool) -> str | None:
    moment = statements.moment()
    owned = statements.all("owned_tasks", **whereabouts(moment, near=near))
    free = _free_to_go_on(_claimed(owned), limits, moment)
    for row in sorted(free, key=lambda row: (-row.priority, row.created_at, row.uuid)):
        record = statements.one("task_to_take", uuid=row.uuid)  # none where another worker is at it
        if record is not None and record["status"] == "running" and _free_to_go_on([record], limits, moment):
            return row.uuid
    return None


def _first_waiting(statements: Statements, limits: ClaimLimits) -> str | None:
    moments = _moments(statements.moment())
    statements.run("put_due_in_queue", now=moments["now"])
    statements.run("put_retries_in_queue", **{name: moments[name] for name in ("moment", "horizon", "boot")})
    for statement in ("first_to_resume", "first_in_queue"):
        first = statements.one(statement, **limits.on_users)
        if first is not None:
            return str(first["uuid"])
    return None


def _claimed(records: list[DatabaseRow]) -> list[DatabaseRow]:
    """Those that a worker has taken out of the queue."""
    return [record for record in records if record["status"] == TaskStatus.RUNNING.value and record["claimed"]]


def _without_worker(records: list[DatabaseRow], moment: Moment) -> list[TaskRow]:
    if not records:
        return []
    me = process_identity()
    return [row for record in records if not is_held(row := row_from(record), moment, me)]


def _moments(moment: Moment) -> dict[str, Value]:
    horizon = moment.seconds + LONGEST_DELAY
    return {"now": utc_now(), "moment": moment.seconds, "horizon": horizon, "boot": moment.era}
