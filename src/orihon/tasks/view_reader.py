"""Looking at the view of a task, as it is or was at an earlier step: what stands in it, what was folded, the originals.

Only reads, without a lease, also while an agent works on the task. A ``ViewReading`` is the view of one moment: what is
added or folded later does not show. Reads one message at a time; the cost follows the view, not the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from orihon.catalogue import TaskRow
from orihon.errors import NoSuchMessage, NothingToUndo
from orihon.settings import Settings
from orihon.store import TaskMessages
from orihon.store.reader import ViewStep
from orihon.store.record_codec import StoredMessage
from orihon.store.steps import compression_at
from orihon.store.tail import entry_of
from orihon.store.task_store import TaskStore
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import read_anew, reading_task
from orihon.values.records import Compression, Fold, Pin
from orihon.values.tokens.tokens import Gauge
from orihon.values.view import UNDOABLE, Entry, history, layout, within

#: The visible folds, and what is pinned.
ViewState = tuple[tuple[Fold, ...], tuple[Pin, ...]]


@dataclass(frozen=True, slots=True)
class ViewStatistics(AsJson):
    """How large a view is."""

    json_name = "view_figures"

    entries: int
    tokens: int  # estimated, as the log carries them
    budget: int  # in the same measure: of the largest view that fits
    usage: float  # 0.7 is 70 % of the budget, by what the provider has reported


@dataclass(frozen=True, slots=True)
class ViewHead(AsJson):
    """What there is to say of a view as a whole."""

    json_fields = "task status *figures"

    task: str
    status: str
    figures: ViewStatistics


@dataclass(frozen=True, slots=True)
class StepHead(AsJson):
    """The same of the view at an earlier step, and the message that answered it."""

    json_fields = "*head at compression answered_by"

    head: ViewHead
    at: int
    compression: int
    answered_by: int | None


@dataclass(frozen=True, slots=True)
class Origin:
    """The change that brought a fold, where it is known."""

    compression: int | None = None
    strategy: str = ""
    level: str = ""

    @classmethod
    def of(cls, made_in: Compression | None) -> Origin:
        return cls() if made_in is None else cls(made_in.id, made_in.strategy, made_in.level)


@dataclass(frozen=True, slots=True)
class FoldHead(AsJson):
    """A fold, beside the entry that it is."""

    json_fields = (
        "id=fold.id form=fold.form messages=fold.message_count original_tokens=fold.original_tokens reason=fold.reason "
        "made_by=fold.made_by *origin"
    )

    fold: Fold
    origin: Origin


@dataclass(frozen=True, slots=True)
class KnownFold(AsJson):
    """A fold with all that is known about it."""

    json_fields = "*fold *origin visible"

    fold: Fold
    origin: Origin
    visible: bool


@dataclass(frozen=True, slots=True)
class UndoableCompression(AsJson):
    """A change of the view, and whether it has been undone."""

    json_name = "undoable_compression"
    json_fields = "*record undone"

    record: Compression
    undone: bool


@dataclass(frozen=True, slots=True)
class ShownEntry(AsJson):
    """One entry of the view with what it says."""

    json_name = "entry"
    json_fields = "start_seq=entry.start end_seq=entry.end role=entry.role tokens=entry.tokens pins fold message"

    entry: Entry
    message: dict[str, Any]  # as the model gets it
    pins: tuple[Pin, ...]
    made_in: Compression | None  # the change that brought the entry's fold

    @property
    def fold(self) -> FoldHead | None:
        return None if self.entry.fold is None else FoldHead(self.entry.fold, Origin.of(self.made_in))


@dataclass(frozen=True, slots=True)
class ViewAt:
    """The view as it was at a step. ``lines`` are the very bytes that a request was made of, one message each."""

    uuid: str
    seq: int
    compression: int  # the last one up to there; 0 where there was none
    figures: ViewStatistics
    entries: tuple[ShownEntry, ...]
    lines: tuple[bytes, ...]


class ViewReading:
    """The view of one task as it is at this moment, or ``at`` an earlier step."""

    def __init__(
        self,
        store: TaskStore,
        row: TaskRow | None,
        settings: Settings,
        *,
        at: int | None = None,
        known: Callable[[int], ViewState] | None = None,
        change_at: Callable[[int], int] | None = None,
    ) -> None:
        """Where somebody remembers: ``known`` gives the folds and pins after a change, ``change_at`` that of a step."""
        self._store = store
        self._settings = settings
        self._at = at
        self.row = row
        # In this order: somebody may be writing, and a compression is about messages that were there before it.
        if at is None:
            self.compression = store.count("compressions")
        else:
            self.compression = (change_at or partial(compression_at, store))(_existing(store, at))
        self.folds, self.pins = (known or store.state)(self.compression)
        self.last_seq = store.count("messages") if at is None else at
        window, factor = (None, 1.0) if row is None else (row.context_length, row.correction)
        self._gauge = Gauge.for_display(settings, window, factor)

    def as_value(self, uuid: str) -> ViewAt:
        """All of it at once."""
        return ViewAt(uuid, self.last_seq, self.compression, self.figures(), tuple(self.entries()), tuple(self.lines()))

    def message_store(self) -> TaskMessages:
        """The task's messages, for planning a compression; what is written through it is refused or fenced as ever."""
        messages = TaskMessages(self._store, self._settings)
        messages.context_length, messages.correction = self._gauge.budget.window, self._gauge.correction
        return messages

    def figures(self) -> ViewStatistics:
        """Counted by one walk over the view."""
        entries = tokens = 0
        for fold, record in self._walk():
            entries += 1
            tokens += entry_of(fold, record).tokens
        return ViewStatistics(entries, tokens, self._gauge.room, self._gauge.usage(tokens))

    def as_of(self, compression: int, last_seq: int) -> ViewReading:
        """The view that a compression left, when the log was so long."""
        earlier = copy(self)
        earlier.compression, earlier.last_seq = compression, last_seq
        earlier.folds, earlier.pins = self._store.state(compression)
        return earlier

    def entries(self, first: int = 1, last: int | None = None) -> Iterator[ShownEntry]:
        """The view in order, or what stands in it for a run of the log that ends where entries end."""
        origins = self._origins()
        for fold, record in self._walk(first, last):
            entry = entry_of(fold, record)
            message = self._store.view_message(fold, record)
            made_in = None if fold is None else origins.get(fold.id)
            yield ShownEntry(entry, message, self.pins_in(entry.start, entry.end), made_in)

    def lines(self) -> Iterator[bytes]:
        """The view as a request is made of it: one message per line."""
        for fold, record in self._walk():
            yield self._store.view_line(fold, record)

    def answer(self) -> StoredMessage | None:
        """The model's answer to exactly this view, where that is what came next."""
        found = next(self._store.messages(self.last_seq + 1, self.last_seq + 1), None)
        return found if found is not None and found.message.role == "assistant" else None

    def pins_in(self, first: int, last: int) -> tuple[Pin, ...]:
        """What is pinned in a run of the log."""
        start, end = (bisect_left(self.pins, seq, key=lambda pin: pin.seq) for seq in (first, last + 1))
        return self.pins[start:end]

    def compressions(self) -> list[tuple[Compression, bool]]:
        """Every change so far, oldest first, and whether it has been undone."""
        records = [Compression.from_record(record) for record in self._store.read("compressions")]
        standing = set(history(records)[0])
        return [(record, record.kind in UNDOABLE and record.id not in standing) for record in records]

    def fold(self, number: int, *, visible: bool = False) -> Fold:
        """A fold by its number, also one that has been opened or replaced since, unless it has to be ``visible``."""
        for fold in self.folds:
            if fold.id == number:
                return fold
        if visible or not 1 <= number <= self._store.count("summaries"):
            shown = ", ".join(str(fold.id) for fold in self.folds) or "-"
            raise NothingToUndo("no_fold", fold=number, visible=shown)
        return self._store.folds([number])[0]

    def made_in(self, number: int) -> Compression | None:
        """The change that brought a fold."""
        return _find_origins(self._store, {number}).get(number)

    def head(self) -> ViewHead | StepHead:
        """What there is to say of the view as a whole."""
        figures = self.figures()
        status = "-" if self.row is None else self.row.status.value
        head = ViewHead(self._store.name, status, replace(figures, usage=round(figures.usage, 4)))
        if self._at is None:
            return head
        answer = self.answer()
        return StepHead(head, self._at, self.compression, None if answer is None else answer.seq)

    def known_fold(self, number: int) -> KnownFold:
        """A fold with the change that brought it."""
        fold = self.fold(number)
        return KnownFold(fold, Origin.of(self.made_in(number)), fold in self.folds)

    def originals(self, fold: Fold) -> Iterator[StoredMessage]:
        """The messages that a fold stands for."""
        return self._store.messages(fold.start_seq, fold.end_seq)

    def _walk(self, start: int = 1, end: int | None = None) -> Iterator[ViewStep]:
        items = layout(self.last_seq, self.folds)
        return self._store.walk(items if (start, end) == (1, None) else within(items, start, end or self.last_seq))

    def _origins(self) -> dict[int, Compression]:
        return _find_origins(self._store, {fold.id for fold in self.folds})


