"""What a task has recorded, as plain objects for JSON: ``orihon show --json`` prints them, the API sends them in pages.

Owns how records look to programs. Only reads, one record at a time.

A task's messages as they come: ``follow_messages``. For people who watch an agent work.

Polls the log and never claims anything; the folder may move meanwhile. Ends when the task has.

What one change did to a view: the entries that went, those that came in their place, and the tokens.

A change is any record of ``compressions.jsonl``: a compression, its undoing, an opened fold, a pin. Only reads. Held in
memory is what the change is about, not the whole view.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from orihon.audit.trail import audit_of
from orihon.catalogue import TaskRow
from orihon.errors import NothingToUndo, StorageUnavailable, TaskNotFound
from orihon.settings import Settings
from orihon.store.contract import Stream
from orihon.store.record_codec import StoredMessage
from orihon.store.steps import length_at
from orihon.store.task_store import TaskStore
from orihon.system.json_shapes import AsJson, MayMiss, shape
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import Choice, FollowedTask, chosen_messages, chosen_records, read_anew, reading_task
from orihon.tasks.view_reader import ShownEntry, UndoableCompression, ViewReading, ViewStatistics, reading_view
from orihon.values.records import Compression, Fold, Pin
from orihon.values.task import FINISHED, TaskStatus

#: What can be asked for besides messages and folds, and the stream that it is read from.
_STREAMS: Mapping[str, Stream] = {"summaries": "summaries", "tools": "tools", "plans": "planning"}
#: By which field the next page is asked for. Folds of the view have a place in the log, not one in a row of numbers.
_NUMBERS = {"messages": "seq", "summaries": "id", "tools": "seq", "plans": "id", "folds": "start_seq"}
KINDS = tuple(_NUMBERS)
#: What each of them looks like.
RECORDS: Mapping[str, Any] = {
    "messages": StoredMessage,
    "summaries": Fold,
    "tools": shape(
        seq=int,
        tool_name=str,
        arguments=Any,
        result=Any,
        status=str,
        error=MayMiss(str | None),
        duration_ms=MayMiss(float | None),
        timestamp=str,
        call_id=MayMiss(str),
    ),
    "plans": shape(id=int, plan_type=str, plan_content=Any, created_at=str),
    "folds": Fold,
}


def recorded(
    store: TaskStore, row: TaskRow | None, settings: Settings, name: str, choice: Choice
) -> Iterator[dict[str, Any]]:
    """The records of one of ``KINDS`` that were chosen, in order; of the view's folds all of them."""
    if name == "messages":
        return (stored.as_dict() for stored in chosen_messages(store, choice))
    if name == "folds":
        return (fold.as_dict() for fold in ViewReading(store, row, settings).folds)
    return chosen_records(store, _STREAMS[name], choice)


@read_anew
def record_page(base: OpenBase, task: str, name: str, choice: Choice, limit: int) -> dict[str, Any]:
    """The first ``limit`` of them; ``next`` is where the next page begins, ``None`` behind the last one.

    ``task`` is named as ``task_name`` says. Folds are chosen by the messages that they begin with.
    """
    uuid = _uuid(base, task)
    with reading_task(base, uuid) as (store, row):
        found = recorded(store, row, base.settings, name, choice)
        if name == "folds":
            found = _begun_in(found, choice)
        return {"task": uuid, **_cut(found, name, limit)}


@read_anew
def view_page(base: OpenBase, task: str, *, at: int | None = None, first: int = 1, limit: int) -> dict[str, Any]:
    """The view as it is, or was ``at`` a step, from message ``first`` on, and where the next page begins."""
    uuid = _uuid(base, task)
    with reading_view(base, uuid, at=at) as reading:
        entries = list(islice(reading.entries(first), limit + 1))
        following = entries[limit].entry.start if len(entries) > limit else None
        return {
            **reading.head().as_dict(),
            "view": entries[:limit],
            "next": following,
        }


@read_anew
def compression_page(base: OpenBase, task: str, *, first: int = 1, limit: int) -> dict[str, Any]:
    """Every change of the view from number ``first`` on, oldest first, and where the next page begins."""
    uuid = _uuid(base, task)
    with reading_view(base, uuid) as reading:
        found = (UndoableCompression(*one) for one in reading.compressions() if one[0].id >= first)
        some = list(islice(found, limit + 1))
    following = some[limit].record.id if len(some) > limit else None
    return {"task": uuid, "compressions": some[:limit], "next": following}


