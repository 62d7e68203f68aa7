"""The picture of all machines: who holds which task and for how long, how long the line is, how often workers died.

Its cost follows what is going on (leases, delays) and never how many tasks there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from orihon.catalogue.leases import is_held
from orihon.catalogue.rows import TaskRow
from orihon.catalogue.tasks_db import TasksDatabase
from orihon.catalogue.workers import WorkerRow
from orihon.system.clock import is_alive, process_identity, utc_now
from orihon.values.task import TaskStatus


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


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """Tasks that wait for something else than the next free worker."""

    put_off: int  # for a time to come
    to_resume: int  # paused, and to be gone on with


class Picture:
    """What the catalogue knows of all machines."""

    _db: TasksDatabase

    def held_leases(self) -> list[HeldLease]:
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

    def queue_depth(self) -> QueueDepth:
        """How many tasks are put off, and how many wait to be resumed."""
        counts = self._db.one("queue_depth", now=utc_now(), moment=self._db.moment().seconds)
        assert counts is not None
        return QueueDepth(counts["put_off"], counts["to_resume"])

    def take_overs(self) -> int:
        """How often a worker has taken a task over from one that was gone, since there is this catalogue."""
        found = self._db.one("counter", name="take_overs")
        return 0 if found is None else int(found["value"])

    def database_bytes(self) -> int:
        """Bytes of the database that the catalogue is in."""
        found = self._db.one("database_bytes")
        return 0 if found is None else int(found["bytes"])

    def heartbeat_ages(self, rows: list[WorkerRow]) -> list[float | None]:
        """How long ago each of these workers was heard of; ``None`` when that was before a boot."""
        me, moment = process_identity(), self._db.moment()
        return [
            round(max(0.0, moment.seconds - row.heartbeat), 1) if moment.is_shared or row.boot == me.boot else None
            for row in rows
        ]


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
