"""Looking at the view of a task: what stands in it, what was folded, and the originals.

Only reads, without a lease, also while an agent works on the task. A ``ViewReading`` is the view of one moment: what is
added or folded later does not show. Reads one message at a time; the cost follows the view, not the log.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orihon import jsonio
from orihon.base_folder import BaseFolder
from orihon.catalogue import TaskRow
from orihon.errors import DamagedStore, NothingToUndo, TaskNotFound
from orihon.records import Compression, Fold, Pin
from orihon.settings import Settings
from orihon.store import MessageStore
from orihon.store.opening import open_for_reading
from orihon.store.packing import StoredMessage
from orihon.store.tail import entry_of
from orihon.store.task_store import TaskStore
from orihon.tokens import Correction, Gauge
from orihon.view import UNDOABLE, Entry, history, layout


@dataclass(frozen=True, slots=True)
class Figures:
    """How large a view is."""

    entries: int
    tokens: int  # estimated, as the log carries them
    budget: int
    usage: float  # 0.7 is 70 % of the budget, by what the provider has reported


@dataclass(frozen=True, slots=True)
class ShownEntry:
    """One entry of the view with what it says."""

    entry: Entry
    message: dict[str, Any]  # as the model gets it
    pins: tuple[Pin, ...]
    made_in: Compression | None  # the change that brought the entry's fold


class ViewReading:
    """The view of one task as it is at this moment."""

    def __init__(self, store: TaskStore, row: TaskRow | None, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self.row = row
        # In this order: somebody may be writing, and a compression is about messages that were there before it.
        self.folds, self.pins = store.state()
        self.last_seq = store.count("messages")
        window = (row and row.context_length) or settings.context_length
        factor = 1.0 if row is None else row.correction
        self._gauge = Gauge.of(settings, window, Correction(factor, int(factor != 1.0)))

    def message_store(self) -> MessageStore:
        """The task's messages, for planning a compression; what is written through it is refused or fenced as ever."""
        messages = MessageStore(self._store.records.folder, self._settings, task_store=self._store)
        messages.context_length, messages.correction = self._gauge.budget.window, self._gauge.correction
        return messages

    def figures(self) -> Figures:
        """Counted by one walk over the view."""
        entries = tokens = 0
        for fold, record in self._walk():
            entries += 1
            tokens += entry_of(fold, record).tokens
        return Figures(entries, tokens, self._gauge.budget.tokens, self._gauge.usage(tokens))

    def entries(self) -> Iterator[ShownEntry]:
        """The view in order."""
        origins = self._origins()
        for fold, record in self._walk():
            entry = entry_of(fold, record)
            message = jsonio.decode(self._store.view_line(fold, record))
            made_in = None if fold is None else origins.get(fold.id)
            yield ShownEntry(entry, message, self.pins_in(entry.start, entry.end), made_in)

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

    def originals(self, fold: Fold) -> Iterator[StoredMessage]:
        """The messages that a fold stands for."""
        return self._store.messages(fold.start_seq, fold.end_seq)

    def _walk(self) -> Iterator[tuple[Fold | None, dict[str, Any] | None]]:
        for item in layout(self.last_seq, self.folds):
            if isinstance(item, Fold):
                fold, first, last = item, item.start_seq, item.end_seq
                if fold.form == "summary":
                    yield fold, None
                    continue
            else:
                fold, (first, last) = None, item
            expected = first
            for record in self._store.read("messages", first, last):
                yield fold, record
                expected += 1
            if expected <= last:
                raise DamagedStore("no_record", stream="messages", number=expected, where=self._store.name)

    def _origins(self) -> dict[int, Compression]:
        return _find_origins(self._store, {fold.id for fold in self.folds})


def _find_origins(store: TaskStore, wanted: set[int]) -> dict[int, Compression]:
    found: dict[int, Compression] = {}
    records = store.read("compressions") if wanted else iter(())
    for record in records:
        for number in wanted.intersection(record["folds"]):
            found.setdefault(number, Compression.from_record(record))
        if len(found) == len(wanted):
            break
    return found


@contextmanager
def reading_view(base_dir: Path | str, uuid: str, settings: Settings) -> Iterator[ViewReading]:
    """The view of a task, in whatever state it is; a lost or damaged catalogue does not hide it."""
    with BaseFolder(Path(base_dir).absolute(), settings) as base:
        row: TaskRow | None = None
        with suppress(DamagedStore):
            base.open_catalogue()
            row = base.row(uuid)
        here = base.folders.find(uuid)
    if here is None:
        raise TaskNotFound("no_folder", uuid=uuid, status="-" if row is None else row.status.value)
    with closing(open_for_reading(here, settings, name=uuid)) as store:
        yield ViewReading(store, row, settings)
