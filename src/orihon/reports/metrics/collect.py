"""The figures of this moment: from the catalogue, from what is known about sizes, from the disk.

Workers are other processes, perhaps on other machines: nothing here comes from this process's memory. The cost of a
look follows what is going on (leases, workers, tasks at work up to a limit) and never how many tasks there are.

How long ago tasks last stored something durably, seen from outside and without opening them.

In a folder the files tell, in a database the time of the newest message. For who watches tasks at work; a task that has
stored nothing yet has no age.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import orihon
from orihon.catalogue import Catalogue, TaskRow
from orihon.drivers.postgres import postgres_of
from orihon.reports.metrics.families import OTHER, Sample, counted
from orihon.reports.storage import FileSizes
from orihon.settings import Settings
from orihon.system.counters import MODEL_TOKENS, series
from orihon.system.files import folder_size
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus
from orihon.values.tokens.prices import PriceList

#: Tasks at work that have series of their own, the newest first.
MOST_TASKS = 100


def collect(catalogue: Catalogue, base: OpenBase, sizes: FileSizes | None) -> list[Sample]:
    """All figures. ``sizes``: the last that is known, if anything is."""
    started = time.monotonic()
    active = catalogue.tasks.page(status=TaskStatus.RUNNING, limit=MOST_TASKS)
    counters = catalogue.counters.all()
    counters["orihon_take_overs_total"] = counters.pop("take_overs", 0)
    samples = [
        *counted(counters),
        *_costs(counters, base.settings),
        *_queue(catalogue),
        *_leases(catalogue, {row.uuid for row in active}),
        *_workers(catalogue, base.settings),
        *_active(active, base),
        *_sizes(active, base.path, sizes, catalogue if base.settings.database.url is not None else None),
        Sample.of("orihon_build_info", 1, version=orihon.__version__),
    ]
    samples.append(Sample.of("orihon_scrape_duration_seconds", time.monotonic() - started))
    return samples


def _costs(counters: Mapping[str, int], settings: Settings) -> Iterator[Sample]:
    """What the counted tokens come to; a model without a price has no sample."""
    prices = PriceList(settings)
    start = f'{MODEL_TOKENS}{{model="'
    end = '",kind="input"}'
    models = [name[len(start) : -len(end)] for name in counters if name.startswith(start) and name.endswith(end)]
    for model in sorted(models):
        price = prices.of(settings.llm.provider, model)
        if price is not None:
            read, cached, said = (counters.get(_tokens(model, kind), 0) for kind in ("input", "cached", "output"))
            cost = price.of_tokens(read, cached, said)
            yield Sample("orihon_model_cost_total", f'orihon_model_cost_total{{model="{model}"}}', cost)


def _tokens(model: str, kind: str) -> str:
    """The series of a model whose name is escaped already."""
    return f'{MODEL_TOKENS}{{model="{model}",kind="{kind}"}}'


def _queue(catalogue: Catalogue) -> Iterator[Sample]:
    tasks = catalogue.statistics.count_by_status()
    for status in TaskStatus:
        yield Sample.of("orihon_tasks", tasks.get(status, 0), status=status.value)
    depth = catalogue.queue.depth()
    waiting = max(0, tasks.get(TaskStatus.QUEUED, 0) - depth.put_off)
    for state, number in (("waiting", waiting), ("put_off", depth.put_off), ("to_resume", depth.to_resume)):
        yield Sample.of("orihon_queue_tasks", number, state=state)


def _leases(catalogue: Catalogue, active: set[str]) -> Iterator[Sample]:
    leases = catalogue.leases.held()
    stale = sum(lease.is_stale for lease in leases)
    yield Sample.of("orihon_leases", len(leases) - stale, state="held")
    yield Sample.of("orihon_leases", stale, state="stale")
    for lease in leases:
        if lease.uuid in active:
            yield Sample.of("orihon_lease_remaining_seconds", lease.seconds_left, task_id=lease.uuid)


def _workers(catalogue: Catalogue, settings: Settings) -> Iterator[Sample]:
    states = [row.state for row in catalogue.workers.all(settings.context_storage.lease_seconds)]
    for state in sorted({"idle", "working", "dead", *states}):
        yield Sample.of("orihon_workers", states.count(state), state=state)


def _active(active: list[TaskRow], base: OpenBase) -> Iterator[Sample]:
    for row in active:
        if row.view_tokens is not None and row.context_length:
            ratio = row.view_tokens * row.correction / row.context_length
            yield Sample.of("orihon_context_usage_ratio", round(ratio, 6), task_id=row.uuid)
    for uuid, age in write_ages(base, [row.uuid for row in active]).items():
        yield Sample.of("orihon_durable_write_age_seconds", round(age, 3), task_id=uuid)


def _sizes(
    active: list[TaskRow], base_dir: Path, sizes: FileSizes | None, database: Catalogue | None
) -> Iterator[Sample]:
    """Tasks at work are looked at, the rest is what the last walk has found; of a database only the whole is known."""
    name = "context_db_size_bytes"
    here = {row.uuid: base_dir / "running" / row.uuid for row in active}
    for uuid, folder in here.items():
        if folder.is_dir():
            yield Sample.of(name, folder_size(folder), task_id=uuid)
    known = None if sizes is None else sizes.rest + sum(n for uuid, n in sizes.running.items() if uuid not in here)
    if database is not None:
        known = (known or 0) + database.statistics.database_bytes()
    if known is not None:
        yield Sample(name, series(name, {"task_id": OTHER}), known)
    with suppress(OSError):
        yield Sample.of("orihon_disk_free_bytes", shutil.disk_usage(base_dir).free)


_PLACE = "running"
_FILES = ("messages.jsonl", "tools.jsonl", "compressions.jsonl", "context.db", "context.db-wal")


def write_ages(base: OpenBase, uuids: Iterable[str]) -> dict[str, float]:
    """Seconds since each of these running tasks last stored something."""
    now = time.time()
    ages: dict[str, float] = {}
    elsewhere: list[str] = []
    for uuid in uuids:
        written = _written(base.path / _PLACE / uuid)
        if written is None:
            elsewhere.append(uuid)
        else:
            ages[uuid] = max(now - written, 0.0)
    if elsewhere and base.settings.database.url is not None:
        ages |= _in_database(base.settings, elsewhere)
    return ages


def _written(folder: Path) -> float | None:
    times: list[float] = []
    for name in _FILES:
        with suppress(OSError):
            times.append((folder / name).stat().st_mtime)
    return max(times, default=None)


def _in_database(settings: Settings, uuids: list[str]) -> dict[str, float]:
    from orihon.drivers.postgres import statements

    sql = statements("orihon.store", "postgres_writes.sql")["last_writes"]
    found = postgres_of(settings).patiently(lambda connection: connection.execute(sql, {"uuids": uuids}).fetchall())
    now = datetime.now(UTC)
    return {
        uuid: max((now - datetime.fromisoformat(written)).total_seconds(), 0.0)
        for uuid, written in found
        if written is not None
    }
