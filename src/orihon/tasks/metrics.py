"""Telemetry of one running task: what it counts for the metrics, on its way into the catalogue.

Written with the heartbeat, after a compression and when the task is let go; a process that is killed takes the numbers
since then with it, and no work ever fails because of them.
"""

from __future__ import annotations

import logging

from orihon.catalogue import Catalogue
from orihon.drivers.sqlite import LOCKS
from orihon.errors import StorageError
from orihon.store.task_store import TaskStore
from orihon.system.counters import LOCK_ERRORS, MESSAGES, SUMMARIES, Counts

logger = logging.getLogger("orihon.context")


class TaskCounts(Counts):
    """The figures of one task."""

    def __init__(self, catalogue: Catalogue, store: TaskStore, task_source: str) -> None:
        super().__init__()
        self._catalogue = catalogue
        self._store = store
        self._task_source = task_source

    def summaries(self, number: int) -> None:
        """So many folds were made."""
        self.add(SUMMARIES, number, task_source=self._task_source)

    def write(self) -> None:
        """Everything since the last time into the catalogue."""
        self.add(LOCK_ERRORS, LOCKS.take())
        for role, number in self._store.take_roles().items():
            self.add(MESSAGES, number, task_source=self._task_source, role=role)
        added = self.take()
        if not added:
            return
        try:
            self._catalogue.counters.add(added)
        except StorageError as error:
            self.give_back(added)
            logger.warning("the counters could not be written: %s", error)
