"""Two folders of one task: which of them the task is, where the records leave no doubt.

A folder without a record is a husk, whatever else lies in it. One whose records are all the beginning of another's has
nothing that the other lacks. Only where each holds what the other does not is it for a person to choose.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from orihon.errors import StorageError
from orihon.store.contract import STREAMS, RecordStore
from orihon.store.copy import is_beginning
from orihon.store.factory import backend_of
from orihon.store.files import FilesRecords

_DATABASE = "context.db"


def is_husk(folder: Path) -> bool:
    """Is there certainly no record in the folder?"""
    try:
        kept: list[RecordStore] = [FilesRecords(folder)]
        if _has_database(folder):
            kept.append(_records(folder))
        for records in kept:
            with closing(records):
                if any(records.last(stream) for stream in STREAMS):
                    return False
        return True
    except (StorageError, OSError):
        return False


def _has_database(folder: Path) -> bool:
    """An empty file without a log was never written to; to look into it would make it a database."""
    paths = (folder / _DATABASE, folder / f"{_DATABASE}-wal")
    return any(path.exists() and path.stat().st_size for path in paths)


def whole_ones(folders: Sequence[Path]) -> list[Path]:
    """The folders that hold everything the others do: one, several that are the same, or none."""
    return [one for one in folders if all(other == one or _is_part(other, one) for other in folders)]


def count_messages(folder: Path) -> int | None:
    """How many messages a folder holds; ``None`` where it does not tell."""
    try:
        with closing(_records(folder)) as records:
            return records.last("messages")
    except (StorageError, OSError):
        return None


def _is_part(folder: Path, whole: Path) -> bool:
    if is_husk(folder):
        return True
    try:
        with closing(_records(folder)) as part, closing(_records(whole)) as records:
            return is_beginning(part, records)
    except (StorageError, OSError):
        return False


def _records(folder: Path) -> RecordStore:
    """As they lie there, sealed or not: copies of one task have the same bytes."""
    if backend_of(folder, "files") == "files":
        return FilesRecords(folder)
    from orihon.store.sqlite import SqliteRecords

    return SqliteRecords(folder)
