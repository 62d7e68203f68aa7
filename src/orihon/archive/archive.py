"""Finished tasks into their archive and back.

Promises that a task is readable in one of the two places whatever happens: the folder goes only after the packed task
has been read back from where it lies, and the packed task goes only after the folder stands. A second run goes on
where the first one ended. Everything is done under the task's lease, so two machines do not fight; whoever comes
second finds the work done. Refuses tasks that are not finished.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from orihon.archive.packing import contents_of, pack
from orihon.archive.shelf import FOLDER, ArchivedTask, Shelf, key_of
from orihon.base_folder import BaseFolder
from orihon.catalogue import Catalogue, Lease, TaskRow
from orihon.catalogue.line import TELL
from orihon.errors import DamagedStore, IllegalTransition, OrihonError, StateError, StorageError, TaskNotFound
from orihon.folders import make_private_folder, sync_folder, wrapping
from orihon.heartbeat import Heartbeat
from orihon.objects import ObjectStorage
from orihon.settings import Settings
from orihon.task import FINISHED, TaskStatus, check_change, check_id

logger = logging.getLogger("orihon.archive")

#: In the row's metadata: what is known of the packed task, and the status to come back to.
ARCHIVED = "archived"
#: Where the live mirrors of tasks are in an object storage.
MIRRORS = "mirror"
_PAGE = 500


@dataclass(frozen=True, slots=True)
class ArchiveRun:
    """What ``archive_old`` has done, and why it left tasks where they were."""

    archived: list[ArchivedTask] = field(default_factory=list)
    left: dict[str, OrihonError] = field(default_factory=dict)


def archive_task(base_dir: Path | str, uuid: str, settings: Settings) -> ArchivedTask:
    """Pack a finished task, put it away, compare, and remove its folder."""
    with _at_work(base_dir, uuid, settings) as work:
        return work.archive()


def restore_task(base_dir: Path | str, uuid: str, settings: Settings) -> Path:
    """Bring a packed task back to its folder, with the status that it had; returns the folder."""
    with _at_work(base_dir, uuid, settings) as work:
        return work.restore()


def archive_old(base_dir: Path | str, settings: Settings, days: float | None = None) -> ArchiveRun:
    """Archive every task that ended so many days ago (``archive.threshold_days`` unless told), except kept ones.

    Without ``days`` the setting ``archive.enabled`` decides whether anything happens. A task that cannot be archived
    now is left where it is and does not keep the others from it.
    """
    run = ArchiveRun()
    if days is None and not settings.archive.enabled:
        return run
    age = timedelta(days=settings.archive.threshold_days if days is None else days)
    with BaseFolder(Path(base_dir).absolute(), settings) as base:
        old = [row.uuid for row in _finished(base) if _ended_before(row, datetime.now(UTC) - age)]
    for uuid in old:
        try:
            run.archived.append(archive_task(base_dir, uuid, settings))
        except (StateError, StorageError) as error:
            logger.warning("%s: not archived: %s", uuid, error)
            run.left[uuid] = error
    return run


def _finished(base: BaseFolder) -> Iterator[TaskRow]:
    catalogue = base.open_catalogue()
    if catalogue is None:
        return
    for status in sorted(FINISHED):
        last: str | None = None
        while page := catalogue.list_tasks(status=status, limit=_PAGE, before=last):
            yield from page
            last = page[-1].uuid


def _ended_before(row: TaskRow, moment: datetime) -> bool:
    if row.keep or row.requested == TELL or row.completed_at is None:
        return False
    return datetime.fromisoformat(row.completed_at) <= moment


@contextmanager
def _at_work(base_dir: Path | str, uuid: str, settings: Settings) -> Iterator[_Work]:
    """The task under its lease, which is renewed while the block lasts."""
    check_id(uuid)
    with BaseFolder(Path(base_dir).absolute(), settings) as base:
        catalogue = base.open_catalogue()
        if catalogue is None or catalogue.find(uuid) is None:
            raise TaskNotFound("no_row" if base.folders.find(uuid) else "uuid", uuid=uuid)
        seconds = settings.context_storage.lease_seconds
        lease = catalogue.acquire(uuid, seconds=seconds)
        heartbeat = Heartbeat(lambda: catalogue.renew(lease), seconds / 3, uuid)
        try:
            yield _Work(base, catalogue, catalogue.get(uuid), lease)
        finally:
            heartbeat.stop()
            catalogue.release(lease)


class _Work:
    """One task on its way into its archive or out of it. Each step can be the last one before a crash."""

    def __init__(self, base: BaseFolder, catalogue: Catalogue, row: TaskRow, lease: Lease) -> None:
        self._base = base
        self._settings = base.settings
        self._catalogue = catalogue
        self._row = row
        self._lease = lease
        self._uuid = row.uuid
        self._place = base.path / FOLDER  # for packed tasks, and for what is being made
        storage = self._storage()
        if storage is None:
            from orihon.objects.folder import FolderStorage

            storage = FolderStorage(base.path)
        self._shelf = Shelf(storage)

    def _storage(self) -> ObjectStorage | None:
        return None if self._settings.archive.url is None else ObjectStorage.of(self._settings)

    def folder(self) -> Path | None:
        """The one place where the folder of a task comes from."""
        return self._base.folders.settle(self._uuid, self._row.status)

    # ---- into the archive --------------------------------------------------------------------------------------

    def archive(self) -> ArchivedTask:
        if self._row.status is not TaskStatus.ARCHIVED:
            check_change(self._row.status, TaskStatus.ARCHIVED)
            if self._row.requested == TELL:
                raise IllegalTransition("untold", uuid=self._uuid, status=self._row.status.value)
        make_private_folder(self._place)
        self._clear_leftovers()
        folder = self.folder()
        if folder is None:
            return self._archived_before()
        task, is_new = self._put_away(folder)
        self._done("put away")
        try:
            self._mark(task)
        except StateError:
            if is_new:  # somebody has taken the task up again: what is packed is no longer all of it
                self._shelf.remove(task)
            raise
        self._done("marked")
        self._remove_folder(folder)
        self._remove_mirror()
        logger.info("%s: archived as %s in %s", self._uuid, task.key, task.place)
        return task

    def _archived_before(self) -> ArchivedTask:
        found = self._shelf.find(self._uuid)
        if self._row.status is TaskStatus.ARCHIVED and found is not None:
            self._remove_mirror()
            return found
        if self._row.status is TaskStatus.ARCHIVED:
            raise self._no_archive()
        raise TaskNotFound("no_folder", uuid=self._uuid, status=self._row.status.value)

    def _put_away(self, folder: Path) -> tuple[ArchivedTask, bool]:
        """The packed task, made now or found; it has been read back from where it lies."""
        found = self._shelf.find(self._uuid)
        if found is not None:
            self._shelf.check(found, contents_of(folder, self._place))
            return found, False
        form = self._settings.archive.format
        path = self._place / f".{self._uuid}.{secrets.token_hex(4)}.packed"
        try:
            packed = pack(folder, path, form)
            self._done("packed")
            stored = self._shelf.put(self._uuid, path, packed, form)
            self._done("stored")
            return self._shelf.describe(self._uuid, stored, packed, form, self._status_before().value), True
        finally:
            path.unlink(missing_ok=True)

    def _mark(self, task: ArchivedTask) -> None:
        if self._row.status is TaskStatus.ARCHIVED:
            return
        metadata = {**self._row.metadata, ARCHIVED: task.as_dict()}
        self._catalogue.update(self._uuid, metadata=metadata, epoch=self._lease.epoch)
        self._done("noted")
        self._catalogue.change_status(self._uuid, TaskStatus.ARCHIVED, epoch=self._lease.epoch, keep_lease=True)

    def _remove_folder(self, folder: Path) -> None:
        self._catalogue.renew(self._lease)
        gone = self._place / f".{self._uuid}.{secrets.token_hex(4)}.gone"
        with wrapping(folder):
            folder.rename(gone)  # in one step: a folder that is half removed would look like a damaged task
            sync_folder(folder.parent)
        self._done("moved away")
        shutil.rmtree(gone, ignore_errors=True)  # what is left is removed by the next run

    def _remove_mirror(self) -> None:
        """The live copy of the task, if there was one, is of no use any more."""
        storage = self._storage()
        if storage is None:
            return
        try:
            storage.delete(f"{MIRRORS}/{self._uuid}/manifest.json")
            for name in list(storage.names(f"{MIRRORS}/{self._uuid}")):
                storage.delete(name)
        except StorageError as error:
            logger.warning("%s: the mirror could not be removed: %s", self._uuid, error)

    # ---- and back ----------------------------------------------------------------------------------------------

    def restore(self) -> Path:
        folder = self.folder()
        if self._row.status is not TaskStatus.ARCHIVED and (folder is None or self._row.status not in FINISHED):
            raise IllegalTransition("not_archived", uuid=self._uuid, status=self._row.status.value)
        make_private_folder(self._place)
        self._clear_leftovers()
        task = self._shelf.find(self._uuid)
        if folder is None:
            if task is None:
                raise self._no_archive()
            folder = self._unpacked(task)
            self._done("unpacked")
        if self._row.status is TaskStatus.ARCHIVED:
            before = self._status_before(task)
            self._catalogue.change_status(self._uuid, before, epoch=self._lease.epoch, keep_lease=True)
            self._done("marked")
        self._take_off(task)
        return folder

    def _unpacked(self, task: ArchivedTask) -> Path:
        target = self._base.folders.base_dir / "completed" / self._uuid
        token = secrets.token_hex(4)
        packed, folder = self._place / f".{self._uuid}.{token}.packed", self._place / f".{self._uuid}.{token}.folder"
        try:
            self._shelf.unpack(task, packed, folder)
            self._done("verified")
            make_private_folder(target.parent)
            with wrapping(target):
                folder.rename(target)
                sync_folder(target.parent)
        finally:
            with suppress(OSError):
                packed.unlink()
            shutil.rmtree(folder, ignore_errors=True)
        return target

    def _take_off(self, task: ArchivedTask | None) -> None:
        """The folder stands; a packed copy that stays would differ from it as soon as somebody works on the task."""
        if task is not None:
            try:
                self._shelf.remove(task)
            except StorageError as error:
                logger.warning("%s: the packed task stays in the archive: %s", self._uuid, error)
        self._done("taken off")
        if ARCHIVED in self._row.metadata:
            metadata = {name: value for name, value in self._row.metadata.items() if name != ARCHIVED}
            self._catalogue.update(self._uuid, metadata=metadata, epoch=self._lease.epoch)

    # ---- both --------------------------------------------------------------------------------------------------

    def _status_before(self, task: ArchivedTask | None = None) -> TaskStatus:
        """What the task was before it was archived."""
        if self._row.status is not TaskStatus.ARCHIVED:
            return self._row.status
        noted = self._row.metadata.get(ARCHIVED)
        known = noted.get("status") if isinstance(noted, dict) else None if task is None else task.status
        return TaskStatus(known) if known in FINISHED else TaskStatus.COMPLETED

    def _no_archive(self) -> DamagedStore:
        noted = self._row.metadata.get(ARCHIVED)
        known = noted if isinstance(noted, dict) else {}
        return DamagedStore(
            "no_archive",
            uuid=self._uuid,
            place=self._shelf.storage.place,
            key=known.get("key", key_of(self._uuid, self._settings.archive.format)),
            noted=known.get("place", "-"),
        )

    def _clear_leftovers(self) -> None:
        """What a run that died has left of this task; the lease says that no other run is at it."""
        for path in self._place.glob(f".{self._uuid}.*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def _done(self, step: str) -> None:
        logger.debug("%s: %s", self._uuid, step)
