"""The conversation of a task as it is read on a page: some of it at a time, folds closed, at any place of the log.

A ``Stretch`` is so many items of a run: messages as they are, and summaries in the place of what they stand for. It
costs the same at the end of a log of 100,000 messages as at its beginning. What cannot be read is an item too: one
damaged message must not hide the others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from orihon.errors import DamagedStore, NoSuchMessage, OrihonError
from orihon.tasks.reader import Checkpoint, Ledger, Phase, StoredMessage, TaskReader
from orihon.transfer.export.story import StoryMessage
from orihon.values.records import Fold, Pin
from orihon.values.view import SeqRange, seq_range

#: Items that are read in one go.
ITEMS = 40
#: A tool's record is written about when its result is: so many further ones are looked at on either side.
_TOOLS_BESIDE = 24
_MOST_TOOLS = 400
_NO_LEDGER = Ledger()


@dataclass(frozen=True, slots=True)
class Closed:
    """A fold in the place of the messages that it stands for."""

    fold: Fold


@dataclass(frozen=True, slots=True)
class Broken:
    """A message that cannot be read, and why."""

    seq: int
    error: OrihonError


ConversationItem = StoryMessage | Closed | Broken | Phase | Checkpoint


@dataclass(frozen=True, slots=True)
class ConversationRange:
    """A run of the log and the folds that stand in it: the whole log, or what one fold holds."""

    first: int
    last: int
    folds: tuple[Fold, ...] = ()

    @property
    def summaries(self) -> tuple[Fold, ...]:
        return tuple(fold for fold in self.folds if fold.form == "summary")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Items that stand one after another, and the run of the log that they cover."""

    items: tuple[ConversationItem, ...]
    first: int
    last: int
    whole: ConversationRange

    @property
    def has_before(self) -> bool:
        return self.first > self.whole.first

    @property
    def has_after(self) -> bool:
        return self.last < self.whole.last


def inside(store: TaskReader, fold: Fold) -> ConversationRange:
    """What a fold holds: its messages, and the folds that it replaced."""
    return ConversationRange(
        fold.start_seq, fold.end_seq, tuple(sorted(store.folds(fold.replaces), key=lambda one: one.start_seq))
    )


def spans_before(run: ConversationRange, last: int, count: int) -> list[SeqRange | Fold]:
    """The last ``count`` items up to message ``last``, in their order."""
    summaries = run.summaries
    found: list[SeqRange | Fold] = []
    at, left = min(last, run.last), count
    while at >= run.first and left > 0:
        index = bisect_right(summaries, at, key=lambda fold: fold.start_seq) - 1
        before = summaries[index] if index >= 0 else None
        if before is not None and before.end_seq >= at:
            found.append(before)
            at, left = before.start_seq - 1, left - 1
            continue
        first = max(run.first, at - left + 1, 0 if before is None else before.end_seq + 1)
        found.append((first, at))
        at, left = first - 1, left - (at - first + 1)
    return found[::-1]


def spans_after(run: ConversationRange, first: int, count: int) -> list[SeqRange | Fold]:
    """The first ``count`` items from message ``first`` on; a fold that holds it comes whole."""
    summaries = run.summaries
    found: list[SeqRange | Fold] = []
    at, left = max(first, run.first), count
    while at <= run.last and left > 0:
        index = bisect_right(summaries, at, key=lambda fold: fold.start_seq) - 1
        here = summaries[index] if index >= 0 and summaries[index].end_seq >= at else None
        if here is not None:
            found.append(here)
            at, left = here.end_seq + 1, left - 1
            continue
        after = summaries[index + 1] if index + 1 < len(summaries) else None
        last = min(run.last, at + left - 1, run.last if after is None else after.start_seq - 1)
        found.append((at, last))
        at, left = last + 1, left - (last - at + 1)
    return found


