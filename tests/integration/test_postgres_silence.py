"""A server or a network that says nothing, and does not even end the connection: nobody waits longer than was said."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from orihon import MessageStore
from orihon.drivers.postgres import address
from orihon.drivers.postgres.pool import _POOLS, Connection, Postgres
from orihon.errors import StorageUnavailable
from tests.conformance.behaviour import texts
from tests.conformance.invariants import check_task
from tests.cutting_proxy import CuttingProxy
from tests.helpers import refused
from tests.services import Database

LIMIT = 1.0
#: While there is nothing to be seen.
PATIENCE = 60.0
#: Two seconds are the least that the driver waits for a connection: once to ask, once to try again.
AT_MOST = LIMIT + 2 * 2 + PATIENCE  # … on a busy machine
TRIES = 5


class MutedProxy(CuttingProxy):
    """After ``mute`` nothing passes on the connections that are open: they are not even ended. New ones are well."""

    def __init__(self, host: str, port: int) -> None:
        self._muted: set[socket.socket] = set()
        super().__init__(host, port)

    def mute(self) -> None:
        with self._lock:
            self._muted = set(self._open)

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                if source not in self._muted:
                    sink.sendall(data)
            sink.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(postgres: Database) -> Iterator[CuttingProxy]:
    with CuttingProxy.before(postgres.url) as running:
        yield running


def opened(folder: Path, url: str, schema: str) -> MessageStore:
    config = {
        "database": {"url": url, "schema": schema},
        "context_storage": {"db_timeout": PATIENCE},
        "masking": {"enabled": False},
    }
    return MessageStore(folder, config)


def set_limit(schema: str, seconds: float) -> None:
    """From now on everybody who is connected to this schema waits so long."""
    for pool in list(_POOLS):
        if pool.schema == schema:
            pool.timeout = seconds


def in_time(action: Callable[[], object]) -> None:
    """It ends, well or with its error, before everybody's patience does."""
    ended: Future[object] = Future()

    def act() -> None:
        try:
            ended.set_result(action())
        except BaseException as error:
            ended.set_exception(error)

    threading.Thread(target=act, daemon=True).start()  # not of a pool, which would wait for who hangs
    ended.result(AT_MOST)


@pytest.mark.parametrize("is_known", [True, False], ids=["open-connection", "no-connection"])
def test_a_silent_server_is_an_error_in_time(
    postgres: Database, proxy: CuttingProxy, tmp_path: Path, is_known: bool
) -> None:
    store = opened(tmp_path / "silent", proxy.url(postgres.url), postgres.schema)
    store.add_message("user", "one")
    if not is_known:
        store.close()
        store = opened(tmp_path / "silent", proxy.url(postgres.url), postgres.schema)
    set_limit(postgres.schema, LIMIT)
    proxy.stall()
    with refused(StorageUnavailable, "server_unreachable"):
        in_time(lambda: store.add_message("user", "two"))
    proxy.flow()
    again = opened(tmp_path / "silent", postgres.url, postgres.schema)
    again.add_message("user", "three")
    said = texts(again)
    assert (said.count("one"), said.count("three")) == (1, 1)
    assert said.count("two") <= 1  # it may have arrived when the network came back
    check_task(again)
    again.close()


def test_a_connection_that_fell_silent_is_replaced_in_time(
    postgres: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = urlsplit(postgres.url)
    assert place.hostname
    assert place.port
    proxy = MutedProxy(place.hostname, place.port)
    with proxy:
        store = opened(tmp_path / "muted", proxy.url(postgres.url), postgres.schema)
        for number in range(2):
            in_time(partial(store.add_message, "user", f"message {number}"))
            proxy.mute()
            monkeypatch.setattr(address, "DOUBT", LIMIT / 3 / PATIENCE)  # soon, and then there is time enough
        assert texts(store) == [f"message {number}" for number in range(2)]
        check_task(store)
        store.close()


def test_a_statement_that_takes_long_is_not_given_up(postgres: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "_PROBE_SECONDS", int(PATIENCE))
    pool = Postgres(postgres.url, postgres.schema, timeout=PATIENCE)
    pool.open()
    pool.timeout = 0.4
    attempts: list[Connection] = []

    def sleep(connection: Connection) -> int:
        attempts.append(connection)
        return connection.execute("SELECT pg_sleep(1.2)").rowcount

    assert pool.patiently(sleep) == 1
    assert len(attempts) == 1
    pool.close()


def test_waiting_for_a_connection_and_for_the_server_is_one_time_limit(postgres: Database, proxy: CuttingProxy) -> None:
    # Two limits, one after the other, are 5.7 at least, each time; one may be as long when the machine is busy.
    assert any(waited(postgres, proxy) < 5.5 for _ in range(TRIES))


def waited(postgres: Database, proxy: CuttingProxy) -> float:
    """How many seconds somebody is not answered who has three, and gets a connection after most of them."""
    proxy.start()
    pool = Postgres(proxy.url(postgres.url), postgres.schema, pool_size=1, timeout=PATIENCE)
    held = pool.take()
    pool.timeout = 3.0
    proxy.stop()
    held.close()
    giving_back = threading.Timer(2.7, pool.give_back, (held,))
    giving_back.start()
    started = time.monotonic()
    with pytest.raises(StorageUnavailable) as caught:
        pool.patiently(lambda connection: connection.execute("SELECT 1"))
    ended = time.monotonic()
    giving_back.join()
    assert caught.value.reason in ("server_unreachable", "pool_empty")
    return ended - started if caught.value.reason == "server_unreachable" else math.inf  # given back too late


def test_nobody_is_waited_for_when_a_transaction_is_silent(postgres: Database, proxy: CuttingProxy) -> None:
    pool = Postgres(proxy.url(postgres.url), postgres.schema, timeout=PATIENCE)
    pool.give_back(pool.take())
    pool.timeout = LIMIT

    def work() -> None:
        with pool.transaction() as connection:
            proxy.stall()
            connection.execute("SELECT 1")

    with refused(StorageUnavailable, "server_unreachable"):
        in_time(work)
    proxy.flow()
    pool.timeout = PATIENCE
    assert pool.patiently(lambda one: one.execute("SELECT 1").rowcount) == 1
    pool.close()
