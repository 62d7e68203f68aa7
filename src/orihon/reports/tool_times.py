"""How long tools take: ``tool_times``. Nothing sums that up by tool, so it reads what the newest tasks have recorded.

Bounded in tasks and in calls of each, and says how many it has read. Records that cannot be read are passed over:
damage is the doctor's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from orihon.catalogue import TaskRow
from orihon.errors import OrihonError
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus

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
