"""Where a task lies (``TaskPlace``), and moving it so that a crash leaves it in one place.

The catalogue decides: it is updated first, then the folder follows. A folder found elsewhere was left behind by a
crash between the two and is moved at the next look. Of two folders of one task the owner puts one aside where the
records leave no doubt (see ``store.copy``); who only looks passes over one that holds nothing more.

A task whose records are in a database has no place on this machine's disk, only a scratch folder for the files that a
request is made of; that is gone when nobody works on the task.
"""

from __future__ import annotations

import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from orihon.catalogue.metadata import NAME as METADATA
from orihon.drivers.postgres import postgres_of
from orihon.errors import DamagedStore, StaleWriter, StorageUnavailable
from orihon.settings import Settings
from orihon.store.contract import SEALED
from orihon.store.copy import count_messages, whole_ones
from orihon.store.factory import backend_of
from orihon.store.sqlite_copies import DATABASE, read_fence
from orihon.store.take_over import put_back
from orihon.store.writer_place import NAME as WRITER
from orihon.store.writer_place import highest_epoch, holder_in
from orihon.system.files import is_regular, make_private_folder, move_aside, move_durably, wrapping
from orihon.values.task import TaskStatus, check_id, folder

if TYPE_CHECKING:
    from orihon.drivers.postgres.pool import Postgres

logger = logging.getLogger("orihon.context")

#: Raises ``StaleWriter`` where another process owns the task, as ``Ownership.renew`` does.
StillOwned = Callable[[], object]

_Found = TypeVar("_Found")

PLACES = ("running", "paused", "completed")
#: How often a folder is looked for before it is taken to be missing.
_LOOKS = 16
_UUID_LENGTH = 36
#: The reasons of errors that a reader meets when the owner moves the folder away, and perhaps back again.
OF_A_MOVE = frozenset(("gone", "io", "denied", "blob_missing"))
#: How often, at least, and for how long a reader begins anew while the folder is moved.
FEWEST_TRIES = 10
_SECONDS_OF_TRIES = 5.0
_PAUSE, _LONGEST_PAUSE = 0.002, 0.05
#: How the names of hidden folders end, beside the tasks, in which one is made: by a fork, by an import.
STAGED = (".fork", ".import")
#: Folders of tasks whose records are in a database.
_SCRATCH = "scratch"
#: Folders of a base in which tasks are moved, packed and removed as a whole.
_OF_WHOLE_TASKS = (*PLACES, _SCRATCH, "aside", "moving")
#: Names in a base that are no task's.
RESERVED = frozenset((*PLACES, _SCRATCH, "archive", "aside", "audit", "keys", "moving", "mirrored", "archives"))


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Where one task lies: in its folder, or in the database with a mere scratch folder here."""

    folder: Path
    is_in_database: bool = False
    is_bare: bool = False  # a folder that a program has named itself, not yet among those of its status
    is_fixed: bool = False  # the base itself, or one with keys of its own: it never moves

    @property
    def uuid(self) -> str:
        """The task's name, after which its folder is called."""
        return self.folder.name

    @property
    def position(self) -> str:
        """Which of the base's folders it lies in: ``running``, ``paused``, ``completed`` …"""
        return self.folder.parent.name

    def backend(self, default: str = "files") -> str:
        """The back end that keeps its records; ``default`` for one that has none yet."""
        return "postgres" if self.is_in_database else backend_of(self.folder, default)

    def is_right_for(self, status: TaskStatus) -> bool:
        """Is this where a task of this status lies? What is in the database never moves."""
        if self.is_bare:
            return self.is_fixed or folder(status) != "completed"
        return self.is_in_database or self.position == folder(status)

    def __str__(self) -> str:
        return str(self.folder)


def bare_place(path: Path, base: Path) -> TaskPlace | None:
    """The task in a folder that a program has named itself, below the base or the base itself."""
    if path.name in RESERVED or not path.is_dir() or not backend_of(path, ""):
        return None
    if path != base and path.is_symlink():
        return None
    return TaskPlace(path, is_bare=True, is_fixed=path == base or (path / "keys").exists())


