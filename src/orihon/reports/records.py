"""What a task has recorded, as plain objects for JSON: ``orihon show --json`` prints them, the API sends them in pages.

Owns how records look to programs. Only reads, one record at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from orihon.catalogue import TaskRow
from orihon.settings import Settings
from orihon.store.contract import Stream
from orihon.store.record_codec import StoredMessage
from orihon.store.task_store import TaskStore
from orihon.system.json_shapes import MayMiss, shape
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import Choice, chosen_messages, chosen_records, reading_task
from orihon.tasks.view_reader import UndoableCompression, ViewReading, reading_view
from orihon.values.records import Fold

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
