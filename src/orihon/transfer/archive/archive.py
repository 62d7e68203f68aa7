"""Finished tasks into their archive and back.

Promises that a task is readable in one of the two places whatever happens: the folder goes only after the packed task
has been read back from where it lies, and the packed task goes only after the folder stands. A task that is in the
database is packed as a folder that is made for that, and goes back into the database where the settings want it there.
A second run goes on where the first one ended. Everything is done under the task's lease, so two machines do not fight;
whoever comes second finds the work done. Refuses tasks that are not finished, tasks in the database while the archive
is on this machine's disk (``archive.url`` is not set), and to bring back what is not archived.

A packed task can also be read, unpacked for a moment under its lease, and be unarchived for good, so that no packed
copy of it is left anywhere, whatever a run that died has left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orihon.audit.trail import audited
from orihon.catalogue import TaskRow
from orihon.catalogue.rows import FOLDER_LOST, here_since
from orihon.errors import OrihonError, StateError, StorageError
from orihon.settings import Settings
from orihon.system.files import make_private_folder
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace
from orihon.transfer.archive.archive_store import ArchivedTask, key_of
from orihon.transfer.archive.work import ARCHIVED, Work, at_work
from orihon.values.task import FINISHED, TaskStatus

logger = logging.getLogger("orihon.archive")

_PAGE = 500


@dataclass(frozen=True, slots=True)
class LeftTask(AsJson):
    """A task that was left as it was, and why."""

    json_name = "left"

    uuid: str
    reason: str
    error: str

    @classmethod
    def of(cls, left: Mapping[str, OrihonError]) -> list[LeftTask]:
        return [cls(uuid, why.reason, str(why)) for uuid, why in left.items()]


@dataclass(frozen=True, slots=True)
class ArchiveRun(AsJson):
    """What ``archive_old`` has done, and why it left tasks where they were."""

    json_fields = "archived left=left_tasks"

    archived: list[ArchivedTask] = field(default_factory=list)
    left: dict[str, OrihonError] = field(default_factory=dict)

    @property
    def left_tasks(self) -> list[LeftTask]:
        return LeftTask.of(self.left)


def archive_task(base: OpenBase, uuid: str) -> ArchivedTask:
    """Pack a finished task, put it away, compare, and remove its folder."""
    with audited(base.path, base.settings, "archive", uuid), at_work(base, uuid, Work) as work:
        return work.archive()


def restore_task(base: OpenBase, uuid: str) -> TaskPlace:
    """Bring a packed task back to its folder, or to the database, with the status that it had.

    Of a task in the database that is its scratch folder, which is there only while somebody works on it.
    """
    with audited(base.path, base.settings, "unarchive", uuid), at_work(base, uuid, Work) as work:
        return work.restore()


def archive_old(
    base: OpenBase,
    days: float | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> ArchiveRun:
    """Archive every task that ended so many days ago (``archive.threshold_days`` unless told), except kept ones.

    Without ``days`` the setting ``archive.enabled`` decides whether anything happens. A task that cannot be archived
    now is left where it is and does not keep the others from it. ``progress`` hears how many are done, and of how many.
    """
    run = ArchiveRun()
    if days is None and not base.settings.archive.enabled:
        return run
    age = timedelta(days=base.settings.archive.threshold_days if days is None else days)
    old = [row for row in rows_having(base, FINISHED) if ended_before(row, datetime.now(UTC) - age)]
    for number, row in enumerate(old, start=1):
        try:
            run.archived.append(archive_task(base, row.uuid))
        except (StateError, StorageError) as error:
            if not is_elsewhere(row, error, base.settings):
                logger.warning("%s: not archived: %s", row.uuid, error)
                run.left[row.uuid] = error
        if progress is not None:
            progress(number, len(old))
    return run


def rows_having(base: OpenBase, statuses: Iterable[TaskStatus]) -> Iterator[TaskRow]:
    """All tasks with one of these, a page at a time."""
    catalogue = base.open_catalogue()
    if catalogue is None:
        return
    for status in sorted(statuses):
        last: str | None = None
        while page := catalogue.tasks.page(status=status, limit=_PAGE, before=last):
            yield from page
            last = page[-1].uuid


def ended_before(row: TaskRow, moment: datetime) -> bool:
    """Is this a task that is old enough, and free to be put away?"""
    since = here_since(row)
    if row.keep or row.requested is not None or since is None:
        return False  # marked to be kept; its end not told, or its move not ended; not over
    return datetime.fromisoformat(since) <= moment


def is_elsewhere(row: TaskRow, error: OrihonError, settings: Settings) -> bool:
    """Is this about a task that nobody ever opened, that is known to be lost, or whose folder another machine has?"""
    is_nowhere = not row.total_messages or FOLDER_LOST in row.metadata
    return error.reason == "no_folder" and (is_nowhere or settings.database.url is not None)


class ArchivePeek(Work):
    """One packed task that somebody wants to read."""

    def find(self) -> ArchivedTask:
        make_private_folder(self._place)
        self._clear_leftovers()
        task = self._shelf.find(self._uuid)
        if task is None:
            raise self._no_archive()
        self._refuse_exchanged(task)
        return task

    def unarchive(self) -> None:
        """Restore the task, also where that was begun and not ended, and remove every packed copy."""
        found, noted = self._shelf.find(self._uuid), self._row.metadata.get(ARCHIVED)
        keys = [key_of(self._uuid, self._settings.archive.format)]
        keys += [] if found is None else [found.key]
        keys += [str(noted["key"])] if isinstance(noted, dict) and "key" in noted else []
        is_packed = self._row.status is TaskStatus.ARCHIVED or found is not None or noted is not None
        if is_packed and not self._is_taken_up():
            self.restore()
        # The description first, as ever; ``restore`` only logs what it cannot remove.
        self._shelf.take_off(self._uuid)
        for key in dict.fromkeys(keys):
            self._shelf.storage.delete(key)

    def _is_taken_up(self) -> bool:
        """Did a run die when the task was back, and has somebody gone on with it since?"""
        at_rest = self._row.status is TaskStatus.ARCHIVED or self._row.status in FINISHED
        return not at_rest and self.place() is not None


@contextmanager
def unpacked_for_reading(base: OpenBase, uuid: str) -> Iterator[Path]:
    """The records of a packed task as a folder, for as long as the block lasts; the packed one stays as it is."""
    with at_work(base, uuid, ArchivePeek) as work, work.unpacked(work.find()) as folder:
        yield folder


def unarchive(base: OpenBase, uuid: str) -> None:
    """A packed task is a task like others again, and nothing of it is left in the archive."""
    with (
        audited(base.path, base.settings, "unarchive", uuid),
        at_work(base, uuid, ArchivePeek) as work,
    ):
        work.unarchive()
