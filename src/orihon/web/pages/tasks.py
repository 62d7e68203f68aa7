"""The first page: which tasks there are, how full their contexts are, what waits for a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from orihon.reports.task_list import WantedTasks, page_of_tasks, tasks_by_uuid
from orihon.texts import text
from orihon.values.task import TaskStatus
from orihon.web.call import Call, Page, PageRoute, address_of
from orihon.web.fields import Field

_STATUSES = tuple(status.value for status in TaskStatus)
_MOST_IDS = 100
_SPANS = ("1d", "7d", "30d")
_FILTERS = (
    Field("status", choices=_STATUSES),
    *(Field(name, longest=300) for name in ("user", "repository", "source", "since", "search", "before")),
)


def tasks_page(call: Call) -> Page:
    """One page of the list."""
    wanted = WantedTasks(**call.given)
    found = page_of_tasks(call.base, wanted, user=call.visitor.only)
    return Page(
        "tasks.html",
        {
            "tasks": found.tasks,
            "next": found.next,
            "counts": found.counts,
            "total": sum(found.counts.values()),
            "wanted": wanted,
            "filtered": any(asdict(wanted).values()),
            "statuses": _STATUSES,
            "spans": _spans(wanted.since),
            "address": _addresses(wanted),
            "rows_address": address_of("/tasks/rows", asdict(wanted)),
        },
    )


def task_rows(call: Call) -> Page:
    """The rows alone: of the tasks that are named, or of the whole list."""
    filters = {name: value for name, value in call.given.items() if name != "ids"}
    only = call.visitor.only
    if call.given["ids"]:
        uuids = call.given["ids"].split(",")[:_MOST_IDS]
        return Page("task_rows.html", {"tasks": tasks_by_uuid(call.base, uuids, user=only)})
    found = page_of_tasks(call.base, WantedTasks(**filters), user=only)
    return Page("task_rows.html", {"tasks": found.tasks})


def _spans(given: str | None) -> list[tuple[str, str]]:
    """The times to choose from, and what stands in the address if it is another one."""
    spans = [("", text("web.tasks.since_any")), *((span, text(f"web.tasks.since_{span}")) for span in _SPANS)]
    return spans if given is None or given in _SPANS else [*spans, (given, given)]


def _addresses(wanted: WantedTasks) -> Callable[..., str]:
    """The address of this list with other filters; a filter that changes begins at the newest again."""

    def address(**changed: str | None) -> str:
        return address_of("/", asdict(wanted) | {"before": None} | changed)

    return address


PAGES = (
    PageRoute("/", tasks_page, "tasks", query=_FILTERS),
    PageRoute("/tasks/rows", task_rows, query=(*_FILTERS, Field("ids", longest=100 * 65))),
)
