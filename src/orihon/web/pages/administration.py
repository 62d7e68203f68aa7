"""For those who run the site: who works on what, on which machine; and the settings in force, where each came from.

Secrets never leave the library.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orihon
from orihon.reports.monitor import standing_alerts
from orihon.reports.task_list import tasks_by_uuid
from orihon.runtime.stats import collect_cluster_stats, collect_workers
from orihon.runtime.user_config import OPERATOR, USER, settings_of_user
from orihon.settings.in_force import SettingInForce, settings_in_force
from orihon.system import jsonio
from orihon.web.call import Call, Page, PageRoute, page_of
from orihon.web.fields import Field

# ---- workers ---------------------------------------------------------------------------------------------------------

_GONE = ("stopped", "dead")
_MOST_GONE = 50
_MOST_LEASES = 200


def _workers(call: Call) -> dict[str, Any]:
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


# ---- settings --------------------------------------------------------------------------------------------------------

_ENVIRONMENT = "environment "
#: Origins that are no file.
_WORDS = ("default", "flag", USER, OPERATOR)


def settings_page(call: Call) -> Page:
    """Every setting by section; the address may ask for some words, or for those alone that somebody has set.

    Who is no administrator is shown what is in force for their own tasks, and nothing of the operator's.
    """
    only = call.visitor.only
    words, only_changed = (call.given["search"] or "").lower().split(), bool(call.given["changed"])
    every = settings_in_force(call.settings) if only is None else settings_of_user(only, call.settings)
    rows = [row for one in every if _is_wanted(row := _row(one), words, only_changed=only_changed)]
    sections: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        sections.setdefault(row["section"], []).append(row)
    return Page(
        "settings.html",
        {
            "sections": sections,
            "shown": len(rows),
            "total": len(every),
            "changed": sum(one.origin != "default" for one in every),
            "given": call.given,
            "file": None if call.site.config is None or only is not None else shortened(call.site.config),
            "base": shortened(call.base.path) if only is None else "",
            "version": orihon.__version__,
        },
    )


def _row(one: SettingInForce) -> dict[str, Any]:
    section, _, name = one.key.rpartition(".")
    kind, shown = _origin(one.origin)
    return {
        "key": one.key,
        "section": section.partition(".")[0],
        "name": one.key.partition(".")[2] or name,
        "value": _said(one.value),
        "default": _said(one.default),
        "is_changed": one.origin != "default",
        "differs": one.value != one.default,
        "origin": kind,
        "origin_name": shown,
        "meaning": one.meaning,
        # Names stand between backticks, as in the reference.
        "pieces": [(piece, number % 2 == 1) for number, piece in enumerate(one.meaning.split("`"))],
    }


def _is_wanted(row: dict[str, Any], words: list[str], *, only_changed: bool) -> bool:
    said = f"{row['key']} {row['value']} {row['meaning']}".lower()
    return all(word in said for word in words) and (row["is_changed"] or not only_changed)


def _said(value: Any) -> str | None:
    return value if isinstance(value, str | None) else jsonio.encode(value).decode()


def _origin(origin: str) -> tuple[str, str]:
    """Where a value came from: the kind of place, and its name."""
    if origin in _WORDS:
        return origin, ""
    if origin.startswith(_ENVIRONMENT):
        return "environment", origin.removeprefix(_ENVIRONMENT)
    return "file", shortened(Path(origin))


def shortened(path: Path) -> str:
    """A path as its owner writes it."""
    try:
        return str(Path("~") / path.absolute().relative_to(Path.home()))
    except (ValueError, RuntimeError):  # elsewhere, or nobody's home
        return str(path)


PAGES = (
    PageRoute("/workers", page_of("workers.html", _workers), "workers", role="admin"),
    PageRoute("/workers/part", page_of("workers_part.html", _workers), role="admin"),
    PageRoute("/settings", settings_page, "settings", query=(Field("search", longest=300), Field("changed", "flag"))),
)
