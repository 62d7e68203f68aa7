"""Steps of a task: what its view was when its log ended at some message, and where the log may be cut in two.

A step is named by the number of the message that was the last one then. What was folded, opened or pinned before the
next message came belongs to it. Nothing about steps is kept: a compression's record says how many entries the view had
after it and which folds were visible, and that gives the length of the log at that moment.
"""

from __future__ import annotations

from collections.abc import Sequence

from orihon.errors import NoSuchMessage, ToolCallError
from orihon.store.reader import TaskReader
from orihon.store.tail import calls_of
from orihon.values.records import Compression, Fold


def check_step(store: TaskReader, seq: int) -> None:
    """Refuse a step that the log does not have, or that stands between tool calls and their results."""
    last = store.count("messages")
    if not 1 <= seq <= last:
        raise NoSuchMessage("seq", seq=seq, last=last)
    head, waiting = _open_batch(store, seq)
    if not waiting:
        return
    for record in store.read("messages", seq + 1, last):
        waiting.discard(record.get("tool_call_id", ""))
        if not waiting:
            raise ToolCallError("cut", seq=seq, calls=head, before=head - 1, after=record["seq"])
    raise ToolCallError("cut_open", seq=seq, calls=head, before=head - 1)


def _open_batch(store: TaskReader, seq: int) -> tuple[int, set[str]]:
    """The message whose calls ``seq`` belongs to, and those of its calls that are not answered up to there."""
    answered: set[str] = set()
    for number in range(seq, 0, -1):
        record = next(store.read("messages", number, number))
        if record["role"] != "tool":
            return number, set(calls_of(record)) - answered
        answered.add(record.get("tool_call_id", ""))
    return 1, set()


def compression_at(store: TaskReader, seq: int, last: int | None = None) -> int:
    """The last compression up to step ``seq`` (and not after the one numbered ``last``); 0 when there is none."""
    after = next(store.read("messages", seq + 1, seq + 1), None)
    first_beyond = None if after is None else str(after["timestamp"])
    low, high = 0, store.count("compressions") if last is None else last
    while low < high:  # the log only grows, so the places of compressions do
        middle = (low + high + 1) // 2
        record = Compression.from_record(next(store.read("compressions", middle, middle)))
        if _is_within(record, store.folds(record.visible), seq, first_beyond):
            low = middle
        else:
            high = middle - 1
    return low


def length_at(store: TaskReader, record: Compression) -> int:
    """How long the log was when a compression was made."""
    visible = store.folds(record.visible)
    if record.after_entries is not None:
        return record.after_entries + sum(fold.message_count - 1 for fold in visible)
    low, high = _reach(record, visible), store.count("messages")
    while low < high:  # as below: the clock has to tell
        middle = (low + high + 1) // 2
        if str(next(store.read("messages", middle, middle))["timestamp"]) <= record.created_at:
            low = middle
        else:
            high = middle - 1
    return low


def _is_within(record: Compression, visible: Sequence[Fold], seq: int, first_beyond: str | None) -> bool:
    """Was the compression made when the log was not longer than ``seq``?"""
    if record.after_entries is not None:
        return record.after_entries + sum(fold.message_count - 1 for fold in visible) <= seq
    # Of a record from before entries were counted, what it is about and the clock have to tell.
    return _reach(record, visible) <= seq and (first_beyond is None or record.created_at < first_beyond)


def _reach(record: Compression, visible: Sequence[Fold]) -> int:
    """The last message that a compression is about."""
    return max([fold.end_seq for fold in visible] + [pin.seq for pin in record.pins], default=0)
