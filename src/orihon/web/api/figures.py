"""Reading across tasks: costs, statistics, workers, notifications, search, the settings in force.

Each answers what the command of the same name prints with ``--json``. What is added up over all users is for
administrators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import orihon
from orihon.catalogue.usage import UsageGroup
from orihon.errors import OrihonError
from orihon.notifications.notification import KINDS, Notification
from orihon.reports.costs import CostReport, cost_report
from orihon.reports.notifications import NotedNotification, NotificationPage, list_notifications, notification_page
from orihon.reports.storage import GlobalStatistics, StorageSummary, collect_global_statistics, storage_summary
from orihon.runtime.stats import ClusterStats, Workers, collect_cluster_stats, collect_workers
from orihon.runtime.user_config import settings_of_user
from orihon.search import SearchResults, search_history
from orihon.search.documents import KINDS as SEARCHED_KINDS
from orihon.settings.in_force import SettingInForce, settings_as_dict
from orihon.system.json_shapes import shape
from orihon.tasks.base import OpenBase
from orihon.tasks.editing import CHANGEABLE
from orihon.tasks.view_reader import reading_view
from orihon.values.view import history
from orihon.web.call import Call, Endpoint, allowed_users, users_of, wanted_task
from orihon.web.fields import MOST_RECORDS, REPOSITORY, SINCE, UNTIL, USER, Field
from orihon.web.filters import plain

#: What there is at most of a line for each task, user, repository, model or day.
_MOST_LINES = 1000
#: Seconds that a request waits for the index to be caught up; ``current`` says whether that was enough.
SEARCH_SECONDS = 5.0
#: More hits than this are for nobody to look through.
MOST_HITS = 200


def health(_: Call) -> dict[str, Any]:
    """The server answers."""
    return {"ok": True, "version": orihon.__version__}


def costs(call: Call) -> CostReport:
    """What calls have cost, and what folding saved; of the tasks that the visitor may see."""
    given, wanted = call.given, {"limit": call.given["limit"], "user": call.visitor.only}
    return cost_report(call.base, None, given["by"], given["since"], given["until"], **wanted)


def _of_all(path: str, job: Callable[[OpenBase], Any], name: str, answer: Any) -> Endpoint:
    """What a job says of the whole base, for administrators."""
    return Endpoint("GET", f"/api/{path}", lambda call: job(call.base), name, answer=answer, role="admin")


def notifications(call: Call) -> dict[str, Any]:
    """What people were told: the last ones, or the first ones after a number; the oldest first."""
    wanted = {name: call.given[name] for name in ("since", "limit", "task")}
    return {"notifications": list_notifications(call.base, **wanted)}


def searched(call: Call) -> SearchResults:
    """Words in everything that tasks have said and done."""
    given = call.given
    users = allowed_users(call)
    if users == ():
        return SearchResults()
    filters: dict[str, Any] = {name: [given[field]] if given[field] else () for name, field in _FILTERS.items()}
    filters["tasks"] = [wanted_task(call)] if given["task"] else ()
    wanted = {name: given[name] for name in ("since", "until", "limit")} | {"users": users or ()}
    return search_history(call.base, given["query"], seconds=SEARCH_SECONDS, **filters, **wanted)


def settings(call: Call) -> dict[str, Any]:
    """What is in force (to others than administrators: for them), and where it came from; secrets are masked."""
    only = call.visitor.only
    if only is None:
        return settings_as_dict(call.settings, call.site.config)
    return {"file": None, "settings": settings_of_user(only, call.settings)}


# ---- notices ---------------------------------------------------------------------------------------------------------

#: Kinds by what they are about, as the filters of the feed have them.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "compressions": ("recommended", "compressed", "still_full"),
    "approvals": tuple(kind for kind in KINDS if kind.startswith("approval_")),
    "failures": ("failed", "dead", "taken_over"),
    "alerts": ("alert", "alert_over"),
}
PAGE = 50
_MOST = 500
_MOST_ASKED = 10


def list_notices(call: Call) -> dict[str, Any]:
    """The newest first; ``older`` is the number to go on before, where there is more."""
    page = wanted_notices(call, since=call.given["since"], limit=call.given["limit"])
    undoable = undoable_of(call, page.notes)
    return {"notices": [_as_dict(one, undoable) for one in page.notes], "older": page.older}


def wanted_notices(call: Call, *, since: int = 0, limit: int = PAGE) -> NotificationPage:
    """The piece of the feed that the address asks for, as far as the visitor may see it."""
    given = call.given
    return notification_page(
        call.base,
        since=since,
        before=given["before"],
        limit=limit,
        task=wanted_task(call),
        kinds=None if given["group"] is None else GROUPS[given["group"]],
        users=users_of(call),
    )


def undoable_of(call: Call, notes: Sequence[NotedNotification]) -> frozenset[tuple[str, int]]:
    """Tasks and compressions of these notices that can be undone now; of very many tasks, only the first are asked."""
    if call.site.read_only or not call.visitor.may("operate"):
        return frozenset()
    changeable = (one for one in notes if one.row is not None and one.row.status in CHANGEABLE)
    tasks = dict.fromkeys(one.notice.task for one in changeable if one.notice.compression is not None)
    found: set[tuple[str, int]] = set()
    for task in [task for task in tasks if task is not None][:_MOST_ASKED]:
        with suppress(OrihonError), reading_view(call.base, task) as view:  # it may be on its way
            done, _ = history([record for record, _ in view.compressions()])
            found.update((task, number) for number in done)
    return frozenset(found)


def _as_dict(noted: NotedNotification, undoable: frozenset[tuple[str, int]]) -> dict[str, Any]:
    """A notification with addresses in the place of commands; none where there is nothing to view or to undo."""
    notice = noted.notice
    actions, task, number = {"view_archive": "", "undo": ""}, notice.task, notice.compression
    if task is not None and number is not None:
        actions["view_archive"] = f"/tasks/{task}/compare/{number}"
        actions["undo"] = f"/api/tasks/{task}/undo" if (task, number) in undoable else ""
    shown = {name: value for name, value in notice.as_dict().items() if name != "webhook"}
    label = "" if noted.row is None else plain(noted.row.key.label)
    return {**shown, "actions": actions, "compression": number, "label": label}


# ---- addresses -------------------------------------------------------------------------------------------------------

#: The filters of a search, and the fields that they are given by.
_FILTERS = {"roles": "role", "tools": "tool", "kinds": "kind", "repositories": "repository"}
SEARCH_FILTERS = (
    Field("kind", choices=SEARCHED_KINDS, about="kind"),
    *(USER, REPOSITORY, SINCE, UNTIL),
    Field("task", longest=300, about="task"),
    Field("role", longest=100, about="role"),
    Field("tool", longest=300, about="tool"),
    Field("limit", "whole", default=20, high=MOST_HITS, about="limit"),
)
_FEED = (
    Field("since", "whole", default=0, low=0, about="since"),
    Field("before", "whole", about="before"),
    Field("limit", "whole", default=PAGE, high=_MOST, about="limit"),
    Field("task", longest=300, about="task"),
    Field("group", choices=tuple(GROUPS), about="group"),
)
_NOTICES_ANSWER = shape(notices=list[dict[str, Any]], older=int | None)
_NOTICES = (
    Field("since", "whole", low=0, about="since"),
    Field("limit", "whole", default=50, high=MOST_RECORDS, about="limit"),
    Field("task", longest=300, about="task"),
)
_COSTS = (
    Field("by", choices=get_args(UsageGroup), default="task", about="by"),
    Field("since", longest=100, about="day"),
    Field("until", longest=100, about="day"),
    Field("limit", "whole", default=50, high=_MOST_LINES, about="limit"),
)
_SETTINGS = shape(file=Path | None, settings=list[SettingInForce])
ENDPOINTS = (
    Endpoint("GET", "/api/notices", list_notices, "listNotices", _FEED, answer=_NOTICES_ANSWER),
    Endpoint("GET", "/api/health", health, "health", answer=shape(ok=bool, version=str)),
    Endpoint("GET", "/api/costs", costs, "listCosts", _COSTS, answer=CostReport),
    _of_all("statistics", collect_cluster_stats, "statistics", ClusterStats),
    _of_all("statistics/storage", storage_summary, "storageStatistics", StorageSummary),
    # The same by the names of the first design.
    _of_all("statistics/global", collect_global_statistics, "globalStatistics", GlobalStatistics),
    _of_all("workers", collect_workers, "listWorkers", Workers),
    Endpoint(
        "GET",
        "/api/notifications",
        notifications,
        "listNotifications",
        _NOTICES,
        answer=shape(notifications=list[Notification]),
        role="admin",
    ),
    Endpoint(
        "GET",
        "/api/search",
        searched,
        "search",
        (Field("query", required=True, longest=1000, about="query"), *SEARCH_FILTERS),
        answer=SearchResults,
    ),
    Endpoint("GET", "/api/settings", settings, "showSettings", answer=_SETTINGS),
)
