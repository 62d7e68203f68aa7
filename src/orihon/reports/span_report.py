"""What happened from one day to another: ``span_report``. Costs and savings, compressions and ended tasks, by day.

Read from the catalogue alone. Days are those of UTC, both ends included, and none is left out, however little happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

from orihon.catalogue import Catalogue
from orihon.reports.costs import CostLine, CostReport, cost_report
from orihon.tasks.base import OpenBase

#: Of a longer span only the last days are drawn.
MOST_DAYS = 400


@dataclass(frozen=True, slots=True)
class DayStatistics:
    """One day."""

    day: str
    cost: CostLine
    compressions: int = 0
    compression_failures: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)  # tasks, by the status that they have now


@dataclass(frozen=True, slots=True)
class SpanReport:
    """All figures of a span."""

    since: str | None
    until: str | None
    days: tuple[DayStatistics, ...]
    groups: CostReport
    compressions: int = 0
    compression_failures: int = 0
    ended: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> CostLine:
        """Of the whole span."""
        return self.groups.total

    @property
    def compression_success(self) -> float | None:
        """The share of the compressions that came to something."""
        tried = self.compressions
        return None if not tried else max(0.0, 1 - self.compression_failures / tried)


def span_report(
    base: OpenBase,
    since: str | None = None,
    until: str | None = None,
    by: str = "model",
    *,
    limit: int | None = None,
    user: str | None = None,
) -> SpanReport:
    """The figures from the day ``since`` to the day ``until``, with costs grouped ``by`` what ``cost_report`` knows.

    ``user``: of that user's tasks; whose compressions they were is not counted, so there are none then.
    """
    groups = cost_report(base.path, base.settings, by, since, until, limit=limit, user=user)
    by_day = {line.name: line for line in cost_report(base.path, base.settings, "day", since, until, user=user).lines}
    catalogue = base.open_catalogue()
    counted, ended = ({}, {}) if catalogue is None else _happened(catalogue, groups.since, groups.until, user)
    days = tuple(
        DayStatistics(
            day,
            by_day.get(day, CostLine(day, day, cost=0.0)),
            counted.get(day, {}).get("compressions", 0),
            counted.get(day, {}).get("compression_failures", 0),
            ended.get(day, {}),
        )
        for day in _days(groups.since, groups.until, {*by_day, *counted, *ended})
    )
    return SpanReport(
        groups.since,
        groups.until,
        days,
        groups,
        sum(one.get("compressions", 0) for one in counted.values()),
        sum(one.get("compression_failures", 0) for one in counted.values()),
        _added(ended),
    )


_ByDay = dict[str, dict[str, int]]


def _happened(catalogue: Catalogue, since: str | None, until: str | None, user: str | None) -> tuple[_ByDay, _ByDay]:
    first = f"{since or '0000-01-01'}T"
    last = date.max if until is None else date.fromisoformat(until)
    beyond = None if last == date.max else f"{(last + timedelta(days=1)).isoformat()}T"
    ended = catalogue.statistics.ended_by_day(first, beyond or "9999-99-99T", user)
    return catalogue.counters.by_day(first, beyond) if user is None else {}, ended


def _added(ended: _ByDay) -> dict[str, int]:
    sums: dict[str, int] = {}
    for statuses in ended.values():
        for status, count in statuses.items():
            sums[status] = sums.get(status, 0) + count
    return sums


def _days(since: str | None, until: str | None, happened: set[str]) -> list[str]:
    """Every day of the span up to today, and without a beginning, from the first that has anything."""
    today = datetime.now(UTC).date()
    known = sorted(day for day in happened if _is_day(day))
    first = date.fromisoformat(since or (known[0] if known else today.isoformat()))
    newest = max([today, *map(date.fromisoformat, known[-1:])])  # clocks of other machines may go ahead
    last = min(date.fromisoformat(until), newest) if until else newest
    first = max(first, date.fromordinal(max(1, last.toordinal() - MOST_DAYS + 1)))
    return [(first + timedelta(days=number)).isoformat() for number in range((last - first).days + 1)]


def _is_day(text: Any) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
