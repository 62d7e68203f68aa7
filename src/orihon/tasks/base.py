"""``OpenBase``: a base while it is open: its folder, its settings, its catalogue, its guard, its audit.

Every room that works on a whole base, or on a task in it, is handed one of these. Opening one makes nothing: without
tasks, a missing catalogue stays missing until somebody asks for a new one. Whatever is moved out of the way goes to
``aside/``; nothing is ever deleted. Safe for several threads; a catalogue that was replaced on the disk is opened anew.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from orihon.audit.trail import AuditTrail, audit_of
from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.connect import is_any_beside, open_catalogue, open_for_removal
from orihon.catalogue.rows import CLEANED
from orihon.drivers.postgres import postgres_of
from orihon.errors import DamagedStore, IllegalTransition, OrihonError, StorageError, StorageUnavailable, TaskNotFound
from orihon.guard import KEY_COPY, KEY_FILE, Redactor
from orihon.guard.keys import FOLDER as KEYS
from orihon.settings import Settings, load_settings
from orihon.store.factory import make_redactor, open_for_reading, open_task_store
from orihon.store.locks import ForkSafeLock
from orihon.store.redaction_traces import NAME as REDACTING
from orihon.store.redaction_traces import REPACKING
from orihon.store.take_over import taken_task
from orihon.store.task_store import TaskStore
from orihon.system.files import (
    Leftovers,
    find_leftovers,
    folder_size,
    is_abandoned,
    is_unfinished,
    remove_abandoned,
    wrapping,
)
from orihon.tasks.folder_rows import enter_folders, entering, is_lost
from orihon.tasks.owning import Ownership
from orihon.tasks.place import PLACES, STAGED, TaskFolders, TaskPlace, folders_of, reached_epoch
from orihon.tasks.task_name import NamedTask, is_id, named_task
from orihon.texts import prefer_language
from orihon.values.task import TaskStatus, check_id

logger = logging.getLogger("orihon.tasks")

_PAGE = 1000
#: Files of a base that are written whole, and folders with such files.
_OF_BACKUPS = ("backup.key", "backups.json")
_OWN_FILES = frozenset(
    (
        *(KEY_FILE, KEY_COPY, REDACTING, REPACKING, *_OF_BACKUPS),
        *("tasks.db", "search.db", "proxy.db", "web.key", "mcp_tools.json", "proxy.json", "sizes.json"),
    )
)
_OWN_FOLDERS = ("archive", "aside", "audit", KEYS, "mirrored", "moving", "responses", "scratch")
#: A folder that is not finished after so long belongs to a process that has died.
_SECONDS_TO_FINISH = 3600.0


class OpenBase:
    """One base; ``catalogue`` is ``None`` while there is no readable one."""

    def __init__(
        self, path: Path | str, settings: Settings, *, create: bool = False, for_removal: bool = False
    ) -> None:
        """``create``: the folder need not be there yet.

        ``for_removal``: rows come without what is sealed and cannot be opened, and must not be written back.
        """
        self.path = Path(path).absolute()  # a program may change its directory
        if not create and settings.database.url is None and not self.path.is_dir():
            raise StorageUnavailable("no_base_dir", path=path)
        self.settings = settings
        if settings.language is not None:
            prefer_language(settings.language)  # for what is said in this process from now on
        self.catalogue: Catalogue | None = None
        self._database: tuple[int, int] | None = None  # which file the catalogue was opened on
        self._connecting = ForkSafeLock()  # threads that begin together share one
        self._open = open_for_removal if for_removal else open_catalogue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; whoever asks for the catalogue later opens it again."""
        self.close_catalogue()

    @cached_property
    def folders(self) -> TaskFolders:
        """Where the tasks lie; in a database only once somebody asks: what works on files alone needs no server."""
        return folders_of(self.path, self.settings)

    @cached_property
    def redactor(self) -> Redactor:
        """The guard that stands before everything that is written here."""
        return make_redactor(self.settings, self.path)

    @property
    def audit(self) -> AuditTrail:
        """Who did what to which task."""
        return audit_of(self.path, self.settings)

    # ---- the catalogue ---------------------------------------------------------------------------------------------

    @property
    def database(self) -> Path:
        return self.path / "tasks.db"

    def has_catalogue(self) -> bool:
        """Is there one? In a database always: whoever looks at its tasks makes its tables."""
        if self.settings.database.url is None:
            return self.database.exists()
        postgres_of(self.settings)
        return True

    def open_catalogue(self, *, create: bool = False, enter: bool = True) -> Catalogue | None:
        """The catalogue; ``None`` when there is none and none is wanted.

        ``enter``: one that was lost has a row for every task that is there (see ``tasks.folder_rows``), and moves of
        tasks that were broken off are ended. Every entrance comes this way.
        """
        with self._connecting:
            if self.catalogue is not None and self._database != self._database_file():
                self.close_catalogue()
            if self.catalogue is None and (create or self.has_catalogue() or (enter and self._is_lost())):
                self.catalogue = self._opened_catalogue() if enter else self._open(self.path, self.settings)
                self._database = self._database_file()
            return self.catalogue

    def _is_lost(self) -> bool:
        return self.settings.database.url is None and is_lost(self.database, self.folders)

    def _opened_catalogue(self) -> Catalogue:
        if self.settings.database.url is not None:
            return self._ended_moves(self._open(self.path, self.settings))
        with entering(self.database) as is_new, ExitStack() as on_failure:
            catalogue = self._open(self.path, self.settings)
            on_failure.callback(catalogue.close)
            if is_new:
                number = enter_folders(catalogue, self.folders, self.settings)
                number += _further_down("archive.rows").enter_archives(catalogue, self.path, self.settings)
                if number:
                    logger.warning("tasks.db was gone; a new one has %d tasks, from where they lie", number)
            on_failure.pop_all()
        return self._ended_moves(catalogue)

    def _ended_moves(self, catalogue: Catalogue) -> Catalogue:
        """A task whose ``migrate`` was killed is claimed by nobody; here that ends, where it can."""
        try:
            if catalogue.tasks.in_move(unfinished=True) or is_any_beside(self.path, self.settings):
                _further_down("migrate").finish_moves(self.path, self.settings)
        except OrihonError as error:  # it must not keep anybody from the others
            logger.warning("a move of tasks that was broken off could not be ended: %s", error)
        return catalogue

    def needed_catalogue(self) -> Catalogue:
        """The catalogue, made where there is none."""
        catalogue = self.open_catalogue(create=True)
        assert catalogue is not None
        return catalogue

    def _database_file(self) -> tuple[int, int] | None:
        """Which file is ``tasks.db`` now: a repair or a restore puts another one in its place."""
        if self.settings.database.url is not None:
            return None
        with wrapping(self.database), suppress(FileNotFoundError):
            found = self.database.stat()
            return found.st_dev, found.st_ino
        return None

    def open_catalogue_if_sound(self) -> Catalogue | None:
        """The same, and none where it is damaged: that must not keep anybody from looking at a task's folder."""
        with suppress(DamagedStore):
            return self.open_catalogue()
        return None

    def close_catalogue(self) -> None:
        if self.catalogue is not None:
            self.catalogue.close()
            self.catalogue = None

    def rows(self) -> Iterator[TaskRow]:
        """Every task of the catalogue, a page at a time."""
        last: str | None = None
        while self.catalogue is not None:
            page = self.catalogue.tasks.page(limit=_PAGE, before=last)
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].uuid

    def row(self, uuid: str) -> TaskRow | None:
        return None if self.catalogue is None else self.catalogue.tasks.find(uuid)

    def registered(self, uuid: str) -> tuple[Catalogue, TaskRow]:
        """The catalogue and the row of a task that must have one."""
        catalogue = self.open_catalogue()
        row = None if catalogue is None else catalogue.tasks.find(uuid)
        if catalogue is None or row is None:
            raise TaskNotFound("no_row" if self.folders.find(uuid) else "uuid", uuid=uuid)
        return catalogue, row

    def missing(self, uuid: str) -> OrihonError:
        """Why a task has no folder, and what to do about it: for whoever wants to look at its records."""
        row = self.row(uuid)
        if row is None:
            return TaskNotFound("uuid", uuid=uuid)
        if CLEANED in row.metadata:
            return IllegalTransition("cleaned", uuid=uuid, at=row.metadata[CLEANED].get("at", "-"))
        if row.status is TaskStatus.ARCHIVED:
            return TaskNotFound("packed", uuid=uuid)
        return TaskNotFound("no_folder", uuid=uuid, status=row.status.value)

    def is_in_use(self, row: TaskRow | None) -> bool:
        """Does a process that may be alive own the task?"""
        return self.catalogue is not None and self.catalogue.leases.is_held(row)

    def files(self) -> list[Path]:
        """What belongs to Orihon here besides the task folders; the base folder itself may be anybody's."""
        databases = [*self.path.glob("tasks.db*"), *self.path.glob("search.*"), *self.path.glob("proxy.*")]
        audit = [self.path / "audit", *self.path.glob("audit/*")]
        keys = [self.path / KEYS, *self.path.glob(f"{KEYS}/*.json")]
        masking = [self.path / name for name in (KEY_FILE, KEY_COPY, *_OF_BACKUPS)]
        named = [*databases, *masking, *keys, *audit, *(self.path / place for place in PLACES)]
        return [path for path in named if path.exists()]

    def leftovers(self, *, in_tasks: bool = True) -> list[Path]:
        """What killed processes have left here unfinished, beside the task folders and in them.

        The base folder itself may be anybody's: there only what is called after a file of ours counts. A folder that
        was being fetched, copied or forked has no lock; it is left over, as a whole, when nobody has touched it for an
        hour.
        """
        here = [path for path in _listed(self.path) if is_unfinished(path.name) and path.name[1:-9] in _OWN_FILES]
        hidden = [path for place in ("", *PLACES) for path in _listed(self.path / place) if path.name[0] == "."]
        staged = [path for path in hidden if self._is_passed(path) or (path.parent != self.path and _is_left(path))]
        below = [path for name in (*_OWN_FOLDERS, *PLACES) for path in find_leftovers(self.path / name)]
        tasks = [place for place in self.folders.all() if is_id(place.uuid)]
        bare = [path for place in tasks if place.is_bare for path in find_leftovers(place.folder)]
        apart = hidden if in_tasks else [*hidden, *(place.folder for place in tasks if place.folder != self.path)]
        inside = [path for path in (*below, *bare) if not any(folder in path.parents for folder in apart)]
        return sorted({*filter(is_abandoned, here), *staged, *inside})

    def _is_passed(self, path: Path) -> bool:
        """Was this folder taken from somebody, and has the task another one in which the work went on?"""
        uuid = taken_task(path.name)
        if uuid is None or not is_id(uuid) or not path.is_dir():
            return False
        with suppress(StorageError):
            return any(reached_epoch(here.folder) > reached_epoch(path) for here in self.folders.places(uuid))
        return False

    # ---- tasks -----------------------------------------------------------------------------------------------------

    def uuids(self) -> list[str]:
        """Every task that has a row or a folder."""
        named = {place.uuid for place in self.folders.all() if is_id(place.uuid)}
        return sorted(named.union(row.uuid for row in self.rows()))

    def named(self, name: str, *, user: str | None = None) -> NamedTask:
        """The task that a person means: by UUID, the beginning of one, key, or ``@last``; see ``tasks.naming``."""
        return named_task(name, self.open_catalogue_if_sound(), self.folders, user=user)

    def resolve(self, name: str, *, user: str | None = None) -> str:
        """The UUID of the task that a person means; ``user``: among that user's tasks alone."""
        return self.named(name, user=user).uuid

    def store(self, place: TaskPlace, *, epoch: int | None = None) -> TaskStore:
        """The log and view of a task, to write to them; without an epoch nobody is fenced off.

        The folder has to be there: whoever begins a task makes it.
        """
        return open_task_store(place.folder, self.settings, epoch=epoch, name=place.uuid, base=self.path)

    def read_store(self, place: TaskPlace, *, most: float | None = None) -> TaskStore:
        """The same for somebody who only looks: nothing is made, nothing is locked; see ``open_for_reading``."""
        return open_for_reading(place.folder, self.settings, name=place.uuid, most=most)

    # ---- owning ----------------------------------------------------------------------------------------------------

    def own(self, uuid: str, *, take_over: bool = False) -> Ownership:
        """Own a registered task, until the block ends; ``TaskBusy`` when a live process does."""
        catalogue, row = self.registered(check_id(uuid))
        seconds = self.settings.context_storage.lease_seconds
        owned = Ownership.take(catalogue, uuid, seconds, take_over=take_over, opened_by=self.store)
        with ExitStack() as on_failure:
            on_failure.callback(owned.release)
            with suppress(DamagedStore):  # of two histories whoever looks for the folder is told
                self.folders.put_copies_aside(uuid, row.status)
            on_failure.pop_all()
        return owned

    @contextmanager
    def own_if_registered(self, uuid: str) -> Iterator[Ownership | None]:
        """The same for repairs: a folder that the catalogue does not know is nobody's."""
        if not uuid or self.catalogue is None or self.row(uuid) is None:
            yield None
            return
        with self.own(uuid) as owned:
            yield owned


