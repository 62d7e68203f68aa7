"""The catalogue of many machines, in PostgreSQL. Leases run on the server's clock, which all of them share.

Promises that writers do not queue behind each other: a change locks the row of its task and no other, claims pass over
rows that are locked, and sums grow by rows that are appended (``rollup_parts``) and merged now and then by whoever
writes. No transaction waits for a second lock while it holds a first one that others wait for, so none is ever caught
in a deadlock.

Subscribes to the queue in PostgreSQL, for tasks that have just come: LISTEN on a connection of its own.

The tables' triggers notify a channel that is named after the schema. Nothing depends on it: without a connection
whoever waits simply waits its time.
"""

from __future__ import annotations

import itertools
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row
from psycopg.types.numeric import Int8

from orihon.catalogue.questions import refuse_changes, with_marks
from orihon.catalogue.tasks_db import DatabaseRow, Moment, Result, Statements, Value, statement
from orihon.drivers.postgres.errors import is_conflict, is_lost
from orihon.drivers.postgres.pool import Connection, Postgres
from orihon.drivers.sqlite import LOCKS
from orihon.errors import InvalidInput, StorageError, StorageUnavailable

logger = logging.getLogger("orihon.catalogue")

#: Every so many writes of a process, the parts of the sums are merged.
WRITES_PER_MERGE = 200
#: The server's clock goes on over boots: its moments can always be compared.
_ERA = "server"
_NAP = 0.05


