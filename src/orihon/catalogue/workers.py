"""The workers that the catalogue has seen: who they are, what they do, how much they have done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from orihon.catalogue.tasks_db import Moment, Statements, TasksDatabase
from orihon.system.clock import ProcessIdentity, is_alive, process_identity, utc_now
from orihon.system.json_shapes import AsJson

_REMEMBERED = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class WorkerStatistics:
    """What a worker knows of itself; the catalogue writes it down with its next claim."""

    name: str
    processed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class WorkerRow(AsJson):
    """One worker process."""

    json_fields = "* -pid_start -pid_space -boot -heartbeat"

    name: str
    worker_id: str
    host: str
    pid: int
    pid_start: int
    pid_space: str
    boot: str
    state: str  # idle, working, draining, stopped; ``dead`` for a process that went without a word
    task_uuid: str | None
    processed: int
    failed: int
    started_at: str
    updated_at: str
    heartbeat: float  # on the clock of the leases

    def is_alive(self, moment: Moment, me: ProcessIdentity, silence: float) -> bool:
        """May the process be alive? One that cannot be seen from here must have been heard of lately."""
        if self.state == "stopped" or (self.boot != me.boot and not moment.is_shared):
            return False
        if (self.host, self.pid_space, self.boot) != (me.host, me.space, me.boot):
            return moment.seconds - self.heartbeat < silence
        return is_alive(self.pid, self.pid_start)


class Workers:
    """What the catalogue does with workers."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def add(self, name: str, worker_id: str) -> None:
        """This process is a worker from now on; workers that ended long ago are forgotten."""
        me = process_identity()

        def action(statements: Statements) -> None:
            before = (datetime.now(UTC) - _REMEMBERED).isoformat(timespec="microseconds")
            statements.run("forget_workers", before=before)
            statements.run(
                "add_worker",
                name=name,
                worker_id=worker_id,
                host=me.host,
                pid=me.pid,
                pid_start=me.start,
                pid_space=me.space,
                boot=me.boot,
                now=utc_now(),
                heartbeat=statements.moment().seconds,
            )

        self._db.change(action)

    def note(self, figures: WorkerStatistics, state: str, task_uuid: str | None = None) -> None:
        """What the worker does now."""
        self._db.change(lambda statements: note_statistics(statements, figures, state, task_uuid), durable=False)

    def all(self, silence: float) -> list[WorkerRow]:
        """Every worker that is remembered, the oldest first; those that are gone without a word are ``dead``."""
        me, moment = process_identity(), self._db.moment()
        found = [WorkerRow(**record) for record in self._db.all("workers")]
        return [row if row.state == "stopped" or row.is_alive(moment, me, silence) else _dead(row) for row in found]

    def heartbeat_ages(self, rows: list[WorkerRow]) -> list[float | None]:
        """How long ago each of these workers was heard of; ``None`` when that was before a boot."""
        me, moment = process_identity(), self._db.moment()
        return [
            round(max(0.0, moment.seconds - row.heartbeat), 1) if moment.is_shared or row.boot == me.boot else None
            for row in rows
        ]


def note_statistics(statements: Statements, figures: WorkerStatistics, state: str, task_uuid: str | None) -> None:
    """Write a worker's statistics down inside a transaction."""
    statements.run(
        "note_worker",
        name=figures.name,
        state=state,
        task_uuid=task_uuid,
        processed=figures.processed,
        failed=figures.failed,
        now=utc_now(),
        heartbeat=statements.moment().seconds,
    )


def _dead(row: WorkerRow) -> WorkerRow:
    return replace(row, state="dead")