def base_above(task_folder: Path) -> Path | None:
    """The base that a task's folder lies in; ``None`` for a folder by itself."""
    return task_folder.parent.parent if task_folder.parent.name in (*PLACES, _SCRATCH) else None


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise StorageUnavailable("linked_folder", path=path)


def folders_of(base_dir: Path, settings: Settings) -> TaskFolders:
    """The folders of a base folder's tasks, wherever the settings say that their records are."""
    if settings.database.url is None:
        return TaskFolders(base_dir)
    return SharedTaskFolders(base_dir, postgres_of(settings), settings.context_storage.backend)


def reached_epoch(folder: Path, *, sure: bool = False) -> int:
    """The highest epoch that has written to a task's folder: a lower one is refused.

    Where ``writer.json`` cannot be read, the records tell. Sealed ones cannot; ``sure``: then that is an error.
    """
    if (folder / DATABASE).exists():
        return read_fence(folder / DATABASE)
    path = folder / WRITER
    with wrapping(path):
        if is_regular(path) and (holder := holder_in(path.read_bytes())) is not None:
            return int(holder["epoch"])
    if sure and (folder / SEALED).exists() and os.path.lexists(path):
        raise DamagedStore("writer", path=path)
    return highest_epoch(folder / "messages.jsonl")


def _has_no_description(place: TaskPlace) -> bool:
    """Of folders without a record, the one that says which task it is was begun by the task's owner."""
    return not (place.folder / METADATA).exists()


def undecided(places: Sequence[TaskPlace]) -> DamagedStore:
    """What is said about folders of a task of which each holds what another does not."""
    counts = ((place, count_messages(place.folder)) for place in places)
    told = ", ".join(f"{place} ({'?' if count is None else count})" for place, count in counts)
    return DamagedStore("two_folders", uuid=places[0].uuid, places=told)


def tries_while_moved() -> Iterator[int]:
    """The numbers of the tries to read a task whose owner may move its folder in between; the last one after seconds.

    Pauses, longer each time: an owner that moves it to and fro without end is met at rest by one of them.
    """
    ends = time.monotonic() + _SECONDS_OF_TRIES
    number = 0
    while number < FEWEST_TRIES or time.monotonic() < ends:
        number += 1
        yield number
        time.sleep(min(_PAUSE * number, _LONGEST_PAUSE))


