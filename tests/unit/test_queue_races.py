"""The queue when others act at the same moment: wishes, other workers, workers that end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from orihon.catalogue.queue import Queue
from orihon.errors import StaleWriter
from orihon.runtime.handler import open_context
from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.values.task import TaskStatus
from tests.catalogues import CataloguePlace
from tests.unit.test_queue import claimed, claimed_by_the_dead, key

LIMITS = QueueLimits(max_attempts=2, retry_delay=0.0)


@pytest.fixture
def queue(place: CataloguePlace) -> Iterator[TaskQueue]:
    opened = TaskQueue(place.base_dir, place.config, limits=LIMITS, owner="worker-1")
    yield opened
    assert opened.catalogue.statistics.check_rollups() == []
    opened.close()


def _meanwhile(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Somebody acts in the middle of the queue's ``ack``."""
    forgive = Queue.forgive_attempt

    def forgive_then(self: Queue, uuid: str, **options: Any) -> None:
        forgive(self, uuid, **options)
        monkeypatch.undo()
        act()

    monkeypatch.setattr(Queue, "forgive_attempt", forgive_then)


def _run_out(place: CataloguePlace) -> None:
    place.change("UPDATE tasks SET lease_until = 0")


def test_two_claims_under_one_name_are_two_owners(queue: TaskQueue, place: CataloguePlace) -> None:
    queue.enqueue(key())
    first = claimed(queue)
    _run_out(place)
    second = claimed(queue)
    for act in (lambda: queue.ack(first), lambda: queue.nack(first, "no"), lambda: queue.renew(first)):
        with pytest.raises(StaleWriter):
            act()
    queue.renew(second)
    assert queue.ack(second) is TaskStatus.COMPLETED


def test_a_cancel_that_another_worker_has_carried_out_is_carried_out(
    queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    queue.cancel(uuid)
    queue.catalogue.tasks.change_status(uuid, TaskStatus.PAUSED, epoch=task.lease.epoch)
    other = TaskQueue(queue.base_dir, queue.settings, owner="worker-2")
    _meanwhile(queue, monkeypatch, other.dequeue)
    assert queue.ack(task, stopped=True) is TaskStatus.CANCELLED
    other.close()
    assert queue.ack(task, stopped=True) is TaskStatus.CANCELLED  # also when it is seen at once


def test_a_resume_during_the_pause_is_kept(queue: TaskQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    queue.pause(uuid)
    queue.catalogue.tasks.change_status(uuid, TaskStatus.PAUSED, epoch=task.lease.epoch)
    _meanwhile(queue, monkeypatch, lambda: queue.resume(uuid))
    assert queue.ack(task, stopped=True) is TaskStatus.PAUSED
    assert claimed(queue).uuid == uuid


def test_workers_that_were_drained_and_killed_are_no_attempts(queue: TaskQueue, place: CataloguePlace) -> None:
    uuid = queue.enqueue(key())
    for _ in range(4):
        assert claimed_by_the_dead(place) == uuid
        queue.catalogue.queue.request(uuid, "resume", TaskStatus.RUNNING, over=False)  # as a drained worker does
    row = queue.catalogue.tasks.get(uuid)
    assert (row.status, row.attempts) == (TaskStatus.RUNNING, 1)
    claimed_by_the_dead(place)
    assert claimed(queue).attempt == 2  # that one died by itself
    _run_out(place)
    queue._next_look = 0.0
    assert queue.dequeue() is None
    assert queue.catalogue.tasks.get(uuid).status is TaskStatus.DEAD


def test_a_task_that_was_opened_keeps_its_owner(queue: TaskQueue) -> None:
    queue.enqueue(key())
    task = claimed(queue)
    owner = task.lease.owner
    context = open_context(task, queue.base_dir, queue.settings)
    assert context.lease.owner == owner
    context.complete()
    assert queue.ack(task) is TaskStatus.COMPLETED
