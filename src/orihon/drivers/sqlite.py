"""SQLite as Orihon uses it: a current build (``apsw``), WAL, private files, errors of our own tree.

Owns opening and wrapping, shared by the catalogue and by the ``sqlite`` back end. Python's own ``sqlite3`` may be a
build with the WAL-reset corruption bug (before 3.51.3); it is never used to write. What it does to our files when
others use it in this process is kept off by ``sqlite_guard``; what was done all the same (a log removed by hand, a
database put in the place of another) is seen before anything is acknowledged.
"""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw

from orihon.drivers import sqlite_guard
from orihon.drivers.sqlite_locks import use_description_locks
from orihon.errors import DamagedStore, NewerSchema, StorageError, StorageUnavailable
from orihon.system.clock import is_stopped
from orihon.system.files import hidden_beside, make_private_folder, open_private, sync_folder, wrapping, write_new
from orihon.system.files import storage_error as unavailable
from orihon.system.holding import held_too_long, let_finish, lock_holders

_Result = TypeVar("_Result")

#: How often a read is repeated that somebody may have overtaken.
_MOST_READS = 10


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
    apsw.ProtocolError: "locked",  # one who opens or closes the database stands still
    apsw.FullError: "full",
    apsw.ReadOnlyError: "read_only",
    apsw.PermissionsError: "denied",
    apsw.CantOpenError: "denied",
    apsw.AuthError: "denied",
}


