"""Statements on ``tasks.db`` by name, read in one snapshot or written in one transaction.

The texts are in ``sql/queries.sql``; no text from outside ever becomes part of one. A statement that finds
the database locked waits, is tried again, and ends in ``StorageUnavailable``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import apsw

from orihon.connections import ThreadConnections
from orihon.database import database_errors, open_database, retrying
from orihon.errors import InvalidInput
from orihon.folders import refuse_network_file_system

Record = Mapping[str, Any]
_Result = TypeVar("_Result")

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
# Texts that bring a version to the next one: the first makes version 2 out of 1.
_STEPS = ("to_version_2.sql",)


class Statements:
    """Runs statements by name on one connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def all(self, name: str, /, *conditions: str, **bindings: apsw.SQLiteValue) -> list[Record]:
        """Every row; ``conditions`` name texts that are joined by AND in the place of ``{conditions}``."""
        cursor = self._connection.execute(_statement(name, conditions), _storable(bindings))
        return [
            {column[0]: value for column, value in zip(cursor.get_description(), row, strict=True)} for row in cursor
        ]

    def one(self, name: str, /, **bindings: apsw.SQLiteValue) -> Record | None:
        """The first row, if there is one."""
        found = self.all(name, **bindings)
        return found[0] if found else None

    def run(self, name: str, /, **bindings: apsw.SQLiteValue) -> int:
        """How many rows the statement changed."""
        self._connection.execute(_statement(name, ()), _storable(bindings))
        return self._connection.changes()


class TasksDatabase:
    """``tasks.db``, for all threads of a process."""

    def __init__(self, path: Path, *, timeout: float, max_retries: int, retry_delay: float) -> None:
        refuse_network_file_system(path)
        self.path = path
        self._timeout = timeout
        self._max_retries = max_retries
        self._retry_delay = retry_delay
        # No reference back to this object: a forgotten catalogue closes at once, not at some later collection.
        self._connections = ThreadConnections(partial(_connect, path, timeout))

    def open(self) -> None:
        """Make the database if it is missing, and check that it is one of ours."""
        with self._connections.use():
            pass

    def close(self) -> None:
        self._connections.close()

    def all(self, name: str, /, *conditions: str, **bindings: apsw.SQLiteValue) -> list[Record]:
        with self._connection() as connection:
            return self._patiently(lambda: Statements(connection).all(name, *conditions, **bindings))

    def one(self, name: str, /, **bindings: apsw.SQLiteValue) -> Record | None:
        with self._connection() as connection:
            return self._patiently(lambda: Statements(connection).one(name, **bindings))

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[Statements]:
        """Everything inside happens, or nothing; nobody else writes meanwhile.

        What is not ``durable`` survives the death of every process, but not a power failure; it saves a sync.
        """
        with self._connection() as connection:
            if not durable:
                connection.execute("PRAGMA synchronous = NORMAL")
            try:
                with self._transaction(connection):
                    yield Statements(connection)
            finally:
                if not durable:
                    connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def _transaction(self, connection: apsw.Connection) -> Iterator[None]:
        self._patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        try:
            yield
            connection.execute("COMMIT")
        except apsw.ConstraintError as error:
            raise InvalidInput("column_value", detail=str(error)) from error
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @contextmanager
    def _connection(self) -> Iterator[apsw.Connection]:
        with self._connections.use() as connection, database_errors(self.path, self._timeout):
            yield connection

    def _patiently(self, action: Callable[[], _Result]) -> _Result:
        return retrying(
            action,
            path=self.path,
            timeout=self._timeout,
            max_retries=self._max_retries,
            retry_delay=self._retry_delay,
        )


def _connect(path: Path, timeout: float) -> apsw.Connection:
    return open_database(path, schema=_text("schema.sql"), steps=[_text(name) for name in _STEPS], timeout=timeout)


@cache
def queries() -> dict[str, str]:
    """The texts of ``sql/queries.sql`` by name."""
    _, *parts = _NAME.split(_text("queries.sql"))
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def _statement(name: str, conditions: tuple[str, ...]) -> str:
    text = queries()[name]
    if "{conditions}" not in text:
        return text
    return text.replace("{conditions}", " AND ".join(queries()[each] for each in conditions) or "true")


def _storable(bindings: Mapping[str, apsw.SQLiteValue]) -> Mapping[str, apsw.SQLiteValue]:
    """Error texts may hold lone surrogates (from file names), which SQLite cannot store as they are."""
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in bindings.items()
    }


def _text(name: str) -> str:
    return files(__package__).joinpath("sql", name).read_text(encoding="utf-8")
