"""Reading tasks: the list, a task's card, its records a page at a time, its view, its changes, its chain, its timeline.

Each answers what the command of the same name prints with ``--json``. Lists that can be long come in pages: ``next``
says where the following one begins. Of a long timeline so many points are given that nothing can be seen to be missing;
a part of it, asked for by its ends, comes in more detail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from orihon.catalogue import TaskRow
from orihon.reports.overview import OverviewStatistics, TaskOverview, inherited_by, task_overview
from orihon.reports.records import RECORDS, ViewDiff, compression_page, record_page, view_diff, view_page
from orihon.reports.task_list import WantedTasks, rows_of_tasks
from orihon.system.json_shapes import AsJson, MayMiss, schema_of, shape
from orihon.tasks.chain import ChainLink, task_chain
from orihon.tasks.inheritance import InheritanceContext
from orihon.tasks.reader import Choice
from orihon.tasks.view_reader import ShownEntry, UndoableCompression, ViewHead
from orihon.values.records import Fold
from orihon.values.task import TaskStatus
from orihon.web.call import Call, Endpoint, allowed_users, task_of
from orihon.web.fields import LIMIT, MOST_RECORDS, REPOSITORY, SINCE, USER, Field
from orihon.web.task_head import TaskHead, gauge_of, marks_of, open_task_head
from orihon.web.task_memory import ChangeMark, TaskMemory, bands

_TASK = "/api/tasks/{task}"
_NEXT = int | None
_MOST_LINKS = 500


def tasks(call: Call) -> dict[str, Any]:
    """One page of the list, newest first."""
    names = ("status", "repository", "source", "since", "search", "before")
    users, limit = allowed_users(call), call.given["limit"]
    if users == ():
        return {"tasks": [], "next": None}
    user = None if users is None else users[0]
    wanted = WantedTasks(user=user, **{name: call.given[name] for name in names})
    rows = rows_of_tasks(call.base, wanted, limit=limit + 1, user=call.visitor.only)
    following = rows[limit - 1].uuid if len(rows) > limit else None
    return {"tasks": rows[:limit], "next": following}


def card(call: Call) -> TaskOverview:
    """One task at a glance."""
    return task_overview(call.base, task_of(call), user=call.visitor.only)


def figures(call: Call) -> OverviewStatistics:
    """The figures of one task."""
    return OverviewStatistics(task_overview(call.base, task_of(call), last=0))


def records(name: str, call: Call) -> dict[str, Any]:
    """One page of what the task has recorded."""
    given = call.given
    choice = Choice.parse(given["range"], newest=given["last"], role=given.get("role"))
    return record_page(call.base, task_of(call), name, choice, given["limit"])


def inherited(call: Call) -> dict[str, Any]:
    """What the task was given by the one that it inherits from."""
    uuid = task_of(call)
    found = inherited_by(call.base, uuid, user=call.visitor.only)
    return {"task": uuid, "inherited": found}


def view(call: Call) -> dict[str, Any]:
    """What the model sees, or saw at a step."""
    given = call.given
    page = {"first": given["first"], "limit": given["limit"]}
    return view_page(call.base, task_of(call), at=given["at"], **page)


def compressions(call: Call) -> dict[str, Any]:
    """The changes of the view."""
    page = {"first": call.given["first"], "limit": call.given["limit"]}
    return compression_page(call.base, task_of(call), **page)


def compression(call: Call) -> ViewDiff:
    """The view before and after one of them."""
    return view_diff(call.base, task_of(call), call.given["number"])


def chain(call: Call) -> dict[str, Any]:
    """The tasks on the same key."""
    wanted = {"limit": call.given["limit"], "user": call.visitor.only}
    links = task_chain(call.base, task_of(call), **wanted)
    return {"tasks": links}


# ---- the timeline ----------------------------------------------------------------------------------------------------

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
        "strategy reason made_by=fold.made_by trust=fold.trust"
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


_TIMELINE = shape(
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


# ---- addresses ------------------------------------------------------------------------------------------------------

_FIRST = Field("first", "whole", default=1, about="first")
_CHOICE = (Field("range", longest=40, about="range"), Field("last", "whole", high=MOST_RECORDS, about="last"), LIMIT)
_FILTERS = (
    Field("status", choices=tuple(status.value for status in TaskStatus), about="status"),
    *(USER, REPOSITORY, Field("source", about="source"), SINCE),
    Field("search", about="search_words"),
    Field("limit", "whole", default=50, high=MOST_RECORDS, about="limit"),
    Field("before", longest=100, about="before_task"),
)


def _read(path: str, act: Callable[[Call], Any], name: str, answer: Any, *query: Field) -> Endpoint:
    return Endpoint("GET", f"{_TASK}{path}", act, name, query=query, answer=answer)


def _recorded(what: str, name: str, *more: Field) -> Endpoint:
    answer = shape(task=str, **{what: [RECORDS[what]]}, next=_NEXT)
    return _read(f"/{what}", partial(records, what), name, answer, *more, *_CHOICE)


#: A view as it is now has no step.
_STEP = {"at": MayMiss(int), "compression": MayMiss(int), "answered_by": MayMiss(int | None)}
_VIEW = shape(ViewHead, **_STEP, view=list[ShownEntry], next=_NEXT)
_COMPRESSIONS = shape(task=str, compressions=list[UndoableCompression], next=_NEXT)
_LINKS = Field("limit", "whole", default=50, high=_MOST_LINKS, about="limit")
_ENDS = (Field("first", "whole", about="first_seq"), Field("last", "whole", about="last_seq"))
ENDPOINTS = (
    _read("/timeline", timeline, "taskTimeline", _TIMELINE, *_ENDS),
    Endpoint("GET", "/api/tasks", tasks, "listTasks", _FILTERS, answer=shape(tasks=list[TaskRow], next=str | None)),
    _read("", card, "showTask", TaskOverview),
    _read("/statistics", figures, "taskStatistics", OverviewStatistics),
    _recorded("messages", "listMessages", Field("role", longest=100, about="role")),
    _recorded("summaries", "listSummaries"),
    _recorded("tools", "listTools"),
    _recorded("plans", "listPlans"),
    _recorded("folds", "listFolds"),
    _read("/inherited", inherited, "showInherited", shape(task=str, inherited=InheritanceContext | None)),
    _read("/view", view, "showView", _VIEW, Field("at", "whole", about="step"), _FIRST, LIMIT),
    _read("/compressions", compressions, "listCompressions", _COMPRESSIONS, _FIRST, LIMIT),
    _read("/compressions/{number}", compression, "showCompression", ViewDiff),
    _read("/chain", chain, "showChain", shape(tasks=list[ChainLink]), _LINKS),
)
