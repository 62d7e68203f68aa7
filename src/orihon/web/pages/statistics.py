"""What it all cost and what folding saved, day by day; what ended; how compressions went; which tools are slow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from orihon.reports.costs import GROUPS, CostLine
from orihon.reports.statistics import DayStatistics, SpanReport, span_report, tool_times
from orihon.reports.storage import storage_summary
from orihon.runtime.stats import collect_cluster_stats
from orihon.texts import text
from orihon.web.call import Call, Page, PageRoute
from orihon.web.fields import Field

_BY = tuple(group for group in GROUPS if group != "day")
_MOST_LINES = 20
_SPANS = (7, 30, 90)
_USUAL = 30
_EVER = "ever"
#: Where the list of tasks is filtered by a name of the group.
_FILTERS = {"user": "user", "repository": "repository"}
#: States of ended tasks in the order of the bars, with their colours.
_ENDED = (("completed", "green"), ("archived", "quiet"), ("cancelled", "gold"), ("failed", "red"), ("dead", "fold"))


def statistics_page(call: Call) -> Page:
    """Everything that the catalogue knows at once, of the tasks that the visitor may see."""
    given, only = call.given, call.visitor.only
    since = given["since"] or ("" if given["until"] else _first_day(_USUAL))
    report = span_report(
        call.base, None if since in ("", _EVER) else since, given["until"], given["by"], limit=_MOST_LINES, user=only
    )
    return Page(
        "statistics.html",
        {
            "report": report,
            "since": "" if since == _EVER else since,
            "until": given["until"] or "",
            "by": given["by"],
            "groups": tuple(one for one in _BY if only is None or one != "user"),
            "spans": _spans(given, since),
            "charts": [one for one in _charts(report) if only is None or one["name"] != "compressions"],
            "most": max((_whole(line) for line in report.groups.lines), default=0.0),
            "most_tokens": max((line.input_tokens + line.saved_tokens for line in report.groups.lines), default=0),
            "link": _link(given["by"]),
        },
    )


def storage_part(call: Call) -> Page:
    """What lies where; sizes that nobody has noted are measured, which takes a moment."""
    found = storage_summary(call.base)
    return Page("statistics_storage.html", {"storage": found, "all": collect_cluster_stats(call.base)})


def tools_part(call: Call) -> Page:
    """The slowest tools of the newest tasks."""
    return Page("statistics_tools.html", {"found": tool_times(call.base, user=call.visitor.only)})


def _charts(report: SpanReport) -> list[dict[str, Any]]:
    days = report.days
    total = text("web.statistics.total")
    return [
        _chart(
            "cost_by_day",
            days,
            "money",
            total,
            _of("cost", "indigo", lambda day: day.cost.cost or 0.0, days),
            _of("saved", "spared", lambda day: day.cost.saved_cost, days),
        ),
        _chart(
            "tokens_by_day",
            days,
            "short",
            total,
            _of("input", "indigo", lambda day: day.cost.input_tokens - day.cost.cached_tokens, days),
            _of("cached", "soft", lambda day: day.cost.cached_tokens, days),
            _of("output", "gold", lambda day: day.cost.output_tokens, days),
            _of("unsent", "spared", lambda day: day.cost.saved_tokens, days),
        ),
        _chart("ended", days, "count", total, *(_ended(status, color, days) for status, color in _ENDED)),
        _chart(
            "compressions",
            days,
            "count",
            total,
            _of("succeeded", "fold", lambda day: max(0, day.compressions - day.compression_failures), days),
            _of("failures", "red", lambda day: day.compression_failures, days),
        ),
    ]


def _chart(name: str, days: Sequence[DayStatistics], form: str, total: str, *series: dict[str, Any]) -> dict[str, Any]:
    shown = [one for one in series if any(one["values"])]
    data = {"kind": "bars", "labels": [day.day for day in days], "format": form, "sum": total, "series": shown}
    return {"name": name, "title": text(f"web.statistics.{name}"), "data": data, "has_any": bool(shown)}


def _of(
    name: str, color: str, figure: Callable[[DayStatistics], float], days: Sequence[DayStatistics]
) -> dict[str, Any]:
    return {"name": text(f"web.statistics.{name}"), "color": color, "values": [round(figure(day), 6) for day in days]}


def _ended(status: str, color: str, days: Sequence[DayStatistics]) -> dict[str, Any]:
    values = [day.ended.get(status, 0) for day in days]
    return {"name": text(f"web.status.{status}"), "color": color, "values": values}


def _whole(line: CostLine) -> float:
    """What would have been paid without folding."""
    return (line.cost or 0.0) + line.saved_cost


def _spans(given: Any, since: str) -> list[dict[str, Any]]:
    """Links to the usual times."""
    wanted = [(text(f"web.statistics.last_{days}"), _first_day(days)) for days in _SPANS]
    wanted.append((text("web.statistics.ever"), _EVER))
    return [
        {
            "name": name,
            "address": f"/statistics?{urlencode({'since': first, 'by': given['by']})}",
            "is_chosen": first == since and not given["until"],
        }
        for name, first in wanted
    ]


def _first_day(days: int) -> str:
    return (datetime.now(UTC).date() - timedelta(days=days - 1)).isoformat()


def _link(by: str) -> Callable[[str], str]:
    """The tasks that a line is about."""

    def address(name: str) -> str:
        if by == "task":
            return f"/tasks/{name}"
        return f"/?{urlencode({_FILTERS[by]: name})}" if by in _FILTERS and name else ""

    return address


PAGES = (
    PageRoute(
        "/statistics",
        statistics_page,
        "statistics",
        query=(Field("since", longest=40), Field("until", longest=40), Field("by", choices=_BY, default="model")),
    ),
    PageRoute("/statistics/storage", storage_part, role="admin"),
    PageRoute("/statistics/tools", tools_part),
)