class TaskFolders:
    """The task folders below one base folder. Not by a link: what lies elsewhere is not ours to pack or remove."""

    def __init__(self, base_dir: Path) -> None:
        self.base_dir = base_dir
        for name in _OF_WHOLE_TASKS:
            _refuse_link(base_dir / name)

    def places(self, uuid: str) -> list[TaskPlace]:
        """Every place of this task; more than one is damage."""
        return self._on_disk(uuid)

    def _on_disk(self, uuid: str) -> list[TaskPlace]:
        check_id(uuid)
        # The owner may move the folder between our looks at two places: it was then seen nowhere, or twice.
        # There and back, or two that go in step could miss each other again and again.
        if (bare := self._bare(uuid)) is not None:
            return [bare, *self._look(uuid)]
        looks = (self._look(uuid, PLACES[:: 1 if number % 2 else -1]) for number in range(_LOOKS))
        return next((found for found in looks if found), [])

    def _bare(self, uuid: str) -> TaskPlace | None:
        found = bare_place(self.base_dir / uuid, self.base_dir)
        return found or (bare_place(self.base_dir, self.base_dir) if self.base_dir.name == uuid else None)

    def _look(self, uuid: str, places: tuple[str, ...] = PLACES) -> list[TaskPlace]:
        found = {}
        for place in places:
            try:
                status = os.lstat(f"{self.base_dir}/{place}/{uuid}")  # by Path it takes twice as long
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISDIR(status.st_mode):
                # A folder keeps its number when it is moved.
                found[status.st_dev, status.st_ino] = TaskPlace(self.base_dir / place / uuid)
        return list(found.values())

    def _all_bare(self) -> list[TaskPlace]:
        folders = [self.base_dir, *sorted(self.base_dir.iterdir())] if self.base_dir.is_dir() else []
        return [place for path in folders if (place := bare_place(path, self.base_dir)) is not None]

    def find(self, uuid: str) -> TaskPlace | None:
        """Where the task lies."""
        found = self.places(uuid)
        for _ in range(_LOOKS):
            if len(found) < 2:
                return found[0] if found else None
            whole = whole_ones([place.folder for place in found])
            before, found = found, self.places(uuid)
            if found != before:
                continue  # its owner has moved it while we looked into it
            if whole:
                ones = (place for place in found if place.folder in whole)
                return min(ones, key=lambda place: (_has_no_description(place), place.position != PLACES[0]))
            break
        raise undecided(found)

    def where_it_lies(self, uuid: str, attempt: Callable[[], _Found]) -> _Found:
        """What ``attempt`` finds; again, so many times, when the task was moved from where it had been seen."""
        for number in tries_while_moved():
            before = self.places(uuid), self._last_moves()
            try:
                return attempt()
            except StorageUnavailable as error:
                # What was not there may be back by now; a disk that fails is not asked again.
                is_missing = error.reason in ("gone", "denied") or isinstance(error.__cause__, FileNotFoundError)
                if (self.places(uuid), self._last_moves()) == before and not (is_missing and number < FEWEST_TRIES):
                    raise
                problem = error
        raise problem

    def _last_moves(self) -> list[int]:
        """When something last came or went: a task that was moved away and back lies where it lay."""
        found = []
        for name in PLACES:
            with suppress(OSError):
                found.append((self.base_dir / name).stat().st_mtime_ns)
        return found

    def unite(self, uuid: str, status: TaskStatus) -> TaskPlace | None:
        """Where the task lies, for its owner, in one folder."""
        self.put_copies_aside(uuid, status)
        return self.find(uuid)

    def put_copies_aside(self, uuid: str, status: TaskStatus) -> None:
        """For the task's owner: a second folder that holds nothing more goes aside, as a whole."""
        found = self._on_disk(uuid)
        if len(found) > 1:
            whole = whole_ones([place.folder for place in found])
            ranked = sorted(found, key=lambda place: (not place.is_right_for(status), _has_no_description(place)))
            best = next((place for place in ranked if place.folder in whole), None)
            others = [place for place in found if place != best]
            if best is None or any(place.is_fixed for place in others):
                raise undecided(found)
            for place in others:
                kept = move_aside(place.folder, self.base_dir, f"{uuid}.{place.position}")
                logger.warning("%s: had a second folder with nothing of its own; it is kept in %s", uuid, kept)

    def put_back(self, uuid: str) -> TaskPlace | None:
        """Where the task lies whose take-over was broken off, under its name again; for whoever has its lease.

        ``None`` when it was not, as for one that lies where it should.
        """
        here = [] if self.places(uuid) else [*(self.base_dir / place for place in PLACES), self.base_dir]
        for parent in here:
            if put_back(parent / check_id(uuid)):
                return self.find(uuid)
        return None

    def settle(self, uuid: str, status: TaskStatus, *, still: StillOwned) -> TaskPlace | None:
        """Put the folder where its status says; ``None`` when there is no folder.

        ``still`` is asked when it has to be moved, before and after: a process that stood still in between has moved
        the folder of the next owner, and gives it back.
        """
        wanted = folder(status)
        here = self.unite(uuid, status)
        if here is None or wanted is None or here.is_right_for(status):
            return here
        target = TaskPlace(self.base_dir / wanted / uuid)
        make_private_folder(target.folder.parent)
        still()
        with wrapping(target.folder):
            try:
                move_durably(here.folder, target.folder)
            except FileNotFoundError:  # another process moved it in the meantime
                return self.find(uuid)
        try:
            still()
        except StaleWriter:
            with suppress(OSError):
                move_durably(target.folder, here.folder)
            raise
        except StorageUnavailable as error:
            logger.warning("%s: moved, and its lease cannot be looked at any more: %s", uuid, error)
        return target

    def new_place(self, uuid: str, status: TaskStatus = TaskStatus.RUNNING) -> TaskPlace:
        """Where a new task of this status will be."""
        return TaskPlace(self.base_dir / (folder(status) or PLACES[0]) / check_id(uuid))

    def in_database(self, name: str) -> TaskPlace:
        """The place of a task whose records are in the database."""
        return TaskPlace(self.base_dir / _SCRATCH / name, is_in_database=True)

    def create(self, uuid: str, status: TaskStatus = TaskStatus.RUNNING, *, durable: bool = True) -> TaskPlace:
        """A new folder for a task; not ``durable``: its name lasts from the first record on."""
        place = self.new_place(uuid, status)
        _refuse_link(place.folder)
        make_private_folder(place.folder, durable=durable)
        return place

    def beginning_with(self, prefix: str) -> list[str]:
        """The tasks that have a folder here and whose id begins so; one that is whole is looked up, not searched."""
        if len(prefix) == _UUID_LENGTH:
            return [prefix] if self.places(prefix) else []
        found = [place.uuid for place in self._all_bare() if place.uuid.startswith(prefix)]
        for place in PLACES:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.base_dir / place) as entries:
                ours = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
                found += [name for name in ours if name.startswith(prefix)]
        return found

    def all(self) -> list[TaskPlace]:
        """Every task that has a place here, named as its folder is."""
        return self._all_bare() + [
            TaskPlace(path)
            for place in PLACES
            if (self.base_dir / place).is_dir()
            for path in sorted((self.base_dir / place).iterdir())
            if path.is_dir() and not path.is_symlink() and not path.name.startswith(".")
        ]


