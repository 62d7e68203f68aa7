"""What happened in a month: ``monthly_report``. For people who look once a month whether all goes well.

Read from the catalogue alone: tasks by the day they began and ended, the calls of models, compressions and locked
databases as they were counted. A task that was archived since counts as archived.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, date, datetime, timedelta

from orihon.catalogue import TaskRow
from orihon.errors import InvalidInput
from orihon.reports.costs import cost_report
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus, shortened

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
