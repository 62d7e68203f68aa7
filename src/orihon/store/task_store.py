"""The heart: one task's log and its view, over any back end.

Owns numbering, tool pairs, masking, token counters and the claim. Everything that is written to a task passes
through here, and everything read comes out as values. Holds counters and open handles, never history: what the view
is made of is read from the records when somebody asks.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from orihon import jsonio
from orihon.clock import utc_now
from orihon.errors import (
    DamagedStore,
    IllegalTransition,
    InvalidInput,
    NoSuchMessage,
    StaleWriter,
    StateError,
    StorageError,
)
from orihon.guard import Redactor
from orihon.message import Message
from orihon.records import SUMMARY_PREFIX, Compression, Fold, Pin
from orihon.store.base import NUMBER_FIELD, Pieces, RecordStore, Stream
from orihon.store.call_ids import CallIds
from orihon.store.documents import load_document, save_document
from orihon.store.locks import ForkSafeLock
from orihon.store.packing import StoredMessage, pack, pack_record, unpack, unpack_record
from orihon.store.tail import Tail, calls_of, entry_of
from orihon.store.tool_pairs import admit
from orihon.view import View, layout, ordered
from orihon.wire import clean

logger = logging.getLogger("orihon.store")

Record = dict[str, Any]

#: How often a reader looks at the view's file before it takes a difference for what a crash has left.
_LOOKS = 3

#: Fields without which a record cannot be used.
_REQUIRED: dict[Stream, tuple[str, ...]] = {
    "messages": ("role", "content", "timestamp", "tokens", "epoch", "digest"),
    "summaries": ("start_seq", "end_seq", "summary", "summary_tokens", "original_tokens"),
    "tools": ("tool_name", "status"),
    "planning": ("plan_type", "plan_content"),
    "compressions": ("kind", "folds", "removed", "visible", "pins"),
}


class TaskStore:
    """Log and view of one task."""

    def __init__(
        self,
        records: RecordStore,
        redactor: Redactor,
        *,
        epoch: int | None = None,
        max_message_bytes: int = 64 << 20,
        blob_bytes: int = 1 << 20,
        name: str = "",
    ) -> None:
        self.records = records
        self.redactor = redactor
        self.name = name
        self.epoch = epoch
        self._lease_epoch = epoch
        self._max_bytes = max_message_bytes
        self._blob_bytes = blob_bytes
        self._lock = ForkSafeLock()
        self._writer_pid = 0
        self._tail: Tail | None = None
        self._saved_index = 0
        self._ended: str | None = None

    # ---- the log -----------------------------------------------------------------------------------------------

    def append(self, message: Message) -> int:
        """Add a message; its number is returned once it is stored."""
        messages = message.as_chat()
        if self.redactor.enabled:
            messages = tuple(one.map_strings(self.redactor.mask) for one in messages)
        with self.changing() as tail:
            admitted = admit(messages, tail, self._was_used)
            packed = [self._packed(one, seq) for seq, one in enumerate(admitted, start=tail.seq + 1)]
            self.records.append(
                "messages", tail.seq + 1, [line for line, _, _ in packed], [view_line for _, view_line, _ in packed]
            )
            for one, (_, _, tokens) in zip(admitted, packed, strict=True):
                calls = {call.id: call.name for call in one.tool_calls}
                tail.count(tail.seq + 1, calls, tokens)
                tail.show(calls, one.answers, tokens)
            return tail.seq

    def _packed(self, message: Message, seq: int) -> tuple[Pieces, bytes, int]:
        return pack(
            message,
            seq=seq,
            timestamp=utc_now(),
            epoch=self.epoch or 0,
            blob_bytes=self._blob_bytes,
            max_bytes=self._max_bytes,
            put_blob=self.records.put_blob,
        )

    def messages(self, first: int = 1, last: int | None = None) -> Iterator[StoredMessage]:
        """Messages of the log by number; one at a time in memory."""
        for record in self.read("messages", first, last):
            yield self._unpacked(record)

    def message(self, seq: int) -> StoredMessage:
        """One message of the log."""
        for stored in self.messages(seq, seq):
            return stored
        raise NoSuchMessage("seq", seq=seq, last=self.count("messages"))

    def _was_used(self, call_id: str) -> bool:
        needle = jsonio.encode(call_id)
        return any(
            call_id in calls_of(self._decoded("messages", number, line))
            for number, line in enumerate(self.records.read("messages"), start=1)
            if needle in line
        )

    # ---- other records -----------------------------------------------------------------------------------------

    def add(self, stream: Stream, fields: Mapping[str, Any]) -> int:
        """Add a record (masked) to a stream other than the log; returns its number."""
        record = self.redactor.clean(dict(fields))
        with self.changing():
            return self.add_inside(stream, record)

    def add_inside(self, stream: Stream, record: Mapping[str, Any]) -> int:
        """The same inside ``changing``, where several records belong together."""
        number = self.records.last(stream) + 1
        key = NUMBER_FIELD[stream]
        rest = {name: value for name, value in record.items() if name != key}
        line = pack_record(
            {key: number, **rest},
            blob_bytes=self._blob_bytes,
            max_bytes=self._max_bytes,
            put_blob=self.records.put_blob,
        )
        self.records.append(stream, number, [(line,)])
        return number

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
            record: Record = jsonio.decode(line)
            if record[NUMBER_FIELD[stream]] == number and all(field in record for field in _REQUIRED[stream]):
                calls_of(record)
                return record
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._damaged(stream, line) from error
        raise self._damaged(stream, line)

    def _unpacked(self, record: Record) -> StoredMessage:
        try:
            return unpack(record, self.records.get_blob)
        except (ValueError, TypeError, LookupError) as error:
            raise self._damaged("messages", jsonio.encode(record)) from error

    def _damaged(self, stream: Stream, line: bytes) -> DamagedStore:
        return DamagedStore("record", stream=stream, where=self.name, start=line[:40])

    # ---- the view ----------------------------------------------------------------------------------------------

    def state(self, compression: int | None = None) -> tuple[tuple[Fold, ...], tuple[Pin, ...]]:
        """The visible folds and the pins, as a compression record (the last one unless told) left them."""
        last = self.records.last("compressions") if compression is None else compression
        if last == 0:
            return (), ()
        found = next(self.read("compressions", last, last), None)
        if found is None:
            raise DamagedStore("no_record", stream="compressions", number=last, where=self.name)
        record = Compression.from_record(found)
        folds, last_seq = self.folds(record.visible), self.records.last("messages")
        reach = max((fold.end_seq for fold in folds), default=0)
        if reach > last_seq:
            raise DamagedStore("no_record", stream="messages", number=reach, where=self.name)
        return ordered(folds, last_seq), record.pins

    def folds(self, numbers: Sequence[int]) -> list[Fold]:
        """Folds by their numbers."""
        if not numbers:
            return []
        wanted = sorted(set(numbers))
        lines = self.records.read("summaries", *((number, number) for number in wanted))
        found = [
            Fold.from_record(unpack_record(self._decoded("summaries", number, line), self.records.get_blob))
            for number, line in zip(wanted, lines, strict=False)
        ]
        if len(found) < len(wanted):
            raise DamagedStore("no_record", stream="summaries", number=wanted[len(found)], where=self.name)
        return found

    def view(self) -> View:
        """The view as a value: what every entry is, not what it says."""
        return self.view_with(*self.state())

    def view_with(self, folds: Sequence[Fold], pins: Sequence[Pin]) -> View:
        """The view that these folds would make."""
        return View(tuple(entry_of(fold, record) for fold, record in self._walk(folds)), tuple(pins))

    def pages(self) -> tuple[View, list[Message]]:
        """The view, and what each of its entries says."""
        folds, pins = self.state()
        entries, messages = [], []
        for fold, record in self._walk(folds):
            entries.append(entry_of(fold, record))
            messages.append(self._shown(fold, record))
        return View(tuple(entries), tuple(pins)), messages

    def view_file(self) -> Path:
        """The file with the view, as the records say it is now; a writer's is put right on the way."""
        with self._lock:
            for _ in range(_LOOKS):  # another writer may be between its view and its log
                if (path := self.records.view_file(self.view_lines())) is not None:
                    return path
            self.claim()
            path = self.records.view_file(self.view_lines())
            assert path is not None  # a writer can always say
            return path

    def view_lines(self, folds: Sequence[Fold] | None = None) -> Iterator[bytes]:
        """The view (that these folds would make) as a request needs it: one provider-ready message per line."""
        for fold, record in self.walk() if folds is None else self._walk(folds):
            yield self.view_line(fold, record)

    def view_line(self, fold: Fold | None, record: Record | None) -> bytes:
        """One line of the view: a message, a fold, or the preview of a message."""
        if record is None:
            assert fold is not None
            return jsonio.encode({"role": "system", "content": SUMMARY_PREFIX + clean(fold.text)})
        return jsonio.encode(self._shown(fold, record).request())

    def _shown(self, fold: Fold | None, record: Record | None) -> Message:
        """What an entry says."""
        if record is None:
            assert fold is not None
            return Message("system", SUMMARY_PREFIX + fold.text)
        message = self._unpacked(record).message
        return message if fold is None else replace(message, content=fold.text, parts=None)

    def walk(self) -> Iterator[tuple[Fold | None, Record | None]]:
        """The entries of the current view with the records they are made of."""
        folds, _ = self.state()
        return self._walk(folds)

    def _walk(self, folds: Sequence[Fold], last_seq: int | None = None) -> Iterator[tuple[Fold | None, Record | None]]:
        """The entries of the view in order, with the records they are made of, read in one go."""
        items = list(layout(self.records.last("messages") if last_seq is None else last_seq, folds))
        spans = [_span(item) for item in items if not _stands_alone(item)]
        records = self.records.read("messages", *spans) if spans else iter(())
        for item in items:
            if isinstance(item, Fold) and _stands_alone(item):
                yield item, None
                continue
            fold = item if isinstance(item, Fold) else None
            first, last = _span(item)
            for number in range(first, last + 1):
                line = next(records, None)
                if line is None:
                    raise DamagedStore("no_record", stream="messages", number=number, where=self.name)
                yield fold, self._decoded("messages", number, line)

    # ---- counters ----------------------------------------------------------------------------------------------

    @property
    def tail(self) -> Tail:
        """The counters, as of now."""
        with self._lock:
            if self._tail is not None and self._writer_pid == os.getpid() and not self.records.many_writers:
                return self._tail  # nobody else can have written
            return self._read_tail()

    def _read_tail(self) -> Tail:
        """The counters, brought up to what the records say."""
        tail = self._tail
        # In this order: somebody may be writing, and a compression is about messages that were there before it.
        compressions, seq = self.records.last("compressions"), self.records.last("messages")
        if tail is None or compressions != tail.compressions or seq < tail.seq:
            tail = self._tail = self._load_tail(seq, compressions)
        elif seq > tail.seq:
            for record in self.read("messages", tail.seq + 1, seq):
                tail.count(record["seq"], calls_of(record), record["tokens"])
                tail.show(calls_of(record), record.get("tool_call_id"), record["tokens"])
        return tail

    def _load_tail(self, seq: int, compressions: int) -> Tail:
        tail = self._indexed_tail(seq)
        tail.compressions = compressions
        for record in self.read("messages", tail.seq + 1, seq):
            tail.count(record["seq"], calls_of(record), record["tokens"])
        folds, _ = self.state(compressions)
        for fold, view_record in self._walk(folds, seq):
            entry = entry_of(fold, view_record)
            tail.show({} if view_record is None else calls_of(view_record), entry.answers, entry.tokens)
        return tail

    def _indexed_tail(self, seq: int) -> Tail:
        """What the derived index saves us from reading again; nothing when it is missing or from another life."""
        index = load_document(self.records, "index")
        if not index or index["seq"] > seq:
            return Tail()
        return Tail(seq=index["seq"], log_tokens=index["log_tokens"], used_calls=CallIds.from_text(index["calls"]))

    def save_index(self) -> None:
        """Keep the counters that would otherwise have to be read from the whole log; inside ``changing``."""
        tail = self.tail
        if tail.seq != self._saved_index:
            calls = tail.used_calls.as_text()
            save_document(self.records, "index", {"seq": tail.seq, "log_tokens": tail.log_tokens, "calls": calls})
            self._saved_index = tail.seq

    # ---- the writer --------------------------------------------------------------------------------------------

    @contextmanager
    def changing(self) -> Iterator[Tail]:
        """The section in which this process, and nobody else, changes the task."""
        with self._lock:
            if self._ended is not None:
                raise IllegalTransition("closed", uuid=self.name, status=self._ended)
            if self._writer_pid != os.getpid():
                self._become_writer()
            try:
                with self.records.writing() as others_wrote:
                    tail = self._tail
                    yield self._read_tail() if tail is None or others_wrote else tail
            except StaleWriter:
                self._writer_pid = 0
                self._tail = None
                raise
            except (InvalidInput, StateError):
                raise  # refused before anything was written
            except BaseException:
                # What we hold may not be what the disk holds: claim and read again before the next change.
                self._writer_pid = 0
                self._tail = None
                raise

    def claim(self) -> None:
        """Become the writer now: whoever wrote before is refused from here on, and what a crash left is put right."""
        with self._lock:
            self._become_writer()

    def _become_writer(self) -> None:
        self.epoch, torn = self.records.claim(self.epoch)
        for tail in torn:
            logger.warning(
                "%s: the last record of %s was unfinished (%d bytes); it is kept in %s",
                self.name,
                tail.stream,
                tail.size,
                tail.kept_in,
            )
        self._tail = None
        with self.records.writing(), self.records.sync_view(self.view_lines(), accounted=self.most_entries()):
            pass
        self._writer_pid = os.getpid()

    def most_entries(self) -> int:
        """Entries that a kept view may have: a crash can have come between the last compression and its view."""
        last_seq, last = self.records.last("messages"), self.records.last("compressions")
        states = [self.state(number)[0] for number in range(max(last - 1, 0), last + 1)]
        return max(last_seq - sum(fold.message_count - 1 for fold in folds) for folds in states)

    def close(self) -> None:
        """Let go of the task; a later change claims it again."""
        with self._lock:
            try:
                if self._writer_pid == os.getpid():
                    with suppress(StaleWriter), self.changing():
                        self.save_index()
            except StorageError as error:  # the index is derived: it is made anew when it is missed
                logger.warning("%s: the index was not saved: %s", self.name, error)
            self.records.close()
            self.epoch = self._lease_epoch
            self._writer_pid = 0
            self._tail = None

    def end(self, status: str, folder: Path) -> None:
        """The task has ended (or pauses) and lies in ``folder`` now: it can be read here, no longer changed."""
        with self._lock:
            self._ended = status
            self.records.moved_to(folder)


def _stands_alone(item: tuple[int, int] | Fold) -> bool:
    return isinstance(item, Fold) and item.form == "summary"


def _span(item: tuple[int, int] | Fold) -> tuple[int, int]:
    return (item.start_seq, item.end_seq) if isinstance(item, Fold) else item
