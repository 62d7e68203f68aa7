"""What one change did to a view: the entries that went, those that came in their place, and the tokens.

A change is any record of ``compressions.jsonl``: a compression, its undoing, an opened fold, a pin. Only reads. Held in
memory is what the change is about, not the whole view.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orihon.errors import NothingToUndo
from orihon.store.steps import length_at
from orihon.store.task_store import TaskStore
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import reading_task
from orihon.tasks.view_reader import ShownEntry, ViewReading, ViewStatistics
from orihon.values.records import Compression, Fold, Pin


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
