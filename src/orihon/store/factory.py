"""From a folder and settings to a ``TaskStore``: which back end, which guard."""

from __future__ import annotations

import weakref
from functools import lru_cache, partial
from pathlib import Path

from orihon.drivers.postgres import postgres_of
from orihon.errors import InvalidId, InvalidSettings, KeyUnavailable, StorageUnavailable
from orihon.guard import KEY_FILE, Redactor, load_key
from orihon.guard.keys import find_key
from orihon.guard.masking.known_values import register_live
from orihon.settings import Settings, load_settings
from orihon.store.contract import SEALED, STREAMS, RecordStore
from orihon.store.files import FilesRecords
from orihon.store.key_places import base_of, key_place, needed_keys
from orihon.store.locks import ForkSafeLock
from orihon.store.task_store import TaskStore
from orihon.system.files import make_private_folder, wrapping
from orihon.values.message.extra import wrong_type

# Stores that were opened by their folder alone, without a task manager, share one writer in a process.
_OPEN: weakref.WeakValueDictionary[Path, TaskStore] = weakref.WeakValueDictionary()
_OPENED_WITH: weakref.WeakKeyDictionary[TaskStore, Settings] = weakref.WeakKeyDictionary()
_OPENING = ForkSafeLock()

_FILES = ("writer.json", *(f"{stream}.jsonl" for stream in STREAMS))


def backend_of(folder: Path, default: str) -> str:
    """The back end that already lives in a folder, or ``default`` for a new one."""
    with wrapping(folder):
        if (folder / "context.db").exists():
            return "sqlite"
        if any((folder / name).exists() for name in _FILES):
            return "files"
    return default


def begin_folder(folder: Path, settings: Settings) -> None:
    """Make the folder of a new task, unless its records are in the database. To open a store never makes one."""
    if _backend(folder, settings) != "postgres":
        make_private_folder(folder)


def open_records(
    folder: Path,
    settings: Settings,
    *,
    to_read: bool = False,
    name: str = "",
    keys_of: Settings | None = None,
    is_staged: bool = False,
) -> RecordStore:
    """The records in a task's folder, which has to be there; or those in the database.

    Those of a sealed task are opened with the keys that the settings (``keys_of``, if given) lead to.
    """
    records = _open_bare(folder, settings, to_read=to_read)
    encryption = settings.encryption
    base, kept_by, task = base_of(folder.absolute()), settings if keys_of is None else keys_of, name or folder.name
    if not encryption.enabled and encryption.key is None:
        with wrapping(folder):
            known = find_key(key_place(base, kept_by), task)
            if (folder / SEALED).exists() or (known is not None and not known.is_staged):
                raise KeyUnavailable("sealed", task=task)
        return records
    from orihon.store.sealed import SealedRecords

    keys, place = partial(needed_keys, base, kept_by), partial(key_place, base, kept_by)
    is_alone = base == folder.absolute() and kept_by.database.url is None
    return SealedRecords(
        records, keys, place, task, seals_new=encryption.enabled, is_alone=is_alone, is_staged=is_staged
    )


def _open_bare(folder: Path, settings: Settings, *, to_read: bool) -> RecordStore:
    storage = settings.context_storage
    backend = _backend(folder, settings)
    if backend == "postgres":
        return _open_postgres(folder, settings)
    with wrapping(folder):
        if not folder.is_dir():
            raise StorageUnavailable("gone", path=folder)
    if backend == "files":
        return FilesRecords(folder, durability=storage.durability, lock_timeout=storage.db_timeout)
    from orihon.store.sqlite import SqliteRecords

    return SqliteRecords(
        folder,
        durability=storage.durability,
        timeout=storage.db_timeout,
        max_retries=storage.max_retries,
        retry_delay=storage.retry_delay,
        create=not to_read,
    )


def _backend(folder: Path, settings: Settings) -> str:
    """Where a task's records are: in its folder, in the database, or, for a new one, where the settings want them."""
    wanted = settings.context_storage.backend
    found = backend_of(folder, "")
    if found or wanted == "postgres" or settings.database.url is None:
        return found or wanted
    pool = postgres_of(settings)
    from orihon.store.postgres_section import is_kept_in

    return "postgres" if is_kept_in(pool, folder.name) else wanted


