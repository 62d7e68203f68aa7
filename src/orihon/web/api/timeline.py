"""The timeline of a task: the tokens of its view over its log, its folds, the changes of the view, what is pinned.

Each figure is one of the records. Of a long log so many points are given that nothing can be seen to be missing; a part
of it, asked for by its ends, comes in more detail.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orihon.system.json_shapes import AsJson, schema_of, shape
from orihon.values.records import Fold
from orihon.web.call import Call, Endpoint
from orihon.web.fields import Field
from orihon.web.task_head import TaskHead, gauge_of, marks_of, open_task_head
from orihon.web.task_memory import ChangeMark, TaskMemory, bands

MOST_POINTS = 1_500
_MOST_BANDS = 600
_MOST_CHANGES = 400
_MOST_PINS = 400
_REASON_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Band(AsJson):
    """A fold on the line, and how it was made."""

    json_fields = (
        "id=fold.id start=fold.start_seq end=fold.end_seq form=fold.form before=fold.original_tokens after=fold.tokens "
        "strategy reason made_by=fold.made_by"
    )

    fold: Fold
    strategy: str

    @property
    def reason(self) -> str:
        return self.fold.reason[:_REASON_CHARACTERS]


@dataclass(frozen=True, slots=True)
class Step(AsJson):
    """A change of the view on the line."""

    json_fields = (
        "id=change.record.id seq=change.seq kind=change.record.kind strategy trigger=change.record.trigger "
        "before=change.record.before_tokens after=change.record.after_tokens made_by=change.record.made_by "
        "at=change.record.created_at"
    )

    change: ChangeMark
    strategy: str


def timeline(call: Call) -> dict[str, Any]:
    """The whole line, or the part between two messages."""
    with open_task_head(call) as task:
        memory = task.memory
        memory.follow(task.records)
        folds, pins = memory.state(task.records, len(memory.changes))
        end = memory.last_seq
        first = min(call.given["first"] or 1, max(end, 1))
        last = max(first, min(call.given["last"] or end, end))
        shown = list(bands(folds, first, last, _MOST_BANDS))
        return {
            "task": task.uuid,
            "end": end,
            "first": first,
            "last": last,
            **_measures(task, memory, end),
            "points": [[point.seq, point.tokens] for point in memory.points(first, last, MOST_POINTS)] if end else [],
            "folds": [Band(fold, _how(memory.origins.get(fold.id))) for fold in shown],
            "folds_left_out": max(0, len(folds) - len(shown)) if (first, last) == (1, end) else 0,
            "changes": [Step(one, _how(one)) for one in _weightiest(memory.changes_in(first, last))],
            "pins": [pin.seq for pin in pins if first <= pin.seq <= last][:_MOST_PINS],
            "compressions": len(memory.changes),
        }


def _measures(task: TaskHead, memory: TaskMemory, end: int) -> dict[str, Any]:
    gauge = gauge_of(task.row, task.settings)
    tokens = memory.tokens_at(end)
    return {
        "tokens": tokens,
        "usage": gauge.usage(tokens),
        # In tokens as the log counts them: there a view fills the budget by the provider's measure.
        "budget": gauge.room,
        "rungs": [round(share * gauge.room) for share in marks_of(gauge, task.settings) if share < 1],
    }


def _how(change: ChangeMark | None) -> str:
    return "" if change is None else " ".join(filter(None, (change.record.strategy, change.record.level)))


def _weightiest(changes: list[ChangeMark]) -> list[ChangeMark]:
    if len(changes) <= _MOST_CHANGES:
        return changes
    kept = sorted(changes, key=lambda one: -abs(one.record.before_tokens - one.record.after_tokens))[:_MOST_CHANGES]
    return sorted(kept, key=lambda one: one.id)


_ANSWER = shape(
    task=str,
    end=int,
    first=int,
    last=int,
    tokens=int,
    usage=float,
    budget=int,
    rungs=list[int],
    points={"type": "array", "maxItems": MOST_POINTS, "items": schema_of(list[int])},
    folds=list[Band],
    folds_left_out=int,
    changes=list[Step],
    pins=list[int],
    compressions=int,
)
ENDPOINTS = (
    Endpoint(
        "GET",
        "/api/tasks/{task}/timeline",
        timeline,
        "taskTimeline",
        query=(Field("first", "whole", about="first_seq"), Field("last", "whole", about="last_seq")),
        answer=_ANSWER,
    ),
)
