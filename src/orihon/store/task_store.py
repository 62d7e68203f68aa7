"""The heart: one task's log and its view, over any back end.

Owns numbering, tool pairs, masking, token counters and the claim. Everything that is written to a task passes
through here. Holds counters and open handles, never history.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from orihon.errors import IllegalTransition, InvalidInput, StaleWriter, StateError, StorageError
from orihon.guard import Redactor
from orihon.store.call_ids import CallIds
from orihon.store.contract import NUMBER_FIELD, REQUEST, LostRace, RecordStore, Stream
from orihon.store.documents import load_document, save_document
from orihon.store.locks import ForkSafeLock
from orihon.store.reader import TaskReader
from orihon.store.record_codec import PackedRecord, Said, pack, pack_record
from orihon.store.tail import Tail, calls_of, entry_of
from orihon.store.take_over import remove_former
from orihon.store.tool_pairs import admit
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.system.files import remove_abandoned, remove_leftovers
from orihon.values.message.message import Message
from orihon.values.records import ModelCall
from orihon.values.view import layout

logger = logging.getLogger("orihon.store")

_Result = TypeVar("_Result")
#: Hears what was done, how it ended (``OK``, or the name of an error), and figures about it.
StoreObserver = Callable[[str, str, Mapping[str, Any]], None]
OK = "ok"

#: How often a reader looks at the view's file before it takes a difference for what a crash has left.
_LOOKS = 3


class StoreMember(Protocol):
    """The place of a store in its base: told when somebody begins and ends to write."""

    def joined(self, store: TaskStore) -> None:
        """This process writes from now on."""

    def left(self, store: TaskStore) -> None:
        """It does no longer."""


class TaskStore(TaskReader):
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
        super().__init__(records, name)
        self.redactor = redactor
        self.epoch = epoch
        self._lease_epoch = epoch
        self.max_bytes = max_message_bytes
        self.blob_bytes = blob_bytes
        self._lock = ForkSafeLock()
        self._writer_pid = 0
        self._tail: Tail | None = None
        self._saved_index = 0
        self._ended: str | None = None
        self._roles: Counter[str] = Counter()
        self.observer: StoreObserver | None = None  # of everything that was done here; see ``notify``
        self.member: StoreMember | None = None  # of a base, for a store that was opened by its folder

    # ---- the log -----------------------------------------------------------------------------------------------

    def append(
        self,
        said: Message | Iterable[Said],
        *,
        call: ModelCall | None = None,
        tool: Mapping[str, Any] | None = None,
        stored: Callable[[Said, int], None] | None = None,
    ) -> int:
        """Add a message, or several, all of them or none; the number of the last is returned once they are stored.

        ``tool`` is the record of a tool call that belongs to them. ``stored`` is told each message as the log has it,
        and its tokens, once they are stored.
        """
        masked = self._masked([Said(said, call=call)] if isinstance(said, Message) else said)
        record = None if tool is None else self.redactor.clean(dict(tool))
        sure = False
        while True:
            try:
                with self._section(sure=sure) as tail:
                    packed = self._packed(masked, tail)
                    # The tool's record first: where a crash leaves one of the two, the message is not there yet.
                    belongs = {"message": tail.seq + len(packed.lines)}
                    number = 0 if record is None else self._add_all("tools", [{**record, **belongs}])
                    self.records.append("messages", tail.seq + 1, packed.lines, packed.view_lines)
                    packed.count_in(tail)
                    last = tail.seq
                break
            except LostRace:
                sure = True  # see ``change``
        self._roles.update([one.message.role for one in masked])
        self.notify("append", OK, seq=last, messages=len(masked))
        if number:
            self.notify("write", OK, stream="tools", number=number)
        if stored is not None:
            for one, size in zip(masked, packed.tokens, strict=True):
                stored(one, size)
        return last

    def append_inside(self, message: Message, tail: Tail) -> int:
        """One message inside ``change``, where a record and a message belong together."""
        masked = self._masked([Said(message)])
        packed = self._packed(masked, tail)
        self.records.append("messages", tail.seq + 1, packed.lines, packed.view_lines)
        packed.count_in(tail)
        self._roles.update([one.message.role for one in masked])
        return tail.seq

    def notify(self, action: str, result: str, **details: Any) -> None:
        """Say what was done to the task, in words and numbers that hold nothing of its contents."""
        if self.observer is not None:
            self.observer(action, result, details)

    def take_roles(self) -> dict[str, int]:
        """How many messages of which role were added here since the last time; for the metrics."""
        taken, self._roles = self._roles, Counter()
        return dict(taken)

    def _masked(self, said: Iterable[Said]) -> Sequence[Said]:
        """As the log keeps them; one message may become several, the first of which has the call."""
        mask = self.redactor.mask if self.redactor.enabled else None
        result = []
        for one in said:
            call = one.call if one.call is None or mask is None else replace(one.call, model=mask(one.call.model))
            for message in one.message.as_chat():
                kept = message if mask is None else message.map_strings(mask)
                if kept is one.message and call == one.call:
                    result.append(one)
                else:
                    encoded = one.encoded if kept is one.message else None
                    result.append(Said(kept, one.timestamp, call, encoded))
                call = None
        return result

    def _packed(self, said: Sequence[Said], tail: Tail) -> PackedRecord:
        """What the records get; refuses what must not stand after the messages that are there."""
        packed = PackedRecord(admit([one.message for one in said], tail, self._was_used))
        for message, one in zip(packed.messages, said, strict=True):
            line, view_line, tokens = pack(
                message,
                seq=tail.seq + len(packed.lines) + 1,
                timestamp=one.timestamp or utc_now(),
                call=one.call,
                epoch=self.epoch or 0,
                blob_bytes=self.blob_bytes,
                max_bytes=self.max_bytes,
                put_blob=self.records.put_blob,
                encoded=one.encoded if message is one.message else None,
            )
            packed.lines.append(line)
            packed.view_lines.append(view_line)
            packed.tokens.append(tokens)
        return packed

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
        number = self.change(lambda tail: self._add_all(stream, [record]))
        self.notify("write", OK, stream=stream, number=number)
        return number

    def add_many(self, stream: Stream, records: Sequence[Mapping[str, Any]]) -> None:
        """Add several (masked), all of them or none."""
        cleaned = [self.redactor.clean(dict(fields)) for fields in records]
        if cleaned:
            last = self.change(lambda tail: self._add_all(stream, cleaned))
            self.notify("write", OK, stream=stream, number=last, records=len(cleaned))

    def add_inside(self, stream: Stream, *records: Mapping[str, Any], masked: bool = False) -> int:
        """The same inside ``change``, where several records belong together; masked here, too.

        ``masked``: the caller has done so, with those fields that are somebody's words and no names of anything.
        """
        return self._add_all(stream, [dict(one) if masked else self.redactor.clean(dict(one)) for one in records])

    def _add_all(self, stream: Stream, records: Sequence[Mapping[str, Any]]) -> int:
        first = self.records.last(stream) + 1
        key = NUMBER_FIELD[stream]
        lines = [
            pack_record(
                {key: number, **{name: value for name, value in record.items() if name != key}},
                blob_bytes=self.blob_bytes,
                max_bytes=self.max_bytes,
                put_blob=self.records.put_blob,
            )
            for number, record in enumerate(records, start=first)
        ]
        self.records.append(stream, first, [(line,) for line in lines])
        return first + len(lines) - 1

    # ---- the view's file ------------------------------------------------------------------------------------------

    def view_file(self) -> Path:
        """The file with the view, as the records say it is now; a writer's is put right on the way."""
        with self._lock:
            kept = self.records.kept_view
            if kept is None:
                return self.records.write_out("current.jsonl", self.view_lines())
            for _ in range(_LOOKS):  # another writer may be between its view and its log
                if (path := kept.view_file(self.view_lines())) is not None:
                    return path
            self.claim()
            path = kept.view_file(self.view_lines())
            assert path is not None  # a writer can always say
            return path

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
        compressions, seq = self.records.lasts("compressions", "messages")
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
        folds, _ = self._state(compressions, seq)
        for fold, view_record in self.walk(layout(seq, folds)):
            entry = entry_of(fold, view_record)
            tail.show({} if view_record is None else calls_of(view_record), entry.answers, entry.tokens)
        return tail

    def _indexed_tail(self, seq: int) -> Tail:
        """What the derived index saves us from reading again; nothing when it is missing or from another life."""
        index = load_document(self.records, "index")
        try:
            if not index or index["seq"] > seq:
                return Tail()
            return Tail(seq=index["seq"], log_tokens=index["log_tokens"], used_calls=CallIds.from_text(index["calls"]))
        except (KeyError, TypeError, ValueError):
            return Tail()

    def save_index(self) -> None:
        """Keep the counters that would otherwise have to be read from the whole log; inside ``change``."""
        tail = self.tail
        if tail.seq != self._saved_index:
            calls = tail.used_calls.as_text()
            save_document(self.records, "index", {"seq": tail.seq, "log_tokens": tail.log_tokens, "calls": calls})
            self._saved_index = tail.seq

    # ---- the writer --------------------------------------------------------------------------------------------

    def change(self, body: Callable[[Tail], _Result]) -> _Result:
        """Run ``body`` where this process, and nobody else, changes the task; again when another was quicker.

        What it does besides writing to the task must bear being done twice.
        """
        sure = False
        while True:
            try:
                with self._section(sure=sure) as tail:
                    return body(tail)
            except LostRace:
                sure = True  # who has lost once keeps the others away, or it might lose for ever

    @contextmanager
    def changing(self) -> Iterator[Tail]:
        """The same for who cannot repeat what it does: others are kept away all the time, which costs more."""
        try:
            with self._section(sure=True) as tail:
                yield tail
        except LostRace as lost:
            if lost.because is None:
                raise
            raise lost.because from lost

    @contextmanager
    def _section(self, *, sure: bool) -> Iterator[Tail]:
        with self._lock:
            if self._ended is not None:
                raise IllegalTransition("closed", uuid=self.name, status=self._ended)
            if self._writer_pid != os.getpid():
                self._become_writer()
            before: Tail | None = None
            try:
                with self.records.writing(sure=sure) as others_wrote:
                    tail = self._tail
                    if tail is None or others_wrote:
                        tail = self._read_tail()
                    if self.records.many_writers:
                        before = tail.copy()
                    yield tail
            except LostRace:
                self._tail = before
                self._saved_index = 0
                raise
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
                self._saved_index = 0
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
        self._tidy_up()
        self._tail = None
        if (kept := self.records.kept_view) is not None:
            with self.records.writing(), kept.sync_view(self.view_lines(), all_lines=self.all_lines):
                pass
        self._writer_pid = os.getpid()
        if self.member is not None:
            self.member.joined(self)

    def _tidy_up(self) -> None:
        """Remove what writers that were killed had not finished: nothing of it was ever acknowledged."""
        try:
            remove_former(self.records.folder)
            removed = remove_leftovers(self.records.folder) + remove_abandoned(self.records.folder / REQUEST)
        except StorageError as error:
            logger.warning("%s: what a killed process has left is still there: %s", self.name, error)
            return
        if removed.files:
            logger.info("%s: removed %d unfinished files (%d bytes)", self.name, removed.files, removed.bytes)

    def close(self) -> None:
        """Let go of the task; a later change claims it again."""
        with self._lock:
            try:
                if self._writer_pid == os.getpid():
                    self.notify("close", OK)
                    with suppress(StaleWriter):
                        self.change(lambda tail: self.save_index())
            except StorageError as error:  # the index is derived: it is made anew when it is missed
                logger.warning("%s: the index was not saved: %s", self.name, error)
            if self.member is not None:
                self.member.left(self)
            self.records.close()
            self.epoch = self._lease_epoch
            self._writer_pid = 0
            self._tail = None

    def begin_again(self, epoch: int, folder: Path) -> None:
        """The task that was ended here goes on with a new lease, in the folder where it lies now."""
        with self._lock:
            self.records.moved_to(folder)
            self.epoch = self._lease_epoch = epoch
            self._ended = None
            self._become_writer()

    def end(self, status: str, folder: Path) -> None:
        """The task has ended (or pauses) and lies in ``folder`` now: it can be read here, no longer changed."""
        with self._lock:
            self._ended = status
            self.records.moved_to(folder)
