"""Reading tasks: the list, a task's card, its records a page at a time, its view, its changes, its chain.

Each answers what the command of the same name prints with ``--json``. Lists that can be long come in pages: ``next``
says where the following one begins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from orihon.catalogue import TaskRow
from orihon.reports.overview import OverviewStatistics, TaskOverview, inherited_by, task_overview
from orihon.reports.records import RECORDS, compression_page, record_page, view_page
from orihon.reports.task_list import WantedTasks, rows_of_tasks
from orihon.reports.view_diff import ViewDiff, view_diff
from orihon.system.json_shapes import MayMiss, shape
from orihon.tasks.chain import ChainLink, task_chain
from orihon.tasks.inheritance import InheritanceContext
from orihon.tasks.reader import Choice
from orihon.tasks.view_reader import ShownEntry, UndoableCompression, ViewHead
from orihon.values.task import TaskStatus
from orihon.web.api.fields import LIMIT, MOST_RECORDS, REPOSITORY, SINCE, USER, allowed_users
from orihon.web.call import Call, Endpoint
from orihon.web.fields import Field
from orihon.web.requested_task import task_of

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


_FIRST = Field("first", "whole", default=1, about="first")
_CHOICE = (
    Field("range", longest=40, about="range"),
    Field("last", "whole", high=MOST_RECORDS, about="last"),
    LIMIT,
)
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
ENDPOINTS = (
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
