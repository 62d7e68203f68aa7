"""A task that a program names by its folder alone: which base it belongs to, and that it is a task like any other.

``contexts/hello`` is the task ``hello`` of the base ``contexts`` if that folder is a base or can become one; a folder
in somebody's project is a base of its own. The row is made and the lease taken when something is first written, and
given back when the store is closed or the program ends; where another process holds the lease, this one writes beside
it as far as the back end allows.
"""

from __future__ import annotations

import logging
import os
import weakref
from contextlib import closing, suppress
from pathlib import Path

from orihon.catalogue import TaskRow
from orihon.catalogue.metadata import write_metadata
from orihon.errors import OrihonError, StorageError, StorageUnavailable, TaskBusy
from orihon.guard import KEY_COPY, KEY_FILE
from orihon.settings import Settings
from orihon.store.factory import backend_of, begin_folder, shared_task_store
from orihon.store.task_store import TaskStore
from orihon.system.clock import utc_now
from orihon.tasks.base import OpenBase
from orihon.tasks.owning import Ownership, totals_of
from orihon.tasks.place import FEWEST_TRIES, RESERVED, base_above, tries_while_moved
from orihon.tasks.task_name import is_id, key_named
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.context")

_AT_REST = frozenset((TaskStatus.RUNNING, TaskStatus.PAUSED))


def task_store_in(folder: Path, settings: Settings) -> TaskStore:
    """The log and view of the task that this folder is, or was before it moved."""
    where = base_of_folder(folder)
    if where is None or settings.context_storage.backend == "postgres":
        return shared_task_store(folder, settings)
    base = OpenBase(where, settings, create=True)
    store = _shared_store(base, folder)
    if store.member is None:
        store.member = _FolderTask(base, folder.name)
    return store


def _shared_store(base: OpenBase, folder: Path) -> TaskStore:
    """The store where the task lies now; its owner may move it meanwhile. Only one that lies nowhere is begun."""
    for number in tries_while_moved():
        here = base.folders.find(folder.name) if base.path.is_dir() else None
        if here is None:
            _refuse_known(base, folder.name)
            begin_folder(folder, base.settings)
        try:
            return shared_task_store(folder if here is None else here.folder, base.settings, base=base.path)
        except StorageUnavailable as error:
            if error.reason != "gone" or number >= FEWEST_TRIES:
                raise
    raise AssertionError("the last of the tries returns or raises")


def _refuse_known(base: OpenBase, uuid: str) -> None:
    """A task with messages whose folder is gone (archived, cleaned up, lost) is not begun a second time."""
    with suppress(StorageError):  # the log counts: it is begun although the catalogue cannot be asked
        base.open_catalogue()
        row = base.row(uuid)
        if row is not None and row.total_messages:
            raise base.missing(uuid)


def base_of_folder(folder: Path) -> Path | None:
    """The base that a task's folder belongs to; ``None`` where its name can be no task's."""
    above = base_above(folder)
    if above is not None and _is_known_base(above):
        return above
    if not is_id(folder.name) or folder.name in RESERVED:
        return None
    return folder.parent if _is_base(folder.parent) else folder


def _is_known_base(folder: Path) -> bool:
    return (folder / "tasks.db").exists() or (folder / KEY_FILE).exists()


def _is_base(folder: Path) -> bool:
    """Is this a base, or can it become one? Nothing but tasks may be in it."""
    if _is_known_base(folder):
        return True
    try:
        found = list(folder.iterdir())
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return all(path.is_dir() and (backend_of(path, "") or _is_new(path)) for path in found)


def _is_new(folder: Path) -> bool:
    """A task's folder to which nothing was written yet."""
    return {path.name for path in folder.iterdir()} <= {KEY_FILE, KEY_COPY}


class _FolderTask:
    """The task's row and lease, while its store is written to."""

    def __init__(self, base: OpenBase, uuid: str) -> None:
        self._base = base
        self._uuid = uuid
        self._owned: Ownership | None = None
        self._pid = 0

    def joined(self, store: TaskStore) -> None:
        """Somebody writes: the task is registered, running, and this process's where it is nobody else's."""
        if self._pid == os.getpid():
            return
        self._pid, self._owned = os.getpid(), None
        try:
            row = self._registered(store)
            if row.status not in _AT_REST:
                return  # ended, or in somebody else's hands: what is added is in the log, and no more
            self._owned = self._base.own(self._uuid)
            if row.status is TaskStatus.PAUSED:
                self._base.needed_catalogue().tasks.change_status(
                    self._uuid, TaskStatus.RUNNING, epoch=self._owned.epoch, keep_lease=True
                )
            self._owned.keep()
            weakref.finalize(store, self._rest)
        except TaskBusy:
            logger.debug("%s: is written to beside its owner", self._uuid)
        except OrihonError as error:  # the log counts: it is written although the catalogue cannot be
            logger.warning("%s: not in the catalogue: %s", self._uuid, error)

    def _registered(self, store: TaskStore) -> TaskRow:
        catalogue, settings = self._base.needed_catalogue(), self._base.settings
        known = catalogue.tasks.find(self._uuid)
        if known is not None:
            return known
        now = utc_now()
        row = TaskRow.of(
            key_named(self._uuid),
            self._uuid,
            TaskStatus.RUNNING,
            created_at=now,
            updated_at=now,
            started_at=now,
            backend=backend_of(store.records.folder, settings.context_storage.backend),
            llm_provider=settings.llm.provider,
            model=settings.model,
            context_length=settings.context_length,
            epoch=store.epoch or 0,
        )
        adopted = catalogue.tasks.adopt(row)
        write_metadata(store.records, adopted, settings)
        return adopted

    def left(self, store: TaskStore) -> None:
        """Nobody writes any more: the task rests, with its statistics."""
        self._rest(totals_of(store) if self._owned is not None else None)

    def _rest(self, totals: dict[str, int] | None = None) -> None:
        """Also when the store was just dropped, or the program ends without closing it."""
        owned, self._owned = self._owned, None
        is_ours, self._pid = self._pid == os.getpid(), 0
        if owned is None or not is_ours:
            return
        try:
            owned.rest()
            found = self._totals() if totals is None else totals
            owned.catalogue.tasks.change_status(self._uuid, TaskStatus.PAUSED, epoch=owned.epoch, statistics=found)
        except OrihonError as error:
            logger.warning("%s: its statistics are not in the catalogue: %s", self._uuid, error)
        self._base.close()

    def _totals(self) -> dict[str, int]:
        place = self._base.folders.find(self._uuid)
        if place is None:
            return {}
        with closing(self._base.read_store(place)) as store:
            return totals_of(store)
