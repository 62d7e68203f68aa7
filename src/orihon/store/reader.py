"""What can be read of a task: its log, its other records, its view. Nothing is written here.

Everything comes out as values. Holds no history: what the view is made of is read from the records when somebody asks;
only where its entries are is remembered (``_Layout``), so that a request costs one look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from orihon.errors import DamagedStore, IllegalFold, KeyUnavailable, NoSuchMessage, OrihonError
from orihon.guard.sealer import is_sealed_record
from orihon.store.contract import NUMBER_FIELD, OPEN_END, RecordStore, Stream, StreamRange
from orihon.store.record_check import decode_record
from orihon.store.record_codec import StoredMessage, unpack, unpack_record
from orihon.store.tail import calls_of, entry_of
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.message.wire import clean
from orihon.values.records import SUMMARY_PREFIX, Compression, Fold, Pin
from orihon.values.view import Entry, SeqRange, View, layout, ordered, seq_range

Record = dict[str, Any]
#: An entry of a view: a fold that stands alone, the record of a message, or both where the fold only shortens it.
ViewStep = tuple[Fold | None, Record | None]

#: Fields without which a record cannot be used.
_REQUIRED: dict[Stream, tuple[str, ...]] = {
    "messages": ("role", "content", "timestamp", "tokens", "epoch", "digest"),
    "summaries": ("start_seq", "end_seq", "summary", "summary_tokens", "original_tokens"),
    "tools": ("tool_name", "status"),
    "planning": ("plan_type", "plan_content"),
    "compressions": ("kind", "folds", "removed", "visible", "pins"),
    "checkpoints": ("kind",),
}


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the entries of the view are that a compression made, and everything that came after it; no texts.

    A run of one summary stands for that fold; where the fold only shortens a message, the message's run follows it.
    """

    compression: int
    runs: tuple[StreamRange, ...]


