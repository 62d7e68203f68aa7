"""``Postgres``: the connections of one process to one server and schema.

Not ``psycopg_pool``: its threads do not live through a fork, and it hides why a connection could not be made (a wrong
password would be a time-out). A connection is taken, used by one thread and given back; one that broke is thrown away.
Before anything has been sent, a lost connection is replaced and a server that is away is waited for, up to ``timeout``
seconds in all; later it is the caller who knows whether it may ask again. One that is silent is lost.

The tables: made when missing, brought up to date step by step, refused when a newer Orihon made them.
"""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from orihon.drivers.postgres.address import GuardedConnection, addressed
from orihon.drivers.postgres.errors import is_conflict, is_lost, is_outdated, server_errors, storage_error
from orihon.errors import InvalidSettings, NewerSchema, StorageUnavailable
from orihon.settings import Settings

Connection = GuardedConnection
_Result = TypeVar("_Result")

_FIRST_NAP, _LONGEST_NAP = 0.05, 1.0
#: However late it is, so long an answer is waited for.
_LEAST_PATIENCE = 1.0


class Postgres:
    """One server and schema, for all threads of a process."""

    def __init__(self, url: str, schema: str, *, pool_size: int = 8, timeout: float = 30.0) -> None:
        self.schema = schema
        self.timeout = timeout
        self._address = addressed(url, schema, timeout)
        self.where = self._address.where
        self._free: list[Connection] = []
        self._room = threading.BoundedSemaphore(pool_size)
        self._pool_size = pool_size
        self._pid = os.getpid()
        self._is_current = False  # has the schema been looked at?
        self._users = 0
        self._lock = threading.Lock()
        _after_forks()
        _POOLS.add(self)
        # With the pool, or with the process: a program that closes nothing hears nothing of connections left open.
        weakref.finalize(self, _close, self._free)

    def open(self) -> None:
        """Make the tables if they are missing, bring old ones up to date, refuse those of a newer Orihon."""
        if self._is_current:
            return
        self.patiently(lambda connection: bring_up_to_date(connection, self.schema, self.where))
        self._is_current = True

    def has_tables(self) -> bool:
        """Has somebody opened this schema before?"""
        return self._is_current or self.patiently(lambda connection: version_of(connection, self.schema)) > 0

    def join(self) -> None:
        """One more part of the process uses the pool, until it calls ``leave``."""
        with self._lock:
            self._users += 1

    def leave(self) -> None:
        """The last part that leaves closes the connections; they are not worth keeping for nobody."""
        with self._lock:
            self._users -= 1
            is_last = self._users <= 0
        if is_last:
            self.close()

    def close(self) -> None:
        """Close the connections that nobody uses; the next use opens again."""
        with self._lock:
            free = self._free.copy()
            self._free.clear()
        _close(free)

    # ---- one connection ----------------------------------------------------------------------------------------

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection in autocommit mode, for this thread and this block; errors come out as ours."""
        connection = self.take()
        try:
            with server_errors(self.where, self.timeout):
                yield connection
        finally:
            self.give_back(connection)

    @contextmanager
    def transaction(self, *, durable: bool = True, give_up: float | None = None) -> Iterator[Connection]:
        """Everything inside happens, or nothing. What is not ``durable`` may be lost with the server's machine."""
        connection = self._begun("BEGIN" if durable else "BEGIN; SET LOCAL synchronous_commit = off", give_up)
        try:
            with server_errors(self.where, self.timeout):
                yield connection
                connection.execute("COMMIT")
        finally:
            self.give_back(connection)

    def give_up_at(self) -> float:
        """When what begins now has to give up, on the monotonic clock."""
        return time.monotonic() + self.timeout

    def patiently(self, action: Callable[[Connection], _Result], *, give_up: float | None = None) -> _Result:
        """Do something that may be done again: when the connection is lost on the way, or a race, it is."""
        give_up, nap = self.give_up_at() if give_up is None else give_up, _FIRST_NAP
        while True:
            connection = self.take(give_up)
            try:
                return action(connection)
            except psycopg.Error as error:
                if is_outdated(error):
                    connection.close()
                if not (is_lost(error) or is_conflict(error)) or time.monotonic() >= give_up:
                    raise storage_error(error, self.where, self.timeout) from error
            finally:
                self.give_back(connection)
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)

    def _begun(self, begin: LiteralString, give_up: float | None) -> Connection:
        """A connection with a transaction open on it: until then nothing has been asked that could not be repeated."""
        give_up = self.give_up_at() if give_up is None else give_up
        while True:
            connection = self.take(give_up)
            try:
                connection.execute(begin)
                return connection
            except psycopg.Error as error:
                self.give_back(connection)
                if not is_lost(error) or time.monotonic() >= give_up:
                    raise storage_error(error, self.where, self.timeout) from error
            except BaseException:
                self.give_back(connection)
                raise

    def take(self, give_up: float | None = None) -> Connection:
        """A connection; ``give_back`` must follow. Waits for a server that is away; tries once, however late it is."""
        give_up = self.give_up_at() if give_up is None else give_up
        if not self._room.acquire(timeout=max(0.0, give_up - time.monotonic())):
            raise StorageUnavailable("pool_empty", where=self.where, size=self._pool_size, seconds=self.timeout)
        try:
            connection = self._kept() or self._connect(give_up)
            connection.patience = max(_LEAST_PATIENCE, give_up - time.monotonic())
            return connection
        except BaseException:
            self._room.release()
            raise

    def _kept(self) -> Connection | None:
        while True:
            with self._lock:
                connection = self._free.pop() if self._free else None
            if connection is None or not (connection.closed or connection.broken):
                return connection

    def give_back(self, connection: Connection) -> None:
        """Done with it; one in an unfinished transaction is rolled back, one that is of no use any more closed."""
        try:
            if not connection.closed and connection.info.transaction_status is not TransactionStatus.IDLE:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
            if connection.closed or connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.close()
                self.close()  # those that lie here were most likely lost with it
            elif self._pid == os.getpid():
                with self._lock:
                    self._free.append(connection)
        finally:
            with suppress(ValueError):  # a fork in between has made the room anew
                self._room.release()

    def dedicated(self, *, patient: bool = True) -> Connection:
        """A connection of its own, not of the pool: for who waits on it. Not ``patient``: now or not at all."""
        return self._connect(self.give_up_at()) if patient else self._connect(0.0, self.timeout)

    def _connect(self, give_up: float, at_least: float = _LEAST_PATIENCE) -> Connection:
        nap = _FIRST_NAP
        while True:
            try:
                return self._connected(max(at_least, give_up - time.monotonic()))
            except psycopg.Error as error:
                if not is_lost(error) or time.monotonic() >= give_up:
                    raise storage_error(error, self.where, self.timeout) from error
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)

    def _connected(self, seconds: float) -> Connection:
        limit = math.ceil(min(seconds, self._address.connect_seconds))
        connection = Connection.connect(make_conninfo(self._address.conninfo, connect_timeout=limit), autocommit=True)
        connection.address, connection.patience = self._address.conninfo, self.timeout
        return connection

    def forget(self) -> None:
        """In a forked child: the connections are the parent's, and must not even be closed here."""
        _PARENTS.extend(self._free)
        self._free.clear()
        self._room = threading.BoundedSemaphore(self._pool_size)
        self._lock = threading.Lock()
        self._pid = os.getpid()


