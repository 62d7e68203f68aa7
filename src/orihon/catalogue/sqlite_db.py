"""``tasks.db``: the catalogue of one machine, in SQLite. Leases run on that machine's boot-time clock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from orihon.catalogue.counters import add_counts
from orihon.catalogue.questions import ask_file, refuse_changes
from orihon.catalogue.tasks_db import DatabaseRow, Moment, Result, Statements, Value, sql_text, statement
from orihon.drivers.connections import ThreadConnections
from orihon.drivers.sqlite import LOCKS, SqliteConnection, database_errors, open_database, retrying
from orihon.errors import InvalidInput
from orihon.system.clock import boot_id, boottime
from orihon.system.counters import LOCK_ERRORS
from orihon.system.files import make_private_folder, open_private, refuse_network_file_system, wrapping

# Texts that bring a version to the next one: the first makes version 2 out of 1.
_STEPS = ("to_version_2.sql", "to_version_3.sql", "to_version_4.sql", "to_version_5.sql")


class SqliteStatements:
    """Runs statements by name on one connection."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection

    def all(self, name: str, /, *conditions: str, **bindings: Value) -> list[DatabaseRow]:
        cursor = self._connection.execute(statement("sqlite", name, conditions), _storable(bindings))
        rows = iter(cursor)
        first = next(rows, None)
        if first is None:
            return []
        names = [column[0] for column in cursor.get_description()]  # there is none without a row
        return [dict(zip(names, row, strict=True)) for row in (first, *rows)]

    def one(self, name: str, /, **bindings: Value) -> DatabaseRow | None:
        found = self.all(name, **bindings)
        return found[0] if found else None

    def values(self, name: str, /, **bindings: Value) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement("sqlite", name, ()), _storable(bindings)).fetchall()

    def run(self, name: str, /, **bindings: Value) -> int:
        self._connection.execute(statement("sqlite", name, ()), _storable(bindings))
        return self._connection.changes()

    def moment(self) -> Moment:
        return _now()


class SqliteTasks:
    """``tasks.db``, for all threads of a process."""

    def __init__(self, path: Path, *, timeout: float, max_retries: int, retry_delay: float) -> None:
        refuse_network_file_system(path)
        self.path = path
        self._timeout = timeout
        self._max_retries = max_retries
        self._retry_delay = retry_delay
        # No reference back to this object: a forgotten catalogue closes at once, not at some later collection.
        self._connections = ThreadConnections(partial(_connect, path, timeout), SqliteConnection.is_usable)

    @property
    def where(self) -> str:
        return str(self.path)

    @property
    def dies_with_us(self) -> bool:
        return True

    def open(self) -> None:
        with self._connections.use():
            pass

    def close(self) -> None:
        self._connections.close()

    def all(self, name: str, /, *conditions: str, **bindings: Value) -> list[DatabaseRow]:
        return self._read(lambda statements: statements.all(name, *conditions, **bindings))

    def one(self, name: str, /, **bindings: Value) -> DatabaseRow | None:
        return self._read(lambda statements: statements.one(name, **bindings))

    def values(self, name: str, /, **bindings: Value) -> list[tuple[Any, ...]]:
        return self._read(lambda statements: statements.values(name, **bindings))

    def _read(self, action: Callable[[SqliteStatements], Result]) -> Result:
        with self._connection() as connection:
            return self._patiently(lambda: connection.steadily(lambda: action(SqliteStatements(connection))))

    def moment(self) -> Moment:
        return _now()

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[SqliteStatements]:
        """Everything inside happens, or nothing; nobody else writes anything meanwhile."""
        with self._connection() as connection:
            if not durable:
                connection.execute("PRAGMA synchronous = NORMAL")
            try:
                with self._transaction(connection):
                    statements = SqliteStatements(connection)
                    with _locks_counted(statements):
                        yield statements
            finally:
                if not durable:
                    connection.execute("PRAGMA synchronous = FULL")

    def change(
        self,
        action: Callable[[Statements], Result],
        *,
        done: Callable[[Statements], Result | None] | None = None,
        durable: bool = True,
    ) -> Result:
        with self.write(durable=durable) as statements:
            return action(statements)

    def ask(self, question: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
        refuse_changes(question)
        self.open()  # there is one, of this version
        return ask_file(self.path, self._timeout, question, parameters)

    def merge_rollups(self) -> None:
        """Nothing: here the sums change with the rows."""

    def wait_for_tasks(self, seconds: float, stop: threading.Event) -> None:
        """Nobody is told of changes in a file: whoever waits looks again after ``seconds``."""
        stop.wait(seconds)

    @contextmanager
    def _transaction(self, connection: SqliteConnection) -> Iterator[None]:
        self._patiently(connection.begin)
        try:
            yield
            connection.commit()
        except (apsw.ConstraintError, OverflowError) as error:  # the latter: a number of more than 64 bits
            raise InvalidInput("column_value", detail=str(error)) from error
        finally:
            connection.roll_back()

    @contextmanager
    def _connection(self) -> Iterator[SqliteConnection]:
        with self._connections.use() as connection, database_errors(self.path, self._timeout):
            yield connection

    def _patiently(self, action: Callable[[], Result]) -> Result:
        return retrying(
            action,
            path=self.path,
            timeout=self._timeout,
            max_retries=self._max_retries,
            retry_delay=self._retry_delay,
        )


@contextmanager
def _locks_counted(statements: SqliteStatements) -> Iterator[None]:
    """What this process could not write while a database was locked is written with the next change."""
    locked = LOCKS.take()
    try:
        if locked:
            add_counts(statements, {LOCK_ERRORS: locked})
        yield
    except BaseException:
        LOCKS.give_back(locked)
        raise


def _now() -> Moment:
    return Moment(boottime(), boot_id(), is_shared=False)


def sign_of(database: Path) -> Path:
    """The file beside a ``tasks.db`` that says: it is new, and tasks of this base may be missing in it.

    Whoever opens the whole base enters them (``tasks.folder_rows``). It may be in the place of one that was lost while
    programs were using it.
    """
    return database.with_name(f"{database.name}.rebuild")


def _connect(path: Path, timeout: float) -> SqliteConnection:
    steps = [sql_text(name) for name in _STEPS]
    make_private_folder(path.parent)
    with wrapping(path):
        if not path.exists() or not path.stat().st_size:
            os.close(open_private(sign_of(path), os.O_RDWR | os.O_CREAT))
    return open_database(path, schema=sql_text("schema.sql"), steps=steps, timeout=timeout, create=True, shared=True)


def _storable(bindings: Mapping[str, Value]) -> Mapping[str, Value]:
    """Error texts may hold lone surrogates (from file names), which SQLite cannot store as they are."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in bindings.items()
    }