class TaskReader:
    """Log and view of one task, for who looks."""

    def __init__(self, records: RecordStore, name: str) -> None:
        self.records = records
        self.name = name
        self._layout = _Layout(0, (("messages", 1, OPEN_END),))

    # ---- records -----------------------------------------------------------------------------------------------

    def messages(self, first: int = 1, last: int | None = None) -> Iterator[StoredMessage]:
        """Messages of the log by number; one at a time in memory."""
        for record in self.read("messages", first, last):
            yield self.stored(record)

    def message(self, seq: int) -> StoredMessage:
        """One message of the log."""
        for stored in self.messages(seq, seq):
            return stored
        raise NoSuchMessage("seq", seq=seq, last=self.count("messages"))

    def read(self, stream: Stream, first: int = 1, last: int | None = None) -> Iterator[Record]:
        """Records as dicts, by number."""
        first = max(first, 1)
        end = self.records.last(stream) if last is None else last
        if first <= end:
            for number, line in enumerate(self.records.read(stream, (first, end)), start=first):
                record = self._decoded(stream, number, line)
                yield record if stream == "messages" else unpack_record(record, self.records.get_blob)

    def count(self, stream: Stream) -> int:
        return self.records.last(stream)

    def _decoded(self, stream: Stream, number: int, line: bytes) -> Record:
        try:
            record: Record = decode_record(line)
            if record[NUMBER_FIELD[stream]] == number and all(field in record for field in _REQUIRED[stream]):
                calls_of(record)
                return record
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._damaged(stream, line) from error
        if is_sealed_record(line):
            raise KeyUnavailable("sealed", task=self.name)
        raise self._damaged(stream, line)

    def stored(self, record: Record) -> StoredMessage:
        """The message of a record."""
        try:
            return unpack(record, self.records.get_blob)
        except (ValueError, TypeError, LookupError) as error:
            raise self._damaged("messages", jsonio.encode(record)) from error

    def _damaged(self, stream: Stream, line: bytes) -> DamagedStore:
        return DamagedStore("record", stream=stream, where=self.name, start=line[:40])

    # ---- the view ----------------------------------------------------------------------------------------------

    def state(self, compression: int | None = None) -> tuple[tuple[Fold, ...], tuple[Pin, ...]]:
        """The visible folds and the pins, as a compression record (the last one unless told) left them."""
        compressions, last_seq = self.records.lasts("compressions", "messages")  # in this order: see ``lasts``
        return self._state(compressions if compression is None else compression, last_seq)

    def _state(self, compression: int, last_seq: int) -> tuple[tuple[Fold, ...], tuple[Pin, ...]]:
        if compression == 0:
            return (), ()
        found = next(self.read("compressions", compression, compression), None)
        if found is None:
            raise DamagedStore("no_record", stream="compressions", number=compression, where=self.name)
        record = Compression.from_record(found)
        folds = self.folds(record.visible)
        reach = max((fold.end_seq for fold in folds), default=0)
        if reach > last_seq:
            raise DamagedStore("no_record", stream="messages", number=reach, where=self.name)
        try:
            return ordered(folds, last_seq), record.pins
        except IllegalFold as error:
            numbers = ", ".join(map(str, record.visible))
            raise DamagedStore("overlap", number=compression, folds=numbers, where=self.name) from error

    def folds(self, numbers: Sequence[int]) -> list[Fold]:
        """Folds by their numbers."""
        if not numbers:
            return []
        wanted = sorted(set(numbers))
        lines = self.records.read("summaries", *_runs(wanted))
        found = [
            Fold.from_record(unpack_record(self._decoded("summaries", number, line), self.records.get_blob))
            for number, line in zip(wanted, lines, strict=False)
        ]
        if len(found) < len(wanted):
            raise DamagedStore("no_record", stream="summaries", number=wanted[len(found)], where=self.name)
        return found

    def view(self) -> View:
        """The view as a value: what every entry is, not what it says."""
        compressions, last_seq = self.records.lasts("compressions", "messages")
        folds, pins = self._state(compressions, last_seq)
        return View(_entries(self.walk(layout(last_seq, folds))), pins, compressions)

    def view_with(self, folds: Sequence[Fold], pins: Sequence[Pin]) -> View:
        """The view that these folds would make."""
        return View(_entries(self.walk(self._laid_out(folds))), tuple(pins))

    def view_with_lines(self, folds: Sequence[Fold], pins: Sequence[Pin]) -> tuple[View, list[bytes]]:
        """The same and its lines, read once."""
        entries, lines = [], []
        for fold, record in self.walk(self._laid_out(folds)):
            entries.append(entry_of(fold, record))
            lines.append(self.view_line(fold, record))
        return View(tuple(entries), tuple(pins)), lines

    def pages(self) -> tuple[View, list[Message]]:
        """The view, and what each of its entries says."""
        compressions, last_seq = self.records.lasts("compressions", "messages")
        folds, pins = self._state(compressions, last_seq)
        entries, messages = [], []
        for fold, record in self.walk(layout(last_seq, folds)):
            entries.append(entry_of(fold, record))
            messages.append(self._shown(fold, record))
        return View(tuple(entries), pins, compressions), messages

    def view_messages(self) -> Iterator[dict[str, Any]]:
        """The view as a request needs it, as values."""
        for fold, record in self.walk():
            yield self.view_message(fold, record)

    def view_message(self, fold: Fold | None, record: Record | None) -> dict[str, Any]:
        """One entry of the view as a request carries it: a message, a fold, or the preview of a message."""
        if record is None:
            assert fold is not None
            return {"role": "system", "content": SUMMARY_PREFIX + clean(fold.text)}
        return self._shown(fold, record).request()

    def view_lines(self, folds: Sequence[Fold] | None = None) -> Iterator[bytes]:
        """The view (that these folds would make) as a request needs it: one provider-ready message per line."""
        for fold, record in self.walk(None if folds is None else self._laid_out(folds)):
            yield self.view_line(fold, record)

    def view_line(self, fold: Fold | None, record: Record | None) -> bytes:
        """One line of the view."""
        return jsonio.encode(self.view_message(fold, record))

    def all_lines(self) -> Iterator[bytes]:
        """Every line that the log can make, in whatever view: each message, each fold; up to the first damage."""
        unreadable = (OrihonError, KeyError, TypeError, ValueError, AttributeError)
        with suppress(*unreadable):
            for record in self.read("messages"):
                yield self.view_line(None, record)
        with suppress(*unreadable):
            for summary in self.read("summaries"):
                if summary.get("start_seq") is not None and "made_by" in summary:
                    fold = Fold.from_record(summary)
                    shortened = None if _stands_alone(fold) else next(self.read("messages", *seq_range(fold)), None)
                    if shortened is not None or _stands_alone(fold):
                        yield self.view_line(fold, shortened)

    def _shown(self, fold: Fold | None, record: Record | None) -> Message:
        """What an entry says."""
        if record is None:
            assert fold is not None
            return Message("system", SUMMARY_PREFIX + fold.text)
        message = self.stored(record).message
        return message if fold is None else replace(message, content=fold.text, parts=None)

    def _laid_out(self, folds: Sequence[Fold]) -> Iterator[SeqRange | Fold]:
        return layout(self.records.last("messages"), folds)

    def walk(self, items: Iterable[SeqRange | Fold] | None = None) -> Iterator[ViewStep]:
        """Along the current view, or along ``items`` of one, with the records that its entries are made of.

        Runs of the log give each message; a summary gives itself, a preview itself with its message. The one way on
        which a view is read: whatever needs its records goes along here.
        """
        if items is not None:
            items = list(items)
            ranges = [seq_range(item) for item in items if not _stands_alone(item)]
            return self._steps(items, self.records.read("messages", *ranges) if ranges else iter(()))
        known = self._layout
        lines = self.records.read_runs(known.runs, as_of=known.compression)
        if lines is not None:
            return self._steps(self._items(known.runs, lines), lines)
        compression, last_seq = self.records.lasts("compressions", "messages")
        folds, _ = self._state(compression, last_seq)
        self._layout = _Layout(compression, tuple(_stream_ranges(folds)))
        return self.walk(layout(last_seq, folds))

    def _items(self, runs: Iterable[StreamRange], lines: Iterator[bytes]) -> Iterator[SeqRange | Fold]:
        """The items of a view whose layout is known; a fold comes out of ``lines`` when it is its turn."""
        preview: Fold | None = None
        for stream, first, last in runs:
            if stream == "messages":
                if preview is None:  # a preview's own message comes with it
                    yield first, last
                preview = None
                continue
            line = next(lines, None)
            if line is None:
                raise DamagedStore("no_record", stream=stream, number=first, where=self.name)
            fold = Fold.from_record(unpack_record(self._decoded(stream, first, line), self.records.get_blob))
            preview = None if _stands_alone(fold) else fold
            yield fold

    def _steps(self, items: Iterable[SeqRange | Fold], lines: Iterator[bytes]) -> Iterator[ViewStep]:
        for item in items:
            fold = item if isinstance(item, Fold) else None
            if fold is not None and _stands_alone(fold):
                yield fold, None
                continue
            first, last = seq_range(item)
            for number in count(first) if last == OPEN_END else range(first, last + 1):
                line = next(lines, None)
                if line is None:
                    if last == OPEN_END:
                        return
                    raise DamagedStore("no_record", stream="messages", number=number, where=self.name)
                yield fold, self._decoded("messages", number, line)


def _entries(walked: Iterable[ViewStep]) -> tuple[Entry, ...]:
    return tuple(entry_of(fold, record) for fold, record in walked)


def _stands_alone(item: SeqRange | Fold) -> bool:
    return isinstance(item, Fold) and item.form == "summary"


def _stream_ranges(folds: Sequence[Fold]) -> Iterator[StreamRange]:
    next_seq = 1
    for fold in folds:
        if next_seq < fold.start_seq:
            yield "messages", next_seq, fold.start_seq - 1
        yield "summaries", fold.id, fold.id
        if fold.form == "preview":
            yield "messages", fold.start_seq, fold.end_seq
        next_seq = fold.end_seq + 1
    yield "messages", next_seq, OPEN_END


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Numbers in their order as runs without a gap: the folds of a long task mostly stand side by side."""
    first = last = numbers[0]
    for number in numbers[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
