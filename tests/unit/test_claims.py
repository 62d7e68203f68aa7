"""Claiming one task by name, as somebody does who has heard of it, is possible when ``claim_next`` could give it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from orihon.catalogue import Catalogue, ClaimLimits, WorkerStatistics
from orihon.values.task import TaskKey, TaskStatus
from tests.catalogues import CHILD, CataloguePlace

DYING = f"""{CHILD}
assert catalogue.queue.claim(sys.argv[3])
"""


@pytest.fixture
def catalogue(place: CataloguePlace) -> Iterator[Catalogue]:
    opened = place.open()
    yield opened
    assert opened.statistics.check_rollups() == []
    opened.close()


def put(catalogue: Catalogue, uuid: str, user: str = "花子") -> str:
    catalogue.tasks.register(TaskKey("github", "o", "r", "issue", uuid, user), uuid, status=TaskStatus.QUEUED)
    return uuid


def test_a_task_in_line_is_claimed_once(catalogue: Catalogue) -> None:
    put(catalogue, "earlier")
    put(catalogue, "one")
    catalogue.workers.add("w", "1")
    claimed = catalogue.queue.claim("one", "me", 30.0, worker=WorkerStatistics("w", 3, 1))
    assert claimed is not None
    row, lease = claimed
    assert (row.uuid, row.status, row.attempts, row.lease_owner) == ("one", TaskStatus.RUNNING, 1, "me")
    assert (lease.uuid, lease.owner, lease.seconds, lease.epoch) == ("one", "me", 30.0, row.epoch)
    (worker,) = catalogue.workers.all(silence=3600)
    assert (worker.state, worker.task_uuid, worker.processed) == ("working", "one", 3)
    assert catalogue.queue.claim("one") is None  # its owner lives
    assert catalogue.queue.claim("nobody-knows") is None
    assert catalogue.tasks.get("one").epoch == lease.epoch


def test_what_is_not_in_line_is_not_claimed(catalogue: Catalogue) -> None:
    put(catalogue, "one")
    catalogue.queue.request("one", "pause", TaskStatus.QUEUED)
    assert catalogue.queue.claim("one") is None
    catalogue.queue.request("one", None, TaskStatus.QUEUED)
    claimed = catalogue.queue.claim("one")
    assert claimed is not None
    catalogue.tasks.change_status("one", TaskStatus.PAUSED, epoch=claimed[1].epoch)
    assert catalogue.queue.claim("one") is None
    catalogue.queue.request("one", "resume", TaskStatus.PAUSED)
    claimed = catalogue.queue.claim("one")
    assert claimed is not None
    catalogue.tasks.change_status("one", TaskStatus.COMPLETED, epoch=claimed[1].epoch)
    assert catalogue.queue.claim("one") is None


def test_a_task_that_was_put_off_is_not_due(catalogue: Catalogue) -> None:
    put(catalogue, "one")
    for delay, is_due in ((3600.0, False), (0.0, True)):
        claimed = catalogue.queue.claim("one")
        assert claimed is not None
        catalogue.queue.put_back("one", epoch=claimed[1].epoch, error_message="not today", delay=delay)
        assert (catalogue.queue.claim("one") is not None) is is_due
        if not is_due:
            catalogue.tasks.update("one", available_at=None)
            catalogue.tasks.change_status("one", TaskStatus.CANCELLED)
            catalogue.tasks.change_status("one", TaskStatus.QUEUED)


def test_a_user_has_only_so_many(catalogue: Catalogue) -> None:
    limits = ClaimLimits(tasks_per_user=1)
    for uuid in ("one", "two"):
        put(catalogue, uuid)
    for uuid in ("nobodys", "nobodys-too"):
        put(catalogue, uuid, user="")
    claimed = catalogue.queue.claim("one", limits=limits)
    assert claimed is not None
    assert catalogue.queue.claim("two", limits=limits) is None
    assert catalogue.queue.claim("nobodys", limits=limits) is not None
    assert catalogue.queue.claim("nobodys-too", limits=limits) is not None
    catalogue.tasks.change_status("one", TaskStatus.COMPLETED, epoch=claimed[1].epoch)
    assert catalogue.queue.claim("two", limits=limits) is not None


def test_a_dead_workers_task_is_taken_over_unless_it_is_a_killer(catalogue: Catalogue, place: CataloguePlace) -> None:
    put(catalogue, "one")
    subprocess.run([sys.executable, "-c", DYING, *place.arguments, "one"], check=True)
    first = catalogue.tasks.get("one")
    assert first.status is TaskStatus.RUNNING
    assert catalogue.queue.claim("one", limits=ClaimLimits(max_attempts=1)) is None
    claimed = catalogue.queue.claim("one", limits=ClaimLimits(max_attempts=2))
    assert claimed is not None
    assert (claimed[0].attempts, claimed[0].retry_count) == (2, 1)
    assert claimed[1].epoch > first.epoch


def test_many_who_heard_of_it_and_one_who_has_it(catalogue: Catalogue) -> None:
    uuids = [put(catalogue, f"task-{number}") for number in range(10)]
    won: list[str] = []

    def claim_all() -> None:
        won.extend(uuid for uuid in uuids if catalogue.queue.claim(uuid) is not None)

    threads = [threading.Thread(target=claim_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(uuids)
    assert {catalogue.tasks.get(uuid).attempts for uuid in uuids} == {1}
