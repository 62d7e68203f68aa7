"""Consistent copies of ``context.db`` by SQLite's backup API, and the epoch in them.

The file itself is never read with ``open()``: its newest records may still be in the write-ahead log, and closing it
would drop SQLite's locks in a process that uses it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from orihon.system.files import make_private_folder, open_private, unfinished_file, wrapping

DATABASE = "context.db"
_TIMEOUT = 30.0


@contextmanager
def database_copies(folder: Path, workplace: Path) -> Iterator[Mapping[str, Path]]:
    """Copies of a task's databases by their names, while the block lasts; none for the ``files`` back end."""
    if not (folder / DATABASE).exists():
        yield {}
        return
    make_private_folder(workplace)
    with unfinished_file(workplace / f"{folder.name}.{DATABASE}") as (copy, _):
        try:
            _copy_into(folder / DATABASE, copy)
            yield {DATABASE: copy}
        finally:
            for ending in ("-journal", "-wal", "-shm"):
                with suppress(OSError):
                    copy.with_name(copy.name + ending).unlink()


def is_database_part(name: str, copies: Mapping[str, Path]) -> bool:
    """Is this a side file of a database that was copied, and so in the copy already?"""
    return any(name.startswith(f"{database}-") for database in copies)


def copy_database(source: Path, target: Path, *, timeout: float = _TIMEOUT) -> None:
    """A new file with everything that is committed in a database, while others may read and write it."""
    with wrapping(target):
        os.close(open_private(target, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    _copy_into(source, target, timeout)


def _copy_into(source: Path, target: Path, timeout: float = _TIMEOUT) -> None:
    from orihon.drivers.sqlite import copy_into, database_errors, open_existing

    with database_errors(source, timeout), closing(open_existing(source, timeout=timeout)) as here:
        here.steadily(lambda: copy_into(here, target))


def read_fence(path: Path, *, timeout: float = _TIMEOUT) -> int:
    """The highest epoch that has written to a task's database."""
    from orihon.drivers.sqlite import database_errors, open_existing

    with database_errors(path, timeout), closing(open_existing(path, timeout=timeout)) as connection:
        return int(connection.rows("SELECT max(epoch) FROM fence")[0][0] or 0)


def set_fence(path: Path, epoch: int) -> None:
    """Refuse every lower epoch from now on; for a copy that nobody writes to yet."""
    from orihon.drivers.sqlite import database_errors, open_existing, transaction

    with (
        database_errors(path, _TIMEOUT),
        closing(open_existing(path, timeout=_TIMEOUT)) as connection,
        transaction(connection),
    ):
        connection.execute("UPDATE fence SET epoch = ?", (epoch,))
