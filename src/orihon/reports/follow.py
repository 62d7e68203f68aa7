"""A task's messages as they come: ``follow_messages``. For people who watch an agent work.

Polls the log and never claims anything; the folder may move meanwhile. Ends when the task has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from orihon.audit.trail import audit_of
from orihon.errors import StorageUnavailable, TaskNotFound
from orihon.store.record_codec import StoredMessage
from orihon.store.task_store import TaskStore
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace
from orihon.values.task import FINISHED, TaskStatus

SECONDS_BETWEEN_LOOKS = 0.25
_OVER = FINISHED | {TaskStatus.ARCHIVED}


def follow_messages(
    base: OpenBase,
    uuid: str,
    *,
    after: int,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[StoredMessage]:
    """The messages numbered above ``after``, each as soon as it is there, until the task is over."""
    audit_of(base.path, base.settings).record("read", uuid, details={"after": after})
    looking = _Followed(base, uuid)
    try:
        while True:
            is_over = looking.is_over()  # before the look at the log, so that nothing said before the end is missed
            for stored in looking.messages(after):
                after = stored.seq
                yield stored
            if is_over:
                return
            wait(SECONDS_BETWEEN_LOOKS)
    finally:
        looking.close()


class _Followed:
    """One task's log, wherever its folder is at the moment."""

    def __init__(self, base: OpenBase, uuid: str) -> None:
        self._base = base
        self._uuid = uuid
        self._place: TaskPlace | None = None
        self._store: TaskStore | None = None

    def is_over(self) -> bool:
        catalogue = self._base.open_catalogue_if_sound()
        row = None if catalogue is None else catalogue.tasks.find(self._uuid)
        return row is None or row.status in _OVER

    def messages(self, after: int) -> Iterator[StoredMessage]:
        """Those that are there now; none while the folder is on its way somewhere."""
        with suppress(TaskNotFound, StorageUnavailable, FileNotFoundError):
            store = self._at_hand()
            if store is not None and store.count("messages") > after:
                yield from store.messages(after + 1)

    def _at_hand(self) -> TaskStore | None:
        place = self._base.folders.find(self._uuid)
        if place != self._place:
            self.close()
            if place is not None:
                self._store = self._base.read_store(place)
            self._place = place
        return self._store

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
