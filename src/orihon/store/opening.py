"""From a folder and settings to a ``TaskStore``: which back end, which guard."""

from __future__ import annotations

import weakref
from pathlib import Path

from orihon.errors import InvalidSettings
from orihon.folders import wrapping
from orihon.guard import Redactor, load_key
from orihon.settings import Settings
from orihon.store.base import RecordStore
from orihon.store.files import FilesRecords
from orihon.store.task_store import TaskStore

# Stores that were opened by their folder alone, without a task manager, share one writer in a process.
_OPEN: weakref.WeakValueDictionary[Path, TaskStore] = weakref.WeakValueDictionary()


def backend_of(folder: Path, default: str) -> str:
    """The back end that already lives in a folder, or ``default`` for a new one."""
    with wrapping(folder):
        if (folder / "context.db").exists():
            return "sqlite"
        if (folder / "messages.jsonl").exists():
            return "files"
    return default


def open_records(folder: Path, settings: Settings) -> RecordStore:
    """The records in a task's folder."""
    storage = settings.context_storage
    backend = backend_of(folder, storage.backend)
    if backend == "files":
        return FilesRecords(folder, durability=storage.durability, lock_timeout=storage.db_timeout)
    if backend == "sqlite":
        from orihon.store.sqlite import SqliteRecords

        return SqliteRecords(
            folder,
            durability=storage.durability,
            timeout=storage.db_timeout,
            max_retries=storage.max_retries,
            retry_delay=storage.retry_delay,
        )
    raise InvalidSettings("backend_missing", backend=backend)


def make_redactor(settings: Settings, key_file: Path) -> Redactor:
    """The guard as the settings want it."""
    masking = settings.masking
    if not masking.enabled:
        return Redactor(b"", enabled=False)
    return Redactor(
        load_key(key_file), email=masking.email, ssn=masking.ssn, patterns=masking.patterns, allow=masking.allow
    )


def open_task_store(
    folder: Path, settings: Settings, *, key_file: Path, epoch: int | None = None, name: str = ""
) -> TaskStore:
    """The log and view in a task's folder."""
    storage = settings.context_storage
    return TaskStore(
        open_records(folder, settings),
        make_redactor(settings, key_file),
        epoch=epoch,
        max_message_bytes=storage.max_message_bytes,
        blob_bytes=storage.blob_bytes,
        name=name or folder.name,
    )


def shared_task_store(folder: Path, settings: Settings) -> TaskStore:
    """The same for stores that are opened one by one on a folder: they must not compete with each other."""
    place = folder.absolute()
    store = _OPEN.get(place)
    if store is None:
        store = _OPEN[place] = open_task_store(folder, settings, key_file=folder / "mask.key")
    return store
