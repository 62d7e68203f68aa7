"""Who may work on a task: leases with fencing tokens.

A lease says which process owns a task and until when, on the clock of the catalogue's database: the machine's
boot-time clock, or the server's for all machines. Every new lease raises the task's ``epoch``; a former owner carries a
lower one and is refused wherever it writes. A lease is void when it has run out, when its clock began anew with a boot,
or when its process is known to be dead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from orihon.catalogue.row_changes import require
from orihon.catalogue.rows import TaskRow, row_from, rows_from
from orihon.catalogue.tasks_db import Moment, Statements, TasksDatabase, Value
from orihon.errors import StaleWriter, StorageUnavailable, TaskBusy
from orihon.system.clock import ProcessIdentity, is_alive, process_identity, utc_now
from orihon.values.task import TaskStatus

LEASE_SECONDS = 90.0

#: Leases (catalogue, task, epoch) that this process has let go of when nothing could be written: they bind nobody here.
_LET_GO: set[tuple[str, str, int]] = set()


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on a task."""

    uuid: str
    epoch: int  # the fencing token
    owner: str
    seconds: float  # how long it holds from each renewal
    until: float  # on the clock of the catalogue's database


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A lease as it stands in the catalogue."""

    uuid: str
    status: str
    owner: str
    host: str
    pid: int
    epoch: int
    seconds_left: float  # below zero when it ran out
    is_stale: bool  # its owner is gone: the next worker may take the task over


class Leases:
    """What the catalogue does with leases."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def acquire(
        self, uuid: str, *, owner: str | None = None, seconds: float = LEASE_SECONDS, take_over: bool = False
    ) -> Lease:
        """Own the task from now on; ``take_over`` also takes it from a live owner."""
        me = process_identity()
        pending = PendingLease()

        def action(statements: Statements) -> tuple[TaskRow, Lease]:
            row = require(statements, uuid)
            moment = statements.moment()
            if not take_over and (self._db.where, uuid, row.epoch) not in _LET_GO and is_held(row, moment, me):
                raise TaskBusy(
                    "lease",
                    uuid=uuid,
                    owner=row.lease_owner,
                    host=row.lease_host,
                    pid=row.lease_pid,
                    seconds_left=_seconds_left(row, moment),
                )
            return pending.note(take(statements, uuid, owner, seconds, me))

        return self._db.change(action, done=pending.still)[1]

    def renew(self, lease: Lease) -> Lease:
        """Go on owning the task, also after the lease ran out, as long as nobody else has taken it."""

        def action(statements: Statements) -> Lease:
            now = statements.moment().seconds
            renewed = replace(lease, until=now + lease.seconds)
            changed = statements.run(
                "renew_lease", uuid=lease.uuid, epoch=lease.epoch, heartbeat=now, until=renewed.until
            )
            if not changed:
                raise _stale(statements, lease)
            return renewed

        return self._db.change(action, durable=False)  # what a power failure loses makes the lease shorter

    def raise_epoch(self, lease: Lease, *, above: int) -> Lease:
        """The same lease with an epoch higher than one that the folder has reached without the catalogue."""
        raised = replace(lease, epoch=max(lease.epoch, above) + 1)

        def action(statements: Statements) -> Lease:
            if not statements.run("raise_epoch", uuid=lease.uuid, epoch=lease.epoch, raised=raised.epoch):
                raise _stale(statements, lease)
            return raised

        def done(statements: Statements) -> Lease | None:
            row = require(statements, lease.uuid)
            return raised if (row.epoch, row.lease_owner) == (raised.epoch, lease.owner) else None

        return self._db.change(action, done=done)

    def release(self, lease: Lease) -> None:
        """Give the task back; nothing happens if it is no longer owned."""
        try:
            self._db.change(
                lambda statements: statements.run("drop_lease", uuid=lease.uuid, epoch=lease.epoch), durable=False
            )
        except StorageUnavailable:  # a full disk, for one: others have to wait until the lease runs out
            _LET_GO.add((self._db.where, lease.uuid, lease.epoch))
            raise

    def stale(self, *, near: bool = False) -> list[TaskRow]:
        """Tasks that no live process owns although they are running, or have a lease.

        With a shared catalogue they come without their prompts. ``near`` leaves out leases of other machines that ran
        out: every one would have to be looked at.
        """
        me, moment = process_identity(), self._db.moment()
        rows = rows_from(self._db.all("owned_tasks", **whereabouts(moment, near=near)))
        alive = cache(is_alive)  # one process may hold very many
        return [row for row in rows if not is_held(row, moment, me, alive)]

    def held(self) -> list[HeldLease]:
        """Every lease, by host."""
        me, moment = process_identity(), self._db.moment()
        rows = map(_leased_row, self._db.all("leased_tasks"))
        alive = cache(is_alive)  # one process may hold very many
        return [
            HeldLease(
                uuid=row.uuid,
                status=row.status.value,
                owner=row.lease_owner or "",
                host=row.lease_host or "",
                pid=row.lease_pid or 0,
                epoch=row.epoch,
                seconds_left=round((row.lease_until or moment.seconds) - moment.seconds, 1),
                is_stale=not is_held(row, moment, me, alive),
            )
            for row in rows
        ]

    def is_held(self, row: TaskRow | None) -> bool:
        """Does a process that may be alive own the task, as its row says?"""
        if row is None or row.lease_owner is None:
            return False
        return is_held(row, self._db.moment(), process_identity())

    def orphaned(self, rows: Iterable[TaskRow]) -> set[str]:
        """Those of these tasks that are running although no live process owns them."""
        running = [row for row in rows if row.status is TaskStatus.RUNNING]
        if not running:
            return set()
        me, moment, alive = process_identity(), self._db.moment(), cache(is_alive)
        return {row.uuid for row in running if not is_held(row, moment, me, alive)}

    def seconds_left(self, row: TaskRow) -> float:
        """How long the lease in a row still holds, if nobody renews it."""
        return _seconds_left(row, self._db.moment())


