"""A database that restarts, is cut off, runs full, refuses: what was acknowledged is there, and nothing twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from orihon import MessageStore
from orihon.drivers.postgres import postgres_of
from orihon.drivers.postgres.pool import Connection
from orihon.errors import NewerSchema, StorageUnavailable
from orihon.store import PlanningHistoryStore
from orihon.store.contract import STREAMS
from tests.conformance.backends import PostgresBackend
from tests.conformance.behaviour import add_conversation, texts
from tests.conformance.child import PATIENCE, OtherProcess
from tests.conformance.invariants import check_task
from tests.cutting_proxy import CuttingProxy
from tests.helpers import refused
from tests.ports import free_port
from tests.private_postgres import PrivatePostgres, own_folder, private_postgres
from tests.services import TASKS_DATABASE, new_schema

BACKEND = PostgresBackend()
SCHEMA = new_schema()


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    with private_postgres() as running:
        yield running


@pytest.fixture
def folder(server: PrivatePostgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A task on the private server."""
    monkeypatch.setenv(TASKS_DATABASE, f"{server.url} {SCHEMA}")
    return tmp_path / f"task-{os.urandom(8).hex()}"


@contextmanager
def administrator(url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={SCHEMA}") as connection:
        yield connection


def opened(folder: Path, url: str, schema: str, **storage: object) -> MessageStore:
    """The same task by another address."""
    config = {
        "database": {"url": url, "schema": schema},
        "context_storage": {"backend": "postgres", **storage},
        "masking": {"enabled": False},
    }
    return MessageStore(folder, config)


# ---- the server goes down and comes back -----------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["immediate", "fast"])
def test_a_restart_in_mid_append_loses_nothing(server: PrivatePostgres, folder: Path, mode: str) -> None:
    reader = BACKEND.open(folder)
    with OtherProcess(BACKEND, folder) as writer:
        writer.send("append_until_told", at_most=1_000_000)
        for _ in range(3):
            wait_until_it_has_grown(reader)
            server.restart(mode)
        wait_until_it_has_grown(reader)
        writer.send("told")
        last = writer.answer()
        writer.answer()
    said = texts(reader)
    # Each message carries the number that its writer expected: one that was lost or doubled would shift the rest.
    assert [str(text).split()[1] for text in said] == [str(number) for number in range(1, last + 1)]
    check_task(reader)


def wait_until_it_has_grown(reader: MessageStore) -> None:
    before, give_up = reader.count_messages(), time.monotonic() + PATIENCE
    while reader.count_messages() < before + 20:
        assert time.monotonic() < give_up


def test_a_server_that_stays_away_is_an_error_and_later_none(server: PrivatePostgres, folder: Path) -> None:
    store = BACKEND.open(folder)
    store.add_message("user", "one")
    server.stop()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(postgres_of(store.settings), "timeout", 0.5)  # only while it cannot come in time anyway
            with refused(StorageUnavailable, "server_unreachable") as caught:
                store.add_message("user", "two")
            assert str(server.port) in str(caught.value)
            with refused(StorageUnavailable, "server_unreachable"):
                store.get_messages_for_llm()
    finally:
        server.start()
    assert store.add_message("user", "three") == 2
    assert texts(store) == ["one", "three"]
    check_task(store)


# ---- the connection is cut -------------------------------------------------------------------------------------


class AwayAfterACut(CuttingProxy):
    """Cuts one of the next answers off, and lets nobody in until it is started again."""

    _answers = 0

    def cut_answer(self, number: int) -> None:
        """The service has done what it was asked, and this answer from now on never arrives."""
        self._answer_was_cut.clear()
        self._answers = number

    def _take_cut(self) -> bool:
        with self._lock:
            is_cut = self._answers == 1
            self._answers = max(self._answers - 1, 0)
        if is_cut:
            self.stop()
            self._answer_was_cut.set()
        return is_cut


@pytest.fixture
def proxy(server: PrivatePostgres) -> Iterator[AwayAfterACut]:
    running = AwayAfterACut("127.0.0.1", server.port)
    yield running
    running.stop()


@pytest.fixture
def cut_store(proxy: AwayAfterACut, server: PrivatePostgres, folder: Path) -> Iterator[MessageStore]:
    store = opened(folder, proxy.url(server.url), SCHEMA, db_timeout=120)
    add_conversation(store, 2)
    yield store
    store.close()


@pytest.fixture
def other(server: PrivatePostgres, folder: Path, cut_store: MessageStore) -> MessageStore:
    """Another machine on the same task, with a connection of its own."""
    return opened(folder.parent / "another machine" / folder.name, server.url, SCHEMA)


def surely(store: MessageStore) -> int:
    with store.task_store.changing():
        return store.task_store.add_inside("tools", {"tool_name": "ls", "status": "success"})


def plan(store: MessageStore) -> int:
    return PlanningHistoryStore(store.context_dir, task_store=store.task_store).add_plan("initial", "a plan")


#: A change, how many records it adds, and how many answers it waits for at least.
CHANGES: dict[str, tuple[Callable[[MessageStore], object], int, int]] = {
    "message": (lambda store: store.add_message("user", "once"), 1, 1),
    "message and call": (lambda store: store.add_message("user", "once", tool_call={"tool_name": "ls"}), 2, 1),
    "plan": (plan, 1, 1),
    "fold": (lambda store: store.create_summary(2, 6, "the first turn"), 2, 2),
    "sure": (surely, 1, 4),
    "document": (lambda store: store.task_store.records.keep_file("final_summary.txt", b"x"), 0, 1),
    "blob": (lambda store: store.add_message("user", "long " * 300_000), 1, 2),
}


def everything(store: MessageStore) -> list[bytes]:
    return [line for stream in STREAMS for line in store.task_store.records.read(stream)]


@pytest.mark.parametrize(
    ("what", "answer"), [(what, n + 1) for what, (_, _, most) in CHANGES.items() for n in range(most)]
)
@pytest.mark.parametrize("others", [False, True], ids=["alone", "others-write"])
def test_an_answer_that_never_arrives(
    proxy: AwayAfterACut, cut_store: MessageStore, other: MessageStore, what: str, answer: int, others: bool
) -> None:
    act, records, _ = CHANGES[what]
    before = everything(other)
    failures: list[StorageUnavailable] = []

    def change() -> None:
        try:
            act(cut_store)
        except StorageUnavailable as error:
            failures.append(error)

    proxy.cut_answer(answer)
    changing = threading.Thread(target=change)
    changing.start()
    assert proxy.wait_for_cut_answer()
    if others:
        other.add_message("user", "meanwhile")
    proxy.start()
    changing.join(PATIENCE)
    assert not changing.is_alive()
    if failures:  # only who cannot run again what it did is told, and then nothing was written
        assert (what, others, failures[0].reason) == ("sure", True, "server_unreachable")
    added = everything(other)
    assert len(added) - len(before) == (0 if failures else records) + others
    assert len(set(added)) == len(added)
    check_task(other)
    check_task(cut_store)


def test_a_connection_that_was_cut_before_it_is_used(
    proxy: AwayAfterACut, cut_store: MessageStore, other: MessageStore
) -> None:
    for number in range(5):
        proxy.cut()
        if number % 2:
            other.add_message("user", f"meanwhile {number}")
        cut_store.add_message("user", f"message {number}")
    assert [text for text in texts(other) if str(text).startswith("message")] == [f"message {n}" for n in range(5)]
    proxy.cut()
    assert cut_store.get_messages_for_llm() == other.get_messages_for_llm()
    check_task(cut_store)


# ---- the server says no ----------------------------------------------------------------------------------------


def test_a_full_disk_on_the_server(server: PrivatePostgres, folder: Path) -> None:
    with small_disk(server) as (place, grow):
        schema = new_schema()
        with administrator(server.url) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
            connection.execute("CREATE ROLE cramped LOGIN SUPERUSER")
            connection.execute("ALTER ROLE cramped SET default_tablespace = small")
        store = opened(folder, server.url.replace("postgres@", "cramped@"), schema)
        try:
            stored = 0
            with refused(StorageUnavailable, "server_full"):
                for number in range(500):
                    store.add_message("user", os.urandom(15_000).hex())
                    stored = number + 1
            assert store.count_messages() == stored > 0
            check_task(store)
            grow()
            assert store.add_message("user", "there is room again") == stored + 1
            check_task(store)
        finally:
            with administrator(server.url) as connection:
                connection.execute(f"DROP SCHEMA {schema} CASCADE")
                connection.execute("DROP TABLESPACE small")
                connection.execute("DROP ROLE cramped")


@contextmanager
def small_disk(server: PrivatePostgres) -> Iterator[tuple[Path, Callable[[], object]]]:
    """A disk of two megabytes for the server, and the means to make it larger."""
    with own_folder() as folder:
        owner = folder.stat()

        def mount(options: str) -> int:
            command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
            return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode

        if os.geteuid() or not shutil.which("mount") or mount("size=2m"):
            pytest.skip("only root can mount a small disk")
        try:
            os.chown(folder, owner.st_uid, owner.st_gid)
            yield folder, lambda: mount("remount,size=20m")
        finally:
            subprocess.run(["umount", "--lazy", str(folder)], timeout=60, check=True)


def test_a_wrong_password_is_said_at_once(server: PrivatePostgres, folder: Path) -> None:
    with administrator(server.url) as connection:
        connection.execute("CREATE ROLE guarded LOGIN PASSWORD 'the right one'")
    server.allow("host all guarded 127.0.0.1/32 scram-sha-256")
    started = time.monotonic()
    with refused(StorageUnavailable, "server_denied") as caught:
        address = f"postgresql://guarded:wr0ng-one@127.0.0.1:{server.port}/postgres"
        opened(folder, address, SCHEMA, db_timeout=600)
    assert time.monotonic() - started < 300
    assert "wr0ng-one" not in str(caught.value)
    with refused(StorageUnavailable, "no_database"):
        opened(folder, f"postgresql://postgres@127.0.0.1:{server.port}/nowhere", SCHEMA)


def test_tables_of_a_newer_version_are_left_alone(server: PrivatePostgres, folder: Path) -> None:
    schema = new_schema()
    opened(folder, server.url, schema).add_message("user", "hello")
    with administrator(server.url) as connection:
        connection.execute(f"UPDATE {schema}.orihon_version SET version = 99")
    # Another address, as another process would have: this one knows the tables.
    with refused(NewerSchema, "database"):
        opened(folder.with_name("another"), f"{server.url}?application_name=newer", schema)


def test_a_standby_can_be_read_and_refuses_to_write(server: PrivatePostgres, folder: Path) -> None:
    store = BACKEND.open(folder)
    add_conversation(store, 2)
    with own_folder() as place:
        standby = server.copy(place / "data", free_port())
        standby.start()
        try:
            there = opened(folder, standby.url, SCHEMA)
            assert there.get_messages_for_llm() == store.get_messages_for_llm()
            before = texts(there)
            with refused(StorageUnavailable, "server_read_only"):
                there.add_message("user", "hello")
            assert texts(there) == before
        finally:
            standby.stop()


# ---- what a commit waits for -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("durability", "is_on_disk"), [("full", True), ("os", False)])
@pytest.mark.parametrize("default", ["on", "off"])
def test_durability_is_what_the_settings_say(
    server: PrivatePostgres, folder: Path, durability: str, is_on_disk: bool, default: str
) -> None:
    store = opened(folder, f"{server.url}?options=-csynchronous_commit%3D{default}", SCHEMA, durability=durability)
    add_conversation(store, 1)
    with administrator(server.url) as connection:

        def position(function: LiteralString) -> int:
            row = connection.execute(f"SELECT {function}() - '0/0'").fetchone()
            assert row is not None
            return int(str(row[0]))

        def is_on_disk_after_an_append() -> bool:
            before = position("pg_current_wal_insert_lsn")
            store.add_message("user", os.urandom(3_000).hex())
            return position("pg_current_wal_flush_lsn") - before > 3_000

        # The server may write at any moment for reasons of its own: then what nobody waited for is on disk, too.
        seen = [is_on_disk_after_an_append() for _ in range(10)]
    assert all(seen) if is_on_disk else not all(seen), seen
    postgres_of(store.settings).close()


def test_connections_that_were_lost_together_cost_one_attempt(
    proxy: AwayAfterACut, cut_store: MessageStore, server: PrivatePostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = postgres_of(cut_store.settings)
    lost = [pool.take() for _ in range(6)]
    for connection in lost:
        pool.give_back(connection)
    proxy.cut()
    taken: list[Connection] = []

    def noted(give_up: float | None = None) -> Connection:
        taken.append(take(give_up))
        return taken[-1]

    take = pool.take
    monkeypatch.setattr(pool, "take", noted)
    cut_store.add_message("user", "hello")
    assert len([connection for connection in taken if connection in lost]) == 1


def test_a_server_with_a_stricter_default_isolation(server: PrivatePostgres, folder: Path) -> None:
    url = f"{server.url}?options=-cdefault_transaction_isolation%3Dserializable"
    stores = [opened(folder.parent / str(number) / folder.name, url, SCHEMA) for number in range(3)]

    def work(store: MessageStore) -> None:
        for turn in range(10):
            store.add_message("user", f"{store.context_dir.parent.name} says {turn}")

    threads = [threading.Thread(target=work, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(map(str, texts(stores[0]))) == sorted(f"{n} says {turn}" for n in range(3) for turn in range(10))
    check_task(stores[1])


def test_one_connection_is_enough(server: PrivatePostgres, folder: Path) -> None:
    config = {
        "database": {"url": server.url, "schema": SCHEMA, "pool_size": 1},
        "context_storage": {"blob_bytes": 100, "db_timeout": 30},
        "masking": {"enabled": False},
    }
    store = MessageStore(folder, config)
    add_conversation(store, 2)
    store.create_summary(2, 6, "the first turn")
    with store.task_store.changing():
        store.task_store.add_inside("tools", {"tool_name": "ls", "status": "success", "result": "long " * 100})
        assert len(list(store.task_store.read("tools"))) == 1
        assert len(store.get_messages_for_llm()) == 7
    check_task(store)
