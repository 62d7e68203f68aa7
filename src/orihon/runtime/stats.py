"""Statistics over all machines that share a catalogue: workers by host, leases, the queue, sums over all tasks.

Read from the catalogue alone: from its rollups, and from what is going on now. Nothing here costs more when there are
more tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue, WorkerRow
from orihon.catalogue.leases import HeldLease
from orihon.settings import Settings
from orihon.system.json_shapes import AsJson, to_object
from orihon.tasks.base import OpenBase, opened_base
from orihon.tasks.place import PLACES

_MEGABYTE = 1024 * 1024
_GONE = ("stopped", "dead")


@dataclass(slots=True)
class HostStatistics(AsJson):
    """What a machine does: its workers that may be alive, what all its workers did, and its leases."""

    json_name = "host"

    host: str
    workers: int = 0
    working: int = 0
    processed: int = 0
    failed: int = 0
    leases: int = 0


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """Every worker that is remembered with what it does and has done, the sums, and what waits."""

    workers: list[WorkerRow]
    total_tasks_processed: int
    total_tasks_failed: int
    total_db_size_mb: float
    waiting: int
    running: int
    tasks: dict[str, int]


@dataclass(frozen=True, slots=True)
class SeenWorker(AsJson):
    """A worker, and for how many seconds nothing was heard of it."""

    json_fields = "*worker heartbeat_age"

    worker: WorkerRow
    heartbeat_age: float | None


@dataclass(frozen=True, slots=True)
class Workers:
    """The machines, the workers on each of them, and the leases that they and other programs hold."""

    hosts: list[HostStatistics] = field(default_factory=list)
    workers: list[SeenWorker] = field(default_factory=list)
    leases: list[HeldLease] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """Tasks in line: for the next free worker, for a later time, to go on; and those at work."""

    waiting: int = 0
    put_off: int = 0
    to_resume: int = 0
    running: int = 0


@dataclass(frozen=True, slots=True)
class LeaseStatistics:
    """Leases of the living and of the dead."""

    held: int = 0
    stale: int = 0


@dataclass(frozen=True, slots=True)
class ClusterStats:
    """One picture of everything: tasks by status, the line, machines, leases, take-overs, and what it all cost."""

    tasks: dict[str, int] = field(default_factory=dict)
    queue: QueueStatistics = field(default_factory=QueueStatistics)
    hosts: list[HostStatistics] = field(default_factory=list)
    workers: dict[str, int] = field(default_factory=dict)  # by state
    leases: LeaseStatistics = field(default_factory=LeaseStatistics)
    take_overs: int = 0
    average_minutes: float | None = None
    messages: int = 0
    tokens: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    compressions: int = 0


def collect_worker_stats(
    base_dir: OpenBase | Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> dict[str, Any]:
    """``WorkerStats`` as plain data."""
    base = opened_base(base_dir, settings, create=True)
    catalogue = base.needed_catalogue()
    workers = catalogue.workers.all(base.settings.context_storage.lease_seconds)
    waiting, running = catalogue.queue.count_waiting()
    processed, failed = (sum(getattr(row, name) for row in workers) for name in ("processed", "failed"))
    size = round(_database_bytes(base.path) / _MEGABYTE, 3)
    stats = WorkerStats(workers, processed, failed, size, waiting, running, _counts(catalogue))
    return to_object(stats)


def collect_workers(
    base_dir: OpenBase | Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> dict[str, Any]:
    """``Workers`` as plain data."""
    base = opened_base(base_dir, settings)
    catalogue = base.open_catalogue()
    if catalogue is None:
        return to_object(Workers())
    rows = catalogue.workers.all(base.settings.context_storage.lease_seconds)
    rows.sort(key=lambda row: (row.host, row.state in _GONE, row.started_at, row.name))
    workers = [SeenWorker(row, age) for row, age in zip(rows, catalogue.workers.heartbeat_ages(rows), strict=True)]
    leases = catalogue.leases.held()
    return to_object(Workers(_hosts(rows, leases), workers, leases))


def collect_cluster_stats(
    base_dir: OpenBase | Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> dict[str, Any]:
    """``ClusterStats`` as plain data."""
    base = opened_base(base_dir, settings)
    catalogue = base.open_catalogue()
    if catalogue is None:
        return to_object(ClusterStats())
    tasks, depth, rollups = _counts(catalogue), catalogue.queue.depth(), catalogue.statistics.rollups()
    rows = catalogue.workers.all(base.settings.context_storage.lease_seconds)
    leases, minutes = catalogue.leases.held(), catalogue.statistics.average_minutes()
    waiting = max(0, tasks.get("queued", 0) - depth.put_off)
    stale = sum(lease.is_stale for lease in leases)
    sums = ("messages", "tokens", "llm_calls", "tool_calls", "compressions")
    stats = ClusterStats(
        tasks,
        QueueStatistics(waiting, depth.put_off, depth.to_resume, tasks.get("running", 0)),
        _hosts(rows, leases),
        dict(sorted(Counter(row.state for row in rows).items())),
        LeaseStatistics(len(leases) - stale, stale),
        catalogue.counters.take_overs(),
        None if minutes is None else round(minutes, 2),
        **{name: sum(getattr(rollup, name) for rollup in rollups) for name in sums},
    )
    return to_object(stats)


def _counts(catalogue: Catalogue) -> dict[str, int]:
    return {status.value: count for status, count in catalogue.statistics.count_by_status().items()}


def _hosts(rows: Iterable[WorkerRow], leases: Iterable[HeldLease]) -> list[HostStatistics]:
    hosts: dict[str, HostStatistics] = {}
    for row in rows:
        host = hosts.setdefault(row.host, HostStatistics(row.host))
        host.workers += row.state not in _GONE
        host.working += row.state == "working"
        host.processed += row.processed
        host.failed += row.failed
    for lease in leases:
        hosts.setdefault(lease.host, HostStatistics(lease.host)).leases += 1
    return [hosts[name] for name in sorted(hosts)]


def _database_bytes(base: Path) -> int:
    databases = [*base.glob("tasks.db*"), *(path for place in PLACES for path in base.glob(f"{place}/*/context.db*"))]
    total = 0
    for path in databases:
        with suppress(OSError):  # moved with its task meanwhile
            total += path.stat().st_size
    return total
