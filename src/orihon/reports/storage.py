"""The picture of the storage: how many tasks, how large, which can go, which are largest, whose they are.

Sizes are what the catalogue knows of each task's last pause or end; a task at work, or one of before sizes were kept,
is measured where it lies, up to a limit. Sums come from the catalogue: a hundred thousand tasks are one look at it.

How many bytes a base folder takes on its disk, without walking through it each time somebody asks.

Everything counts that lies there, whether a catalogue knows of it or not, and nothing that lies elsewhere (archives in
an object storage, tasks in a database): this is for who watches the disk. What each task takes up, wherever it lies, is
the catalogue's business and added up by ``storage``. A walk over very many tasks takes seconds, so its result is kept
in ``sizes.json`` for whoever asks next. Losing the file costs a walk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

from orihon.catalogue import Catalogue, Rollup, TaskRow
from orihon.catalogue.statistics import Position
from orihon.errors import NotJSON, StorageError
from orihon.settings import Settings
from orihon.system import ProgressObserver, jsonio
from orihon.system.files import folder_size, replace_file
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase, opened_base
from orihon.values.task import TaskStatus

BIGGEST = 10
MOST_MEASURED = 1000
MEGABYTE = 2**20
_FEW = 20


@dataclass(frozen=True, slots=True)
class SizeGroup:
    """Tasks in the same position."""

    tasks: int = 0
    bytes: int = 0


class GroupSums(TypedDict):
    """The tasks of one user or repository."""

    tasks: int
    messages: int
    tokens: int


class ContextsByStatus(TypedDict):
    """Tasks that are neither packed nor cleaned up, packed ones, and cleaned up ones."""

    active: int
    archived: int
    deleted: int


class MemoryConsumer(TypedDict):
    """One of the largest tasks."""

    path: str
    label: str
    size_mb: float


class GlobalStatistics(TypedDict):
    """The summary by the names of the first design."""

    total_contexts: int
    total_size_mb: float
    contexts_by_status: ContextsByStatus
    total_messages: int
    total_summaries: int
    avg_messages_per_context: float
    avg_compression_ratio: float
    top_memory_consumers: list[MemoryConsumer]
    by_user: dict[str, GroupSums]
    by_repo: dict[str, GroupSums]


@dataclass(frozen=True, slots=True)
class LargeTask:
    """One of the largest."""

    uuid: str
    label: str
    status: TaskStatus
    bytes: int


@dataclass(frozen=True, slots=True)
class StorageSummary(AsJson):
    """All tasks of a base folder.

    ``active``: not finished, or not long ago. ``archived``: packed. ``old``: ended longer ago than ``retention.days``,
    packed or not, so that the next cleanup removes it. ``cleaned``: nothing is left but a row. ``unmeasured`` tasks
    count nothing in bytes.
    """

    tasks: int
    bytes: int
    unmeasured: int
    active: SizeGroup
    archived: SizeGroup
    old: SizeGroup
    cleaned: SizeGroup
    archive_days: int
    retention_days: int
    messages: int
    summaries: int
    messages_per_task: float
    compressions: int
    biggest: tuple[LargeTask, ...]
    by_status: dict[str, int]
    by_user: dict[str, GroupSums]
    by_repository: dict[str, GroupSums]


def storage_summary(base: OpenBase, *, progress: ProgressObserver | None = None) -> StorageSummary:
    """Add up what the catalogue knows, and measure what it does not."""
    catalogue = base.open_catalogue()
    if catalogue is None:
        return _summary(base.settings, [], [], [], ())
    old = (datetime.now(UTC) - timedelta(days=base.settings.retention.days)).isoformat(timespec="microseconds")
    positions = catalogue.statistics.sizes_by_position(old)
    measured = _measure(base, catalogue, progress) if any(one.unmeasured for one in positions) else []
    known = [_big(row, row.size_bytes or 0) for row in catalogue.statistics.largest_tasks(BIGGEST)]
    largest = sorted((*known, *measured), key=lambda one: (-one.bytes, one.uuid))[:BIGGEST]
    return _summary(base.settings, catalogue.statistics.rollups(), positions, measured, tuple(largest))


def collect_global_statistics(
    base_dir: OpenBase | Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> GlobalStatistics:
    """The summary by the names of the first design.

    ``avg_compression_ratio`` is what a token of folded messages came to in the ten largest tasks; 0 without a fold.
    """
    base = opened_base(base_dir, settings)
    found = storage_summary(base)
    archived = found.by_status.get(TaskStatus.ARCHIVED.value, 0) - found.cleaned.tasks
    active = found.tasks - archived - found.cleaned.tasks
    return {
        "total_contexts": found.tasks,
        "total_size_mb": found.bytes / MEGABYTE,
        "contexts_by_status": {"active": active, "archived": archived, "deleted": found.cleaned.tasks},
        "total_messages": found.messages,
        "total_summaries": found.summaries,
        "avg_messages_per_context": found.messages_per_task,
        "avg_compression_ratio": _ratio(base, found.biggest),
        "top_memory_consumers": [
            {"path": one.uuid, "label": one.label, "size_mb": one.bytes / MEGABYTE} for one in found.biggest
        ],
        "by_user": found.by_user,
        "by_repo": found.by_repository,
    }


def _ratio(base: OpenBase, tasks: tuple[LargeTask, ...]) -> float:
    before = after = 0
    for task in tasks:
        with suppress(StorageError):
            place = base.folders.find(task.uuid)
            if place is None:
                continue
            with closing(base.read_store(place)) as store:
                for fold in store.read("summaries"):
                    before, after = before + fold["original_tokens"], after + fold["summary_tokens"]
    return after / before if before else 0.0


def task_size(base: OpenBase, uuid: str) -> int | None:
    """The bytes of a task where it lies; ``None`` where there is nothing of it to be read."""
    try:
        place = base.folders.find(uuid)
        if place is None:
            return None
        with closing(base.read_store(place)) as store:
            return store.records.size()
    except StorageError:  # damage is the doctor's business; the others can be added up
        return None


def _big(row: TaskRow, size: int) -> LargeTask:
    return LargeTask(row.uuid, row.key.label, row.status, size)


def _measure(base: OpenBase, catalogue: Catalogue, progress: ProgressObserver | None) -> list[LargeTask]:
    """The tasks whose size the catalogue does not know, up to a limit."""
    waiting = catalogue.statistics.unmeasured_tasks(MOST_MEASURED)
    if len(waiting) > _FEW:  # one look at all folders instead of several for each task
        here = set(base.folders.beginning_with(""))
        waiting = [row for row in waiting if row.uuid in here]
    measured = []
    for done, row in enumerate(waiting, start=1):
        size = task_size(base, row.uuid)
        if size is not None:
            measured.append(_big(row, size))
        if progress is not None:
            progress(done, len(waiting))
    return measured


def _summary(
    settings: Settings,
    rollups: list[Rollup],
    positions: list[Position],
    measured: list[LargeTask],
    biggest: tuple[LargeTask, ...],
) -> StorageSummary:
    groups = {one.name: SizeGroup(one.tasks, one.bytes) for one in positions}
    # A task at work is active, and nearly every other one that has no size was finished lately.
    active = groups.get("active", SizeGroup())
    groups["active"] = SizeGroup(active.tasks, active.bytes + sum(one.bytes for one in measured))
    tasks = sum(group.tasks for group in groups.values())
    messages = sum(rollup.messages for rollup in rollups)
    return StorageSummary(
        tasks=tasks,
        bytes=sum(group.bytes for group in groups.values()),
        unmeasured=sum(one.unmeasured for one in positions) - len(measured),
        **{name: groups.get(name, SizeGroup()) for name in ("active", "archived", "old", "cleaned")},
        archive_days=settings.archive.threshold_days,
        retention_days=settings.retention.days,
        messages=messages,
        summaries=sum(one.summaries for one in positions),
        messages_per_task=round(messages / tasks, 1) if tasks else 0.0,
        compressions=sum(rollup.compressions for rollup in rollups),
        biggest=biggest,
        by_status=_counted(rollups),
        by_user=_sums_by(rollups, lambda rollup: rollup.user),
        by_repository=_sums_by(rollups, lambda rollup: rollup.repository),
    )


def _counted(rollups: list[Rollup]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for rollup in rollups:
        sums[rollup.status] = sums.get(rollup.status, 0) + rollup.tasks
    return dict(sorted(sums.items()))


def _sums_by(rollups: list[Rollup], name: Callable[[Rollup], str]) -> dict[str, GroupSums]:
    """Tasks, messages and tokens of each user or repository, the one with the most tasks first."""
    sums: dict[str, GroupSums] = {}
    for rollup in rollups:
        group = sums.setdefault(name(rollup), GroupSums(tasks=0, messages=0, tokens=0))
        group["tasks"] += rollup.tasks
        group["messages"] += rollup.messages
        group["tokens"] += rollup.tokens
    return dict(sorted(sums.items(), key=lambda item: (-item[1]["tasks"], item[0])))


NAME = "sizes.json"
_RUNNING = "running"


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Bytes of files, as of a moment."""

    measured_at: float  # seconds since 1970
    took: float  # seconds
    running: dict[str, int]  # each task's folder below ``running/``
    rest: int  # everything else: other tasks, archives, databases

    @property
    def total(self) -> int:
        return self.rest + sum(self.running.values())


