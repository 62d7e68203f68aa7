"""Retention: what becomes of tasks that ended long ago, and of the room that they took.

``archive_old_contexts`` packs them, ``delete_old_contexts`` removes their records and leaves a row that says what there
was, ``vacuum_databases`` gives the room back, ``maintain`` does all three and never twice at a time. Promises never to
touch a task that is not finished, that is marked to be kept, that a live process owns, or whose source has not heard of
its end. One task that cannot be dealt with keeps no other from it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from orihon.audit.trail import audited
from orihon.audit.verify import remove_old_records
from orihon.catalogue import TaskRow
from orihon.catalogue.rows import CLEANED
from orihon.errors import OrihonError, StateError, StorageError, TaskBusy, TaskNotFound
from orihon.reports.notifications import NotificationRun, maintain_notifications
from orihon.search.maintenance import remove_traces
from orihon.settings import Settings
from orihon.system import ProgressObserver
from orihon.system.json_shapes import AsJson
from orihon.tasks.approvals.phase_archives import delete_old_phase_archives
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace
from orihon.transfer.archive.archive import LeftTask, archive_task, ended_before, is_elsewhere, rows_having
from orihon.transfer.archive.cleanup import Cleaning, read_task
from orihon.transfer.archive.work import ARCHIVED, at_work, refuse_local
from orihon.upkeep.retention.vacuum import VacuumRun, only_one, vacuum_databases
from orihon.values.task import FINISHED, TaskStatus

__all__ = [
    "Maintenance",
    "RetainedTask",
    "RetentionRun",
    "VacuumRun",
    "archive_old_contexts",
    "delete_old_contexts",
    "keep_task",
    "maintain",
    "vacuum_databases",
]

logger = logging.getLogger("orihon.retention")


@dataclass(frozen=True, slots=True)
class RetainedTask(AsJson):
    """A task that was dealt with, and the bytes that it takes."""

    json_fields = "uuid bytes=bytes_before"

    uuid: str
    bytes_before: int
    bytes_after: int


@dataclass(slots=True)
class RetentionRun(AsJson):
    """What was done with old tasks; in a dry run, what would be."""

    json_name = "retention_run"
    json_fields = "dry_run tasks left=left_tasks bytes_before bytes_after=bytes_left counts_before counts_after"

    dry_run: bool
    tasks: list[RetainedTask] = field(default_factory=list)
    left: dict[str, OrihonError] = field(default_factory=dict)
    counts_before: dict[str, int] = field(default_factory=dict)  # all tasks, by their status
    counts_after: dict[str, int] = field(default_factory=dict)

    @property
    def bytes_before(self) -> int:
        """What the tasks took."""
        return sum(task.bytes_before for task in self.tasks)

    @property
    def bytes_after(self) -> int:
        """What they take now."""
        return sum(task.bytes_after for task in self.tasks)

    @property
    def bytes_left(self) -> int | None:
        """What packing comes to is not known before."""
        return None if self.dry_run else self.bytes_after

    @property
    def left_tasks(self) -> list[LeftTask]:
        return LeftTask.of(self.left)


@dataclass(frozen=True, slots=True)
class Maintenance(AsJson):
    """What ``maintain`` has done."""

    json_fields = "cleanup=deleted archive=archived vacuum=vacuumed phase_archives notifications"

    deleted: RetentionRun
    archived: RetentionRun
    vacuumed: VacuumRun
    phase_archives: tuple[str, ...] = ()  # of explorations, past ``preserve_exploration_days``
    notifications: NotificationRun = field(default_factory=NotificationRun)

    @property
    def is_complete(self) -> bool:
        """Was nothing left that should have been dealt with?"""
        return not (self.deleted.left or self.archived.left or self.vacuumed.left)


def archive_old_contexts(
    base: OpenBase,
    days: float | None = None,
    *,
    dry_run: bool = False,
    progress: ProgressObserver | None = None,
    without: Collection[str] = (),
) -> RetentionRun:
    """Pack every task that ended so many days ago (``archive.threshold_days`` unless told).

    Without ``days`` the setting ``archive.enabled`` decides whether anything happens. Not those in ``without``.
    """
    if days is None and not base.settings.archive.enabled:
        return RetentionRun(dry_run)
    moment = _days_ago(base.settings.archive.threshold_days if days is None else days)

    def archive(row: TaskRow, before: int) -> RetainedTask:
        return RetainedTask(row.uuid, before, archive_task(base, row.uuid).bytes)

    rows = [row for row in rows_having(base, FINISHED) if ended_before(row, moment) and row.uuid not in without]
    return _each(base, rows, archive, dry_run=dry_run, progress=progress, check=refuse_local)


def delete_old_contexts(
    base: OpenBase,
    days: float | None = None,
    *,
    dry_run: bool = False,
    progress: ProgressObserver | None = None,
) -> RetentionRun:
    """Remove the records of every task that ended so many days ago (``retention.days`` unless told), packed or not.

    Its row stays, with its statistics; under ``cleaned`` in its metadata are its final summary, its status and when.
    """
    moment = _days_ago(base.settings.retention.days if days is None else days)

    def delete(row: TaskRow, before: int) -> RetainedTask | None:
        with (
            audited(base.path, base.settings, "delete", row.uuid, begun=True, bytes=before) as act,
            at_work(base, row.uuid, Cleaning) as work,
        ):
            cleaned = work.clean(moment)
            act.result = "nothing" if cleaned is None else act.result
        return None if cleaned is None else RetainedTask(row.uuid, cleaned.bytes, 0)

    found = rows_having(base, (*FINISHED, TaskStatus.ARCHIVED))
    rows = [row for row in found if CLEANED not in row.metadata and ended_before(row, moment)]
    run = _each(base, rows, delete, dry_run=dry_run, progress=progress)
    if run.tasks and not dry_run:
        remove_traces(base)
    return run


def maintain(
    base: OpenBase,
    *,
    days: float | None = None,
    archive_days: float | None = None,
    dry_run: bool = False,
    progress: ProgressObserver | None = None,
) -> Maintenance:
    """Remove the oldest tasks, pack the old ones, give the room back; ``StateError`` when somebody else is at it.

    Notifications that the webhook has not got yet are sent, and old ones taken out of the feed.
    """
    with only_one(base.path, base.settings):
        deleted = delete_old_contexts(base, days, dry_run=dry_run, progress=progress)
        gone = {task.uuid for task in deleted.tasks}
        archived = archive_old_contexts(
            base, archive_days, dry_run=dry_run, progress=progress, without=gone | set(deleted.left)
        )
        phases = () if dry_run else tuple(delete_old_phase_archives(base))
        notifications = NotificationRun() if dry_run else maintain_notifications(base)
        if not dry_run:
            remove_old_records(base.path, base.settings)
        vacuumed = vacuum_databases(base, dry_run=dry_run, progress=progress)
        return Maintenance(deleted, archived, vacuumed, phases, notifications)


def keep_task(base: OpenBase, uuid: str, *, keep: bool = True) -> None:
    """Mark a task so that it is never archived or removed by age; or take the mark away."""
    catalogue = base.open_catalogue()
    if catalogue is None:
        raise TaskNotFound("uuid", uuid=uuid)
    with audited(base.path, base.settings, "keep", uuid, keep=keep):
        catalogue.tasks.update(uuid, keep=keep)


# ---- one after the other -------------------------------------------------------------------------------------------


def _days_ago(days: float) -> datetime:
    return datetime.now(UTC) - timedelta(days=days)


def _each(
    base: OpenBase,
    rows: list[TaskRow],
    act: Callable[[TaskRow, int], RetainedTask | None],
    *,
    dry_run: bool,
    progress: ProgressObserver | None,
    check: Callable[[TaskPlace, Settings], None] | None = None,
) -> RetentionRun:
    run = RetentionRun(dry_run, counts_before=_counts(base))
    for number, row in enumerate(rows, start=1):
        try:
            _refuse_held(base, row)
            if check is not None and (place := base.folders.find(row.uuid)) is not None:
                check(place, base.settings)
            before = _size(base, row)
            outcome = RetainedTask(row.uuid, before, 0) if dry_run else act(row, before)
            run.tasks.extend(() if outcome is None else (outcome,))
        except (StateError, StorageError) as error:
            if not is_elsewhere(row, error, base.settings):
                logger.warning("%s: left as it is: %s", row.uuid, error)
                run.left[row.uuid] = error
        if progress is not None:
            progress(number, len(rows))
    run.counts_after = _counts(base)
    return run


def _counts(base: OpenBase) -> dict[str, int]:
    if base.catalogue is None:
        return {}
    return {status.value: count for status, count in base.catalogue.statistics.count_by_status().items()}


def _refuse_held(base: OpenBase, row: TaskRow) -> None:
    if base.catalogue is not None and base.is_in_use(row):
        left = base.catalogue.leases.seconds_left(row)
        owner = {"owner": row.lease_owner, "host": row.lease_host, "pid": row.lease_pid, "seconds_left": left}
        raise TaskBusy("lease", uuid=row.uuid, **owner)


def _size(base: OpenBase, row: TaskRow) -> int:
    """What a task takes, where it is."""
    place = base.folders.find(row.uuid)
    if place is not None:
        return read_task(place, base.settings)[0]
    noted = row.metadata.get(ARCHIVED)
    if row.status is not TaskStatus.ARCHIVED:
        raise TaskNotFound("no_folder", uuid=row.uuid, status=row.status.value)
    return int(noted.get("bytes", 0)) if isinstance(noted, dict) else 0