@dataclass(frozen=True, slots=True)
class ConversationReader:
    """Reads stretches of one task."""

    store: TaskReader
    pins: Sequence[Pin] = ()
    ledger: Ledger = _NO_LEDGER

    def before(self, run: ConversationRange, last: int, count: int = ITEMS) -> Stretch:
        """What stands before, up to message ``last``."""
        return self._told(run, spans_before(run, last, count))

    def after(self, run: ConversationRange, first: int, count: int = ITEMS) -> Stretch:
        """What follows, from message ``first`` on."""
        return self._told(run, spans_after(run, first, count))

    def around(self, run: ConversationRange, seq: int, count: int = ITEMS) -> Stretch:
        """What stands about message ``seq``."""
        half = count // 2
        return self._told(run, [*spans_before(run, seq - 1, half), *_beyond(run, seq, count - half)])

    def _told(self, run: ConversationRange, spans: Sequence[SeqRange | Fold]) -> Stretch:
        if not spans:
            return Stretch((), run.first, run.first - 1, run)
        first, last = seq_range(spans[0])[0], seq_range(spans[-1])[1]
        return Stretch(tuple(self._items(run, spans)), first, last, run)

    def _items(self, run: ConversationRange, spans: Sequence[SeqRange | Fold]) -> Iterator[ConversationItem]:
        previews = {fold.start_seq: fold for fold in run.folds if fold.form == "preview"}
        pinned: dict[int, list[Pin]] = {}
        for pin in self.pins:
            pinned.setdefault(pin.seq, []).append(pin)
        phases = {phase.start_seq: phase for phase in self.ledger.phases}
        asked: dict[int, list[Checkpoint]] = {}
        for one in self.ledger.checkpoints:
            asked.setdefault(one.seq, []).append(one)
        messages = self._messages(spans)
        tools = self._tools(messages)
        for span in spans:
            if isinstance(span, Fold):
                yield Closed(span)
                held = (one for one in self.ledger.open if span.start_seq <= one.seq <= span.end_seq)
                yield from held  # what a person is asked is never out of sight
                continue
            for seq in range(span[0], span[1] + 1):
                if seq in phases:
                    yield phases[seq]
                found = messages.get(seq)
                if isinstance(found, OrihonError) or found is None:
                    yield Broken(seq, found or DamagedStore("no_record", stream="messages", number=seq, where="-"))
                else:
                    record = tools.get(found.message.answers or "")
                    yield StoryMessage(found, previews.get(seq), tuple(pinned.get(seq, ())), record)
                yield from asked.get(seq, ())

    def _messages(self, spans: Sequence[SeqRange | Fold]) -> dict[int, Any]:
        """The messages of the spans; where one cannot be read, its error."""
        try:
            records = (record for _, record in self.store.walk(spans) if record is not None)
            return {one.seq: one for one in map(self.store.stored, records)}
        except DamagedStore:
            runs = (range(span[0], span[1] + 1) for span in spans if not isinstance(span, Fold))
            return {seq: self._one(seq) for run in runs for seq in run}

    def _one(self, seq: int) -> Any:
        try:
            return self.store.message(seq)
        except NoSuchMessage:
            return None
        except OrihonError as error:
            return error

    def _tools(self, messages: dict[int, Any]) -> dict[str, dict[str, Any]]:
        """The records of the calls whose results are here, by the ids of the calls."""
        found = (one for one in messages.values() if isinstance(one, StoredMessage))
        times = [one.timestamp for one in found if one.message.answers]
        try:
            return self._tools_between(min(times), max(times)) if times else {}
        except DamagedStore:  # the conversation can be read without them
            return {}

    def _tools_between(self, first: str, last: str) -> dict[str, dict[str, Any]]:
        count = self.store.count("tools")
        low, high = 1, count + 1
        while low < high:  # records only come at the end, so their times do not go back
            middle = (low + high) // 2
            record = next(self.store.read("tools", middle, middle), {})
            low, high = (middle + 1, high) if str(record.get("timestamp", "")) < first else (low, middle)
        found: dict[str, dict[str, Any]] = {}
        begin, beyond = max(1, low - _TOOLS_BESIDE), 0
        for record in self.store.read("tools", begin, min(count, begin + _MOST_TOOLS)):
            beyond += str(record.get("timestamp", "")) > last
            if beyond > _TOOLS_BESIDE:
                break
            if record.get("call_id"):
                found[str(record["call_id"])] = record
        return found


def _beyond(run: ConversationRange, seq: int, count: int) -> list[SeqRange | Fold]:
    """What follows from ``seq`` on, without a fold that reaches over it from before: that one is told already."""
    found = spans_after(run, seq, count)
    if found and isinstance(found[0], Fold) and found[0].start_seq < seq:
        return found[1:]
    return found
