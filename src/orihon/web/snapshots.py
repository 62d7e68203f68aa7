"""Snapshots for pages that are open: of the catalogue as a whole, and of one task."""

from __future__ import annotations

from contextlib import suppress

from orihon.catalogue import TaskRow
from orihon.errors import DamagedStore, StorageUnavailable, TaskNotFound
from orihon.store.contract import Stream
from orihon.store.task_store import TaskStore
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace
from orihon.web.broadcaster import TopicReader, TopicState
from orihon.web.site_snapshot import SiteSnapshots
from orihon.web.task_head import gauge_of, view_size
from orihon.web.task_memory import MEMORIES

SITE = "site"
_TASK = "task:"
_COUNTED: tuple[Stream, ...] = ("compressions", "messages", "checkpoints", "tools", "planning", "summaries")


def task_topic(uuid: str) -> str:
    """The topic of one task."""
    return f"{_TASK}{uuid}"


def open_topic(base: OpenBase, topic: str) -> TopicReader:
    """The look at a topic."""
    return TaskSnapshots(base, topic.removeprefix(_TASK)) if topic.startswith(_TASK) else SiteSnapshots(base)


class TaskSnapshots:
    """How long a task's log is, how full its context, and its status."""

    def __init__(self, base: OpenBase, uuid: str) -> None:
        self._base = base
        self._uuid = uuid
        self._place: TaskPlace | None = None
        self._store: TaskStore | None = None
        self._counts: dict[str, int] = dict.fromkeys(_COUNTED, 0)
        self._counted = (0, 0)  # messages and changes that the tokens are of
        self._tokens = 0

    def state(self) -> TopicState:
        catalogue = self._base.open_catalogue_if_sound()
        row = None if catalogue is None else catalogue.tasks.find(self._uuid)
        # On its way to another place it has what it had: no page may receive that there is nothing in it.
        with suppress(TaskNotFound, StorageUnavailable, FileNotFoundError):
            store = self._at_hand()
            lasts = (0,) * len(_COUNTED) if store is None else store.records.lasts(*_COUNTED)
            self._counts = dict(zip(_COUNTED, lasts, strict=True))
            if store is not None:
                self._count(store, row, (self._counts["messages"], self._counts["compressions"]))
        usage = gauge_of(row, self._base.settings).usage(self._tokens)
        status = "" if row is None else row.status.value
        return {**self._counts, "status": status, "tokens": self._tokens, "usage": usage}

    def _count(self, store: TaskStore, row: TaskRow | None, now: tuple[int, int]) -> None:
        """Follow the tokens of the view; what was counted before is not read again."""
        (messages, changes), (known, known_changes) = now, self._counted
        if now == self._counted:
            return
        with suppress(DamagedStore):  # the page says what is wrong with it
            if known and changes == known_changes and known <= messages:
                self._tokens += sum(record["tokens"] for record in store.read("messages", known + 1, messages))
            else:
                self._tokens, _ = self._view_size(store, row)
        self._counted = now

    def _view_size(self, store: TaskStore, row: TaskRow | None) -> tuple[int, int | None]:
        memory = MEMORIES.of(self._base.path, self._uuid)
        memory.follow_changes(store)
        return view_size(store, row, memory)

    def close(self) -> None:
        self._close_store()

    def _at_hand(self) -> TaskStore | None:
        place = self._base.folders.find(self._uuid)
        if place != self._place:
            self._close_store()
            if place is not None:
                self._store = self._base.read_store(place)
            self._place = place
        return self._store

    def _close_store(self) -> None:
        self._place = None  # it may come back to the same place
        if self._store is not None:
            self._store.close()
            self._store = None
