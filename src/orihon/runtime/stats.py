"""Figures over all machines that share a catalogue: workers by host, leases, the line, sums over all tasks.

Read from the catalogue alone: from its rollups, and from what is going on now. Nothing here costs more when there are
more tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue, WorkerRow
from orihon.catalogue.connect import catalogue_exists, open_catalogue
from orihon.errors import StorageUnavailable
from orihon.settings import Settings, load_settings
from orihon.tasks.place import PLACES

_MEGABYTE = 1024 * 1024
_SHOWN = ("name", "worker_id", "host", "pid", "state", "task_uuid", "processed", "failed", "started_at", "updated_at")
_SUMS = ("messages", "tokens", "llm_calls", "tool_calls", "compressions")
_GONE = ("stopped", "dead")
_NO_WORKERS: dict[str, Any] = {"hosts": [], "workers": [], "leases": []}


def collect_worker_stats(
    base_dir: Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> dict[str, Any]:
    """Every worker that is remembered with what it does and has done, the sums, and what waits."""
    settings = load_settings(settings)
    base = Path(base_dir if base_dir is not None else settings.context_storage.base_dir)
    with closing(open_catalogue(base, settings)) as catalogue:
        workers = [asdict(row) for row in catalogue.workers.all(settings.context_storage.lease_seconds)]
        waiting, running = catalogue.queue.count_waiting()
        counts = {status.value: count for status, count in catalogue.statistics.count_by_status().items()}
    return {
        "workers": [{name: worker[name] for name in _SHOWN} for worker in workers],
        "total_tasks_processed": sum(worker["processed"] for worker in workers),
        "total_tasks_failed": sum(worker["failed"] for worker in workers),
        "total_db_size_mb": round(_database_bytes(base) / _MEGABYTE, 3),
        "waiting": waiting,
        "running": running,
        "tasks": counts,
    }


def collect_workers(
    base_dir: Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> dict[str, Any]:
    """The machines, the workers on each of them, and the leases that they and other programs hold."""
    settings, base = _resolved(base_dir, settings)
    if not catalogue_exists(base, settings):
        return _NO_WORKERS
    with closing(open_catalogue(base, settings)) as catalogue:
        rows = catalogue.workers.all(settings.context_storage.lease_seconds)
        rows.sort(key=lambda row: (row.host, row.state in _GONE, row.started_at, row.name))
        ages = catalogue.workers.heartbeat_ages(rows)
        leases = [asdict(lease) for lease in catalogue.leases.held()]
    workers = [
        {**{name: getattr(row, name) for name in _SHOWN}, "heartbeat_age": age}
        for row, age in zip(rows, ages, strict=True)
    ]
    return {"hosts": _hosts(rows, leases), "workers": workers, "leases": leases}


def collect_cluster_stats(
    base_dir: Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> dict[str, Any]:
    """One picture of everything: tasks by status, the line, machines, leases, take-overs, and what it all cost."""
    settings, base = _resolved(base_dir, settings)
    if not catalogue_exists(base, settings):
        return _picture({}, {}, _NO_WORKERS, take_overs=0, average_minutes=None, put_off=0, to_resume=0)
    with closing(open_catalogue(base, settings)) as catalogue:
        tasks = {status.value: count for status, count in catalogue.statistics.count_by_status().items()}
        depth = catalogue.queue.depth()
        rows = catalogue.workers.all(settings.context_storage.lease_seconds)
        leases = [asdict(lease) for lease in catalogue.leases.held()]
        workers = {"hosts": _hosts(rows, leases), "workers": [asdict(row) for row in rows], "leases": leases}
        return _picture(
            tasks,
            _sums(catalogue),
            workers,
            take_overs=catalogue.counters.take_overs(),
            average_minutes=catalogue.statistics.average_minutes(),
            put_off=depth.put_off,
            to_resume=depth.to_resume,
        )


def _picture(
    tasks: Mapping[str, int],
    sums: Mapping[str, int],
    workers: Mapping[str, Any],
    *,
    take_overs: int,
    average_minutes: float | None,
    put_off: int,
    to_resume: int,
) -> dict[str, Any]:
    states = [worker["state"] for worker in workers["workers"]]
    stale = sum(lease["is_stale"] for lease in workers["leases"])
    return {
        "tasks": dict(tasks),
        "queue": {
            "waiting": max(0, tasks.get("queued", 0) - put_off),
            "put_off": put_off,
            "to_resume": to_resume,
            "running": tasks.get("running", 0),
        },
        "hosts": workers["hosts"],
        "workers": {state: states.count(state) for state in sorted(set(states))},
        "leases": {"held": len(workers["leases"]) - stale, "stale": stale},
        "take_overs": take_overs,
        "average_minutes": None if average_minutes is None else round(average_minutes, 2),
        **{name: sums.get(name, 0) for name in _SUMS},
    }


def _sums(catalogue: Catalogue) -> dict[str, int]:
    rollups = catalogue.statistics.rollups()
    return {name: sum(getattr(rollup, name) for rollup in rollups) for name in _SUMS}


def _hosts(rows: Iterable[WorkerRow], leases: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What each machine does: its workers that may be alive, what all its workers did, and its leases."""
    hosts: dict[str, dict[str, Any]] = {}
    nothing = {"workers": 0, "working": 0, "processed": 0, "failed": 0, "leases": 0}
    for row in rows:
        host = hosts.setdefault(row.host, {"host": row.host, **nothing})
        host["workers"] += row.state not in _GONE
        host["working"] += row.state == "working"
        host["processed"] += row.processed
        host["failed"] += row.failed
    for lease in leases:
        hosts.setdefault(lease["host"], {"host": lease["host"], **nothing})["leases"] += 1
    return [hosts[name] for name in sorted(hosts)]


def _resolved(base_dir: Path | str | None, settings: Mapping[str, Any] | Settings | None) -> tuple[Settings, Path]:
    loaded = load_settings(settings)
    base = Path(base_dir if base_dir is not None else loaded.context_storage.base_dir)
    if loaded.database.url is None and not base.is_dir():
        raise StorageUnavailable("no_base_dir", path=base)
    return loaded, base


def _database_bytes(base: Path) -> int:
    databases = [*base.glob("tasks.db*"), *(path for place in PLACES for path in base.glob(f"{place}/*/context.db*"))]
    total = 0
    for path in databases:
        with suppress(OSError):  # moved with its task meanwhile
            total += path.stat().st_size
    return total
