"""The picture of several machines, out of one catalogue."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orihon import collect_cluster_stats, collect_worker_stats, collect_workers
from orihon.catalogue import Catalogue, WorkerStatistics
from orihon.catalogue.connect import open_catalogue
from orihon.errors import StorageUnavailable
from orihon.settings import Settings, load_settings
from orihon.values.task import TaskKey, TaskStatus, new_uuid
from tests.helpers import raw_database, refused
from tests.services import Database

Execute = Callable[[str], None]


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def settings(request: pytest.FixtureRequest, kind: str) -> Settings:
    if kind == "sqlite":
        return load_settings({}, environ={})
    database: Database = request.getfixturevalue("emptied_postgres")
    return load_settings({"database": database.settings}, environ={})


@pytest.fixture
def execute(tmp_path: Path, settings: Settings) -> Execute:
    """Changes the catalogue as another machine would have."""

    def in_file(statement: str) -> None:
        with raw_database(tmp_path / "tasks.db") as connection:
            connection.execute(statement)

    def on_server(statement: str) -> None:
        assert settings.database.url is not None
        with psycopg.connect(settings.database.url, options=f"-c search_path={settings.database.schema}") as connection:
            connection.execute(statement.encode())

    return in_file if settings.database.url is None else on_server


def queued(catalogue: Catalogue, number: int) -> str:
    key = TaskKey("cli", "owner", "repo", "task", str(number), "me")
    return catalogue.tasks.register(key, new_uuid(), status=TaskStatus.QUEUED).uuid


def by(rows: list[dict[str, Any]], name: str) -> dict[Any, dict[str, Any]]:
    return {row[name]: row for row in rows}


def test_hosts_workers_and_leases_are_told_apart(tmp_path: Path, settings: Settings, execute: Execute) -> None:
    with open_catalogue(tmp_path, settings) as catalogue:
        for number in (1, 2):
            queued(catalogue, number)
        for name in ("here-1", "there-1", "there-2"):
            catalogue.workers.add(name, name[-1])
        began = time.monotonic()
        here = catalogue.queue.claim_next(owner="here-1", worker=WorkerStatistics("here-1", 5, 1))
        there = catalogue.queue.claim_next(owner="there-1", worker=WorkerStatistics("there-1", 7, 2))
        assert here is not None
        assert there is not None
        catalogue.workers.note(WorkerStatistics("there-2", 4, 0), "stopped")
    # Another boot is another machine, or this one before it was booted: only a clock that all share tells them apart.
    execute("UPDATE workers SET host = 'elsewhere', boot = 'b' WHERE name LIKE 'there%'")
    execute("UPDATE tasks SET lease_host = 'elsewhere', lease_boot = 'b' WHERE lease_owner = 'there-1'")
    shared = settings.database.url is not None
    found = collect_workers(tmp_path, settings)
    passed = time.monotonic() - began
    workers, hosts, leases = by(found["workers"], "name"), by(found["hosts"], "host"), by(found["leases"], "owner")
    assert {name: row["state"] for name, row in workers.items()} == {
        "here-1": "working",
        "there-1": "working" if shared else "dead",
        "there-2": "stopped",
    }
    assert (workers["here-1"]["processed"], workers["here-1"]["failed"]) == (5, 1)
    assert workers["here-1"]["task_uuid"] == here[0].uuid
    assert 0 <= workers["here-1"]["heartbeat_age"] < passed + 1
    assert (workers["there-1"]["heartbeat_age"] is None) is not shared
    assert hosts["elsewhere"] == {
        "host": "elsewhere",
        "workers": int(shared),
        "working": int(shared),
        "processed": 11,
        "failed": 2,
        "leases": 1,
    }
    assert leases["here-1"]["is_stale"] is False
    assert 89 - passed < leases["here-1"]["seconds_left"] <= 90
    assert (leases["there-1"]["uuid"], leases["there-1"]["is_stale"]) == (there[0].uuid, not shared)
    execute("UPDATE tasks SET lease_until = lease_heartbeat - 1 WHERE lease_owner = 'there-1'")
    stats = collect_cluster_stats(tmp_path, settings)
    assert stats["leases"] == {"held": 1, "stale": 1}
    assert stats["queue"]["running"] == stats["tasks"]["running"] == 2
    assert stats["hosts"] == found["hosts"]
    assert collect_worker_stats(tmp_path, settings)["total_tasks_processed"] == 16


def test_the_line_and_the_sums_are_counted(tmp_path: Path, settings: Settings) -> None:
    with open_catalogue(tmp_path, settings) as catalogue:
        first, second, third = (queued(catalogue, number) for number in (1, 2, 3))
        for uuid in (first, second):
            claimed = catalogue.queue.claim(uuid)
            assert claimed is not None
            catalogue.tasks.add_statistics(uuid, llm_calls=2, tool_calls=1, tokens=500, compressions=1, messages=4)
        epoch = catalogue.tasks.get(first).epoch
        catalogue.queue.put_back(first, epoch=epoch, error_message="again", delay=3600)
        catalogue.tasks.change_status(second, TaskStatus.PAUSED)
        assert catalogue.queue.request(second, "resume", TaskStatus.PAUSED)
        assert catalogue.tasks.get(third).status is TaskStatus.QUEUED
    stats = collect_cluster_stats(tmp_path, settings)
    assert stats["queue"] == {"waiting": 1, "put_off": 1, "to_resume": 1, "running": 0}
    assert stats["tasks"] == {"queued": 2, "paused": 1}
    names = ("llm_calls", "tool_calls", "tokens", "compressions", "messages", "take_overs")
    assert [stats[name] for name in names] == [4, 2, 1000, 2, 8, 0]


def test_nothing_is_made_by_looking(tmp_path: Path, settings: Settings) -> None:
    assert collect_workers(tmp_path, settings) == {"hosts": [], "workers": [], "leases": []}
    stats = collect_cluster_stats(tmp_path, settings)
    assert (stats["tasks"], stats["take_overs"], stats["average_minutes"]) == ({}, 0, None)
    assert list(tmp_path.iterdir()) == []
    if settings.database.url is None:
        with refused(StorageUnavailable, "no_base_dir"):
            collect_workers(tmp_path / "nowhere", settings)
