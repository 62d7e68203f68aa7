"""A task opened for export: its row, its records as of one moment, its view."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from orihon.catalogue import TaskRow
from orihon.errors import DamagedStore, StorageUnavailable, TaskNotFound
from orihon.store.contract import STREAMS, RecordStore, Stream
from orihon.store.reader import TaskReader
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import reading_task
from orihon.tasks.view_reader import ViewReading
from orihon.values.task import TaskStatus

# What comes later in this order may be mentioned by what comes earlier; see ``RecordStore.lasts``.
_ORDER: tuple[Stream, ...] = ("checkpoints", "compressions", "summaries", "planning", "tools", "messages")
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class OpenTask:
    """One task while it is exported; no ``row`` where the catalogue is lost."""

    uuid: str
    row: TaskRow | None
    store: TaskReader
    view: ViewReading
    lasts: dict[Stream, int]
    folder_now: Callable[[], Path | None]

    def check_here(self) -> None:
        """``StorageUnavailable`` when the folder has moved: what is beside the records cannot be found any more."""
        if self.folder_now() != self.records.folder:
            raise StorageUnavailable("gone", path=self.records.folder)

    @property
    def records(self) -> RecordStore:
        return self.store.records


@contextmanager
def opened_task(base: OpenBase, task: str) -> Iterator[OpenTask]:
    """The task by its name, in whatever state it is; a lost or damaged catalogue does not hide it."""
    uuid = base.resolve(task)

    def folder_now() -> Path | None:
        place = base.folders.find(uuid)
        return None if place is None else place.folder

    with ExitStack() as stack:
        try:
            store, row = stack.enter_context(reading_task(base, uuid))
        except TaskNotFound as error:
            if error.fields.get("status") == TaskStatus.ARCHIVED:
                raise TaskNotFound("packed", uuid=uuid) from error
            raise
        opened = OpenTask(uuid, row, store, ViewReading(store, row, base.settings), _lasts(store.records), folder_now)
        try:
            yield opened
        except DamagedStore:
            opened.check_here()  # what seems to be missing may just be elsewhere
            raise


def _lasts(records: RecordStore) -> dict[Stream, int]:
    """Where the streams end; where somebody is writing, such that nothing mentions a record beyond an end."""
    known = records.lasts(*_ORDER)
    for _ in range(_LOOKS):
        again = records.lasts(*_ORDER)
        if again == known:
            break
        known = again
    found = dict(zip(_ORDER, known, strict=True))
    return {stream: found[stream] for stream in STREAMS}
