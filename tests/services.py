"""The services that some tests talk to: where they are, and what happens on a machine without them.

A test asks for a service by a fixture (``postgres``, ``rabbitmq``, ``redis``) and gets a schema, queue or prefix of its
own, which is gone afterwards. Without the service the test is skipped and says how to start it; in continuous
integration (``CI=true``) it fails.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    import psycopg


@dataclass(frozen=True, slots=True)
class Service:
    """One service: its address unless the environment names another, and how to start it."""

    name: str
    url: str
    start: str

    @property
    def address(self) -> str:
        return os.environ.get(f"ORIHON_TEST_{self.name.upper()}_URL") or self.url


POSTGRES = Service("postgres", "postgresql://127.0.0.1:5432/test", "pg_ctlcluster 15 main start")
RABBITMQ = Service("rabbitmq", "amqp://guest:guest@127.0.0.1:5672//", "rabbitmq-server -detached")
REDIS = Service("redis", "redis://127.0.0.1:6379/0", "redis-server --daemonize yes --bind 127.0.0.1")

#: In the environment of tests that share one schema, and of their processes: its address and its name.
TASKS_DATABASE = "TASKS_DATABASE"

_SECONDS_TO_ANSWER = 30
_TRIES = 5

# Read when the tests are collected: each of them runs without ORIHON_* in its environment.
_ADDRESSES = {service.name: service.address for service in (POSTGRES, RABBITMQ, REDIS)}


@cache
def _answers(url: str) -> bool:
    place = urlsplit(url)
    try:
        socket.create_connection((place.hostname or "127.0.0.1", place.port or 0), timeout=_SECONDS_TO_ANSWER).close()
    except OSError:
        return False
    return True


def needed(service: Service) -> str:
    """The address of a service that answers; the test is skipped, or in continuous integration fails, without it."""
    url = _ADDRESSES[service.name]
    if not _answers(url):
        reason = f"no {service.name} at {urlsplit(url).hostname}:{urlsplit(url).port}; start it with: {service.start}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return url


@dataclass(frozen=True, slots=True)
class Database:
    """A schema in a running PostgreSQL that nobody else uses."""

    url: str
    schema: str

    @property
    def settings(self) -> dict[str, str]:
        """The section ``database`` of the settings."""
        return {"url": self.url, "schema": self.schema}


def new_schema() -> str:
    return f"orihon_test_{secrets.token_hex(6)}"


def hurried(url: str) -> str:
    """The address for sessions that do not wait for the server's disk: nobody cuts its power here."""
    return f"{url}{'&' if '?' in url else '?'}options=-csynchronous_commit%3Doff"


def own_schema() -> Iterator[Database]:
    """A new schema, dropped afterwards."""
    database = Database(hurried(needed(POSTGRES)), new_schema())
    yield database
    close_connections(database.schema)
    _insisting(
        database.url, lambda connection: connection.execute(f"DROP SCHEMA IF EXISTS {database.schema} CASCADE".encode())
    )


def _insisting(url: str, change: Callable[[psycopg.Connection], object]) -> None:
    """In a transaction; what a killed process has sent may hold a table that we want, and want one that we hold."""
    import psycopg

    for tries_left in reversed(range(_TRIES)):
        try:
            with psycopg.connect(url) as connection:
                change(connection)
            return
        except psycopg.errors.DeadlockDetected:
            if not tries_left:
                raise


def empty(database: Database) -> None:
    """Nothing is left in the tables of a schema; they stay: making and dropping them takes longer than most tests."""
    _drop_late_records(database.schema)
    _end_senders(database.schema)
    close_connections(database.schema)
    _insisting(database.url, lambda connection: _empty(connection, database.schema))


def _empty(connection: psycopg.Connection, schema: str) -> None:
    names = f"SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace('{schema}') AND relkind = %s"
    tables = [f"{schema}.{name}" for (name,) in connection.execute(names.encode(), ("r",))]
    if not tables:  # nobody has needed it so far
        return
    # What a killed process has sent still arrives: nobody is left who holds a table when it is emptied.
    connection.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE".encode())
    for table in (*tables, *tables):  # twice: triggers write down what is deleted
        if not table.endswith("_version"):
            connection.execute(f"DELETE FROM {table}".encode())
    for (name,) in connection.execute(names.encode(), ("S",)).fetchall():
        connection.execute(f"ALTER SEQUENCE {schema}.{name} RESTART".encode())


def _drop_late_records(schema: str) -> None:
    """What an audit would write within a second is not for the next test."""
    from orihon.audit import trail

    for one in list(trail._TRAILS):
        if one.settings.database.schema == schema:
            with one._lock:
                one._waiting.clear()


def _end_senders(schema: str) -> None:
    """What a later test tells is not sent to the receiver of an earlier one, who may be gone."""
    from orihon.notifications import sender

    for key, one in list(sender._SENDERS.items()):
        if one._settings.database.schema == schema:
            del sender._SENDERS[key]
            one._send_all = lambda: True  # type: ignore[method-assign]
            if one._thread is not None:
                one.wake()


def close_connections(schema: str) -> None:
    """Of pools that this process has for a schema: hundreds of tests would use up what the server has."""
    from orihon.drivers.postgres import pool

    for one in list(pool._POOLS):
        if one.schema == schema:
            one.close()
