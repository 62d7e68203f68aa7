"""The open questions of tasks, kept while a server runs: a task that has not changed is not opened again.

Whoever asks, answers or reminds holds the task's lease, and every lease raises the epoch of its row. So what was read
of a task that nobody held stands until the row has another epoch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

from orihon.catalogue import TaskRow
from orihon.store.checkpoints import Checkpoint

Questions = tuple[Checkpoint, ...]


class QuestionMemory:
    """Questions by task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, tuple[tuple[int, str], Questions]] = {}

    def of(self, row: TaskRow, read: Callable[[], Questions]) -> Questions:
        """The open questions of a task; ``read`` reads them. The row has to be from before that."""
        mark = (row.epoch, row.updated_at)
        with self._lock:
            known = self._known.get(row.uuid)
        if known is not None and known[0] == mark and row.lease_owner is None:
            return known[1]
        found = read()
        if row.lease_owner is None:
            with self._lock:
                self._known[row.uuid] = (mark, found)
        return found

    def keep(self, uuids: Collection[str]) -> None:
        """Forget all other tasks."""
        with self._lock:
            self._known = {uuid: known for uuid, known in self._known.items() if uuid in uuids}