def _find_origins(store: TaskStore, wanted: set[int]) -> dict[int, Compression]:
    found: dict[int, Compression] = {}
    records = store.read("compressions") if wanted else iter(())
    for record in records:
        made = wanted.intersection(record["folds"]) - found.keys()
        if made:
            found |= dict.fromkeys(made, Compression.from_record(record))
        if len(found) == len(wanted):
            break
    return found


def _existing(store: TaskStore, seq: int) -> int:
    last = store.count("messages")
    if not 1 <= seq <= last:
        raise NoSuchMessage("seq", seq=seq, last=last)
    return seq


@contextmanager
def reading_view(base: OpenBase, uuid: str, *, at: int | None = None) -> Iterator[ViewReading]:
    """The view of a task, in whatever state it is, or as it was ``at`` a step."""
    with reading_task(base, uuid) as (store, row):
        yield ViewReading(store, row, base.settings, at=at)


@read_anew
def view_at(base: OpenBase, task: str, seq: int) -> ViewAt:
    """What the model saw when message ``seq`` was the last one, byte for byte.

    Folds made before the next message came belong to it: it is the request that message ``seq + 1`` answers, where
    that is the model's. ``task`` is named as ``task_name`` says. The view is held as a whole; ``reading_view`` reads
    it entry by entry.
    """
    uuid = base.resolve(task)
    with reading_view(base, uuid, at=seq) as reading:
        return reading.as_value(uuid)
