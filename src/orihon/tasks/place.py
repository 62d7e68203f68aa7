"""Where a task's folder is, and moving it so that a crash leaves it in one place.

The catalogue decides: it is updated first, then the folder follows. A folder found elsewhere was left behind by a
crash between the two and is moved at the next look. A folder in two places is never touched here; that is for
``orihon doctor``.

A task whose records are in a database has no place on this machine's disk, only a scratch folder for the files that a
request is made of; that is gone when nobody works on the task.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orihon.drivers.postgres import postgres_of
from orihon.errors import DamagedStore
from orihon.settings import Settings
from orihon.system.files import make_private_folder, sync_folder, wrapping
from orihon.values.task import TaskStatus, check_id, folder

if TYPE_CHECKING:
    from orihon.drivers.postgres.pool import Postgres

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
#: Folders of tasks whose records are in a database.
SCRATCH = "scratch"
#: How the names of folders end that are being made, beside the tasks: by a fork, by an import.
FORK, IMPORT = ".fork", ".import"
#: One that is not finished after so long belongs to a process that has died.
_SECONDS_TO_FINISH = 3600.0


def folders_of(base_dir: Path, settings: Settings) -> TaskFolders:
    """The folders of a base folder's tasks, wherever the settings say that their records are."""
    if settings.database.url is None:
        return TaskFolders(base_dir)
    return SharedTaskFolders(base_dir, postgres_of(settings), settings.context_storage.backend)


def remove_unfinished(place: Path, ending: str) -> list[Path]:
    """Remove the folders that forks, or imports, have left which died; returns what stays: it may be at work."""
    found = list(place.glob(f".*{ending}"))
    for path in found:
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > _SECONDS_TO_FINISH:
                shutil.rmtree(path, ignore_errors=True)
    return [path for path in found if path.exists()]


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
    """The task folders below one base folder."""

    def __init__(self, base_dir: Path) -> None:
        self.base_dir = base_dir

    def places(self, uuid: str) -> list[Path]:
        """Every folder of this task; more than one is damage."""
        check_id(uuid)
        # The owner may move the folder between our looks at two places: it was then seen nowhere, or twice.
        # There and back, or two that go in step could miss each other again and again.
        looks = (self._look(uuid, PLACES[:: 1 if number % 2 else -1]) for number in range(_LOOKS))
        return next((found for found in looks if found), [])

    def _look(self, uuid: str, places: tuple[str, ...] = PLACES) -> list[Path]:
        found = {}
        for place in places:
            try:
                status = os.stat(f"{self.base_dir}/{place}/{uuid}")  # by Path it takes twice as long
            except (FileNotFoundError, NotADirectoryError):
                continue
            if stat.S_ISDIR(status.st_mode):
                # A folder keeps its number when it is moved.
                found[status.st_dev, status.st_ino] = self.base_dir / place / uuid
        return list(found.values())

    def find(self, uuid: str) -> Path | None:
        """The task's folder, wherever it is."""
        found = self.places(uuid)
        if len(found) > 1:
            raise DamagedStore("two_folders", uuid=uuid, places=", ".join(str(path) for path in found))
        return found[0] if found else None

    def settle(self, uuid: str, status: TaskStatus) -> Path | None:
        """Put the folder where its status says; ``None`` when there is no folder."""
        place = folder(status)
        here = self.find(uuid)
        if here is None or place is None or self.is_settled(here, status):
            return here
        target = self.base_dir / place / uuid
        make_private_folder(target.parent)
        with wrapping(target):
            try:
                here.rename(target)
            except FileNotFoundError:  # another process moved it in the meantime
                return self.find(uuid)
            sync_folder(target.parent)
            sync_folder(here.parent)
        return target

    def is_settled(self, here: Path, status: TaskStatus) -> bool:
        """Is this where a task of this status lies?"""
        return here.parent.name in (folder(status), SCRATCH)

    def new_place(self, uuid: str) -> Path:
        """Where the folder of a new task will be."""
        return self.base_dir / "running" / check_id(uuid)

    def create(self, uuid: str) -> Path:
        """A new folder for a running task."""
        path = self.new_place(uuid)
        make_private_folder(path)
        return path

    def beginning_with(self, prefix: str) -> list[str]:
        """The tasks that have a folder here and whose id begins so; one that is whole is looked up, not searched."""
        if len(prefix) == _UUID_LENGTH:
            return [prefix] if self._look(prefix) else []
        found = []
        for place in PLACES:
            with suppress(FileNotFoundError, NotADirectoryError), os.scandir(self.base_dir / place) as entries:
                found += [entry.name for entry in entries if entry.name.startswith(prefix) and entry.is_dir()]
        return found

    def all(self) -> list[tuple[str, Path]]:
        """Every task folder, with the id it is named after."""
        return [
            (path.name, path)
            for place in PLACES
            if (self.base_dir / place).is_dir()
            for path in sorted((self.base_dir / place).iterdir())
            if path.is_dir() and not path.name.startswith(".")
        ]


class SharedTaskFolders(TaskFolders):
    """The same where tasks may be in a database: those have a scratch folder, and nothing of them ever moves."""

    def __init__(self, base_dir: Path, database: Postgres, backend: str) -> None:
        super().__init__(base_dir)
        self._database = database
        self._backend = backend

    def places(self, uuid: str) -> list[Path]:
        found = super().places(uuid)
        return found if found or not self._is_in_database(uuid) else [self.base_dir / SCRATCH / uuid]

    def settle(self, uuid: str, status: TaskStatus) -> Path | None:
        here = self.find(uuid)
        if here is None or here.parent.name != SCRATCH:
            return super().settle(uuid, status)
        if status is not TaskStatus.RUNNING:
            with wrapping(here), suppress(FileNotFoundError):
                shutil.rmtree(here)
        return here

    def new_place(self, uuid: str) -> Path:
        return self.base_dir / SCRATCH / check_id(uuid) if self._backend == "postgres" else super().new_place(uuid)

    def beginning_with(self, prefix: str) -> list[str]:
        statement = "SELECT uuid FROM task_logs WHERE starts_with(uuid, %s)"
        if len(prefix) == _UUID_LENGTH:  # an index has the answer
            statement = "SELECT uuid FROM task_logs WHERE uuid = %s"
        kept = self._database.patiently(lambda connection: connection.execute(statement, (prefix,)).fetchall())
        return [*super().beginning_with(prefix), *(str(uuid) for (uuid,) in kept)]

    def all(self) -> list[tuple[str, Path]]:
        kept = self._database.patiently(lambda connection: connection.execute("SELECT uuid FROM task_logs").fetchall())
        return [*super().all(), *((str(uuid), self.base_dir / SCRATCH / str(uuid)) for (uuid,) in kept)]

    def _is_in_database(self, uuid: str) -> bool:
        statement = "SELECT 1 FROM task_logs WHERE uuid = %s"
        row = self._database.patiently(lambda connection: connection.execute(statement, (uuid,)).fetchone())
        return row is not None
