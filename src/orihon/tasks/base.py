"""``BaseFolder``: the folder with ``tasks.db`` and the task folders, looked at as a whole.

Opening one makes nothing: a missing catalogue stays missing until somebody asks for a new one. Whatever is moved out
of the way goes to ``aside/``; nothing is ever deleted.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from orihon.catalogue import Catalogue, Lease, TaskRow
from orihon.catalogue.connect import catalogue_exists, open_catalogue, open_for_removal
from orihon.catalogue.rows import CLEANED
from orihon.errors import DamagedStore, IllegalTransition, InvalidId, OrihonError, StorageUnavailable, TaskNotFound
from orihon.guard.encryption.keys import FOLDER as KEYS
from orihon.settings import Settings
from orihon.system.files import make_private_folder, sync_folder, wrapping
from orihon.tasks.place import PLACES, folders_of
from orihon.tasks.task_name import NamedTask, named_task
from orihon.values.task import TaskStatus, check_id

_PAGE = 1000


@dataclass(slots=True)
class Hold:
    """A task that nobody else may open meanwhile; no lease when the catalogue does not know the task."""

    lease: Lease | None = None


class BaseFolder:
    """One base folder; ``catalogue`` is ``None`` while there is no readable one."""

    def __init__(self, base_dir: Path | str, settings: Settings, *, for_removal: bool = False) -> None:
        """``for_removal``: rows come without what is sealed and cannot be opened, and must not be written back."""
        self.path = Path(base_dir)
        if not self.path.is_dir():
            raise StorageUnavailable("no_base_dir", path=self.path)
        self.settings = settings
        self.folders = folders_of(self.path, settings)
        self.catalogue: Catalogue | None = None
        self._open = open_for_removal if for_removal else open_catalogue

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_catalogue()

    # ---- the catalogue ---------------------------------------------------------------------------------------------

    @property
    def database(self) -> Path:
        return self.path / "tasks.db"

    def open_catalogue(self, *, create: bool = False) -> Catalogue | None:
        """The catalogue; ``None`` when there is none and none is wanted."""
        if self.catalogue is None and (create or catalogue_exists(self.path, self.settings)):
            self.catalogue = self._open(self.path, self.settings)
        return self.catalogue

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
        databases = [*self.path.glob("tasks.db*"), *self.path.glob("search.*")]
        audit = [self.path / "audit", *self.path.glob("audit/*")]
        keys = [self.path / KEYS, *self.path.glob(f"{KEYS}/*.json")]
        named = [*databases, self.path / "mask.key", *keys, *audit, *(self.path / place for place in PLACES)]
        return [path for path in named if path.exists()]

    # ---- tasks -----------------------------------------------------------------------------------------------------

    def uuids(self) -> list[str]:
        """Every task that has a row or a folder."""
        named = {name for name, _ in self.folders.all() if is_id(name)}
        return sorted(named.union(row.uuid for row in self.rows()))

    def named(self, name: str, *, user: str | None = None) -> NamedTask:
        """The task that a person means: by UUID, the beginning of one, key, or ``@last``; see ``task_name``."""
        return named_task(name, self.open_catalogue_if_sound(), self.folders, user=user)

    def resolve(self, name: str, *, user: str | None = None) -> str:
        """The UUID of the task that a person means; ``user``: among that user's tasks alone."""
        return self.named(name, user=user).uuid

    @contextmanager
    def holding(self, uuid: str) -> Iterator[Hold]:
        """Own a task while something is put right; ``TaskBusy`` when a live process does."""
        hold = Hold()
        if uuid and self.catalogue is not None and self.row(uuid) is not None:
            hold.lease = self.catalogue.leases.acquire(uuid, seconds=self.settings.context_storage.lease_seconds)
        try:
            yield hold
        finally:
            if hold.lease is not None and self.catalogue is not None:
                self.catalogue.leases.release(hold.lease)


def is_id(name: str) -> bool:
    """Can this be the name of a task's folder?"""
    try:
        check_id(name)
    except InvalidId:
        return False
    return True


def move_aside(path: Path, owner: Path, name: str = "") -> Path:
    """Move a file or folder to ``aside/`` of the folder ``owner``."""
    aside = owner / "aside"
    make_private_folder(aside)
    target = aside / f"{name or path.name.lstrip('.')}.{secrets.token_hex(4)}"
    with wrapping(path):
        path.rename(target)
        sync_folder(aside)
        sync_folder(path.parent)
    return target