class SharedTaskFolders(TaskFolders):
    """The same where tasks may be in a database: those have a scratch folder, and nothing of them ever moves."""

    def __init__(self, base_dir: Path, database: Postgres, backend: str) -> None:
        super().__init__(base_dir)
        self._database = database
        self._backend = backend

    def places(self, uuid: str) -> list[TaskPlace]:
        found = self._on_disk(uuid)
        return found if found or not self._is_in_database(uuid) else [self.in_database(uuid)]

    def settle(self, uuid: str, status: TaskStatus, *, still: StillOwned) -> TaskPlace | None:
        here = self.unite(uuid, status)
        if here is None or not here.is_in_database:
            return super().settle(uuid, status, still=still)
        if status is not TaskStatus.RUNNING:
            with wrapping(here.folder), suppress(FileNotFoundError):
                shutil.rmtree(here.folder)
        return here

    def new_place(self, uuid: str, status: TaskStatus = TaskStatus.RUNNING) -> TaskPlace:
        if self._backend == "postgres":
            return self.in_database(check_id(uuid))
        return super().new_place(uuid, status)

    def beginning_with(self, prefix: str) -> list[str]:
        statement = "SELECT uuid FROM task_logs WHERE starts_with(uuid, %s)"
        if len(prefix) == _UUID_LENGTH:  # an index has the answer
            statement = "SELECT uuid FROM task_logs WHERE uuid = %s"
        kept = self._database.patiently(lambda connection: connection.execute(statement, (prefix,)).fetchall())
        return [*super().beginning_with(prefix), *(str(uuid) for (uuid,) in kept)]

    def all(self) -> list[TaskPlace]:
        kept = self._database.patiently(lambda connection: connection.execute("SELECT uuid FROM task_logs").fetchall())
        return [*super().all(), *(self.in_database(str(uuid)) for (uuid,) in kept)]

    def _is_in_database(self, uuid: str) -> bool:
        statement = "SELECT 1 FROM task_logs WHERE uuid = %s"
        row = self._database.patiently(lambda connection: connection.execute(statement, (uuid,)).fetchone())
        return row is not None