class SqliteConnection(apsw.Connection):
    """A connection that knows its files: nothing is acknowledged that they do not hold under their names.

    It writes between ``begin`` and ``commit``, or ``alone``, and nowhere else.
    """

    def __init__(
        self, path: Path, *, timeout: float, flags: int = apsw.SQLITE_OPEN_READWRITE, shared: bool = False
    ) -> None:
        """``shared``: nobody can do without it, so a stopped process that keeps it locked is let end its write."""
        self.path = path
        # No method of its own: SQLite would keep the connection alive through it.
        self._meanwhile = partial(let_finish, path, Path(f"{path}-shm")) if shared else _nothing
        self._name, self._log = str(path), f"{path}-wal"
        self._timeout = timeout
        self._files: tuple[tuple[int, int], tuple[int, int]] | None = None
        self._turn: int | None = None
        self._is_at_turn = False
        self._guard = sqlite_guard.enter(self._name)
        try:
            self._hold()
            super().__init__(self._name, flags=flags)
            self.wait_for(timeout)
        except BaseException:
            self.close()
            raise

    def wait_for(self, seconds: float) -> None:
        """So long it waits for others from now on."""
        self._timeout = seconds
        self.set_busy_handler(_waiting(seconds, self._meanwhile))

    def _hold(self) -> None:
        if self._guard is not None:
            self._guard.hold(self._name, self._timeout, self._meanwhile)

    def remember_files(self) -> None:
        """These are its files, from now on; call it when they have been opened."""
        self._hold()
        self.execute("PRAGMA user_version")  # opens the log
        with suppress(FileNotFoundError):
            self._files = _identity(self._name), _identity(self._log)

    def close(self, force: bool = False) -> None:
        """Close it; the last one of all empties and removes the log."""
        if self._guard is None:
            super().close(force)
            return
        with suppress(apsw.Error, StorageError):
            self._prepare_to_close()
        if self._turn is not None:
            self._guard.keep_turn(self._turn)
            self._turn, self._is_at_turn = None, False
        sqlite_guard.leave(self._guard, lambda: apsw.Connection.close(self, force))
        self._guard = None

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001 - when Python ends, what this needs may be gone; nobody is there to be told
            return

    # ---- writing ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start to write; nobody else does until ``commit`` or ``roll_back``."""
        self.roll_back()  # an interrupt may have come between the start of a transaction and its end
        try:
            self._take_turn()
            self.execute("BEGIN IMMEDIATE")
        except BaseException:
            self._let_go()
            raise

    def commit(self) -> None:
        """Everything since ``begin`` counts, and will be found by whoever opens the file."""
        self.execute("COMMIT")
        try:
            if not self.is_linked():
                self._relink()
        finally:
            self._let_go()

    def roll_back(self) -> None:
        """End a transaction that is open, if one is."""
        try:
            if self.in_transaction:
                self.execute("ROLLBACK")
        finally:
            self._let_go()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """For what writes and cannot be in a transaction: ``VACUUM``, a checkpoint."""
        self.roll_back()
        try:
            self._take_turn()
            yield
        finally:
            self._let_go()

    def _take_turn(self) -> None:
        if self._guard is not None and self._guard.is_held:
            if self._turn is None:
                self._turn = self._guard.new_turn()
            self._is_at_turn = True  # first: an interrupt may come in between
            self._guard.take_turn(self._turn, self._timeout, self._meanwhile)

    def _let_go(self) -> None:
        if self._is_at_turn and self._turn is not None and self._guard is not None:
            self._guard.give_turn(self._turn)
            self._is_at_turn = False

    # ---- its files -------------------------------------------------------------------------------------------------

    def is_linked(self) -> bool:
        """Do the names of the database and of its log still lead to the files that this connection has open?"""
        try:
            return self._files is None or self._files == (_identity(self._name), _identity(self._log))
        except FileNotFoundError:
            return False

    def is_usable(self) -> bool:
        """May it go on? Looked at before each use. What only its log holds is saved when that has lost its name."""
        if self.in_transaction or self.is_linked():
            return True
        place = self.place()
        if place is None:
            return False
        if place == self.path:
            with database_errors(self.path, self._timeout), self.alone():
                self._relink()
            return False
        return True  # moved as a whole, with its folder

    def place(self) -> Path | None:
        """Where the database is: where it was, or where its folder was moved under the same name.

        ``None`` when it is gone, or put away: its folder has another name, or another database is in its place.
        """
        assert self._files is not None
        with suppress(FileNotFoundError):
            return self.path if self._files[0] == _identity(self._name) else None
        found = None if self._guard is None else self._guard.place()
        return found if found is not None and found.parts[-2:] == self.path.parts[-2:] else None

    def _relink(self) -> None:
        """What this connection has committed is in the database that others open, or it is an error."""
        place = self.place()
        if place is None:
            raise StorageUnavailable("replaced", path=self.path)
        log = place.with_name(f"{place.name}-wal")
        try:
            found = log.stat()
        except FileNotFoundError:
            found = None
        assert self._files is not None
        if found is not None and (found.st_dev, found.st_ino) == self._files[1]:
            return  # moved as a whole
        _, frames, saved = self.execute("PRAGMA wal_checkpoint(NOOP)").get
        if frames == saved:
            return
        is_other = found is not None and found.st_size > 0
        if is_other and self._is_current(log):
            return
        is_busy, frames, saved = (1, 1, 0) if is_other else self.execute("PRAGMA wal_checkpoint(FULL)").get
        if is_busy or frames != saved:
            raise DamagedStore("log_replaced", path=log, kept=self._put_aside())

    def _put_aside(self) -> Path:
        """A copy of the database as only this connection still sees it."""
        make_private_folder(self.path.parent / "aside")
        copy = self.path.parent / "aside" / f"{self.path.name}.{secrets.token_hex(4)}"
        with wrapping(copy):
            os.close(open_private(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        copy_into(self, copy)
        return copy

    def _is_current(self, log: Path) -> bool:
        """Does the index speak of the log that is there now? Then somebody else has saved ours before."""
        index = b"" if self._guard is None else self._guard.index()
        with suppress(OSError), log.open("rb") as file:
            return bool(index) and file.read(24)[16:] == index[:8]
        return False

    def _prepare_to_close(self) -> None:
        """As the last one it would remove a log that is not its own."""
        if self.is_linked() or self._files is None:
            if self._guard is not None and self._guard.is_alone():
                self._empty_log()
            return
        self.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if self.place() == self.path:
            with self.alone():
                self._relink()

    def _empty_log(self) -> None:
        """Everything is in the database, and the guard removes the log; unless somebody comes just now."""
        self.wait_for(0)
        with self.alone():
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    # ---- reading ---------------------------------------------------------------------------------------------------

    def rows(self, statement: str, values: Sequence[str | int] = ()) -> list[Any]:
        """What a statement gives, read steadily."""
        return self.steadily(lambda: self.execute(statement, values).fetchall())

    def steadily(self, action: Callable[[], _Result]) -> _Result:
        """What a read gives that nobody has overtaken.

        A second copy of SQLite that closes the file in another thread takes the lock of a reader with it; somebody
        else may then put newer pages, or another log, under its statement. That can be seen in the index. Nobody can
        where the locks are those of descriptions.
        """
        if self._guard is None or self.in_transaction or use_description_locks():
            return action()
        for _ in range(_MOST_READS):
            before = self._guard.index()
            try:
                result = action()
            except apsw.Error:
                if before == self._guard.index():
                    raise
                continue
            if before == self._guard.index():
                return result
        return action()


def _nothing() -> None:
    pass


def _identity(name: str) -> tuple[int, int]:
    """Which file has the name; ``FileNotFoundError`` when none has."""
    try:
        status = os.stat(name)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unavailable(error, Path(name)) from error
    return status.st_dev, status.st_ino


def open_database(
    path: Path,
    *,
    schema: str,
    steps: list[str],
    timeout: float,
    durable: bool = True,
    create: bool = False,
    shared: bool = False,
) -> SqliteConnection:
    """A connection to a database of ours, made (``create``) or brought up to date on the way; see ``migrate``."""
    connection = connect(path, timeout=timeout, durable=durable, create=create, shared=shared)
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


def connect(
    path: Path, *, timeout: float, durable: bool = True, create: bool = False, shared: bool = False
) -> SqliteConnection:
    """A connection in WAL mode; without ``create`` the file has to be there, its folder always.

    A new file is for the owner only.
    """
    if not create and not path.exists():
        raise StorageUnavailable("gone", path=path.parent)
    with wrapping(path):
        if path.is_symlink():  # it would lead elsewhere whoever writes; see ``open_private``
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        while create and not path.exists():
            _make(path)
    with database_errors(path, timeout):
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        connection = SqliteConnection(path, timeout=timeout, flags=flags, shared=shared)
        try:
            _set_up(connection, durable)
        except BaseException:
            connection.close()  # or it would keep its lock on the file for as long as somebody holds the error
            raise
        return connection


def _make(path: Path) -> None:
    """A new database, whole; one that somebody makes meanwhile stays as it is."""
    hidden = hidden_beside(path)
    try:
        write_new(hidden, [_new_database()])  # and closed: later that would drop the locks of who has it open
        with suppress(FileExistsError, FileNotFoundError):  # the latter: taken for a leftover
            os.link(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)
    sync_folder(path.parent)


def _new_database() -> bytes:
    """An empty one in WAL mode: it has a log from the first moment on; ``sqlite_guard`` says what that keeps off."""
    with closing(apsw.Connection(":memory:")) as empty:
        empty.execute("PRAGMA user_version = 0")
        page = bytearray(empty.serialize("main"))
    page[18:20] = b"\2\2"  # see SQLite's "Database File Format": written and read with a log
    return bytes(page)


def _set_up(connection: SqliteConnection, durable: bool) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.remember_files()


def open_existing(path: Path, *, timeout: float) -> SqliteConnection:
    """A connection to a database of ours as it is, whatever its version."""
    with database_errors(path, timeout):
        connection = SqliteConnection(path, timeout=timeout)
        try:
            connection.remember_files()
        except BaseException:
            connection.close()
            raise
        return connection


def copy_into(source: apsw.Connection, target: Path) -> None:
    """Everything that is committed in a database, into an empty file; whoever keeps that syncs it."""
    with closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as there:
        there.execute("PRAGMA synchronous = OFF")
        with there.backup("main", source, "main") as backup:
            backup.step(-1)


def _waiting(seconds: float, meanwhile: Callable[[], object]) -> Callable[[int], bool]:
    """Waits for locks up to so many seconds in short uneven naps.

    SQLite's own waiting sleeps ever longer and lets a late comer starve for seconds under load, which would
    cost a heartbeat its lease; it also cannot be interrupted.
    """
    patience = sqlite_guard.Patience(seconds, meanwhile)

    def nap(attempt: int) -> bool:
        nonlocal patience
        if attempt == 0:
            patience = sqlite_guard.Patience(seconds, meanwhile)
        return patience.nap()

    return nap


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
    if isinstance(error, apsw.CantOpenError) and not os.path.lexists(path):
        return StorageUnavailable("gone", path=path.parent)
    reason = _UNAVAILABLE.get(type(error), "io")
    if reason == "locked":
        LOCKS.note()
        holder = next(iter(lock_holders(path, path.with_name(f"{path.name}-shm"))), 0)
        if holder and is_stopped(holder):
            return held_too_long(path, timeout, pid=holder)
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
def transaction(connection: SqliteConnection) -> Iterator[None]:
    """Everything inside happens, or nothing."""
    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        connection.roll_back()
        raise


def write_anew(connection: SqliteConnection, *, completely: bool = False) -> None:
    """Make the file as small as what is in it; nothing of what was removed or replaced lies on in it or in its log.

    While somebody reads, the log is left to the next one; ``completely``: that is an error.
    """
    with connection.alone():
        connection.execute("VACUUM")
        is_busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").get
    if is_busy and completely:
        raise StorageUnavailable("log_in_use", path=connection.path)


def migrate(connection: SqliteConnection, path: Path, *, schema: str, steps: list[str]) -> None:
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
