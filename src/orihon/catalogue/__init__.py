"""The catalogue: one row for each task, its state, its owner's lease, its statistics.

It is ``tasks.db`` in the base folder, or in PostgreSQL for several machines.

Holds its parts, one for each noun: ``tasks``, ``leases``, ``queue`` … Each is in the file of that name and works on the
same database. Owns the legal changes of state, the leases with their fencing tokens, the queue and the rollups that
statistics are read from. Promises that what must hold together changes in one transaction, on disk when the call
returns, and that leases never depend on the wall clock. Refuses illegal changes, stale owners, and columns that are not
on its list. It can be rebuilt from the task folders; it knows nothing of messages.

Safe for several processes, threads and forks. Never read or copy ``tasks.db`` with ``open()`` in a process
that uses it: closing that file would drop SQLite's locks on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from orihon.catalogue.counters import Counters, RateLimits
from orihon.catalogue.grants import Grant, Grants, Tombstones
from orihon.catalogue.leases import HeldLease, Lease, Leases
from orihon.catalogue.outbox import OutboxTable
from orihon.catalogue.queue import ClaimLimits, Queue, QueueDepth
from orihon.catalogue.row_changes import ChangedTask, ChangeFeed
from orihon.catalogue.rows import Rollup, RollupDifference, TaskRow, TokenUsage
from orihon.catalogue.sqlite_db import SqliteTasks
from orihon.catalogue.statistics import Statistics
from orihon.catalogue.tasks import Tasks
from orihon.catalogue.tasks_db import TasksDatabase
from orihon.catalogue.usage import UsageRow, UsageSum, UsageTable
from orihon.catalogue.workers import WorkerRow, Workers, WorkerStatistics

__all__ = [
    "Catalogue",
    "ChangedTask",
    "ClaimLimits",
    "Grant",
    "HeldLease",
    "Lease",
    "QueueDepth",
    "Rollup",
    "RollupDifference",
    "TaskRow",
    "TokenUsage",
    "UsageRow",
    "UsageSum",
    "WorkerRow",
    "WorkerStatistics",
]


class Catalogue:
    """``tasks.db`` of one base folder, or tables that many machines share (``connect``); made when missing."""

    path: Path  # of a catalogue that is a file; ``where`` is for any

    def __init__(
        self,
        path: Path | str,
        *,
        timeout: float = 30.0,
        max_retries: int = 3,
        retry_delay: float = 0.5,
    ) -> None:
        self.path = Path(path)
        self._use(SqliteTasks(self.path, timeout=timeout, max_retries=max_retries, retry_delay=retry_delay))
        self._db.open()

    @classmethod
    def over(cls, database: TasksDatabase) -> Catalogue:
        """The catalogue in a database that is something else than a file."""
        catalogue = cls.__new__(cls)
        catalogue._use(database)
        catalogue._db.open()
        return catalogue

    def through(self, wrap: Callable[[TasksDatabase], TasksDatabase]) -> Catalogue:
        """This catalogue, with something between it and its database."""
        self._use(wrap(self._db))
        return self

    def _use(self, database: TasksDatabase) -> None:
        self._db = database
        self.tasks = Tasks(database)
        self.leases = Leases(database)
        self.queue = Queue(database)
        self.workers = Workers(database)
        self.usage = UsageTable(database)
        self.statistics = Statistics(database)
        self.counters = Counters(database)
        self.rate_limits = RateLimits(database)
        self.outbox = OutboxTable(database)
        self.changes = ChangeFeed(database)
        self.grants = Grants(database)
        self.tombstones = Tombstones(database)

    @property
    def database(self) -> TasksDatabase:
        """What the parts work on."""
        return self._db

    @property
    def where(self) -> str:
        """Where the catalogue is, for people; without a password."""
        return self._db.where

    def ask(self, question: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
        """The rows that a question in SQL gives, as they are stored; ``InvalidInput`` for anything else."""
        return self._db.ask(question, parameters)

    def __enter__(self) -> Catalogue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every thread's connection; a later call opens again."""
        self._db.close()