class PendingLease:
    """A lease that was written and may not have come about: the answer to the end of its transaction was lost."""

    def __init__(self) -> None:
        self._claim: tuple[TaskRow, Lease] | None = None

    def note(self, claim: tuple[TaskRow, Lease]) -> tuple[TaskRow, Lease]:
        self._claim = claim
        return claim

    def still(self, statements: Statements) -> tuple[TaskRow, Lease] | None:
        """The claim, if it stands in the catalogue as it was written."""
        if self._claim is None:
            return None
        row, lease = self._claim
        stored = require(statements, row.uuid)
        is_ours = (stored.epoch, stored.lease_owner, stored.lease_until) == (lease.epoch, lease.owner, lease.until)
        return self._claim if is_ours else None


def is_held(row: TaskRow, moment: Moment, me: ProcessIdentity, alive: Callable[[int, int], bool] = is_alive) -> bool:
    """Does a process that may be alive own the task? Who asks for many may remember who is ``alive``."""
    if row.lease_owner is None or row.lease_until is None or row.lease_heartbeat is None:
        return False
    if row.lease_until <= moment.seconds or _is_from_another_era(row.lease_heartbeat, row, moment, me):
        return False
    if (row.lease_host, row.lease_pid_space, row.lease_boot) != (me.host, me.space, me.boot):
        return True  # its process cannot be seen from here: the lease has to run out
    return alive(row.lease_pid or 0, row.lease_pid_start or 0)


def _is_from_another_era(heartbeat: float, row: TaskRow, moment: Moment, me: ProcessIdentity) -> bool:
    """Was the lease written on a clock that has begun anew or was set back since?"""
    if moment.is_shared:
        # Another boot may be another machine. The server's clock may have been set back: a lease is believed for as
        # long again as it was given for, and no longer.
        return heartbeat - moment.seconds > (row.lease_until or heartbeat) - heartbeat
    # On a system that does not name its boots, a heartbeat in the future tells of one.
    return row.lease_boot != me.boot or heartbeat > moment.seconds


def _seconds_left(row: TaskRow, moment: Moment) -> float:
    return round((row.lease_until or moment.seconds) - moment.seconds, 1)


def whereabouts(moment: Moment, *, near: bool) -> dict[str, Value]:
    """Now and here, for statements that leave out owners who are surely alive; ``near``: and other machines'."""
    me, far = process_identity(), int(not near)
    return {"moment": moment.seconds, "my_host": me.host, "my_space": me.space, "my_boot": me.boot, "far": far}


def _stale(statements: Statements, lease: Lease) -> StaleWriter:
    current = require(statements, lease.uuid).epoch
    reason = "released" if current == lease.epoch else "lease"
    return StaleWriter(reason, uuid=lease.uuid, epoch=lease.epoch, current=current)


def take(
    statements: Statements,
    uuid: str,
    owner: str | None,
    seconds: float,
    me: ProcessIdentity,
    *,
    statement: str = "take_lease",
) -> tuple[TaskRow, Lease]:
    """A new lease inside a transaction; ``statement`` raises the epoch and writes who owns the task."""
    name, now = owner or f"{me.host}:{me.pid}", statements.moment().seconds
    record = statements.one(
        statement,
        uuid=uuid,
        owner=name,
        host=me.host,
        pid=me.pid,
        start=me.start,
        space=me.space,
        boot=me.boot,
        heartbeat=now,
        until=now + seconds,
        now=utc_now(),
    )
    assert record is not None  # the caller has read the row in this transaction
    row = row_from(record)
    return row, Lease(uuid=uuid, epoch=row.epoch, owner=name, seconds=seconds, until=now + seconds)


def lease_in(row: TaskRow, seconds: float) -> Lease:
    """The lease that a row was registered with."""
    return Lease(row.uuid, row.epoch, row.lease_owner or "", seconds, row.lease_until or 0.0)


def _leased_row(record: Mapping[str, Any]) -> TaskRow:
    """As much of a row as says whose the task is."""
    known = {name: record[name] for name in record if name != "status"}
    return TaskRow(
        status=TaskStatus(record["status"]),
        task_source="",
        task_type="",
        task_id="",
        task_identifier="",
        created_at="",
        updated_at="",
        **known,
    )
