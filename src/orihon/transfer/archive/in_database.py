"""Tasks whose records are in the database, as folders: out of it to be packed, and back into it.

Promises that what comes out is the same each time, so that a second run finds what the first one packed; that a copy is
compared with what it was made of before it counts; and that whoever wrote before is refused from then on. A copy that
goes in has a name that no task can have until all of it is there.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from orihon.catalogue.metadata import read_object
from orihon.drivers.postgres import postgres_of
from orihon.errors import StaleWriter
from orihon.guard import KEY_FILE
from orihon.settings import Settings
from orihon.store.copy import contents_of, copy_records, refuse_difference
from orihon.store.factory import backend_of, open_task_store
from orihon.store.sqlite_copies import DATABASE, read_fence
from orihon.store.task_store import TaskStore
from orihon.system.files import make_private_folder, sync_folder, wrapping
from orihon.tasks.base import OpenBase

logger = logging.getLogger("orihon.archive")

_UNFINISHED = ".restoring"
#: A writer's place: of no use in a packed folder, and never twice the same.
_WRITER, _WRITERS = "writer.json", ("writer.json", "writer.lock")
#: What a folder may have besides what is copied. It was put there for people.
_FOR_PEOPLE = ("aside", KEY_FILE)

#: Makes the lease's epoch higher than one that was met, and says what it is now.
RaiseEpoch = Callable[[int], int]


class TaskInDatabase:
    """One task, whose lease the caller has, on its way between the database and a folder."""

    def __init__(self, base: OpenBase, uuid: str) -> None:
        self.place = base.folders.in_database(uuid)
        self._uuid = uuid
        self._settings = base.settings
        self._pool = postgres_of(base.settings)

    def export(self, folder: Path, epoch: int, raise_epoch: RaiseEpoch) -> None:
        """Everything as a new folder of the ``files`` back end; from now on nobody with a lower epoch writes."""
        with closing(self._sealed(epoch, raise_epoch)) as source, closing(self._store(folder, "files")) as copy:
            copy.records.claim()
            copy_records(source.records, copy.records)
            copy.claim()  # makes what is derived
            refuse_difference(self._uuid, contents_of(source), copy)
        for name in _WRITERS:
            with wrapping(folder), suppress(FileNotFoundError):
                (folder / name).unlink()

    def take_in(self, folder: Path, epoch: int, raise_epoch: RaiseEpoch) -> None:
        """The records of an unpacked folder become the task's in the database, in one step."""
        from orihon.store.postgres_moving import left_epoch, rename_task

        self.forget_unfinished()
        reached = max(reached_epoch(folder), left_epoch(self._pool, self._uuid))
        epoch = raise_epoch(reached) if reached > epoch else epoch
        name = self._uuid + _UNFINISHED
        with (
            closing(self._store(folder, backend_of(folder, "files"))) as source,
            closing(self._store(self.place.folder.with_name(name), "postgres", epoch)) as copy,
        ):
            copy.records.claim(epoch)
            copy_records(source.records, copy.records)
            copy.claim()
            refuse_difference(self._uuid, contents_of(source), copy)
        logger.debug("%s: %s", self._uuid, "copied")
        rename_task(self._pool, name, self._uuid)

    def remove(self) -> None:
        """Delete the records; whoever wrote them is refused afterwards."""
        from orihon.store.postgres_moving import remove_task

        remove_task(self._pool, self._uuid, fenced=True)
        logger.debug("%s: %s", self._uuid, "moved away")
        shutil.rmtree(self.place.folder, ignore_errors=True)

    def forget_unfinished(self) -> None:
        """What a run that died has left of its copy."""
        from orihon.store.postgres_moving import remove_task

        remove_task(self._pool, self._uuid + _UNFINISHED, fenced=False)

    def _sealed(self, epoch: int, raise_epoch: RaiseEpoch) -> TaskStore:
        with ExitStack() as on_failure:
            store = self._store(self.place.folder, "postgres")
            on_failure.callback(store.close)
            try:
                store.records.claim(epoch)
            except StaleWriter as refusal:
                if refusal.reason != "taken_over":
                    raise
                store.records.claim(raise_epoch(refusal.fields["epoch"]))
            on_failure.pop_all()
        return store

    def _store(self, folder: Path, backend: str, epoch: int | None = None) -> TaskStore:
        """Without the guard: nothing new comes in that it could mask."""
        wanted: dict[str, object] = {"context_storage.backend": backend, "masking.enabled": False}
        if backend != "postgres":
            wanted["database.url"] = None
        settings = self._settings.replace(**wanted)
        return open_task_store(folder, settings, epoch=epoch, name=self._uuid, keys_of=self._settings)


def give_epoch(folder: Path, epoch: int, settings: Settings) -> None:
    """A folder that was packed without a writer's place gets one: lower epochs are refused."""
    from orihon.store.files import FilesRecords

    if backend_of(folder, "files") == "files" and not (folder / _WRITER).exists():
        with closing(FilesRecords(folder, durability=settings.context_storage.durability, create=False)) as records:
            records.claim(epoch)


def keep_for_people(folder: Path, aside: Path) -> None:
    """What an unpacked folder has and the database does not keep goes to the new folder ``aside``."""
    for path in (folder / name for name in _FOR_PEOPLE):
        if path.exists():
            make_private_folder(aside)
            with wrapping(path):
                path.rename(aside / path.name)
                sync_folder(aside)


def reached_epoch(folder: Path) -> int:
    """The highest epoch that has written to an unpacked folder."""
    if (folder / DATABASE).exists():
        return read_fence(folder / DATABASE)
    epoch = (read_object(folder / _WRITER) or {}).get("epoch")
    return epoch if type(epoch) is int else 0
