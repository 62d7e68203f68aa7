"""One task under its lease, on its way into its archive or out of it.

Each step can be the last one before a crash; what the next run finds tells it where to go on. The docstring of
``archive.archive`` says what is promised.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from orihon.catalogue import Lease
from orihon.catalogue.queue import TELL
from orihon.catalogue.rows import CLEANED
from orihon.drivers.objects import ObjectStorage
from orihon.drivers.postgres import postgres_of
from orihon.errors import DamagedStore, IllegalTransition, KeyUnavailable, StateError, StorageError, TaskNotFound
from orihon.guard import KEY_COPY, KEY_FILE
from orihon.guard.sealer import is_sealed_file
from orihon.search.maintenance import read_before_packing
from orihon.settings import Settings
from orihon.store.contract import SEALED
from orihon.store.factory import backend_of
from orihon.store.files import FilesRecords
from orihon.store.key_places import needed_keys
from orihon.store.task_store import TaskStore
from orihon.system.files import make_private_folder, move_durably, publish_folder, staged_folder, wrapping
from orihon.tasks.base import OpenBase
from orihon.tasks.mirror import Mirror
from orihon.tasks.owning import Ownership
from orihon.tasks.place import TaskPlace, reached_epoch
from orihon.texts import text
from orihon.transfer.archive.archive_store import FOLDER, ArchivedTask, Shelf, key_of
from orihon.transfer.archive.packed_file import contents_of, pack
from orihon.transfer.staging import RESTORE, StagedRecords, copy_task, fence, open_unguarded, remove_from_database
from orihon.values.records import FINAL_SUMMARY as FINAL_SUMMARY
from orihon.values.task import FINISHED, TaskStatus, check_change

logger = logging.getLogger("orihon.archive")

#: In the row's metadata: what is known of the packed task, and the status to come back to.
ARCHIVED = "archived"
#: The same, while a task's records are being removed: what its tombstone will say.
CLEANING = "cleaning"
#: Characters of it that a row keeps.
_MOST_SUMMARY = 8000
#: A writer's place: of no use in a packed folder, and never twice the same.
_WRITER, _WRITERS = "writer.json", ("writer.json", "writer.lock")
#: What a folder may have besides what is copied. It was put there for people.
_FOR_PEOPLE = ("aside", KEY_FILE, KEY_COPY)

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
        self._shelf = shelf_of(base.path, base.settings)

    def _storage(self) -> ObjectStorage | None:
        return None if self._settings.archive.url is None else ObjectStorage.of(self._settings)

    @property
    def lease(self) -> Lease:
        return self._owned.lease

    def place(self) -> TaskPlace | None:
        """Where the task lies: the one way to its folder."""
        return self._base.folders.settle(self._uuid, self._row.status, still=self._owned.renew)

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
            return self._archive_from_database(place)
        task = self._put_and_mark(place.folder)
        self._remove_folder(place.folder)
        return self._archived(task)

    def _archive_from_database(self, place: TaskPlace) -> ArchivedTask:
        with staged_folder(self._new_path("folder")) as exported:
            self._export(place.folder, exported)
            self._done("exported")
            task = self._put_and_mark(exported)
        self._owned.renew()
        self._remove_records(place)
        return self._archived(task)

    def _export(self, place: Path, folder: Path) -> None:
        """Everything as a new folder of the ``files`` back end: the same each time, so a second run finds its like."""
        make_private_folder(folder)
        with closing(self._store(place, "postgres")) as source, closing(self._store(folder, "files")) as copy:
            fence(source, self.lease.epoch, self._owned.raise_epoch)
            copy_task(source, copy)
        for name in _WRITERS:
            with wrapping(folder):
                (folder / name).unlink(missing_ok=True)

    def _remove_records(self, place: TaskPlace) -> None:
        """Out of the database; whoever wrote them is refused afterwards."""
        remove_from_database(place, self._settings, fenced=True)
        self._done("moved away")

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
            with suppress(OSError):  # what is left is removed by the next run
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
            move_durably(folder, gone)  # in one step: a folder that is half removed would look like a damaged task
        self._done("moved away")
        shutil.rmtree(gone, ignore_errors=True)  # what is left is removed by the next run

    def _remove_mirror(self) -> None:
        """The live copy of the task, if there was one, is of no use any more."""
        storage = self._storage()
        if storage is None:
            return
        try:
            Mirror(storage, self._uuid).remove()
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
            with self.unpacked(task) as folder:
                self._done("verified")
                is_wanted_there = self._settings.context_storage.backend == "postgres"
                place = self._into_database(folder, task) if is_wanted_there else self._into_folder(folder)
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
        if self._noted_hash() not in (None, task.content_sha256):
            raise DamagedStore("archive", path=task.key, detail=text("archive.exchanged"))

    def _noted_hash(self) -> object:
        noted = self._row.metadata.get(ARCHIVED)
        return noted.get("content_sha256") if isinstance(noted, dict) else None

    @contextmanager
    def unpacked(self, task: ArchivedTask) -> Iterator[Path]:
        """The packed task as a folder, verified, which goes with the block unless it is published before."""
        packed = self._new_path("packed")
        with staged_folder(self._new_path("folder")) as folder:
            try:
                self._shelf.unpack(task, packed, folder)
                yield folder
            finally:
                with suppress(OSError):
                    packed.unlink()

    def _into_folder(self, folder: Path) -> TaskPlace:
        place = self._base.folders.new_place(self._uuid, TaskStatus.COMPLETED)
        if backend_of(folder, "files") == "files" and not (folder / _WRITER).exists():
            # Packed without a writer's place, it gets one: lower epochs are refused.
            durability = self._settings.context_storage.durability
            with closing(FilesRecords(folder, durability=durability)) as records:
                records.claim(self.lease.epoch)
        publish_folder(folder, place.folder)
        return place

    def _into_database(self, folder: Path, task: ArchivedTask) -> TaskPlace:
        from orihon.store.postgres_moving import left_epoch

        self._keep_for_people(folder)
        reached = max(reached_epoch(folder), left_epoch(postgres_of(self._settings), self._uuid))
        epoch = self._owned.raise_epoch(reached) if reached > self.lease.epoch else self.lease.epoch
        with self._staged_records() as staged:
            with (
                closing(self._unpacked_store(folder, task)) as source,
                closing(self._store(staged.folder, "postgres", epoch)) as copy,
            ):
                copy_task(source, copy, reached=self._done)
            staged.publish()
        return self._base.folders.in_database(self._uuid)

    def _unpacked_store(self, folder: Path, task: ArchivedTask) -> TaskStore:
        """The unpacked records. A run that died may have left a key for its copy of plain ones; the row's hash of them
        proves that they are no plain ones in the place of sealed ones.
        """
        was_plain = not (folder / SEALED).exists() and self._noted_hash() == task.content_sha256
        backend = backend_of(folder, "files")
        local = {"database.url": None, "context_storage.backend": backend}
        settings = self._settings.replace(**local) if was_plain else self._settings
        return open_unguarded(folder, settings, backend, self._uuid)

    def _keep_for_people(self, folder: Path) -> None:
        """What an unpacked folder has and the database does not keep goes to a new folder in ``aside/``."""
        aside = self._base.path / "aside" / f"{self._uuid}.archive.{secrets.token_hex(4)}"
        for path in (folder / name for name in _FOR_PEOPLE):
            if path.exists():
                make_private_folder(aside)
                with wrapping(path):
                    move_durably(path, aside / path.name)

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

    def _staged_records(self) -> StagedRecords:
        return StagedRecords(self._base.folders, postgres_of(self._settings), self._uuid, RESTORE)

    def _store(self, folder: Path, backend: str, epoch: int | None = None) -> TaskStore:
        return open_unguarded(folder, self._settings, backend, self._uuid, epoch=epoch)

    def _summary_in(self, folder: Path) -> str:
        path = folder / FINAL_SUMMARY
        with wrapping(path):
            written = path.read_bytes() if path.exists() else b""
        if not is_sealed_file(written):
            is_foreign = (folder / SEALED).exists()  # a plain file in the folder of a sealed task is not the task's
            return "" if is_foreign else shortened_summary(written)
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
                with wrapping(path):
                    path.unlink(missing_ok=True)
        if self._settings.database.url is not None:
            self._staged_records().clear()

    def _done(self, step: str) -> None:
        logger.debug("%s: %s", self._uuid, step)


def shelf_of(base: Path, settings: Settings) -> Shelf:
    """Where a base keeps its packed tasks, by its settings."""
    if settings.archive.url is not None:
        return Shelf(ObjectStorage.of(settings), notes=base / FOLDER)
    from orihon.drivers.objects import FolderStorage

    return Shelf(FolderStorage(base, may_be_links=(FOLDER,)))


def refuse_local(place: TaskPlace, settings: Settings) -> None:
    """All machines see a task that is in the database; packed onto the disk of one, it would be lost to the others."""
    if place.is_in_database and settings.archive.url is None:
        raise IllegalTransition("archive_local", uuid=place.uuid)


def shortened_summary(written: bytes | None) -> str:
    """A final summary as a row keeps it."""
    summary = (written or b"").decode(errors="replace")
    return summary if len(summary) <= _MOST_SUMMARY else summary[: _MOST_SUMMARY - 1] + "…"
