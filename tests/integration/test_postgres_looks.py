"""Workers that look for dead ones in a shared catalogue: what they read, how often, and a server that goes away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orihon.catalogue import Catalogue
from orihon.catalogue.tasks_db import statement
from orihon.drivers.postgres import postgres_of
from orihon.runtime.queue import QueuedTask, QueueLimits, TaskQueue
from orihon.runtime.worker import WorkerProcess
from orihon.values.task import TaskKey, TaskStatus
from tests.catalogues import CataloguePlace
from tests.cutting_proxy import CuttingProxy
from tests.integration.run_supervisor import eventually
from tests.integration.worker_handlers import HANDLER
from tests.services import Database


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


def test_a_look_at_this_machine_passes_over_the_leases_of_others_and_over_prompts(
    catalogue: Catalogue, place: CataloguePlace
) -> None:
    for name in ("near", "far"):
        key = TaskKey("github", "o", "r", "issue", name)
        catalogue.tasks.register(key, name, status=TaskStatus.QUEUED, prompt="x" * 100_000)
        assert catalogue.queue.claim(name, seconds=3600) is not None
    place.change("UPDATE tasks SET lease_pid = 2147483647")
    place.change("UPDATE tasks SET lease_host = 'elsewhere', lease_until = 1, lease_heartbeat = 0 WHERE uuid = 'far'")
    for look in (catalogue.leases.stale, catalogue.queue.abandoned):
        assert [(row.uuid, row.prompt) for row in look(near=True)] == [("near", "")]
        assert {(row.uuid, row.prompt) for row in look()} == {("far", ""), ("near", "")}
    claimed = catalogue.queue.claim_next(abandoned=True, near=True)
    assert claimed is not None
    assert (claimed[0].uuid, len(claimed[0].prompt)) == ("near", 100_000)
    assert catalogue.queue.claim_next(abandoned=True, near=True) is None
    assert catalogue.queue.claim_next(abandoned=True) is not None


def test_a_look_at_this_machine_reads_no_lease_of_another(catalogue: Catalogue, place: CataloguePlace) -> None:
    """Thousands of them, and a worker looks every second."""
    for number in range(30):
        queued(catalogue, f"task-{number}")
        assert catalogue.queue.claim_next() is not None
    place.change("UPDATE tasks SET lease_host = 'elsewhere'")
    assert place.database is not None
    with psycopg.connect(place.database.url, options=f"-c search_path={place.database.schema}") as session:
        session.execute("ANALYZE tasks")
        session.execute("SET enable_seqscan = off")  # so few rows would be read whole
        here = {"my_host": "here", "my_space": "", "my_boot": "", "moment": 0.0, "far": 0}
        text = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement('postgres', 'owned_tasks', ())}"
        found = psycopg.ClientCursor(session).execute(text.encode(), here).fetchone()
    assert found is not None
    assert max(_rows_met(found[0][0]["Plan"])) == 0


def _rows_met(plan: dict[str, Any]) -> Iterator[int]:
    yield int(plan["Actual Rows"]) + int(plan.get("Rows Removed by Filter", 0))
    for part in plan.get("Plans", ()):
        yield from _rows_met(part)


def test_a_worker_looks_for_leases_of_other_machines_less_often(catalogue: Catalogue, place: CataloguePlace) -> None:
    queued(catalogue, "one")
    queue = TaskQueue(place.base_dir, place.settings)
    began = time.monotonic()
    assert queue.dequeue() is not None  # after its first look, which is at all
    assert queue._next_far_look > began
    assert queue._next_far_look - time.monotonic() < queue.settings.context_storage.lease_seconds / 4
    place.change("UPDATE tasks SET lease_host = 'elsewhere', lease_until = 1, lease_heartbeat = 0")
    queue._next_look, queue._next_far_look = 0.0, time.monotonic() + 3600  # however long this takes
    assert queue.dequeue() is None
    queue._next_look = queue._next_far_look = 0.0
    assert queue.dequeue() is not None
    queue.close()


def test_a_worker_that_ends_with_the_queue_does_not_end_with_the_server(
    place: CataloguePlace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(**options: Any) -> QueuedTask | None:
        looks.append(1)
        return TaskQueue.dequeue(worker.queue, **options)

    looks: list[int] = []
    assert place.database is not None
    with CuttingProxy.before(place.database.url) as proxy, place.open() as catalogue:
        database = {**place.database.settings, "url": proxy.url(place.database.url)}
        config = {"database": database, "context_storage": {"backend": "files", "db_timeout": 60.0}}
        limits = QueueLimits(poll_interval=0.05)
        worker = WorkerProcess("1", config, base_dir=place.base_dir, limits=limits, handler=HANDLER, until_empty=True)
        monkeypatch.setattr(worker.queue, "dequeue", look)
        running = TaskKey("github", "o", "r", "issue", "1")
        catalogue.tasks.register(running, "elsewhere", status=TaskStatus.QUEUED)
        claimed = catalogue.queue.claim("elsewhere")
        assert claimed is not None
        thread = threading.Thread(target=worker.run, daemon=True)
        thread.start()
        eventually(lambda: catalogue.workers.all(60))
        pool = postgres_of(worker.settings)
        pool.timeout = 0.2  # it is to give up soon, but not while there is a server
        before = len(looks)
        eventually(lambda: len(looks) > before + 1)  # what had more time is over
        proxy.stop()
        eventually(lambda: len([one for one in caplog.messages if "no task could be claimed" in one]) >= 2)
        assert thread.is_alive()
        pool.timeout = 60.0
        proxy.start()
        catalogue.tasks.change_status("elsewhere", TaskStatus.COMPLETED, epoch=claimed[1].epoch)
        thread.join(60)
        assert not thread.is_alive()
