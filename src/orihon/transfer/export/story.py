"""A task opened for export, and its history in the order in which a person reads it.

``OpenTask`` has its row, its records as of one moment, its view. ``Story`` gives the whole log once, from its first
message to its last: folds of the current view are opened and closed around the messages they stand for, phases and
questions to people stand where they came up. Gives values, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from orihon.catalogue import TaskRow
from orihon.errors import DamagedStore, StorageUnavailable, TaskNotFound
from orihon.store.checkpoints import Checkpoint, Ledger, Phase, read_ledger
from orihon.store.contract import STREAMS, RecordStore, Stream
from orihon.store.reader import TaskReader
from orihon.store.record_codec import StoredMessage
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import reading_task
from orihon.tasks.view_reader import ViewReading
from orihon.values.records import FINAL_SUMMARY, Compression, Fold, Pin
from orihon.values.task import TaskStatus
from orihon.values.view import layout

# What comes later in this order may be mentioned by what comes earlier; see ``RecordStore.lasts``.
_ORDER: tuple[Stream, ...] = ("checkpoints", "compressions", "summaries", "planning", "tools", "messages")
_LOOKS = 5
#: Results are recorded about when they are told: a record so many calls away from its message is not looked for.
_MOST_WAITING = 256


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


@dataclass(frozen=True, slots=True)
class StoryMessage:
    """A message; ``preview`` is the shorter text that stands for its content in the view."""

    stored: StoredMessage
    preview: Fold | None = None
    pins: tuple[Pin, ...] = ()
    tool: dict[str, Any] | None = None  # the record of the call whose result it is


@dataclass(frozen=True, slots=True)
class FoldBegins:
    """The messages from here on stand in the view as this fold's text."""

    fold: Fold
    made_in: Compression | None


@dataclass(frozen=True, slots=True)
class FoldEnds:
    fold: Fold


StoryEvent = StoryMessage | FoldBegins | FoldEnds | Phase | Checkpoint


class Story:
    """One task, for telling."""

    def __init__(self, task: OpenTask) -> None:
        self.task = task
        self._store = task.store
        self._view = task.view

    @cached_property
    def ledger(self) -> Ledger:
        """Phases and questions."""
        return read_ledger(self._store)

    @cached_property
    def compressions(self) -> list[tuple[Compression, bool]]:
        """Every change of the view, and whether it has been undone."""
        return self._view.compressions()

    @property
    def final_summary(self) -> str:
        return (self.task.records.kept_file(FINAL_SUMMARY) or b"").decode("utf-8", "replace")

    @property
    def files(self) -> list[str]:
        return self.task.records.kept_files()

    def plans(self) -> Iterator[dict[str, Any]]:
        """The plans, the newest first."""
        for number in range(self.task.lasts["planning"], 0, -1):
            yield from self._store.read("planning", number, number)

    def former_folds(self) -> Iterator[Fold]:
        """Summaries that are not in the view: opened, replaced, undone, or added by hand."""
        visible = {fold.id for fold in self._view.folds}
        for record in self._store.read("summaries", 1, self.task.lasts["summaries"]):
            if record["id"] not in visible:
                run = {name: record[name] or 0 for name in ("start_seq", "end_seq")}
                yield Fold.from_record({**record, **run})

    def lone_calls(self) -> Iterator[dict[str, Any]]:
        """Records of tool calls that belong to no message."""
        for record in self._store.read("tools", 1, self.task.lasts["tools"]):
            if not record.get("call_id"):
                yield record

    def events(self) -> Iterator[StoryEvent]:
        """The log, told from its beginning to its end."""
        origins = self._origins()
        tools = _ToolRecords(self._store, self.task.lasts["tools"])
        begins = {fold.start_seq: fold for fold in self._view.folds}
        fold: Fold | None = None
        yield from self._questions(0)
        for _, record in self._store.walk(layout(self._view.last_seq, ())):
            assert record is not None  # without folds there are only messages
            stored = self._store.stored(record)
            fold = begins.get(stored.seq, fold)
            preview = fold if fold is not None and fold.form == "preview" else None
            if fold is not None and preview is None and stored.seq == fold.start_seq:
                yield FoldBegins(fold, origins.get(fold.id))
            yield from self._phases(stored.seq)
            pins = self._view.pins_in(stored.seq, stored.seq)
            yield StoryMessage(stored, preview, pins, tools.of(stored.message.answers))
            yield from self._questions(stored.seq)
            if fold is not None and stored.seq == fold.end_seq:
                if preview is None:
                    yield FoldEnds(fold)
                fold = None

    def _phases(self, seq: int) -> Iterator[Phase]:
        return (phase for phase in self.ledger.phases if phase.start_seq == seq)

    def _questions(self, seq: int) -> Iterator[Checkpoint]:
        return (asked for asked in self.ledger.checkpoints if asked.seq == seq)

    def _origins(self) -> dict[int, Compression]:
        found: dict[int, Compression] = {}
        for record, _ in self.compressions:
            for number in record.folds:
                found.setdefault(number, record)
        return found


class _ToolRecords:
    """The record of a call by its id: walks along the stream as the log is told, and keeps what is not told yet."""

    def __init__(self, store: TaskReader, last: int) -> None:
        self._coming = store.read("tools", 1, last)
        self._waiting: dict[str, dict[str, Any]] = {}
        self._missed = 0

    def of(self, call_id: str | None) -> dict[str, Any] | None:
        if call_id is None:
            return None
        while call_id not in self._waiting and len(self._waiting) < _MOST_WAITING:
            record = next(self._coming, None)
            if record is None:
                break
            if record.get("call_id"):
                # What is shown is the result in the log; a large one need not be held twice.
                self._waiting[str(record["call_id"])] = {**record, "result": None, "arguments": None}
        found = self._waiting.pop(call_id, None)
        self._missed = 0 if found else self._missed + 1
        if self._missed > _MOST_WAITING:  # nobody comes for those that wait
            self._waiting.clear()
            self._missed = 0
        return found
