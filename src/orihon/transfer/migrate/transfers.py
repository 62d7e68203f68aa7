"""How the records of a task change their place, for each kind of pair of back ends.

What counts is what ``TaskFolders`` finds: a folder among ``running``, ``paused`` and ``completed``, and in it
``context.db`` before the JSON Lines; the database where there is no folder. A copy grows where nothing counts. Then one
rename makes it count, or takes away what counted before it. Nothing of a folder is deleted: it goes to ``aside/``.
"""

from __future__ import annotations

import logging
import secrets
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path

from orihon.drivers.postgres import postgres_of
from orihon.errors import DamagedStore, StorageUnavailable
from orihon.settings import Settings
from orihon.store.contract import DERIVED, STREAMS
from orihon.store.copy import is_beginning
from orihon.store.sealed import SealedRecords
from orihon.store.task_store import TaskStore
from orihon.system.files import make_private_folder, move_aside, move_durably, publish_folder, sync_folder, wrapping
from orihon.tasks.base import is_id
from orihon.tasks.place import TaskFolders, TaskPlace, folders_of
from orihon.transfer.staging import MOVE, StagedRecords, open_unguarded, remove_from_database
from orihon.values.task import TaskStatus, folder

logger = logging.getLogger("orihon.migration")

#: Folders that are being filled.
MOVING = "moving"

_LINES = tuple(f"{stream}.jsonl" for stream in STREAMS)
#: The files of the ``files`` back end; the writer's place last, for it says that the others are there.
_FILES = (*_LINES, *(f"{name}.json" for name in sorted(DERIVED)), "current.jsonl", "writer.lock", "writer.json")
_BESIDE_DATABASE = ("context.db-wal", "context.db-shm")


class Transfer(ABC):
    """From one back end to another below one base folder.

    ``is_local`` says of a task whether its keys, where it is in a folder, are in the base folder: beside its row.
    """

    def __init__(
        self, base: Path, settings: Settings, source: str, target: str, is_local: Callable[[str], bool]
    ) -> None:
        self.base = base
        self._is_local = is_local
        self.source = source
        self.target = target
        self.settings = settings
        self.folders = folders_of(base, settings)
        self._local = local_settings(settings)

    def find(self, uuid: str) -> TaskPlace | None:
        """Where the records that count are."""
        return self.folders.find(uuid)

    def store(self, place: Path, uuid: str, backend: str) -> TaskStore:
        """The records in a place; each with the keys of its side."""
        return open_unguarded(place, self._key_settings(uuid, backend), backend, uuid)

    def _staged_store(self, place: Path, uuid: str, epoch: int, *, seals_new: bool = True) -> TaskStore:
        settings = self._key_settings(uuid, self.target)
        return open_unguarded(place, settings, self.target, uuid, epoch=epoch, seals_new=seals_new, is_staged=True)

    def _key_settings(self, uuid: str, backend: str) -> Settings:
        return self._local if backend != "postgres" and self._is_local(uuid) else self.settings

    @abstractmethod
    def uuids(self) -> Iterable[str]:
        """Every task with records at the source: such that count, and such that an interrupted move has left."""

    @abstractmethod
    def new_copy(self, uuid: str, epoch: int) -> TaskStore:
        """An empty store for the copy; what an interrupted move has left there is gone."""

    @abstractmethod
    def switch(self, uuid: str, place: Path, status: TaskStatus) -> None:
        """The copy counts from now on, and nothing else does. Both stores are closed."""

    @abstractmethod
    def is_tidy(self, uuid: str) -> bool:
        """The copy counts: is it all there is?"""

    @abstractmethod
    def tidy(self, uuid: str) -> None:
        """The copy counts: put away what is left of the source."""

    def _staged_uuids(self) -> list[str]:
        moving = self.base / MOVING
        with wrapping(moving):
            return [path.name for path in moving.iterdir() if is_id(path.name)] if moving.is_dir() else []

    def _in_folders(self) -> list[TaskPlace]:
        return [place for place in TaskFolders(self.base).all() if is_id(place.uuid)]

    def _staged(self, uuid: str) -> Path:
        return self.base / MOVING / uuid

    def _drop_staged(self, uuid: str) -> None:
        """Only ever a copy: what it was made of is where it was, or the copy has left this place."""
        with wrapping(self._staged(uuid)), suppress(FileNotFoundError):
            shutil.rmtree(self._staged(uuid))
        with suppress(OSError):  # somebody else fills a folder there
            (self.base / MOVING).rmdir()

    def _aside(self, uuid: str) -> Path:
        path = self.base / "aside" / f"{uuid}.{self.source}.{secrets.token_hex(4)}"
        make_private_folder(path)
        return path

    def _put_aside(self, uuid: str, paths: Iterable[Path]) -> None:
        there = [path for path in paths if path.exists()]
        if not there:
            return
        aside = self._aside(uuid)
        for path in there:
            with wrapping(path):
                path.rename(aside / path.name)
        with wrapping(aside):
            sync_folder(aside)
            sync_folder(there[0].parent)

    def _refuse_other_log(self, uuid: str, leftover: TaskStore, whole: TaskStore) -> None:
        if not is_beginning(leftover.records, whole.records):
            raise DamagedStore("two_places", uuid=uuid, source=self.source, target=self.target)


