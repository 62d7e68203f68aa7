"""A cache of what the timeline of a task is drawn from, while the server runs: read once, then only what is new.

For each message the tokens of the log up to it; for each change of the view what it did, and how long the log was. The
numbers are those of the records, so each point is exact. Some tasks are kept, those that were read last.
"""

from __future__ import annotations

import re
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from orihon.tasks.reader import TaskReader, length_at
from orihon.tasks.view_reader import ViewState
from orihon.values.records import Compression, Fold

_MOST_TASKS = 32
_TOKENS = re.compile(rb',"tokens":([0-9]{1,15}),"epoch":[0-9]')


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """A change of the view on the timeline: made when the log was ``seq`` long."""

    record: Compression  # without what was visible and pinned after it: that is long, and read when it is asked for
    seq: int

    @property
    def id(self) -> int:
        return self.record.id


@dataclass(frozen=True, slots=True)
class Point:
    """The tokens of the view when the log ended at ``seq``."""

    seq: int
    tokens: int


class TaskMemory:
    """One task's figures, as far as they have been read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._sums = array("q", [0])  # tokens of the log up to each message
        self._digest = ""  # of the last message that was read: another log has another one
        self._hidden = 0  # messages that do not stand for themselves
        self._lengths: dict[int, int] = {}  # of every fold: messages less one
        self._state: tuple[int, ViewState] | None = None
        self.changes: list[ChangeMark] = []
        self.origins: dict[int, ChangeMark] = {}

    @property
    def last_seq(self) -> int:
        return len(self._sums) - 1

    def follow_changes(self, store: TaskReader) -> None:
        """Read the changes that are new."""
        with self._lock:
            self._forget_another_log(store)
            self._read_changes(store)

    def follow(self, store: TaskReader) -> None:
        """Read what is new. In this order: a change is about messages that were there before it."""
        with self._reading:  # who wants the changes alone does not wait for a long log
            self.follow_changes(store)
            self._read_messages(store)

    def state(self, store: TaskReader, compression: int) -> ViewState:
        """The folds and pins after a change; those of the last one are kept, for thousands of folds take their time.

        The memory has followed the changes already.
        """
        with self._lock:
            if self._state is None or self._state[0] != compression:
                found = store.state(compression)
                if compression != len(self.changes):
                    return found
                self._state = (compression, found)
            return self._state[1]

    def change_at(self, seq: int) -> int:
        """The last change up to step ``seq``; 0 when there is none."""
        return bisect_right(self.changes, seq, key=lambda change: change.seq)

    def tokens_at(self, seq: int) -> int:
        """The tokens of the view after message ``seq`` and the changes that were made before the next one."""
        index = self.change_at(seq) - 1
        if index < 0:
            return self._sums[seq]
        change = self.changes[index]
        return change.record.after_tokens + self._sums[seq] - self._sums[min(change.seq, self.last_seq)]

    def points(self, first: int, last: int, most: int) -> list[Point]:
        """The line between two messages. Between changes it only rises: with its ends and theirs nothing is lost."""
        changes = self.changes_in(first, last)
        if len(changes) > most // 3:
            changes = sorted(sorted(changes, key=_drop)[: most // 3], key=lambda change: (change.seq, change.id))
        steps = max(2, most - 2 * len(changes))
        seqs = sorted({first + round(step * (last - first) / (steps - 1)) for step in range(steps)})
        points = [(seq, 0, 0, self._before_changes(seq)) for seq in seqs]
        points += [(change.seq, change.id, 1, change.record.before_tokens) for change in changes]
        points += [(change.seq, change.id, 2, change.record.after_tokens) for change in changes]
        return [Point(seq, tokens) for seq, _, _, tokens in sorted(points)]

    def changes_in(self, first: int, last: int) -> list[ChangeMark]:
        """The changes that were made when the log was so long."""
        start = bisect_right(self.changes, first - 1, key=lambda change: change.seq)
        return self.changes[start : bisect_right(self.changes, last, key=lambda change: change.seq)]

    def _before_changes(self, seq: int) -> int:
        """The tokens when message ``seq`` had just come."""
        return self.tokens_at(seq - 1) + self._sums[seq] - self._sums[seq - 1] if seq else 0

    def _read_messages(self, store: TaskReader) -> None:
        sums = self._sums
        first, last = len(sums), store.count("messages")
        if last < first:
            return
        total = sums[-1]
        new = array("q")
        for seq, line in enumerate(store.records.read("messages", (first, last)), start=first):
            tokens = _tokens_in(line)
            total += _read_tokens(store, seq) if tokens is None else tokens
            new.append(total)
        if not new:
            return
        last = first + len(new) - 1
        digest = str(next(store.read("messages", last, last))["digest"])
        with self._lock:
            if sums is self._sums:  # nobody has found out meanwhile that this is another log
                sums.extend(new)
                self._digest = digest

    def _read_changes(self, store: TaskReader) -> None:
        last = store.count("compressions")
        if last == len(self.changes):
            return
        for record in store.read("summaries", len(self._lengths) + 1):
            self._lengths[record["id"]] = (record["end_seq"] or 0) - (record["start_seq"] or 0)
        for record in store.read("compressions", len(self.changes) + 1, last):
            self._add(store, Compression.from_record(record))

    def _add(self, store: TaskReader, record: Compression) -> None:
        self._hidden += self._messages_in(record.folds) - self._messages_in(record.removed)
        known = record.after_entries
        seq = length_at(store, record) if known is None else known + self._hidden
        mark = ChangeMark(replace(record, visible=(), pins=()), seq)
        self.changes.append(mark)
        for number in record.folds:
            self.origins.setdefault(number, mark)

    def _messages_in(self, folds: Sequence[int]) -> int:
        return sum(self._lengths.get(number, 0) for number in folds)

    def _forget_another_log(self, store: TaskReader) -> None:
        """A task that was put back from a backup is not the one that was read."""
        if self._is_same(store):
            return
        self._sums = array("q", [0])
        self._digest, self._hidden, self._lengths = "", 0, {}
        self.changes, self.origins, self._state = [], {}, None

    def _is_same(self, store: TaskReader) -> bool:
        if self.changes:
            mine = self.changes[-1]
            last = next(store.read("compressions", mine.id, mine.id), None)
            if last is None or last.get("created_at") != mine.record.created_at:
                return False
        if not self.last_seq:
            return True
        newest = next(store.read("messages", self.last_seq, self.last_seq), None)
        return newest is not None and newest["digest"] == self._digest


def bands(folds: Sequence[Fold], first: int, last: int, most: int) -> Iterator[Fold]:
    """The folds that reach into a run; of too many, those that stand for most."""
    found = [fold for fold in folds if fold.start_seq <= last and fold.end_seq >= first]
    if len(found) > most:
        found = sorted(found, key=lambda fold: fold.tokens - fold.original_tokens)[:most]
    return iter(sorted(found, key=lambda fold: fold.start_seq))


def _tokens_in(line: bytes) -> int | None:
    """The tokens of a message's line, which stand behind all that was said; a long log is not taken apart for them."""
    found = _TOKENS.match(line, line.rfind(b',"tokens":'))
    return None if found is None else int(found[1])


def _read_tokens(store: TaskReader, seq: int) -> int:
    return int(next(store.read("messages", seq, seq))["tokens"])


def _drop(change: ChangeMark) -> int:
    return -abs(change.record.before_tokens - change.record.after_tokens)


class Memories:
    """The tasks that were looked at last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Path, str], TaskMemory] = OrderedDict()

    def of(self, base: Path, uuid: str) -> TaskMemory:
        with self._lock:
            memory = self._kept.setdefault((base, uuid), TaskMemory())
            self._kept.move_to_end((base, uuid))
            while len(self._kept) > _MOST_TASKS:
                self._kept.popitem(last=False)
            return memory


MEMORIES = Memories()
