"""SQLite as Orihon uses it: a current build (``apsw``), WAL, private files, errors of our own tree.

Owns opening and wrapping, shared by the catalogue and by the ``sqlite`` back end. Python's own ``sqlite3`` may be a
build with the WAL-reset corruption bug (before 3.51.3); it is never used to write.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import apsw

from orihon.errors import DamagedStore, NewerSchema, StorageError, StorageUnavailable
from orihon.system.files import open_private, wrapping

_Result = TypeVar("_Result")

_LONGEST_NAP = 0.01


class LockErrors:
    """How often this process has found a database locked, until somebody writes it down."""

    def __init__(self) -> None:
        self._pid, self._count = os.getpid(), 0

    def note(self) -> None:
        """Once more."""
        self._count = (self._count if self._pid == os.getpid() else 0) + 1  # a fork's are its own
        self._pid = os.getpid()

    def take(self) -> int:
        """Everything since the last time."""
        taken, self._count = self._count if self._pid == os.getpid() else 0, 0
        return taken

    def give_back(self, number: int) -> None:
        """What was taken and could not be written."""
        self._count += number


LOCKS = LockErrors()

_UNAVAILABLE: dict[type[apsw.Error], str] = {
    apsw.BusyError: "locked",
    apsw.LockedError: "locked",
    apsw.FullError: "full",
    apsw.ReadOnlyError: "read_only",
    apsw.PermissionsError: "denied",
    apsw.CantOpenError: "denied",
    apsw.AuthError: "denied",
}


def open_database(
    path: Path, *, schema: str, steps: list[str], timeout: float, durable: bool = True, create: bool = False
) -> apsw.Connection:
    """A connection to a database of ours, made (``create``) or brought up to date on the way; see ``migrate``."""
    connection = connect(path, timeout=timeout, durable=durable, create=create)
    try:
        with database_errors(path, timeout):
            if version(connection) != 1 + len(steps):
                _refuse_foreign(connection, path)
                migrate(connection, path, schema=schema, steps=steps)
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_foreign(connection: apsw.Connection, path: Path) -> None:
    """A database without our mark but with tables is somebody else's; it is not touched."""
    # In this order: another process may be making the schema, and its mark comes with it.
    if connection.execute("SELECT count(*) FROM sqlite_schema").get and version(connection) == 0:
        raise DamagedStore("foreign", path=path)


def connect(path: Path, *, timeout: float, durable: bool = True, create: bool = False) -> apsw.Connection:
    """A connection in WAL mode; without ``create`` the file has to be there, its folder always.

    A new file is for the owner only.
    """
    if not create and not path.exists():
        raise StorageUnavailable("gone", path=path.parent)
    with wrapping(path):
        if create and not path.exists():  # to open and close an existing one would drop SQLite's own locks here
            os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    with database_errors(path, timeout):
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        connection = apsw.Connection(str(path), flags=flags)
        try:
            _set_up(connection, timeout, durable)
        except BaseException:
            connection.close()  # or it would keep its lock on the file for as long as somebody holds the error
            raise
        return connection


def _set_up(connection: apsw.Connection, timeout: float, durable: bool) -> None:
    wait_fairly(connection, timeout)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    connection.execute("PRAGMA foreign_keys = ON")


def wait_fairly(connection: apsw.Connection, timeout: float) -> None:
    """Wait for locks up to ``timeout`` seconds in short uneven naps.

    SQLite's own waiting sleeps ever longer and lets a late comer starve for seconds under load, which would
    cost a heartbeat its lease; it also cannot be interrupted.
    """
    deadline = 0.0

    def nap(attempt: int) -> bool:
        nonlocal deadline
        now = time.monotonic()
        if attempt == 0:
            deadline = now + timeout
        if now >= deadline:
            return False
        uneven = (time.monotonic_ns() // 1000 % 1000) / 1000
        time.sleep(min(0.0005 * (attempt + 1), _LONGEST_NAP) * (0.5 + uneven))
        return True

    connection.set_busy_handler(nap)


@contextmanager
def database_errors(path: Path, timeout: float) -> Iterator[None]:
    """Turns SQLite's errors about ``path`` into ours, with their cause."""
    try:
        yield
    except apsw.Error as error:
        raise storage_error(error, path, timeout) from error
    except UnicodeDecodeError as error:  # a text as nobody has written it
        raise DamagedStore("database", path=path, detail=str(error)) from error


def storage_error(error: apsw.Error, path: Path, timeout: float) -> StorageError:
    """The error of our tree for one of SQLite's."""
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return DamagedStore("database", path=path, detail=str(error))
    reason = _UNAVAILABLE.get(type(error), "io")
    if reason == "locked":
        LOCKS.note()
    return StorageUnavailable(reason, path=path, detail=str(error), seconds=timeout)


def retrying(
    action: Callable[[], _Result], *, path: Path, timeout: float, max_retries: int, retry_delay: float
) -> _Result:
    """Run an action that may find the database locked, a few times, waiting longer each time."""
    for attempt in range(max_retries):
        try:
            return action()
        except apsw.BusyError:
            LOCKS.note()
            time.sleep(retry_delay * (attempt + 1))
    with database_errors(path, timeout):
        return action()


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Everything inside happens, or nothing."""
    roll_back(connection)  # an interrupt may have come between the start of a transaction and its end
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        roll_back(connection)
        raise
    connection.execute("COMMIT")


def roll_back(connection: apsw.Connection) -> None:
    """End a transaction that is open, if one is."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def empty_log(connection: apsw.Connection, path: Path) -> None:
    """Leave nothing in the write-ahead log; an error while somebody still reads what stands there."""
    is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    if is_busy:
        raise StorageUnavailable("log_in_use", path=path)


def migrate(connection: apsw.Connection, path: Path, *, schema: str, steps: list[str]) -> None:
    """Bring the database to version ``1 + len(steps)``: a new one by ``schema``, an old one step by step.

    Each step and its mark are one transaction. A database from a newer Orihon is refused.
    """
    current = 1 + len(steps)
    with transaction(connection):
        found = version(connection)
        if found == 0:
            connection.execute(schema)
            connection.execute(f"PRAGMA user_version = {current}")
            return
    if found > current:
        raise NewerSchema("database", path=path, found=found, known=current)
    for number, step in enumerate(steps[found - 1 :], start=found + 1):
        with transaction(connection):
            if version(connection) < number:
                connection.execute(step)
                connection.execute(f"PRAGMA user_version = {number}")


def version(connection: apsw.Connection) -> int:
    """The schema version written in the file."""
    return int(connection.execute("PRAGMA user_version").get)
