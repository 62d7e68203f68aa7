"""Statistics over all workers of a base folder, read from its catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from orihon.catalogue.opening import open_catalogue
from orihon.settings import Settings, load_settings
from orihon.task_folders import PLACES

_MEGABYTE = 1024 * 1024
_SHOWN = ("name", "worker_id", "host", "pid", "state", "task_uuid", "processed", "failed", "started_at", "updated_at")


def collect_worker_stats(
    base_dir: Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> dict[str, Any]:
    """Every worker that is remembered with what it does and has done, the sums, and what waits."""
    settings = load_settings(settings)
    base = Path(base_dir if base_dir is not None else settings.context_storage.base_dir)
    with closing(open_catalogue(base, settings)) as catalogue:
        workers = [asdict(row) for row in catalogue.workers(settings.context_storage.lease_seconds)]
        waiting, running = catalogue.count_waiting()
        counts = {status.value: count for status, count in catalogue.count_by_status().items()}
    return {
        "workers": [{name: worker[name] for name in _SHOWN} for worker in workers],
        "total_tasks_processed": sum(worker["processed"] for worker in workers),
        "total_tasks_failed": sum(worker["failed"] for worker in workers),
        "total_db_size_mb": round(_database_bytes(base) / _MEGABYTE, 3),
        "waiting": waiting,
        "running": running,
        "tasks": counts,
    }


def _database_bytes(base: Path) -> int:
    databases = [*base.glob("tasks.db*"), *(path for place in PLACES for path in base.glob(f"{place}/*/context.db*"))]
    total = 0
    for path in databases:
        with suppress(OSError):  # moved with its task meanwhile
            total += path.stat().st_size
    return total
