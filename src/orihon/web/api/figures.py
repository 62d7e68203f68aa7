"""Reading across tasks: costs, statistics, workers, notifications, search, the settings in force.

Each answers what the command of the same name prints with ``--json``. What is added up over all users is for
administrators.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import orihon
from orihon.catalogue.usage import UsageGroup
from orihon.notifications.notification import Notification
from orihon.reports.costs import CostReport, cost_report
from orihon.reports.notifications import list_notifications
from orihon.reports.storage import GlobalStatistics, StorageSummary, collect_global_statistics, storage_summary
from orihon.runtime.stats import ClusterStats, Workers, collect_cluster_stats, collect_workers
from orihon.runtime.user_settings import settings_of_user
from orihon.search import SearchResults, search_history
from orihon.search.documents import KINDS
from orihon.settings.in_force import SettingInForce, settings_as_dict
from orihon.system.json_shapes import shape
from orihon.web.api.fields import MOST_RECORDS, REPOSITORY, SINCE, UNTIL, USER, allowed_users
from orihon.web.call import Call, Endpoint
from orihon.web.fields import Field
from orihon.web.requested_task import wanted_task

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


def cluster(call: Call) -> dict[str, Any]:
    """Everything that shares the catalogue."""
    return collect_cluster_stats(call.base)


def storage(call: Call) -> StorageSummary:
    """How large it all is."""
    return storage_summary(call.base)


def overall(call: Call) -> GlobalStatistics:
    """The same by the names of the first design."""
    return collect_global_statistics(call.base)


def workers(call: Call) -> dict[str, Any]:
    """Who works on what, on which machine."""
    return collect_workers(call.base)


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


#: The filters of a search, and the fields that they are given by.
_FILTERS = {
    "roles": "role",
    "tools": "tool",
    "kinds": "kind",
    "repositories": "repository",
}
SEARCH_FILTERS = (
    Field("kind", choices=KINDS, about="kind"),
    *(USER, REPOSITORY, SINCE, UNTIL),
    Field("task", longest=300, about="task"),
    Field("role", longest=100, about="role"),
    Field("tool", longest=300, about="tool"),
    Field("limit", "whole", default=20, high=MOST_HITS, about="limit"),
)
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
    Endpoint("GET", "/api/health", health, "health", answer=shape(ok=bool, version=str)),
    Endpoint("GET", "/api/costs", costs, "listCosts", _COSTS, answer=CostReport),
    Endpoint("GET", "/api/statistics", cluster, "statistics", answer=ClusterStats, role="admin"),
    Endpoint(
        "GET",
        "/api/statistics/storage",
        storage,
        "storageStatistics",
        answer=StorageSummary,
        role="admin",
    ),
    Endpoint("GET", "/api/statistics/global", overall, "globalStatistics", answer=GlobalStatistics, role="admin"),
    Endpoint("GET", "/api/workers", workers, "listWorkers", answer=Workers, role="admin"),
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
