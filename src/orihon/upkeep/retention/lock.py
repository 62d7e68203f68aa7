"""One ``maintain`` at a time: on one machine by a lock on a file, on many by a lock of the database they share.

Either is gone with the process that has it, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from orihon.drivers.postgres import postgres_of
from orihon.errors import StateError
from orihon.settings import Settings
from orihon.system.files import open_private, wrapping

NAME = "maintain.lock"


@contextmanager
def only_one(base: Path, settings: Settings) -> Iterator[None]:
    """Nobody else is in such a block; ``StateError`` when somebody is."""
    with _in_database(settings) if settings.database.url is not None else _on_machine(base):
        yield


@contextmanager
def _on_machine(base: Path) -> Iterator[None]:
    path = base / NAME
    with wrapping(path):
        fd = open_private(path, os.O_RDWR | os.O_CREAT)
    try:
        with wrapping(path):
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise StateError("maintained", place=base) from error
        yield
    finally:
        os.close(fd)


@contextmanager
def _in_database(settings: Settings) -> Iterator[None]:
    pool = postgres_of(settings)
    from orihon.drivers.postgres.errors import server_errors
    from orihon.drivers.postgres.statements import statements

    with closing(pool.dedicated()) as connection:
        with server_errors(pool.where, pool.timeout):
            found = connection.execute(statements("orihon.upkeep.retention", "postgres.sql")["lock"]).fetchone()
        if found is None or not found[0]:
            raise StateError("maintained", place=pool.where)
        yield