class FolderTransfer(Transfer):
    """Between ``files`` and ``sqlite``: within the task's folder, where everything else stays as it is."""

    def uuids(self) -> Iterable[str]:
        there = [
            place.uuid
            for place in self._in_folders()
            if place.backend() == self.source or self._left_over(place.folder)
        ]
        return [*there, *self._staged_uuids()]

    def _left_over(self, place: Path) -> list[Path]:
        """Files of the source in a folder where they do not count any more."""
        if (place / "context.db").exists():
            names = [*_LINES, "writer.lock", "writer.json"] if self.source == "files" else []
        else:
            names = [*_BESIDE_DATABASE] if self.source == "sqlite" else []
        return [place / name for name in names if (place / name).exists()]

    def new_copy(self, uuid: str, epoch: int) -> TaskStore:
        self._drop_staged(uuid)
        make_private_folder(self._staged(uuid))
        # Contents and files stay in the folder, so the copy is sealed if they are, whatever is wanted for new tasks.
        return self._staged_store(self._staged(uuid), uuid, epoch, seals_new=False)

    def switch(self, uuid: str, place: Path, status: TaskStatus) -> None:
        staged = self._staged(uuid)
        with closing(self.store(place, uuid, self.source)) as store:
            if isinstance(store.records, SealedRecords):
                store.records.allow(self.target)  # the marker stays where it is
        if self.target == "sqlite":
            _refuse_unwritten(staged)
            # A log of another database would be taken for this one's.
            self._put_aside(uuid, [place / name for name in _BESIDE_DATABASE])
            with wrapping(place):
                move_durably(staged / "context.db", place / "context.db")
            return
        self._put_aside(uuid, [place / name for name in _FILES])  # of an interrupted move: context.db still counts
        with wrapping(place):
            for name in _FILES:
                with suppress(FileNotFoundError):
                    (staged / name).rename(place / name)
            sync_folder(place)
        logger.debug("%s: %s", uuid, "moved_in")
        self._put_aside(uuid, [place / name for name in ("context.db", *_BESIDE_DATABASE)])

    def is_tidy(self, uuid: str) -> bool:
        place = self.find(uuid)
        return not self._staged(uuid).exists() and (place is None or not self._left_over(place.folder))

    def tidy(self, uuid: str) -> None:
        place = self.find(uuid)
        if place is not None and self._left_over(place.folder):
            if self.source == "files":
                self._refuse_other_lines(uuid, place.folder)
            names = _FILES if self.source == "files" else _BESIDE_DATABASE
            self._put_aside(uuid, [place.folder / name for name in names])
        self._drop_staged(uuid)

    def _refuse_other_lines(self, uuid: str, place: Path) -> None:
        from orihon.store.files import FilesRecords

        with closing(FilesRecords(place)) as lines, closing(self.store(place, uuid, "sqlite")) as whole:
            if not is_beginning(lines, whole.records.bare):
                raise DamagedStore("two_places", uuid=uuid, source=self.source, target=self.target)