_POOLS: weakref.WeakSet[Postgres] = weakref.WeakSet()
_SHARED: dict[tuple[str, str, int, float], Postgres] = {}
_SHARING = threading.Lock()
# Connections that came over a fork: kept, for letting go of one would end the parent's session.
_PARENTS: list[Connection] = []


def shared_postgres(settings: Settings) -> Postgres:
    """The pool that all parts of this process share for one database, with its tables there."""
    pool = pool_of(settings)
    pool.open()
    return pool


def pool_of(settings: Settings) -> Postgres:
    """The same, whether the tables are there or not."""
    database, timeout = settings.database, settings.context_storage.db_timeout
    if database.url is None:
        raise InvalidSettings("no_database_url", origin=settings.origin("context_storage.backend"))
    key = database.url, database.schema, database.pool_size, timeout
    with _SHARING:
        pool = _SHARED.get(key)
        if pool is None:
            pool = Postgres(database.url, database.schema, pool_size=database.pool_size, timeout=timeout)
            _SHARED[key] = pool
    return pool


def _close(connections: list[Connection]) -> None:
    for connection in connections:
        connection.close()


@cache
def _after_forks() -> None:
    os.register_at_fork(before=_SHARING.acquire, after_in_parent=_SHARING.release, after_in_child=_forget_all)


def _forget_all() -> None:
    _SHARING.release()
    for pool in list(_POOLS):
        pool.forget()


#: A new schema gets these; an old one the steps that it lacks.
_TABLES = ("records.sql", "catalogue.sql", "to_version_4.sql")
#: Texts that bring a version to the next one: the first makes version 2 out of 1.
_STEPS: tuple[str, ...] = ("to_version_2.sql", "to_version_3.sql", "to_version_4.sql")

VERSION = 1 + len(_STEPS)


def bring_up_to_date(connection: psycopg.Connection[Any], schema: str, where: str) -> None:
    """Version ``VERSION``, whatever was there. One process at a time; all of a step or nothing of it."""
    if version_of(connection, schema) == VERSION:
        return
    _refuse_encoding(connection, where)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('orihon.' || %s))", (schema,))
        found = version_of(connection, schema)
        if found > VERSION:
            raise NewerSchema("database", path=f"{where} {schema}", found=found, known=VERSION)
        if found == 0:
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            _run(connection, "CREATE TABLE orihon_version (version integer NOT NULL)")
            for name in _TABLES:
                _run(connection, _text(name))
            connection.execute("INSERT INTO orihon_version VALUES (%s)", (VERSION,))
        else:
            for name in _STEPS[found - 1 :]:
                _run(connection, _text(name))
            connection.execute("UPDATE orihon_version SET version = %s", (VERSION,))


def version_of(connection: psycopg.Connection[Any], schema: str) -> int:
    """The version of the tables in the schema; 0 when there are none."""
    # Not to_regclass: it may answer from what the session remembers, and not see what another has made meanwhile.
    known = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = %s AND tablename = 'orihon_version'"
    if connection.execute(known, (schema,)).fetchone() is None:
        return 0
    row = connection.execute("SELECT version FROM orihon_version").fetchone()
    return 0 if row is None else int(row[0])


def _refuse_encoding(connection: psycopg.Connection[Any], where: str) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StorageUnavailable("server_encoding", where=where, encoding=encoding)


def _run(connection: psycopg.Connection[Any], text: str) -> None:
    """Several statements in one text; nothing from outside is part of it."""
    connection.execute(text.encode())


def _text(name: str) -> str:
    return files(__package__).joinpath("sql", name).read_text(encoding="utf-8")