class PostgresStatements:
    """Runs statements by name on one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def all(self, name: str, /, *conditions: str, **bindings: Value) -> list[DatabaseRow]:
        with self._execute(name, conditions, bindings) as cursor:
            return [*cursor.fetchall()]

    def one(self, name: str, /, **bindings: Value) -> DatabaseRow | None:
        with self._execute(name, (), bindings) as cursor:
            return cursor.fetchone() if cursor.description else None

    def values(self, name: str, /, **bindings: Value) -> list[tuple[Any, ...]]:
        with self._connection.cursor(binary=True) as cursor:
            return cursor.execute(statement("postgres", name, ()).encode(), _storable(bindings)).fetchall()

    def run(self, name: str, /, **bindings: Value) -> int:
        with self._execute(name, (), bindings) as cursor:
            return cursor.rowcount

    def moment(self) -> Moment:
        record = self.one("moment")
        assert record is not None
        # When somebody sets the server's clock, leases may end early and retries come early or late. A task may then be
        # taken from a live owner: its epoch rises, and whatever the former owner writes is refused as always.
        return Moment(record["seconds"], _ERA, is_shared=True)

    @contextmanager
    def _execute(
        self, name: str, conditions: tuple[str, ...], bindings: Mapping[str, Value]
    ) -> Iterator[psycopg.Cursor[dict[str, Any]]]:
        text = statement("postgres", name, conditions).encode()
        with self._connection.cursor(row_factory=dict_row, binary=True) as cursor:
            try:
                cursor.execute(text, _storable(bindings))
            except (psycopg.DataError, psycopg.IntegrityError, psycopg.errors.DatatypeMismatch, OverflowError) as error:
                raise InvalidInput("column_value", detail=" ".join(str(error).split())) from error
            yield cursor


class PostgresTasks:
    """The tables of the catalogue in one schema, for all threads of a process."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._listener = QueueListener(postgres)
        # Not from zero: of processes that live for a few writes only, some must merge, too.
        self._writes = itertools.count(1 + secrets.randbelow(WRITES_PER_MERGE))
        self._has_joined = False

    @property
    def where(self) -> str:
        return f"{self._postgres.where} {self._postgres.schema}"

    @property
    def dies_with_us(self) -> bool:
        return False

    def open(self) -> None:
        self._postgres.open()
        self._postgres.join()
        self._has_joined = True

    def close(self) -> None:
        self._listener.close()
        if self._has_joined:
            self._has_joined = False
            self._postgres.leave()

    def all(self, name: str, /, *conditions: str, **bindings: Value) -> list[DatabaseRow]:
        return self._postgres.patiently(
            lambda connection: PostgresStatements(connection).all(name, *conditions, **bindings)
        )

    def one(self, name: str, /, **bindings: Value) -> DatabaseRow | None:
        return self._postgres.patiently(lambda connection: PostgresStatements(connection).one(name, **bindings))

    def values(self, name: str, /, **bindings: Value) -> list[tuple[Any, ...]]:
        return self._postgres.patiently(lambda connection: PostgresStatements(connection).values(name, **bindings))

    def moment(self) -> Moment:
        return self._postgres.patiently(lambda connection: PostgresStatements(connection).moment())

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[PostgresStatements]:
        """Everything inside happens, or nothing; a task that was asked for by ``task_to_change`` is locked."""
        with self._writing(durable, self._postgres.give_up_at()) as statements:
            yield statements

    @contextmanager
    def _writing(self, durable: bool, give_up: float) -> Iterator[PostgresStatements]:
        with self._postgres.transaction(durable=durable, give_up=give_up) as connection:
            yield PostgresStatements(connection)
        if next(self._writes) % WRITES_PER_MERGE == 0:
            self.merge_rollups()

    def change(
        self,
        action: Callable[[Statements], Result],
        *,
        done: Callable[[Statements], Result | None] | None = None,
        durable: bool = True,
    ) -> Result:
        give_up, is_open = self._postgres.give_up_at(), False
        while True:
            is_ending = False
            try:
                with self._writing(durable, give_up) as statements:
                    # A session that is still ending holds the row of its task: whoever asks for that row waits for it.
                    found = done(statements) if is_open and done is not None else None
                    result = action(statements) if found is None else found
                    is_ending = True
                return result
            except StorageUnavailable as error:
                if not _can_be_mended(error) or time.monotonic() >= give_up:
                    raise
                is_open = is_open or is_ending
                if isinstance(error.__cause__, psycopg.Error) and is_conflict(error.__cause__):
                    LOCKS.note()
                logger.info("a change in %s is begun again: %s", self._postgres.where, error.cause)
            time.sleep(_NAP)

    def ask(self, question: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
        refuse_changes(question)
        with self._postgres.transaction() as connection, connection.cursor(row_factory=dict_row) as cursor:
            connection.execute("SET TRANSACTION READ ONLY")
            try:
                # Prepared: the server then takes one statement alone.
                return cursor.execute(
                    with_marks(question, parameters).encode(), parameters or None, prepare=True
                ).fetchall()
            except psycopg.errors.ReadOnlySqlTransaction as error:
                raise InvalidInput("sql_change") from error
            except (psycopg.ProgrammingError, psycopg.DataError, psycopg.NotSupportedError) as error:
                raise InvalidInput("sql", detail=" ".join(str(error).split())) from error

    def merge_rollups(self) -> None:
        """Put what the triggers have appended together; whoever else is at it does it for all."""
        try:
            with self._postgres.transaction(durable=False) as connection:
                statements = PostgresStatements(connection)
                found = statements.one("hold_merging")
                if found is not None and found["is_mine"]:
                    statements.run("merge_rollups")
                    statements.run("drop_empty_sums")
        except StorageError as error:  # the write that brought us here is done; the next one tries again
            logger.warning("the sums of the catalogue were not merged: %s", error)

    def wait_for_tasks(self, seconds: float, stop: threading.Event) -> None:
        self._listener.wait(seconds, stop)


def _can_be_mended(error: StorageUnavailable) -> bool:
    cause = error.__cause__
    return isinstance(cause, psycopg.Error) and (is_lost(cause) or is_conflict(cause))


def _storable(bindings: Mapping[str, Value]) -> dict[str, object]:
    return {name: _storable_value(value) for name, value in bindings.items()}


def _storable_value(value: Value) -> object:
    """As the server can store it.

    Texts without lone surrogates and NUL; numbers of one width, or a statement would be prepared for each width anew.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
    return Int8(value) if isinstance(value, int) else value


_SLICE = 0.25  # how long ``stop`` may go unseen
# Connections that came over a fork: kept, for letting go of one would end the parent's session.
_PARENTS: list[Connection] = []


class QueueListener:
    """One listening connection of this process; opened when somebody waits for the first time."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._connection: Connection | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Until something has come, for at most so long; what came since the last wait counts, too."""
        give_up = time.monotonic() + seconds
        self._notice_fork()
        if self._lock.acquire(blocking=False):  # otherwise another thread listens: this one just waits
            try:
                if self._hears(give_up, stop):
                    return
            finally:
                self._lock.release()
        stop.wait(max(0.0, give_up - time.monotonic()))

    def close(self) -> None:
        """Stop listening; a later wait begins again."""
        self._notice_fork()
        if self._lock.acquire(timeout=4 * _SLICE):  # somebody who still waits has the connection, and drops it late
            try:
                self._drop()
            finally:
                self._lock.release()

    def _hears(self, give_up: float, stop: threading.Event) -> bool:
        """False when listening is not possible now."""
        try:
            if self._connection is None:
                self._listen()
                return True  # a task may have come before we listened: it is time to look
            while not stop.is_set() and (left := give_up - time.monotonic()) > 0:
                if any(True for _ in self._connection.notifies(timeout=min(left, _SLICE), stop_after=1)):
                    for _ in self._connection.notifies(timeout=0):
                        pass  # one look finds all that came
                    break
        except (psycopg.Error, StorageError) as error:
            logger.info("not listening to %s: %s", self._postgres.where, error)
            self._drop()
            return False
        return True

    def _listen(self) -> None:
        connection = self._postgres.dedicated(patient=False)
        try:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._postgres.schema)))
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _notice_fork(self) -> None:
        if self._pid == os.getpid():
            return
        if self._connection is not None:
            _PARENTS.append(self._connection)
        self._connection, self._pid, self._lock = None, os.getpid(), threading.Lock()