def measure(base_dir: Path) -> FileSizes:
    """Walk through the base folder, and keep the result."""
    started, moment = time.monotonic(), time.time()
    running = {entry.name: folder_size(Path(entry)) for entry in _entries(base_dir / _RUNNING) if entry.is_dir()}
    rest = folder_size(base_dir, without=_RUNNING)
    sizes = FileSizes(moment, round(time.monotonic() - started, 3), running, rest)
    with suppress(StorageError):  # who looks at a folder that is not ours to write to, walks
        replace_file(base_dir / NAME, [jsonio.encode(asdict(sizes))], durable=False)
    return sizes


def known_sizes(base_dir: Path) -> FileSizes | None:
    """The result of the last walk, if there was one."""
    try:
        kept = jsonio.decode((base_dir / NAME).read_bytes())
        running = {str(name): int(size) for name, size in kept["running"].items()}
        return FileSizes(float(kept["measured_at"]), float(kept["took"]), running, int(kept["rest"]))
    except (OSError, NotJSON, ValueError, TypeError, KeyError, AttributeError):
        return None


def sizes_of(base_dir: Path, max_age: float) -> FileSizes:
    """The sizes, not older than so many seconds."""
    known = known_sizes(base_dir)
    is_fresh = known is not None and 0 <= time.time() - known.measured_at <= max_age
    return known if known is not None and is_fresh else measure(base_dir)


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        yield from entries
