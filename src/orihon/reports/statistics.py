"""What happened from one day to another: ``span_report``. Costs and savings, compressions and ended tasks, by day.

Read from the catalogue alone. Days are those of UTC, both ends included, and none is left out, however little happened.

What happened in a month: ``monthly_report``. For people who look once a month whether all goes well.

Read from the catalogue alone: tasks by the day they began and ended, the calls of models, compressions and locked
databases as they were counted. A task that was archived since counts as archived.

How long tools take: ``tool_times``. Nothing sums that up by tool, so it reads what the newest tasks have recorded.

Bounded in tasks and in calls of each, and says how many it has read. Records that cannot be read are passed over:
damage is the doctor's business.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import MAXYEAR, UTC, date, datetime, timedelta
from statistics import median
from typing import Any

from orihon.catalogue import Catalogue, TaskRow
from orihon.errors import InvalidInput, OrihonError
from orihon.reports.costs import CostLine, CostReport, cost_report
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus, shortened

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


BIGGEST = 10
_MONTH = re.compile(r"([0-9]{4})-([0-9]{2})")
_DECEMBER = 12


@dataclass(frozen=True, slots=True)
class MonthlyTask:
    """One of the biggest tasks that ended in the month."""

    uuid: str
    label: str
    status: TaskStatus
    tokens: int
    messages: int

    @classmethod
    def of(cls, row: TaskRow) -> MonthlyTask:
        return cls(row.uuid, row.key.label, row.status, row.total_tokens, row.total_messages)


@dataclass(frozen=True, slots=True)
class MonthlyReport(AsJson):
    """The figures of one month (UTC)."""

    month: str
    created: int  # tasks
    ended: dict[str, int]  # tasks, by status
    calls: int  # of models
    input_tokens: int
    output_tokens: int
    saved_tokens: int
    cost: float | None
    compressions: int
    compression_failures: int
    lock_errors: int
    notifications: dict[str, int]  # by kind, as far as they are still there
    biggest: tuple[MonthlyTask, ...]


def monthly_report(base: OpenBase, month: str = "last") -> MonthlyReport:
    """The report of a month: ``2026-11``, ``this`` or ``last``."""
    first, last = _days_of(month)
    catalogue = base.open_catalogue()
    if catalogue is None:
        return MonthlyReport(first.isoformat()[:7], 0, {}, 0, 0, 0, 0, None, 0, 0, 0, {}, ())
    since, beyond = f"{first.isoformat()}T", f"{(last + timedelta(days=1)).isoformat()}T"
    happened = catalogue.statistics.happened_between(since, beyond, BIGGEST)
    counted = catalogue.counters.counted(since, beyond)
    total = cost_report(base.path, base.settings, "day", first, last).total
    return MonthlyReport(
        month=first.isoformat()[:7],
        created=happened.created,
        ended=happened.ended,
        calls=total.calls,
        input_tokens=total.input_tokens,
        output_tokens=total.output_tokens,
        saved_tokens=total.saved_tokens,
        cost=total.cost,
        compressions=counted["compressions"],
        compression_failures=counted["compression_failures"],
        lock_errors=counted["lock_errors"],
        notifications=happened.notifications,
        biggest=tuple(map(MonthlyTask.of, happened.biggest)),
    )


def _days_of(month: str) -> tuple[date, date]:
    """The first and the last day."""
    today = datetime.now(UTC).date()
    if month in ("this", "last"):
        first = today.replace(day=1)
        first = first if month == "this" else (first - timedelta(days=1)).replace(day=1)
    else:
        first = _first_day(month)
    beyond = date(first.year + first.month // _DECEMBER, first.month % _DECEMBER + 1, 1)
    return first, beyond - timedelta(days=1)


def _first_day(month: str) -> date:
    found = _MONTH.fullmatch(month)
    try:
        if found is not None and int(found[1]) < MAXYEAR:
            return date(int(found[1]), int(found[2]), 1)
    except ValueError:
        pass
    raise InvalidInput("month", value=shortened(month))


MOST_TASKS = 30
MOST_CALLS = 200  # of each task, the last ones
_LOOKED_AT = 100
_NOT_HERE = (TaskStatus.QUEUED, TaskStatus.ARCHIVED)


@dataclass(frozen=True, slots=True)
class ToolTime:
    """What the calls of one tool have taken, in milliseconds."""

    name: str
    calls: int
    errors: int
    median_ms: float
    slowest_ms: float
    total_ms: float
    slowest_task: str


@dataclass(frozen=True, slots=True)
class ToolTimes(AsJson):
    """The tools that took longest altogether first."""

    tools: tuple[ToolTime, ...]
    tasks: int  # whose calls were read
    calls: int  # of them, with a duration


@dataclass(slots=True)
class _Sums:
    times: list[float] = field(default_factory=list)
    errors: int = 0
    slowest: tuple[float, str] = (-1.0, "")


def tool_times(base: OpenBase, *, limit: int = 10, user: str | None = None) -> ToolTimes:
    """The slowest tools of the newest tasks (``user``: of that user) that have called any."""
    sums: dict[str, _Sums] = {}
    tasks = 0
    catalogue = base.open_catalogue()
    rows = [] if catalogue is None else catalogue.tasks.page(user=user, limit=_LOOKED_AT)
    for row in rows:
        if tasks == MOST_TASKS:
            break
        has_any = False
        for record in _calls(base, row):
            has_any |= _add(sums, record, row.uuid)
        tasks += has_any
    tools = [_settled(name, one) for name, one in sums.items()]
    tools.sort(key=lambda tool: (-tool.total_ms, tool.name))
    return ToolTimes(tuple(tools[:limit]), tasks, sum(tool.calls for tool in tools))


def _calls(base: OpenBase, row: TaskRow) -> Iterator[Mapping[str, Any]]:
    if row.status in _NOT_HERE or not (row.tool_call_count or row.total_tool_calls):
        return
    try:
        folder = base.folders.find(row.uuid)
        if folder is None:
            return
        with closing(base.read_store(folder)) as store:
            yield from store.read("tools", store.count("tools") - MOST_CALLS + 1)
    except (OrihonError, OSError):
        return


def _add(sums: dict[str, _Sums], record: Mapping[str, Any], uuid: str) -> bool:
    took = record.get("duration_ms")
    if not isinstance(took, int | float):
        return False
    one = sums.setdefault(str(record["tool_name"]), _Sums())
    one.times.append(float(took))
    one.errors += record["status"] != "success"
    one.slowest = max(one.slowest, (float(took), uuid))
    return True


def _settled(name: str, sums: _Sums) -> ToolTime:
    slowest, uuid = sums.slowest
    return ToolTime(name, len(sums.times), sums.errors, median(sums.times), slowest, sum(sums.times), uuid)
