"""One task under its lease, on its way into its archive or out of it.

Each step can be the last one before a crash; what the next run finds tells it where to go on. The docstring of
``archive.archive`` says what is promised.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from orihon.catalogue import Lease
from orihon.catalogue.queue import TELL
from orihon.catalogue.rows import CLEANED
from orihon.drivers.objects import ObjectStorage
from orihon.errors import DamagedStore, IllegalTransition, KeyUnavailable, StateError, StorageError, TaskNotFound
from orihon.guard.encryption.sealer import is_sealed_file
from orihon.search.maintenance import read_before_packing
from orihon.settings import Settings
from orihon.store.key_places import needed_keys
from orihon.system.files import make_private_folder, sync_folder, wrapping
from orihon.tasks.base import OpenBase
from orihon.tasks.mirror.manifest import MIRRORS
from orihon.tasks.owning import Ownership
from orihon.tasks.place import TaskPlace
from orihon.texts import text
from orihon.transfer.archive.archive_store import FOLDER, ArchivedTask, Shelf, key_of
from orihon.transfer.archive.in_database import TaskInDatabase, give_epoch, keep_for_people
from orihon.transfer.archive.packed_file import contents_of, pack
from orihon.values.task import FINISHED, TaskStatus, check_change

logger = logging.getLogger("orihon.archive")

#: In the row's metadata: what is known of the packed task, and the status to come back to.
ARCHIVED = "archived"
#: The same, while a task's records are being removed: what its tombstone will say.
CLEANING = "cleaning"
FINAL_SUMMARY = "final_summary.txt"
#: Characters of it that a row keeps.
_MOST_SUMMARY = 8000

AnyWork = TypeVar("AnyWork", bound="Work")


@contextmanager
def at_work(base: OpenBase, uuid: str, kind: type[AnyWork]) -> Iterator[AnyWork]:
    """The task, owned while the block lasts."""
    with ExitStack() as stack:
        if kind.for_removal:
            base = stack.enter_context(OpenBase(base.path, base.settings, for_removal=True))
        yield kind(base, stack.enter_context(base.own(uuid)))


class Work:
    """One task on its way into its archive or out of it. Each step can be the last one before a crash."""

    for_removal: ClassVar[bool] = False  # see ``OpenBase``

    def __init__(self, base: OpenBase, owned: Ownership) -> None:
        self._base = base
        self._settings = base.settings
        self._owned = owned
        self._catalogue = owned.catalogue
        self._row = owned.row()
        self._uuid = owned.uuid
        self._place = base.path / FOLDER  # for packed tasks, and for what is being made
        storage = self._storage()
        if storage is None:
            from orihon.drivers.objects.folder import FolderStorage

            storage = FolderStorage(base.path)
        self._shelf = Shelf(storage)

    def _storage(self) -> ObjectStorage | None:
        return None if self._settings.archive.url is None else ObjectStorage.of(self._settings)

    @property
    def lease(self) -> Lease:
        return self._owned.lease

    def place(self) -> TaskPlace | None:
        """Where the task lies: the one way to its folder."""
        return self._base.folders.settle(self._uuid, self._row.status)

    # ---- into the archive --------------------------------------------------------------------------------------

    def archive(self) -> ArchivedTask:
        self._refuse_tombstone()
        if self._row.status is not TaskStatus.ARCHIVED:
            check_change(self._row.status, TaskStatus.ARCHIVED)
            if self._row.requested == TELL:
                raise IllegalTransition("untold", uuid=self._uuid, status=self._row.status.value)
        make_private_folder(self._place)
        self._clear_leftovers()
        place = self.place()
        if place is None:
            return self._archived_before()
        refuse_local(place, self._settings)
        read_before_packing(self._base, self._uuid)
        if place.is_in_database:
            return self._archive_from_database(self._in_database())
        task = self._put_and_mark(place.folder)
        self._remove_folder(place.folder)
        return self._archived(task)

    def _archive_from_database(self, database: TaskInDatabase) -> ArchivedTask:
        exported = self._new_path("folder")
        try:
            database.export(exported, self.lease.epoch, self._raise_epoch)
            self._done("exported")
            task = self._put_and_mark(exported)
        finally:
            shutil.rmtree(exported, ignore_errors=True)
        self._owned.renew()
        database.remove()
        return self._archived(task)

    def _put_and_mark(self, folder: Path) -> ArchivedTask:
        task, is_new = self._put_away(folder)
        self._done("put away")
        try:
            self._mark(task, self._summary_in(folder))
        except StateError:
            if is_new:  # somebody has taken the task up again: what is packed is no longer all of it
                self._shelf.remove(task)
            raise
        self._done("marked")
        return task

    def _archived(self, task: ArchivedTask) -> ArchivedTask:
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
        path = self._new_path("packed")
        try:
            packed = pack(folder, path, form)
            self._done("packed")
            stored = self._shelf.put(self._uuid, path, packed, form)
            self._done("stored")
            return self._shelf.describe(self._uuid, stored, packed, form, self._status_before()), True
        finally:
            path.unlink(missing_ok=True)

    def _mark(self, task: ArchivedTask, summary: str) -> None:
        if self._row.status is TaskStatus.ARCHIVED:
            return
        metadata = {**self._other_metadata(), ARCHIVED: {**task.as_dict(), "final_summary": summary}}
        self._catalogue.tasks.update(self._uuid, metadata=metadata, epoch=self.lease.epoch)
        self._done("noted")
        self._catalogue.tasks.change_status(
            self._uuid,
            TaskStatus.ARCHIVED,
            epoch=self.lease.epoch,
            statistics={"size_bytes": task.bytes},
            keep_lease=True,
        )

    def _remove_folder(self, folder: Path) -> None:
        self._owned.renew()
        gone = self._new_path("gone")
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

    def restore(self) -> TaskPlace:
        place = self.place()
        if self._row.status is not TaskStatus.ARCHIVED and (place is None or self._row.status not in FINISHED):
            raise IllegalTransition("not_archived", uuid=self._uuid, status=self._row.status.value)
        self._refuse_tombstone()
        make_private_folder(self._place)
        self._clear_leftovers()
        task = self._shelf.find(self._uuid)
        is_noted = self._other_metadata() != self._row.metadata
        if self._row.status is not TaskStatus.ARCHIVED and task is None and not is_noted:
            # Neither archived, nor on its way there or back when a run died.
            raise IllegalTransition("not_archived", uuid=self._uuid, status=self._row.status.value)
        if place is None:
            if task is None:
                self._refuse_tombstone(CLEANING)
                raise self._no_archive()
            self._refuse_exchanged(task)
            place = self._unpacked(task)
            self._done("unpacked")
            backend = place.backend()
            self._catalogue.tasks.update(self._uuid, backend=backend, epoch=self.lease.epoch)
        if self._row.status is TaskStatus.ARCHIVED:
            before = self._status_before(task)
            unpacked = {} if task is None else {"size_bytes": task.content_bytes}
            self._catalogue.tasks.change_status(
                self._uuid, before, epoch=self.lease.epoch, statistics=unpacked, keep_lease=True
            )
            self._done("marked")
        self._take_off(task)
        return place

    def _refuse_exchanged(self, task: ArchivedTask) -> None:
        """Whoever can write to the storage can exchange a packed task and its description; the row knows its hash."""
        noted = self._row.metadata.get(ARCHIVED)
        known = noted.get("content_sha256") if isinstance(noted, dict) else None
        if known not in (None, task.content_sha256):
            raise DamagedStore("archive", path=task.key, detail=text("archive.exchanged"))

    def _unpacked(self, task: ArchivedTask) -> TaskPlace:
        """The task where it counts again."""
        packed, folder = self._new_path("packed"), self._new_path("folder")
        try:
            self._shelf.unpack(task, packed, folder)
            self._done("verified")
            if self._settings.context_storage.backend == "postgres":
                return self._into_database(folder)
            return self._into_folder(folder)
        finally:
            with suppress(OSError):
                packed.unlink()
            shutil.rmtree(folder, ignore_errors=True)

    def _into_folder(self, folder: Path) -> TaskPlace:
        place = self._base.folders.new_place(self._uuid, TaskStatus.COMPLETED)
        target = place.folder
        give_epoch(folder, self.lease.epoch, self._settings)
        make_private_folder(target.parent)
        with wrapping(target):
            folder.rename(target)
            sync_folder(target.parent)
        return place

    def _into_database(self, folder: Path) -> TaskPlace:
        database = self._in_database()
        keep_for_people(folder, self._base.path / "aside" / f"{self._uuid}.archive.{secrets.token_hex(4)}")
        database.take_in(folder, self.lease.epoch, self._raise_epoch)
        return database.place

    def _take_off(self, task: ArchivedTask | None) -> None:
        """The folder stands; a packed copy that stays would differ from it as soon as somebody works on the task."""
        if task is not None:
            try:
                self._shelf.remove(task)
            except StorageError as error:
                logger.warning("%s: the packed task stays in the archive: %s", self._uuid, error)
        self._done("taken off")
        if (metadata := self._other_metadata()) != self._row.metadata:
            self._catalogue.tasks.update(self._uuid, metadata=metadata, epoch=self.lease.epoch)

    # ---- both --------------------------------------------------------------------------------------------------

    def _status_before(self, task: ArchivedTask | None = None) -> TaskStatus:
        """What the task was before it was archived."""
        if self._row.status is not TaskStatus.ARCHIVED:
            return self._row.status
        noted = self._row.metadata.get(ARCHIVED, self._row.metadata.get(CLEANING))
        known = noted.get("status") if isinstance(noted, dict) else None if task is None else task.status
        return TaskStatus(known) if known in FINISHED else TaskStatus.COMPLETED

    def _other_metadata(self) -> dict[str, Any]:
        """The row's metadata without our notes."""
        return {name: value for name, value in self._row.metadata.items() if name not in (ARCHIVED, CLEANING)}

    def _refuse_tombstone(self, mark: str = CLEANED) -> None:
        if mark in self._row.metadata:
            raise IllegalTransition("cleaned", uuid=self._uuid, at=self._row.metadata[mark].get("at", "-"))

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

    def _in_database(self) -> TaskInDatabase:
        return TaskInDatabase(self._base, self._uuid)

    def _raise_epoch(self, reached: int) -> int:
        return self._owned.raise_epoch(reached)

    def _summary_in(self, folder: Path) -> str:
        path = folder / FINAL_SUMMARY
        with wrapping(path):
            written = path.read_bytes() if path.exists() else b""
        if not is_sealed_file(written):
            return shortened_summary(written)
        try:
            sealer = needed_keys(self._base.path, self._settings).sealer(self._uuid)
        except KeyUnavailable:
            return ""  # a task whose key was erased can still be put away
        return shortened_summary(sealer.open_file(FINAL_SUMMARY, written))

    def _new_path(self, kind: str) -> Path:
        """A name for what is being made, or is going; see ``_clear_leftovers``."""
        return self._place / f".{self._uuid}.{secrets.token_hex(4)}.{kind}"

    def _clear_leftovers(self) -> None:
        """What a run that died has left of this task; the lease says that no other run is at it."""
        # Twice a dot: what somebody was writing who writes whole files, under the name of such a file.
        for path in chain(self._place.glob(f".{self._uuid}.*"), self._place.glob(f"..{self._uuid}.*")):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if self._settings.database.url is not None:
            self._in_database().forget_unfinished()

    def _done(self, step: str) -> None:
        logger.debug("%s: %s", self._uuid, step)


def refuse_local(place: TaskPlace, settings: Settings) -> None:
    """All machines see a task that is in the database; packed onto the disk of one, it would be lost to the others."""
    if place.is_in_database and settings.archive.url is None:
        raise IllegalTransition("archive_local", uuid=place.uuid)


def shortened_summary(written: bytes | None) -> str:
    """A final summary as a row keeps it."""
    summary = (written or b"").decode(errors="replace")
    return summary if len(summary) <= _MOST_SUMMARY else summary[: _MOST_SUMMARY - 1] + "…"