def _open_postgres(folder: Path, settings: Settings) -> RecordStore:
    pool = postgres_of(settings)
    from orihon.store.postgres import PostgresRecords

    return PostgresRecords(folder, pool, durability=settings.context_storage.durability)


def make_redactor(settings: Settings, base: Path) -> Redactor:
    """The guard as the settings want it, with the key of the base."""
    masking = settings.masking
    if not masking.enabled:
        return Redactor(b"", enabled=False)
    register_live(settings)
    return Redactor(
        load_key(base),
        email=masking.email,
        ssn=masking.ssn,
        patterns=masking.patterns,
        allow=masking.allow,
        vault=masking.vault,
    )


def open_task_store(
    folder: Path,
    settings: Settings,
    *,
    epoch: int | None = None,
    name: str = "",
    to_read: bool = False,
    keys_of: Settings | None = None,
    base: Path | None = None,
    is_staged: bool = False,
) -> TaskStore:
    """The log and view in a task's folder. Its placeholders are made with the key of the base that it lies in."""
    storage = settings.context_storage
    return TaskStore(
        open_records(folder, settings, to_read=to_read, name=name, keys_of=keys_of, is_staged=is_staged),
        make_redactor(settings, base or base_of(folder.absolute())),
        epoch=epoch,
        max_message_bytes=storage.max_message_bytes,
        blob_bytes=storage.blob_bytes,
        name=name or folder.name,
    )


def open_for_reading(folder: Path, settings: Settings, *, name: str = "", most: float | None = None) -> TaskStore:
    """The same for somebody who only looks: nothing is created, also where nothing has been stored yet.

    ``most``: so many seconds, at most, it waits for others.
    """
    wanted = settings.context_storage.backend
    backend = backend_of(folder, wanted if wanted == "postgres" else "files")
    return open_task_store(folder, _for_reading(settings, backend, most), name=name, to_read=True)


def open_bare(folder: Path, settings: Settings) -> RecordStore:
    """The records of any task as they lie there: of a sealed one, its description can be read, and nothing else."""
    wanted = settings.context_storage.backend
    backend = backend_of(folder, wanted if wanted == "postgres" else "files")
    return _open_bare(folder, _for_reading(settings, backend), to_read=True)


@lru_cache(maxsize=16)
def _for_reading(settings: Settings, backend: str, most: float | None = None) -> Settings:
    """Kept: whoever looks at many tasks would spend more time on this than on most of them."""
    usual = settings.context_storage.db_timeout
    waits = {"context_storage.db_timeout": usual if most is None else min(usual, most)}
    return settings.replace(**{"context_storage.backend": backend, "masking.enabled": False, **waits})


def folder_of(context_dir: Path | str) -> Path:
    """The folder that a caller names, checked and independent of the current directory."""
    if not isinstance(context_dir, str | Path):
        raise wrong_type(context_dir, "str or Path", "context_dir")
    if "\0" in str(context_dir):
        raise InvalidId("unsafe", what="context_dir", value=repr(str(context_dir))[:80])
    return Path(context_dir).absolute()


def shared_task_store(folder: Path, settings: Settings | None = None, *, base: Path | None = None) -> TaskStore:
    """The same for stores that are opened one by one on a folder: they must not compete with each other.

    Without settings, a store joins the one that is open. Other settings than its are refused: they would be ignored.
    """
    place = folder.absolute()
    with _OPENING:
        store = _OPEN.get(place)
        if store is None:
            wanted = load_settings(None) if settings is None else settings
            if not _is_in_base(place):  # from there a folder that is missing has been moved away
                begin_folder(place, wanted)
            store = _OPEN[place] = open_task_store(folder, wanted, base=base)
            _OPENED_WITH[store] = wanted
        elif settings is not None and _differ(settings, _OPENED_WITH[store]):
            raise InvalidSettings("other_settings", path=folder)
        return store


def _is_in_base(folder: Path) -> bool:
    base = base_of(folder)
    return base != folder and any((base / name).exists() for name in ("tasks.db", KEY_FILE))


def _differ(one: Settings, other: Settings) -> bool:
    return (one.context_storage, one.masking, one.encryption) != (
        other.context_storage,
        other.masking,
        other.encryption,
    )
