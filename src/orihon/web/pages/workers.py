"""Who works on what, on which machine; how long the line is; what the monitor has found wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from orihon.reports.monitor import standing_alerts
from orihon.reports.task_list import tasks_by_uuid
from orihon.runtime.stats import collect_cluster_stats, collect_workers
from orihon.web.call import Call, Page, PageRoute

_GONE = ("stopped", "dead")
_MOST_GONE = 50
_MOST_LEASES = 200


def workers_page(call: Call) -> Page:
    """The whole page."""
    return Page("workers.html", _shows(call))


def workers_part(call: Call) -> Page:
    """What changes while the page is open."""
    return Page("workers_part.html", _shows(call))


def _shows(call: Call) -> dict[str, Any]:
    found = collect_workers(call.base)
    now = datetime.now(UTC)
    workers = [
        {**worker, "heard_at": None if worker["heartbeat_age"] is None else _ago(now, worker["heartbeat_age"])}
        for worker in found["workers"]
    ]
    leases = found["leases"][:_MOST_LEASES]
    uuids = {*(worker["task_uuid"] for worker in workers), *(lease["uuid"] for lease in leases)} - {None}
    return {
        "stats": collect_cluster_stats(call.base),
        "hosts": found["hosts"],
        "alive": [worker for worker in workers if worker["state"] not in _GONE],
        "gone": [worker for worker in reversed(workers) if worker["state"] in _GONE][:_MOST_GONE],
        "leases": leases,
        "tasks": {task.row.uuid: task for task in tasks_by_uuid(call.base, sorted(uuids))},
        "alerts": standing_alerts(call.base),
    }


def _ago(now: datetime, seconds: float) -> str:
    return (now - timedelta(seconds=seconds)).isoformat(timespec="seconds")


PAGES = (
    PageRoute("/workers", workers_page, "workers", role="admin"),
    PageRoute("/workers/part", workers_part, role="admin"),
)