def _further_down(module: str) -> Any:
    """The room of whole tasks, which knows more than this one; loaded when something has to be put right."""
    return import_module(f"orihon.transfer.{module}")


def opened_base(
    where: OpenBase | Path | str | Mapping[str, Any] | Settings | None,
    settings: Mapping[str, Any] | Settings | None,
    *,
    create: bool = False,
) -> OpenBase:
    """The base that a caller names: one that is open, a folder, or the one that the settings name.

    Settings alone may stand first: the designs' classes take their configuration so.
    """
    if isinstance(where, OpenBase):
        return where
    if isinstance(where, Mapping | Settings):
        where, settings = None, where
    loaded = load_settings(settings)
    return OpenBase(loaded.context_storage.base_dir if where is None else where, loaded, create=create)


def _listed(folder: Path) -> list[Path]:
    with wrapping(folder):
        return list(folder.iterdir()) if folder.is_dir() else []


def _is_left(path: Path) -> bool:
    is_staged = path.name[0] == "." and path.name.endswith(STAGED)
    if not (is_staged or is_unfinished(path.name)) or path.is_symlink() or not path.is_dir():
        return False
    with wrapping(path):
        return time.time() - path.stat().st_mtime > _SECONDS_TO_FINISH


def remove_left(path: Path) -> Leftovers:
    """Remove one of ``OpenBase.leftovers``."""
    if not path.is_dir():
        return remove_abandoned(path)
    size = folder_size(path)
    shutil.rmtree(path, ignore_errors=True)
    return Leftovers(1, size)


__all__ = ["OpenBase", "is_id", "opened_base"]