def _cut(found: Iterator[dict[str, Any]], name: str, limit: int) -> dict[str, Any]:
    some = list(islice(found, limit + 1))
    following = some[limit][_NUMBERS[name]] if len(some) > limit else None
    return {name: some[:limit], "next": following}


def _begun_in(folds: Iterator[dict[str, Any]], choice: Choice) -> Iterator[dict[str, Any]]:
    end = float("inf") if choice.last is None else choice.last
    inside = [fold for fold in folds if choice.first <= fold["start_seq"] <= end]
    return iter(inside if choice.newest is None else inside[-choice.newest :])


def _uuid(base: OpenBase, task: str) -> str:
    return base.resolve(task)


SECONDS_BETWEEN_LOOKS = 0.25
_OVER = FINISHED | {TaskStatus.ARCHIVED}


def follow_messages(
    base: OpenBase,
    uuid: str,
    *,
    after: int,
    wait: Callable[[float], object] = time.sleep,
) -> Iterator[StoredMessage]:
    """The messages numbered above ``after``, each as soon as it is there, until the task is over."""
    audit_of(base.path, base.settings).record("read", uuid, details={"after": after})
    with closing(FollowedTask(base, uuid)) as task:
        while True:
            row = task.row()  # before the look at the log, so that nothing said before the end is missed
            for stored in _new_messages(task, after):
                after = stored.seq
                yield stored
            if row is None or row.status in _OVER:
                return
            wait(SECONDS_BETWEEN_LOOKS)


def _new_messages(task: FollowedTask, after: int) -> Iterator[StoredMessage]:
    """Those that are there now; none while the folder is on its way somewhere."""
    with suppress(TaskNotFound, StorageUnavailable, FileNotFoundError):
        store = task.store()
        if store is not None and store.count("messages") > after:
            yield from store.messages(after + 1)


@dataclass(frozen=True, slots=True)
class Hunk(AsJson):
    """A run of the log that stands otherwise in the view than before."""

    start_seq: int
    end_seq: int
    gone: tuple[ShownEntry, ...]
    come: tuple[ShownEntry, ...]


@dataclass(frozen=True, slots=True)
class ViewDiff(AsJson):
    """A view before and after one change of it."""

    json_fields = "task=uuid *"

    uuid: str
    compression: Compression
    last_seq: int  # how long the log was then
    before: ViewStatistics
    after: ViewStatistics
    hunks: tuple[Hunk, ...]
    pinned: tuple[Pin, ...]
    unpinned: tuple[Pin, ...]


@read_anew
def view_diff(base: OpenBase, task: str, compression: int | None = None) -> ViewDiff:
    """What a change did, by its number; without one, what the last change did that came or went with folds."""
    uuid = base.resolve(task)
    with reading_task(base, uuid) as (store, row):
        record = _wanted(store, compression)
        reading = ViewReading(store, row, base.settings)
        last_seq = length_at(store, record)
        before, after = (reading.as_of(number, last_seq) for number in (record.id - 1, record.id))
        return ViewDiff(
            uuid,
            record,
            last_seq,
            before.figures(),
            after.figures(),
            tuple(_hunk(before, after, first, last) for first, last in changed_runs(before.folds, after.folds)),
            pinned=tuple(pin for pin in after.pins if pin not in before.pins),
            unpinned=tuple(pin for pin in before.pins if pin not in after.pins),
        )


def _wanted(store: TaskStore, number: int | None) -> Compression:
    last = store.count("compressions")
    if number is not None and not 1 <= number <= last:
        raise NothingToUndo("no_compression", compression=number, last=last)
    for candidate in [number] if number is not None else range(last, 0, -1):
        record = Compression.from_record(next(store.read("compressions", candidate, candidate)))
        if number is not None or record.folds or record.removed:
            return record
    raise NothingToUndo("no_compressions", where=store.name)


def _hunk(before: ViewReading, after: ViewReading, first: int, last: int) -> Hunk:
    return Hunk(first, last, tuple(before.entries(first, last)), tuple(after.entries(first, last)))


def changed_runs(before: Iterable[Fold], after: Iterable[Fold]) -> list[tuple[int, int]]:
    """Where the folds differ: runs of the log, in order, that neither view cuts in two."""
    changed = sorted((fold.start_seq, fold.end_seq) for fold in set(before) ^ set(after))
    runs: list[tuple[int, int]] = []
    for start, end in changed:
        if runs and start <= runs[-1][1]:
            runs[-1] = (runs[-1][0], max(end, runs[-1][1]))
        else:
            runs.append((start, end))
    return runs
