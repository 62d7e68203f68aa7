"""The catalogue in PostgreSQL: many workers, other machines, news, and a server that goes away."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orihon.catalogue import Catalogue, ClaimLimits, WorkerStatistics
from orihon.catalogue.connect import catalogue_exists, open_catalogue
from orihon.catalogue.postgres_db import PostgresTasks
from orihon.catalogue.tasks_db import queries, statement
from orihon.errors import InvalidSettings, NewerSchema, StorageUnavailable, TaskBusy
from orihon.settings import load_settings
from orihon.values.task import TaskKey, TaskStatus
from tests.catalogues import CHILD, CataloguePlace
from tests.cutting_proxy import CuttingProxy
from tests.helpers import refused
from tests.integration.killing import ended
from tests.private_postgres import private_postgres
from tests.receivers import closed_port
from tests.services import Database

KEY = TaskKey("github", "o", "r", "issue", "1", "花子")
#: Seconds; only what hangs takes so long.
PATIENCE = 120

GREEDY = f"""{CHILD}
from orihon.catalogue import ClaimLimits
print("ready", flush=True)
sys.stdin.readline()
while claimed := catalogue.queue.claim_next(limits=ClaimLimits(tasks_per_user=2)):
    print(claimed[0].user, flush=True)
"""


@pytest.fixture
def place(catalogue_schema: Database, tmp_path: Path) -> CataloguePlace:
    place = CataloguePlace(tmp_path, catalogue_schema)
    place.empty()
    return place


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    with place.open() as opened:
        yield opened
        assert opened.statistics.check_rollups() == []


def queued(catalogue: Catalogue, name: str, user: str = "花子") -> None:
    catalogue.tasks.register(TaskKey("github", "o", "r", "issue", name, user), name, status=TaskStatus.QUEUED)


# ---- many workers --------------------------------------------------------------------------------------------------


def test_the_limit_on_users_is_exact_while_five_processes_claim(catalogue: Catalogue, place: CataloguePlace) -> None:
    for number in range(40):
        queued(catalogue, f"task-{number:02}", user=f"user-{number % 4}")
    command = [sys.executable, "-c", GREEDY, *place.arguments]
    children = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(5)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    claims = [user for child in children for user in child.communicate(timeout=PATIENCE)[0].split()]
    assert Counter(claims) == {f"user-{number}": 2 for number in range(4)}


def test_a_claim_does_not_wait_for_a_row_that_another_holds(catalogue: Catalogue) -> None:
    for name in ("one", "two"):
        queued(catalogue, name)
    with catalogue._db.write() as statements:
        assert statements.one("task_to_change", uuid="one") is not None
        claimed = catalogue.queue.claim_next()  # if it waited, then in vain: for us
    assert claimed is not None
    assert claimed[0].uuid == "two"


def test_the_same_task_is_registered_once_by_many_threads(catalogue: Catalogue) -> None:
    outcomes: list[str] = []

    def register() -> None:
        try:
            catalogue.tasks.register(KEY, "one")
            outcomes.append("made")
        except Exception as error:
            outcomes.append(str(getattr(error, "reason", error)))

    threads = [threading.Thread(target=register) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert sorted(outcomes) == ["exists"] * 5 + ["made"]


def test_sums_stay_right_while_they_are_rebuilt_and_merged_among_writers(catalogue: Catalogue) -> None:
    assert isinstance(catalogue._db, PostgresTasks)
    for number in range(4):
        catalogue.tasks.register(KEY, f"task-{number}")

    def count(name: str) -> None:
        for _ in range(40):
            catalogue.tasks.add_statistics(name, tokens=3, messages=1)

    threads = [threading.Thread(target=count, args=(f"task-{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        catalogue.statistics.rebuild_rollups()
        catalogue._db.merge_rollups()
    for thread in threads:
        thread.join(PATIENCE)
    (rollup,) = catalogue.statistics.rollups()
    assert (rollup.tasks, rollup.tokens, rollup.messages) == (4, 480, 160)


def test_parts_of_the_sums_are_merged_on_the_way(catalogue: Catalogue, place: CataloguePlace) -> None:
    assert place.database is not None
    catalogue.tasks.register(KEY, "one")
    for _ in range(250):
        catalogue.tasks.add_statistics("one", tokens=1)
    with psycopg.connect(place.database.url, options=f"-c search_path={place.database.schema}") as session:
        counted = session.execute("SELECT count(*) FROM rollup_parts").fetchone()
    assert counted is not None
    assert counted[0] <= 200
    assert catalogue.statistics.rollups()[0].tokens == 250


RARE = [
    *("rollup_differences", "rebuild_rollups", "tasks_in_move", "states_of_tasks"),
    *("sizes_by_position", "largest_tasks", "unmeasured_tasks"),
]
FLOATS = ("moment", "horizon", "heartbeat", "until", "due", "level", "counted_at")
TEXTS = ("uuid", "now", "boot", "status", "user", "repository", "before", "first", "beyond", "my_host", "my_boot")


class AnyBindings(dict[str, object]):
    """A value for every parameter; nothing for those whose type does not matter."""

    def __missing__(self, name: str) -> object:
        if name in ("limit", "per_user", "is_limited", "change", "keep", "over", "epoch") or name.startswith("set_"):
            return 1
        return 1.5 if name in FLOATS else "x" if name in TEXTS else None


def test_no_statement_of_daily_work_scans_the_tasks(catalogue: Catalogue, place: CataloguePlace) -> None:
    assert catalogue.tasks.page() == []
    assert place.database is not None
    with psycopg.connect(place.database.url, options=f"-c search_path={place.database.schema}") as session:
        # A scan, or a sort, is left only where no index can be used: whatever the server thinks that the table holds.
        session.execute("SET enable_seqscan = off")
        session.execute("SET enable_sort = off")
        for name in queries("postgres"):
            if name in RARE or name.startswith(("having_", "older_")):
                continue
            conditions = ("having_status", "having_user", "older_than") if name == "list_tasks" else ()
            text = f"EXPLAIN {statement('postgres', name, conditions)}"
            plan = "\n".join(line for (line,) in session.execute(text.encode(), AnyBindings()))
            assert "Seq Scan on tasks" not in plan, f"{name}: {plan}"
            if name in ("first_in_queue", "first_to_resume"):
                assert "Sort" not in plan, f"{name}: {plan}"


def test_one_connection_is_enough(place: CataloguePlace) -> None:
    assert place.database is not None
    config = {**place.config, "database": {**place.database.settings, "pool_size": 1}}
    config["context_storage"] = {"backend": "files", "db_timeout": 20}  # a second connection would wait in vain
    with open_catalogue(place.base_dir, load_settings(config)) as catalogue:
        queued(catalogue, "one")
        claimed = catalogue.queue.claim_next(abandoned=True, limits=ClaimLimits(tasks_per_user=1))
        assert claimed is not None
        lease = catalogue.leases.renew(claimed[1])
        assert catalogue.leases.is_held(catalogue.tasks.get("one"))
        assert catalogue.queue.claim("one") is None
        catalogue.rate_limits.take("p", per_second=1, burst=1)
        catalogue.tasks.change_status("one", TaskStatus.COMPLETED, epoch=lease.epoch)
        catalogue.statistics.rebuild_rollups()
        assert catalogue.statistics.check_rollups() == []


# ---- other machines ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "value"), [("lease_host", "elsewhere"), ("lease_boot", "another boot")])
def test_a_dead_worker_elsewhere_is_replaced_when_its_lease_ran_out(
    catalogue: Catalogue, place: CataloguePlace, column: str, value: str
) -> None:
    queued(catalogue, "one")
    assert catalogue.queue.claim_next(seconds=3600) is not None
    place.change(f"UPDATE tasks SET lease_pid = 2147483647, {column} = ?", value)
    assert catalogue.queue.abandoned() == []
    assert catalogue.queue.claim_next(abandoned=True) is None
    assert catalogue.queue.claim("one") is None
    with refused(TaskBusy, "lease"):
        catalogue.leases.acquire("one")
    place.change("UPDATE tasks SET lease_until = extract(epoch FROM clock_timestamp())")
    assert [row.uuid for row in catalogue.queue.abandoned()] == ["one"]
    claimed = catalogue.queue.claim_next(abandoned=True)
    assert claimed is not None
    assert (claimed[0].attempts, claimed[1].epoch) == (2, 2)


def test_a_worker_elsewhere_is_alive_as_long_as_it_is_heard_of(catalogue: Catalogue, place: CataloguePlace) -> None:
    catalogue.workers.add("near", "1")
    catalogue.workers.add("far", "2")
    place.change("UPDATE workers SET host = 'elsewhere', boot = 'another', pid = 2147483647 WHERE name = 'far'")
    assert [row.state for row in catalogue.workers.all(60)] == ["idle", "idle"]
    place.change("UPDATE workers SET heartbeat = heartbeat - 100")
    assert {row.name: row.state for row in catalogue.workers.all(60)} == {"near": "idle", "far": "dead"}
    catalogue.workers.note(WorkerStatistics("far"), "stopped")
    assert {row.name: row.state for row in catalogue.workers.all(60)} == {"near": "idle", "far": "stopped"}


def test_a_local_clock_has_no_say_in_leases(place: CataloguePlace, catalogue: Catalogue) -> None:
    catalogue.tasks.register(KEY, "one")
    lease = catalogue.leases.acquire("one", seconds=50)
    row = catalogue.tasks.get("one")
    assert place.database is not None
    with psycopg.connect(place.database.url) as session:
        found = session.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert found is not None
    assert 0 < lease.until - found[0] <= 50
    assert row.lease_until == lease.until
    assert 0 < catalogue.leases.seconds_left(row) <= 50


# ---- news ----------------------------------------------------------------------------------------------------------


def _waits(catalogue: Catalogue, seconds: float = 60) -> float:
    """Wait for news for a minute at most; how long it took."""
    began = time.monotonic()
    catalogue.queue.wait(seconds, threading.Event())
    return time.monotonic() - began


def test_whatever_puts_a_task_in_line_wakes_a_waiting_worker(catalogue: Catalogue, place: CataloguePlace) -> None:
    _waits(catalogue)  # listens from here on
    with place.open() as other:
        other.tasks.register(KEY, "paused")
        other.tasks.change_status("paused", TaskStatus.PAUSED)

        def put_back() -> object:
            claimed = other.queue.claim_next()
            assert claimed is not None
            return other.queue.put_back("one", epoch=claimed[1].epoch, error_message="no", delay=0)

        for act in (
            lambda: queued(other, "one"),
            put_back,
            lambda: other.queue.request("paused", "resume", TaskStatus.PAUSED),
        ):
            began = time.monotonic()
            timer = threading.Timer(0.2, act)
            timer.start()
            assert _waits(catalogue) < 40
            assert time.monotonic() - began > 0.15
            timer.join()


def test_news_that_came_while_nobody_waited_is_not_lost_and_then_it_is_quiet(catalogue: Catalogue) -> None:
    assert _waits(catalogue) < 40  # whatever came before listening is worth a look
    for number in range(5):
        queued(catalogue, f"task-{number}")
    assert _waits(catalogue) < 40
    late = 0  # a busy server may bring some of it late
    while _waits(catalogue, 0.3) < 0.3:
        late += 1
        assert late < 5


def test_a_waiting_worker_sees_that_it_shall_stop(catalogue: Catalogue) -> None:
    _waits(catalogue)
    stop = threading.Event()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    began = time.monotonic()
    catalogue.queue.wait(60, stop)
    assert time.monotonic() - began < 40
    timer.join()


def test_a_worker_that_cannot_listen_waits_its_time_and_listens_again(place: CataloguePlace) -> None:
    assert place.database is not None
    with CuttingProxy.before(place.database.url) as proxy:
        config = {**place.config, "database": {**place.database.settings, "url": proxy.url(place.database.url)}}
        with open_catalogue(place.base_dir, load_settings(config)) as catalogue:
            _waits(catalogue)
            proxy.stop()
            began = time.monotonic()
            catalogue.queue.wait(0.3, threading.Event())
            assert 0.3 <= time.monotonic() - began < 40
            proxy.start()
            assert _waits(catalogue) < 40  # listens anew, and has a look
            queued(catalogue, "one")
            assert _waits(catalogue) < 40


def test_a_fork_listens_by_itself(catalogue: Catalogue) -> None:
    _waits(catalogue)
    child = os.fork()
    if child == 0:
        try:
            catalogue.queue.wait(60, threading.Event())
            queued(catalogue, "one")
            catalogue.close()
        finally:
            os._exit(0)
    ended(child)
    assert _waits(catalogue) < 40
    assert catalogue.tasks.get("one").status is TaskStatus.QUEUED


# ---- a server that is away, strange, or not ours ---------------------------------------------------------------------


def test_a_connection_that_was_cut_between_two_calls_is_replaced(place: CataloguePlace) -> None:
    assert place.database is not None
    with CuttingProxy.before(place.database.url) as proxy:
        config = {**place.config, "database": {**place.database.settings, "url": proxy.url(place.database.url)}}
        with open_catalogue(place.base_dir, load_settings(config)) as catalogue:
            queued(catalogue, "one")
            for act in (
                lambda: catalogue.tasks.get("one"),
                lambda: catalogue.queue.claim_next(limits=ClaimLimits(tasks_per_user=3)),
                lambda: catalogue.tasks.add_statistics("one", tokens=1),
            ):
                proxy.cut()
                act()
            assert catalogue.tasks.get("one").total_tokens == 1
            proxy.stop()
            timer = threading.Timer(0.5, proxy.start)
            timer.start()
            catalogue.tasks.add_statistics("one", tokens=1)  # waits until the server is there again
            timer.join()
            assert catalogue.tasks.get("one").total_tokens == 2


def _settings(url: str, schema: str, **storage: Any) -> Any:
    return load_settings(
        {"database": {"url": url, "schema": schema}, "context_storage": {"backend": "files", **storage}}, environ={}
    )


def test_a_server_with_a_password_that_is_restarted_and_crashes(tmp_path: Path) -> None:
    with private_postgres() as server:
        with psycopg.connect(server.url, autocommit=True) as session:
            session.execute("CREATE ROLE orihon LOGIN PASSWORD 'right'")
            session.execute("GRANT CREATE ON DATABASE postgres TO orihon")
        server.allow("host all orihon 127.0.0.1/32 scram-sha-256")
        url = f"postgresql://orihon:right@127.0.0.1:{server.port}/postgres"
        with open_catalogue(tmp_path, _settings(url, "ours", db_timeout=PATIENCE)) as catalogue:
            assert "right" not in catalogue.where
            assert str(server.port) in catalogue.where
            queued(catalogue, "one")
            server.stop()
            starting = threading.Timer(0.3, server.start)
            starting.start()
            claimed = catalogue.queue.claim_next(seconds=3600)  # waits for the server
            assert claimed is not None
            starting.join()
            server.restart()  # as after a crash: what was not written out is gone
            row = catalogue.tasks.get("one")
            assert (row.status, row.epoch) == (TaskStatus.RUNNING, claimed[1].epoch)
            assert catalogue.statistics.check_rollups() == []
        with refused(StorageUnavailable, "server_denied") as caught:
            open_catalogue(tmp_path, _settings(url.replace("right", "wrong"), "ours"))
        assert "wrong" not in str(caught.value)
        nobody = f"postgresql://orihon:right@127.0.0.1:{closed_port()}/postgres"
        with refused(StorageUnavailable, "server_unreachable"):
            open_catalogue(tmp_path, _settings(nobody, "ours", db_timeout=0.2))


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "orihon.drivers.postgres.pool", None)
    settings = _settings("postgresql://127.0.0.1/none", "ours")
    for ask in (open_catalogue, catalogue_exists):
        with refused(InvalidSettings, "database_extra") as caught:
            ask(tmp_path, settings)
        assert "orihon[postgres]" in caught.value.remedy


def test_a_database_that_is_not_there_and_tables_of_a_newer_orihon_are_refused(
    postgres: Database, tmp_path: Path
) -> None:
    url = postgres.url.rpartition("/")[0] + "/no_such_database"
    with refused(StorageUnavailable, "no_database"):
        open_catalogue(tmp_path, _settings(url, postgres.schema))
    assert not catalogue_exists(tmp_path, _settings(postgres.url, postgres.schema))
    with psycopg.connect(postgres.url, autocommit=True) as session:
        session.execute(f"CREATE SCHEMA {postgres.schema}".encode())
        session.execute(f"CREATE TABLE {postgres.schema}.orihon_version AS SELECT 99 AS version".encode())
        with refused(NewerSchema, "database"):
            open_catalogue(tmp_path, _settings(postgres.url, postgres.schema))
        tables = session.execute("SELECT count(*) FROM pg_tables WHERE schemaname = %s", (postgres.schema,)).fetchone()
    assert tables == (1,)
