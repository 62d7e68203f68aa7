"""``Postgres``: the connections of one process to one server and schema.

Not ``psycopg_pool``: its threads do not live through a fork, and it hides why a connection could not be made (a wrong
password would be a time-out). A connection is taken, used by one thread and given back; one that broke is thrown away.
Before anything has been sent, a lost connection is replaced and a server that is away is waited for, up to ``timeout``
seconds; later it is the caller who knows whether it may ask again.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from orihon.errors import InvalidSettings, StorageUnavailable
from orihon.postgres.errors import is_lost, server_errors, storage_error
from orihon.postgres.schema import bring_up_to_date, version_of
from orihon.settings import Settings

Connection = psycopg.Connection[tuple[Any, ...]]
_Result = TypeVar("_Result")

_FIRST_NAP, _LONGEST_NAP = 0.05, 1.0
#: A process that was stopped inside a transaction holds locks; after so long the server ends it.
_IDLE_IN_TRANSACTION = 60
_CONNECT_SECONDS = 10


class Postgres:
    """One server and schema, for all threads of a process."""

    def __init__(self, url: str, schema: str, *, pool_size: int = 8, timeout: float = 30.0) -> None:
        self.schema = schema
        self.timeout = timeout
        self._conninfo, self.where = _addressed(url, schema, timeout)
        self._free: list[Connection] = []
        self._room = threading.BoundedSemaphore(pool_size)
        self._pool_size = pool_size
        self._pid = os.getpid()
        self._is_current = False  # has the schema been looked at?
        self._users = 0
        self._lock = threading.Lock()
        _after_forks()
        _POOLS.add(self)

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
            free, self._free = self._free, []
        for connection in free:
            connection.close()

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
    def transaction(self, *, durable: bool = True) -> Iterator[Connection]:
        """Everything inside happens, or nothing. What is not ``durable`` may be lost with the server's machine."""
        connection = self._begun("BEGIN" if durable else "BEGIN; SET LOCAL synchronous_commit = off")
        try:
            with server_errors(self.where, self.timeout):
                yield connection
                connection.execute("COMMIT")
        finally:
            self.give_back(connection)

    def patiently(self, action: Callable[[Connection], _Result]) -> _Result:
        """Do something that may be done again: when the connection is lost on the way, it is."""
        give_up, nap = time.monotonic() + self.timeout, _FIRST_NAP
        while True:
            connection = self.take()
            try:
                return action(connection)
            except psycopg.Error as error:
                if not is_lost(error) or time.monotonic() >= give_up:
                    raise storage_error(error, self.where, self.timeout) from error
            finally:
                self.give_back(connection)
            self.close()  # those that lie here were most likely lost with it
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)

    def _begun(self, begin: LiteralString) -> Connection:
        """A connection with a transaction open on it: until then nothing has been asked that could not be repeated."""
        give_up = time.monotonic() + self.timeout
        while True:
            connection = self.take()
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

    def take(self) -> Connection:
        """A connection; ``give_back`` must follow. Waits for a server that is away."""
        if not self._room.acquire(timeout=self.timeout):
            raise StorageUnavailable("pool_empty", where=self.where, size=self._pool_size, seconds=self.timeout)
        try:
            while True:
                with self._lock:
                    connection = self._free.pop() if self._free else None
                if connection is None:
                    return self._connect(self.timeout)
                if not connection.closed and not connection.broken:
                    return connection
        except BaseException:
            self._room.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """Done with it; one in an unfinished transaction is rolled back, one that is of no use any more closed."""
        try:
            if not connection.closed and connection.info.transaction_status is not TransactionStatus.IDLE:
                with suppress(psycopg.Error):
                    connection.execute("ROLLBACK")
            if connection.closed or connection.info.transaction_status is not TransactionStatus.IDLE:
                connection.close()
            elif self._pid == os.getpid():
                with self._lock:
                    self._free.append(connection)
        finally:
            with suppress(ValueError):  # a fork in between has made the room anew
                self._room.release()

    def dedicated(self, *, patient: bool = True) -> Connection:
        """A connection of its own, not of the pool: for who waits on it. Not ``patient``: now or not at all."""
        return self._connect(self.timeout if patient else 0.0)

    def _connect(self, patience: float) -> Connection:
        give_up, nap = time.monotonic() + patience, _FIRST_NAP
        while True:
            try:
                return psycopg.connect(self._conninfo, autocommit=True)
            except psycopg.Error as error:
                if not is_lost(error) or time.monotonic() >= give_up:
                    raise storage_error(error, self.where, self.timeout) from error
            time.sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP)

    def forget(self) -> None:
        """In a forked child: the connections are the parent's, and must not even be closed here."""
        _PARENTS.extend(self._free)
        self._free = []
        self._room = threading.BoundedSemaphore(self._pool_size)
        self._lock = threading.Lock()
        self._pid = os.getpid()


def _addressed(url: str, schema: str, timeout: float) -> tuple[str, str]:
    """The address with what our sessions need, and the server's name for people."""
    try:
        parts: dict[str, Any] = dict(conninfo_to_dict(url))
    except psycopg.ProgrammingError as error:
        raise InvalidSettings("database_url", detail=" ".join(str(error).split())) from error
    wanted = {
        "search_path": schema,
        "lock_timeout": f"{round(timeout * 1000)}",
        "idle_in_transaction_session_timeout": f"{_IDLE_IN_TRANSACTION}s",
    }
    options = " ".join(f"-c {name}={value}" for name, value in wanted.items())
    given = parts.pop("options", "")
    parts["options"] = f"{given} {options}".strip()
    where = f"{parts.get('host', 'localhost')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"
    defaults = {"application_name": "orihon", "connect_timeout": _CONNECT_SECONDS, "client_encoding": "UTF8"}
    return make_conninfo(**{**defaults, **parts}), where


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


@cache
def _after_forks() -> None:
    os.register_at_fork(before=_SHARING.acquire, after_in_parent=_SHARING.release, after_in_child=_forget_all)


def _forget_all() -> None:
    _SHARING.release()
    for pool in list(_POOLS):
        pool.forget()
