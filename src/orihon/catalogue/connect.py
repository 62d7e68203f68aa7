"""From a base folder and settings to its catalogue: in ``database.url`` where one is named, else ``tasks.db``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from orihon.catalogue import Catalogue
from orihon.drivers.postgres import has_tables, postgres_of
from orihon.errors import KeyUnavailable
from orihon.settings import Settings

_FILE = "tasks.db"


def open_catalogue(base_dir: Path, settings: Settings) -> Catalogue:
    """The catalogue of a base folder."""
    return _guarded(_open(base_dir, settings), base_dir, settings)


def open_for_removal(base_dir: Path, settings: Settings) -> Catalogue:
    """The same for who removes rows: texts that are sealed are left out of them where no key opens those."""
    from orihon.catalogue.sealed_db import ReadableTexts, SealedTasks
    from orihon.guard.keys import CATALOGUE, DataKeys
    from orihon.store.key_places import key_place, needed_keys

    def keys() -> DataKeys:
        if settings.encryption.key is None:
            raise KeyUnavailable("sealed", task=CATALOGUE)
        return needed_keys(base_dir, settings)

    texts = ReadableTexts(keys, partial(key_place, base_dir, settings))
    return _open(base_dir, settings).through(lambda database: SealedTasks(database, texts))


def _open(base_dir: Path, settings: Settings) -> Catalogue:
    if settings.database.url is not None:
        postgres = postgres_of(settings)
        from orihon.catalogue.postgres_db import PostgresTasks

        return Catalogue.over(PostgresTasks(postgres))
    storage = settings.context_storage
    return Catalogue(
        base_dir / _FILE,
        timeout=storage.db_timeout,
        max_retries=storage.max_retries,
        retry_delay=storage.retry_delay,
    )


def catalogue_beside(base_dir: Path, settings: Settings) -> Catalogue | None:
    """The ``tasks.db`` of a base folder whose settings name a database: tasks that were not moved there."""
    if settings.database.url is None or not (base_dir / _FILE).exists():
        return None
    beside = Catalogue(base_dir / _FILE, timeout=settings.context_storage.db_timeout)
    local = settings.replace(**{"database.url": None, "context_storage.backend": "files"})
    return _guarded(beside, base_dir, local)


def _guarded(catalogue: Catalogue, base_dir: Path, settings: Settings) -> Catalogue:
    """Its texts are sealed, or can at least be opened, where the settings name a master key.

    Where tasks were ever sealed, texts go on being so: the row of such a task would else say plain what it says.
    """
    encryption = settings.encryption
    if not encryption.enabled and encryption.key is None:
        return catalogue
    from orihon.catalogue.sealed_db import SealedTasks, Texts
    from orihon.store.key_places import key_place, needed_keys

    place = partial(key_place, base_dir, settings)

    def seals() -> bool:
        return encryption.enabled or any(place().ids())

    texts = Texts(partial(needed_keys, base_dir, settings), place, seals=seals)
    return catalogue.through(lambda database: SealedTasks(database, texts))


def is_any_beside(base_dir: Path, settings: Settings) -> bool:
    """Is a task on its way between that one and the database?"""
    beside = catalogue_beside(base_dir, settings)
    if beside is None:
        return False
    with beside:
        return bool(beside.tasks.in_move())


def is_known_beside(base_dir: Path, settings: Settings, uuid: str) -> bool:
    """Does that one know the task?"""
    beside = catalogue_beside(base_dir, settings)
    if beside is None:
        return False
    with beside:
        return beside.tasks.find(uuid) is not None


def catalogue_exists(base_dir: Path, settings: Settings) -> bool:
    """Is there one already? Opening would make it."""
    return (base_dir / _FILE).exists() if settings.database.url is None else has_tables(settings)