class _DatabaseTransfer(Transfer):
    """One of the two back ends is the database."""

    def __init__(
        self, base: Path, settings: Settings, source: str, target: str, is_local: Callable[[str], bool]
    ) -> None:
        super().__init__(base, settings, source, target, is_local)
        self._pool = postgres_of(settings)

    def _scratch(self, name: str) -> Path:
        return self.folders.in_database(name).folder


class ToDatabase(_DatabaseTransfer):
    """From a folder to the database; the folder goes aside as a whole."""

    def uuids(self) -> Iterable[str]:
        return [place.uuid for place in self._in_folders() if place.backend() == self.source]

    def new_copy(self, uuid: str, epoch: int) -> TaskStore:
        staged = self._staged_records(uuid)
        staged.clear()
        return self._staged_store(staged.folder, uuid, epoch)

    def switch(self, uuid: str, place: Path, status: TaskStatus) -> None:
        with (
            closing(self.store(self._scratch(uuid), uuid, "postgres")) as former,
            closing(self.store(place, uuid, self.source)) as whole,
        ):
            self._refuse_other_log(uuid, former, whole)
        self._staged_records(uuid).publish()  # does not count yet: there is a folder
        logger.debug("%s: %s", uuid, "moved_in")
        move_aside(place, self.base, f"{uuid}.{self.source}")

    def is_tidy(self, uuid: str) -> bool:
        return not self._staged_records(uuid).is_there()

    def tidy(self, uuid: str) -> None:
        self._staged_records(uuid).clear()

    def _staged_records(self, uuid: str) -> StagedRecords:
        return StagedRecords(self.folders, self._pool, uuid, MOVE)


class FromDatabase(_DatabaseTransfer):
    """From the database to a folder; what was in the database is deleted."""

    def uuids(self) -> Iterable[str]:
        from orihon.store.postgres_moving import all_tasks

        return [*(name for name in all_tasks(self._pool) if is_id(name)), *self._staged_uuids()]

    def new_copy(self, uuid: str, epoch: int) -> TaskStore:
        self._drop_staged(uuid)
        make_private_folder(self._staged(uuid))
        return self._staged_store(self._staged(uuid), uuid, epoch)

    def switch(self, uuid: str, place: Path, status: TaskStatus) -> None:
        _refuse_unwritten(self._staged(uuid))
        publish_folder(self._staged(uuid), self.base / (folder(status) or "completed") / uuid)

    def is_tidy(self, uuid: str) -> bool:
        return not self._staged(uuid).exists() and not self._is_kept(uuid)

    def tidy(self, uuid: str) -> None:
        place = self.find(uuid)
        if place is not None and not place.is_in_database and self._is_kept(uuid):
            self._remove_former(uuid, place)
        self._drop_staged(uuid)

    def _is_kept(self, uuid: str) -> bool:
        from orihon.store.postgres_section import is_kept_in

        return is_kept_in(self._pool, uuid)

    def _remove_former(self, uuid: str, place: TaskPlace) -> None:
        with (
            closing(self.store(self._scratch(uuid), uuid, "postgres")) as former,
            closing(self.store(place.folder, uuid, place.backend())) as whole,
        ):
            self._refuse_other_log(uuid, former, whole)
        remove_from_database(self.folders.in_database(uuid), self.settings, fenced=True)


def transfer_between(
    base: Path, settings: Settings, source: str, target: str, is_local: Callable[[str], bool]
) -> Transfer:
    """The transfer for a pair of back ends."""
    kind = ToDatabase if target == "postgres" else FromDatabase if source == "postgres" else FolderTransfer
    return kind(base, settings, source, target, is_local)


def local_settings(settings: Settings) -> Settings:
    """The same settings on this machine alone."""
    return settings.replace(**{"database.url": None, "context_storage.backend": "files"})


def _refuse_unwritten(staged: Path) -> None:
    """A database is moved without its log, which must therefore be empty."""
    log = staged / "context.db-wal"
    with wrapping(log):
        if log.exists() and log.stat().st_size:
            raise StorageUnavailable("held_open", path=staged / "context.db")
