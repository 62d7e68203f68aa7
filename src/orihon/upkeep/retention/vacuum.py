"""Space that removed records have left is given back: ``VACUUM`` of the catalogue and of finished tasks' databases.

So is the space of files that killed processes had not finished.

A database of SQLite without free pages is left alone, and so is a task that somebody works on or that is not finished.
On PostgreSQL the space becomes free for new rows, while everybody goes on working.

One ``maintain`` at a time: on one machine by a lock on a file, on many by a lock of the database they share.

Either is gone with the process that has it, however that ends.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from orihon.drivers.postgres import postgres_of
from orihon.errors import StateError, StorageError
from orihon.settings import Settings
from orihon.system import ProgressObserver
from orihon.system.files import Leftovers, folder_size, open_private, wrapping
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase, is_id, remove_left
from orihon.tasks.place import TaskFolders
from orihon.values.task import FINISHED

if TYPE_CHECKING:
    from orihon.drivers.postgres.pool import Postgres
    from orihon.drivers.sqlite import SqliteConnection

logger = logging.getLogger("orihon.retention")

_DATABASE = "context.db"


class LeftDatabase(NamedTuple):
    """A database that is as it was, and why."""

    database: str
    error: str


@dataclass(slots=True)
class VacuumRun(AsJson):
    """What ``vacuum_databases`` has done; in a dry run, what it would do."""

    json_name = "vacuum_run"
    json_fields = "dry_run databases bytes_before bytes_after left=left_databases leftover_files leftover_bytes"

    dry_run: bool
    databases: int = 0  # that have been made smaller, or could be
    bytes_before: int = 0
    bytes_after: int = 0
    left: dict[str, str] = field(default_factory=dict)  # databases, and why they are as they were
    leftover_files: int = 0  # that killed processes had not finished, and that have been removed
    leftover_bytes: int = 0

    @property
    def left_databases(self) -> list[LeftDatabase]:
        return [LeftDatabase(name, why) for name, why in self.left.items()]


def vacuum_databases(base: OpenBase, *, dry_run: bool = False, progress: ProgressObserver | None = None) -> VacuumRun:
    """Make the databases of a base folder, and those that the settings name, as small as what is in them."""
    run = VacuumRun(dry_run)
    base.open_catalogue()
    for path in base.leftovers():
        found = Leftovers(1, folder_size(path)) if dry_run else remove_left(path)
        run.leftover_files += found.files
        run.leftover_bytes += found.bytes
    tasks = [
        (place.uuid, place.folder / _DATABASE)
        for place in TaskFolders(base.path).all()
        if place.position == "completed" and is_id(place.uuid) and (place.folder / _DATABASE).exists()
    ]
    for number, (uuid, path) in enumerate(tasks, start=1):
        _vacuum_task(base, uuid, path, run)
        if progress is not None:
            progress(number, len(tasks))
    if base.settings.database.url is not None:
        _vacuum_server(base.settings, run)
    elif base.database.exists():
        _vacuum_file(base.database, base.settings, run)
    return run


def overwrite_deleted(base: OpenBase) -> None:
    """Write the catalogue anew, so that nothing of removed rows is left in its pages or its log."""
    run = VacuumRun(dry_run=False)
    if base.settings.database.url is not None:
        _vacuum_server(base.settings, run)
    elif base.database.exists():
        _vacuum_file(base.database, base.settings, run, always=True)


def _vacuum_task(base: OpenBase, uuid: str, path: Path, run: VacuumRun) -> None:
    row = base.row(uuid)
    if row is None or row.status not in FINISHED:
        return
    try:
        if run.dry_run or not _has_room(path, base.settings):
            _vacuum_file(path, base.settings, run)
            return
        with base.own(uuid):
            _vacuum_file(path, base.settings, run)
    except (StateError, StorageError) as error:
        logger.warning("%s: not vacuumed: %s", uuid, error)
        run.left[f"{path.parent.name}/{path.name}"] = str(error)


def _vacuum_file(path: Path, settings: Settings, run: VacuumRun, *, always: bool = False) -> None:
    from orihon.drivers.sqlite import write_anew

    with closing(_connection(path, settings)) as connection, _errors(path, settings):
        before, free = _size_and_room(connection)
        run.bytes_before += before
        run.databases += 1 if free else 0
        if (free or always) and not run.dry_run:
            write_anew(connection, completely=always)
        run.bytes_after += before - free if run.dry_run else _size_and_room(connection)[0]


def _has_room(path: Path, settings: Settings) -> bool:
    with closing(_connection(path, settings)) as connection, _errors(path, settings):
        return _size_and_room(connection)[1] > 0


def _size_and_room(connection: SqliteConnection) -> tuple[int, int]:
    """The bytes of a database, its newest in the log included, and those of them that nothing is in."""
    page, pages, free = (int(connection.pragma(name)) for name in ("page_size", "page_count", "freelist_count"))
    return page * pages, page * free


def _connection(path: Path, settings: Settings) -> SqliteConnection:
    from orihon.drivers.sqlite import connect

    return connect(path, timeout=settings.context_storage.db_timeout)


def _errors(path: Path, settings: Settings) -> Any:
    from orihon.drivers.sqlite import database_errors

    return database_errors(path, settings.context_storage.db_timeout)


def _vacuum_server(settings: Settings, run: VacuumRun) -> None:
    from orihon.drivers.postgres import postgres_of

    pool = postgres_of(settings)
    run.databases += 1
    run.bytes_before += _server_size(pool)
    for table in () if run.dry_run else _server_rows(pool, "tables"):
        _vacuum_table(pool, f"VACUUM (ANALYZE) {table}".encode())  # a name that the server itself has quoted
    run.bytes_after += _server_size(pool)


def _vacuum_table(pool: Postgres, statement: bytes) -> None:
    pool.patiently(lambda connection: connection.execute(statement))


def _server_size(pool: Postgres) -> int:
    return int(_server_rows(pool, "size")[0])


def _server_rows(pool: Postgres, name: str) -> list[Any]:
    from orihon.drivers.postgres import statements

    statement = statements("orihon.upkeep.retention", "postgres.sql")[name]
    return [value for (value,) in pool.patiently(lambda connection: connection.execute(statement).fetchall())]


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
    from orihon.drivers.postgres import statements
    from orihon.drivers.postgres.errors import server_errors

    with closing(pool.dedicated()) as connection:
        with server_errors(pool.where, pool.timeout):
            found = connection.execute(statements("orihon.upkeep.retention", "postgres.sql")["lock"]).fetchone()
        if found is None or not found[0]:
            raise StateError("maintained", place=pool.where)
        yield
