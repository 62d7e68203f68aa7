"""The catalogue as a queue: who gets a task, what becomes of it, and what people want of it; in each database."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid as uuids
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orihon import TaskContextManager
from orihon.catalogue import WorkerStatistics
from orihon.catalogue import queue as line
from orihon.catalogue.queue import LONGEST_DELAY
from orihon.errors import IllegalTransition, InvalidInput, StaleWriter, TaskBusy, TaskNotFound
from orihon.runtime.child import LogPlan, WorkerSpec
from orihon.runtime.handler import open_context
from orihon.runtime.queue import MAX_PROMPT_BYTES, QueuedTask, QueueLimits, TaskQueue
from orihon.runtime.stats import collect_worker_stats
from orihon.runtime.worker import Holding
from orihon.settings import load_settings
from orihon.tasks.base import OpenBase
from orihon.upkeep.doctor import examine
from orihon.values.task import TaskKey, TaskStatus
from tests.catalogues import CHILD, CataloguePlace
from tests.helpers import refused

LIMITS = QueueLimits(max_attempts=3, retry_delay=60, max_retry_delay=100)
SECRET = "sk-" + "proj-" + "a1B2c3D4e5F6g7H8i9J0" * 2


def key(number: int = 1, user: str = "花子") -> TaskKey:
    return TaskKey("github", "o", "r", "issue", str(number), user)


@pytest.fixture
def queue(place: CataloguePlace) -> Iterator[TaskQueue]:
    opened = TaskQueue(place.base_dir, place.config, limits=LIMITS, owner="worker-1")
    yield opened
    assert opened.catalogue.statistics.check_rollups() == []
    opened.close()


def claimed(queue: TaskQueue) -> QueuedTask:
    queue._next_look = 0.0  # look for dead workers now, and not within a second
    task = queue.dequeue()
    assert task is not None
    return task


def claimed_by_the_dead(place: CataloguePlace) -> str:
    """A worker in another process claims a task and is gone."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            task = TaskQueue(place.base_dir, place.config, owner="worker-9").dequeue()
            os.write(writer, str(task and task.uuid).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        uuid = said.read()
    os.waitpid(child, 0)
    return uuid


# ---- in and out ----------------------------------------------------------------------------------------------------


def test_a_task_goes_through_the_queue(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key().as_dict(), "花子", prompt=f"log in with {SECRET}", source="github")
    assert uuids.UUID(uuid).version == 4
    row = queue.catalogue.tasks.get(uuid)
    assert (row.status, row.user, row.attempts, queue.depth()) == (TaskStatus.QUEUED, "花子", 0, 1)
    assert SECRET not in row.prompt
    task = claimed(queue)
    assert (task.get_uuid(), task.get_task_key(), task.user) == (uuid, key().as_dict(), "花子")
    assert task.prompt.startswith("log in with [")
    assert (task.source, task.attempt, task.lease.epoch) == ("github", 1, 1)
    assert task.lease.owner.startswith("worker-1#")
    assert queue.dequeue() is None
    assert (queue.depth(), queue.is_empty()) == (0, False)
    assert queue.ack(task) is TaskStatus.COMPLETED
    row = queue.catalogue.tasks.get(uuid)
    assert (row.status, row.lease_owner, queue.is_empty()) == (TaskStatus.COMPLETED, None, True)


def test_a_prompt_that_is_too_long_is_refused(queue: TaskQueue) -> None:
    queue.enqueue(key(), prompt="x" * MAX_PROMPT_BYTES)
    with refused(InvalidInput, "prompt_long"):
        queue.enqueue(key(), prompt="あ" * (MAX_PROMPT_BYTES // 3 + 1))
    assert queue.depth() == 1


def test_the_task_that_was_claimed_is_opened_with_its_lease(queue: TaskQueue) -> None:
    other = queue.enqueue(key(1))
    uuid = queue.enqueue(key(2), priority=1)
    task = claimed(queue)
    context = open_context(task, queue.base_dir, queue.settings)
    context.message_store.add_message("user", "hello")
    row = queue.catalogue.tasks.get(uuid)
    assert (context.uuid, row.epoch, row.model) == (uuid, task.lease.epoch, queue.settings.model)
    with refused(TaskBusy, "not_held"):
        TaskContextManager(queue.base_dir, None, queue.settings, uuid=other, lease=task.lease)
    context.complete()
    assert queue.ack(task) is TaskStatus.COMPLETED
    assert (queue.base_dir / "completed" / uuid).is_dir()


def test_an_epoch_that_opening_has_raised_is_still_the_workers_own(queue: TaskQueue) -> None:
    queue.enqueue(key())
    task = claimed(queue)
    queue.catalogue.leases.raise_epoch(task.lease, above=7)
    queue.renew(task)
    assert task.lease.epoch == 8
    queue.catalogue.leases.raise_epoch(task.lease, above=11)
    assert queue.ack(task) is TaskStatus.COMPLETED


# ---- failures ------------------------------------------------------------------------------------------------------


def test_a_failed_task_is_tried_again_later_and_later_and_then_is_dead(queue: TaskQueue, place: CataloguePlace) -> None:
    uuid = queue.enqueue(key())
    delays = []
    for attempt in (1, 2):
        assert queue.nack(claimed(queue), f"broken by {SECRET}") is TaskStatus.QUEUED
        row = queue.catalogue.tasks.get(uuid)
        assert (row.attempts, row.retry_count, row.lease_owner) == (attempt, attempt, None)
        assert row.retry_due is not None
        assert SECRET not in str(row.error_message)
        delays.append(row.retry_due - queue.catalogue._db.moment().seconds)
        assert queue.dequeue() is None
        assert queue.depth() == 1
        _let_retries_be_due(place)
    assert delays == [pytest.approx(60, abs=30), pytest.approx(100, abs=30)]
    assert queue.nack(claimed(queue), "still broken") is TaskStatus.DEAD
    row = queue.catalogue.tasks.get(uuid)
    assert (row.status, row.attempts) == (TaskStatus.DEAD, 3)
    assert "3 attempts" in str(row.error_message)
    assert "still broken" in str(row.error_message)
    queue.retry(uuid)
    task = claimed(queue)
    assert (task.attempt, task.lease.epoch, queue.catalogue.tasks.get(uuid).retry_count) == (1, 4, 3)


def _let_retries_be_due(place: CataloguePlace) -> None:
    place.change("UPDATE tasks SET retry_due = 0 WHERE retry_due IS NOT NULL")


def test_a_task_may_say_itself_how_often_it_is_tried(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key())
    queue.catalogue.tasks.update(uuid, max_retries=0)
    assert queue.nack(claimed(queue), "no") is TaskStatus.DEAD


def test_a_failure_that_is_final_is_not_tried_again(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    open_context(task, queue.base_dir, queue.settings).stop()
    assert queue.nack(task, "too slow", retry=False) is TaskStatus.FAILED
    assert queue.catalogue.tasks.get(uuid).error_message == "too slow"
    assert (queue.base_dir / "completed" / uuid).is_dir()
    queue.enqueue(key(2))
    assert queue.nack(claimed(queue), "no", retry=False) is TaskStatus.FAILED
    assert queue.is_empty()


def test_a_task_that_failed_in_its_own_block_is_tried_again(queue: TaskQueue, place: CataloguePlace) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    with pytest.raises(RuntimeError), open_context(task, queue.base_dir, queue.settings) as context:
        context.message_store.add_message("user", "kept")
        raise RuntimeError("oh")
    assert queue.catalogue.tasks.get(uuid).status is TaskStatus.FAILED
    assert queue.nack(task, "oh") is TaskStatus.QUEUED
    _let_retries_be_due(place)
    again = open_context(claimed(queue), queue.base_dir, queue.settings)
    assert next(iter(again.message_store.get_messages())).message.content == "kept"
    assert again.context_dir == queue.base_dir / "running" / uuid
    again.complete()


def test_what_is_finished_stays_finished_although_its_worker_complains(queue: TaskQueue) -> None:
    queue.enqueue(key())
    task = claimed(queue)
    open_context(task, queue.base_dir, queue.settings).complete()
    assert queue.nack(task, "after the end") is TaskStatus.COMPLETED


@pytest.mark.parametrize("now", ["1999-01-01T00:00:00.000000+00:00", "2999-01-01T00:00:00.000000+00:00"])
def test_setting_the_clock_neither_hastens_nor_delays_a_retry(
    queue: TaskQueue, place: CataloguePlace, monkeypatch: pytest.MonkeyPatch, now: str
) -> None:
    queue.enqueue(key())
    queue.nack(claimed(queue), "no")
    monkeypatch.setattr(line, "utc_now", lambda: now)
    assert queue.dequeue() is None
    place.change("UPDATE tasks SET retry_due = retry_due - 61")  # a minute later
    assert queue.dequeue() is not None


@pytest.mark.parametrize("change", ["retry_boot = 'another'", f"retry_due = retry_due + {2 * LONGEST_DELAY}"])
def test_a_retry_from_before_a_boot_is_due(queue: TaskQueue, place: CataloguePlace, change: str) -> None:
    queue.enqueue(key())
    queue.nack(claimed(queue), "no")
    place.change(f"UPDATE tasks SET {change}")
    assert queue.dequeue() is not None


# ---- several workers -----------------------------------------------------------------------------------------------


def test_a_dead_workers_task_goes_to_the_next_one_and_is_given_up_in_the_end(
    queue: TaskQueue, place: CataloguePlace
) -> None:
    uuid = queue.enqueue(key())
    assert claimed_by_the_dead(place) == uuid
    task = claimed(queue)
    assert (task.uuid, task.attempt, task.lease.epoch) == (uuid, 2, 2)
    assert queue.catalogue.tasks.get(uuid).retry_count == 1
    assert queue.nack(task, "no") is TaskStatus.QUEUED
    _let_retries_be_due(place)
    assert claimed_by_the_dead(place) == uuid
    queue._next_look = 0.0
    assert queue.dequeue() is None
    row = queue.catalogue.tasks.get(uuid)
    assert (row.status, row.attempts, row.lease_owner) == (TaskStatus.DEAD, 3, None)
    assert "3 attempts" in str(row.error_message)
    assert queue.is_empty()


def test_a_worker_whose_task_was_taken_over_is_refused(queue: TaskQueue, place: CataloguePlace) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    context = open_context(task, queue.base_dir, queue.settings)
    place.change("UPDATE tasks SET lease_until = 0")  # as for a process that was stopped too long
    other = TaskQueue(queue.base_dir, queue.settings, limits=LIMITS, owner="worker-2")
    second = claimed(other)
    assert (second.uuid, second.lease.epoch) == (uuid, 2)
    second_context = open_context(second, queue.base_dir, queue.settings)
    for act in (
        lambda: context.message_store.add_message("user", "too late"),
        lambda: queue.renew(task),
        lambda: queue.ack(task),
        lambda: queue.nack(task, "no"),
    ):
        with pytest.raises(StaleWriter):
            act()
    context.close()
    second_context.complete()
    assert other.ack(second) is TaskStatus.COMPLETED
    assert queue.catalogue.tasks.get(uuid).total_messages == 0
    other.close()


def test_a_program_of_somebody_elses_is_not_taken_over(queue: TaskQueue, place: CataloguePlace) -> None:
    code = f"{CHILD}import orihon\n"
    code += "orihon.TaskContextManager(base, orihon.TaskKey('cli', '', '', 'task', '7'), config)"
    subprocess.run([sys.executable, "-c", code, *place.arguments], check=True)
    (row,) = queue.catalogue.tasks.running()
    assert queue.dequeue() is None
    assert queue.resume(row.uuid).status is TaskStatus.PAUSED  # now it is for workers
    assert claimed(queue).uuid == row.uuid


def test_a_user_has_so_many_tasks_at_a_time(place: CataloguePlace) -> None:
    queue = TaskQueue(place.base_dir, place.config, limits=QueueLimits(tasks_per_user=1), owner="w")
    names = {f"{user}{number}": queue.enqueue(key(number, user)) for number in (1, 2) for user in ("ann", "bob", "")}
    found = [task for _ in range(6) if (task := queue.dequeue()) is not None]
    assert [task.uuid for task in found] == [names["ann1"], names["bob1"], names["1"], names["2"]]
    queue.pause(names["bob1"])
    assert queue.ack(found[1], stopped=True) is TaskStatus.PAUSED
    assert claimed(queue).uuid == names["bob2"]
    queue.resume(names["bob1"])
    assert queue.dequeue() is None
    queue.ack(found[0])
    assert claimed(queue).uuid == names["ann2"]
    queue.close()


def test_the_catalogue_knows_its_workers(queue: TaskQueue, place: CataloguePlace) -> None:
    uuid = queue.enqueue(key())
    queue.catalogue.workers.add("worker-1", "1")
    task = queue.dequeue(worker=WorkerStatistics("worker-1", processed=4, failed=2))
    subprocess.run([sys.executable, "-c", f"{CHILD}catalogue.workers.add('gone', '2')", *place.arguments], check=True)
    stats = collect_worker_stats(queue.base_dir, queue.settings)
    states = {worker["name"]: (worker["state"], worker["task_uuid"]) for worker in stats["workers"]}
    assert states == {"worker-1": ("working", uuid), "gone": ("dead", None)}
    assert (stats["total_tasks_processed"], stats["total_tasks_failed"], stats["running"]) == (4, 2, 1)
    assert stats["total_db_size_mb"] > 0 or place.is_shared
    assert task is not None
    queue.ack(task)
    queue.catalogue.workers.note(WorkerStatistics("worker-1", processed=5), "stopped")
    assert collect_worker_stats(queue.base_dir, queue.settings)["workers"][0]["state"] == "stopped"


# ---- what people want ----------------------------------------------------------------------------------------------


def test_a_queued_task_is_held_back_let_go_and_cancelled(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key())
    assert queue.pause(uuid).requested == "pause"
    assert (queue.dequeue(), queue.depth()) == (None, 0)
    assert queue.resume(uuid).requested is None
    assert queue.depth() == 1
    assert queue.cancel(uuid).status is TaskStatus.CANCELLED
    assert examine(OpenBase(queue.base_dir, queue.settings)) == []  # it never had a folder
    assert queue.retry(uuid).status is TaskStatus.QUEUED
    assert queue.resume(uuid).status is TaskStatus.QUEUED
    assert claimed(queue).uuid == uuid


def test_a_held_task_is_paused_by_its_worker_and_goes_on_with_another(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    context = open_context(task, queue.base_dir, queue.settings)
    row = queue.pause(uuid)
    assert (row.status, row.requested, row.lease_owner) == (TaskStatus.RUNNING, "pause", task.lease.owner)
    assert queue.resume(uuid).requested is None  # thought better of it
    queue.pause(uuid)
    context.message_store.add_message("user", "so far")
    context.stop()
    assert queue.ack(task, stopped=True) is TaskStatus.PAUSED
    row = queue.catalogue.tasks.get(uuid)
    assert (row.status, row.requested, row.attempts) == (TaskStatus.PAUSED, None, 0)
    assert queue.dequeue() is None
    queue.resume(uuid)
    queue.pause(uuid)
    assert queue.dequeue() is None
    assert queue.resume(uuid).requested == "resume"
    again = claimed(queue)
    assert (again.uuid, again.attempt) == (uuid, 1)
    assert open_context(again, queue.base_dir, queue.settings).message_store.count_messages() == 1


def test_a_held_task_is_cancelled_by_its_worker(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    context = open_context(task, queue.base_dir, queue.settings)
    assert queue.cancel(uuid).requested == "cancel"
    context.stop()
    assert queue.ack(task, stopped=True) is TaskStatus.CANCELLED
    assert (queue.base_dir / "completed" / uuid).is_dir()
    second = queue.enqueue(key(2), source="github")
    task = claimed(queue)
    queue.cancel(second)
    assert queue.nack(task, "no") is TaskStatus.CANCELLED
    assert [row.uuid for row in queue.catalogue.queue.untold_ends()] == [second]  # a worker tells its source


def test_a_pause_is_not_forgotten_when_the_attempt_fails(queue: TaskQueue, place: CataloguePlace) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    queue.pause(uuid)
    queue.nack(task, "no")
    _let_retries_be_due(place)
    assert (queue.dequeue(), queue.catalogue.tasks.get(uuid).requested) == (None, "pause")


@pytest.mark.parametrize(("wish", "status"), [("cancel", TaskStatus.CANCELLED), ("pause", TaskStatus.PAUSED)])
def test_what_a_dead_worker_was_asked_is_done(
    queue: TaskQueue, place: CataloguePlace, wish: str, status: TaskStatus
) -> None:
    uuid = queue.enqueue(key())
    claimed_by_the_dead(place)
    place.change("UPDATE tasks SET requested = ?", wish)
    assert queue.dequeue() is None
    assert queue.catalogue.tasks.get(uuid).status is status


def test_a_dead_workers_task_is_cancelled_or_paused_at_once(queue: TaskQueue, place: CataloguePlace) -> None:
    first = queue.enqueue(key(1))
    claimed_by_the_dead(place)
    assert queue.cancel(first).status is TaskStatus.CANCELLED
    second = queue.enqueue(key(2))
    claimed_by_the_dead(place)
    assert queue.pause(second).status is TaskStatus.PAUSED


def test_a_worker_that_dies_between_pause_and_cancel_leaves_a_cancelled_task(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    queue.cancel(uuid)
    open_context(task, queue.base_dir, queue.settings).stop()  # and no ack
    queue._next_look = 0.0
    assert queue.dequeue() is None
    assert queue.catalogue.tasks.get(uuid).status is TaskStatus.CANCELLED


DYING_AT_THE_END = f"""{CHILD}
import os
from orihon.runtime.handler import open_context
from orihon.runtime.queue import TaskQueue
from orihon.tasks.place import TaskFolders
queue = TaskQueue(base, config, owner="worker-9")
context = open_context(queue.dequeue(), queue.base_dir, queue.settings)
context.message_store.add_message("user", "hello")
TaskFolders.settle = lambda *_, **__: os._exit(0)
context.complete()
"""


def test_the_folder_of_a_task_whose_worker_died_at_its_end_is_brought_to_its_place(
    queue: TaskQueue, place: CataloguePlace
) -> None:
    uuid = queue.enqueue(key())
    subprocess.run([sys.executable, "-c", DYING_AT_THE_END, *place.arguments], check=True)
    assert queue.catalogue.tasks.get(uuid).status is TaskStatus.COMPLETED
    assert (queue.base_dir / "running" / uuid).is_dir()
    assert queue.dequeue() is None
    assert (queue.base_dir / "completed" / uuid).is_dir()
    assert queue.catalogue.tasks.get(uuid).lease_owner is None


def test_wishes_that_cannot_be_are_refused(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key())
    queue.ack(claimed(queue))
    for act in (queue.pause, queue.resume, queue.cancel, queue.retry):
        with refused(IllegalTransition, "change"):
            act(uuid)
        with refused(TaskNotFound, "uuid"):
            act("nobody")
    mine = TaskContextManager(queue.base_dir, key(3), queue.settings)
    for act in (queue.pause, queue.resume, queue.cancel):
        with refused(TaskBusy, "lease"):
            act(mine.uuid)
    mine.update_status(TaskStatus.WAITING)
    assert queue.resume(mine.uuid).requested == "resume"
    assert claimed(queue).uuid == mine.uuid


# ---- while a task is held ------------------------------------------------------------------------------------------


def _holding(queue: TaskQueue, task: QueuedTask, *, draining: bool = False, timeout: float = 3600) -> Holding:
    return Holding(
        queue,
        task,
        is_draining=lambda: draining,
        on_beat=lambda: None,
        on_overdue=lambda: None,
        heartbeat=3600,
        timeout=timeout,
    )


def test_a_holding_says_why_the_handler_shall_stop(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    holding = _holding(queue, task)
    assert not holding.should_stop()
    holding.close()
    holding = _holding(queue, task, timeout=0)
    assert (holding.should_stop(), holding.reason) == (True, "timeout")
    holding.close()
    queue.pause(uuid)
    holding = _holding(queue, task, draining=True)
    assert (holding.should_stop(), holding.reason) == (True, "pause")
    queue.resume(uuid)
    assert holding.should_stop()  # it has said so
    holding.close()
    queue.catalogue.leases.acquire(uuid, owner="worker-2", take_over=True)
    holding = _holding(queue, task)
    assert (holding.should_stop(), holding.reason) == (True, "lost")
    holding.close()


def test_a_drained_task_is_in_line_before_its_handler_hears_of_it(queue: TaskQueue) -> None:
    uuid = queue.enqueue(key())
    task = claimed(queue)
    context = open_context(task, queue.base_dir, queue.settings)
    holding = _holding(queue, task, draining=True)
    assert holding.should_stop()
    assert queue.catalogue.tasks.get(uuid).requested == "resume"
    context.stop()  # the worker may die here
    holding.close()
    again = claimed(queue)
    assert again.uuid == uuid


def test_what_a_worker_is_told_arrives_whole() -> None:
    config = {
        "context_storage": {"base_dir": "/somewhere", "lease_seconds": 7},
        "llm": {"openai": {"api_key": SECRET}},
        "compression": {"pin_patterns": ["^Rule: "], "preset": "coding-agent"},
        "masking": {"patterns": {"TICKET": "T-[0-9]+"}},
        "prices": {"gpt": {"input": 1.5}},
    }
    settings = load_settings(config, environ={})
    logs = LogPlan("INFO", Path("agent.log"), 30)
    spec = WorkerSpec("3", settings, Path("/somewhere"), "a:b", LIMITS, True, logs, "ja")
    read = WorkerSpec.from_json(spec.as_json())
    assert read == spec
    keys = ("compression.preset", "compression.threshold", "llm.openai.api_key")
    assert [read.settings.is_explicit(key) for key in keys] == [True, False, True]
    assert WorkerSpec.from_json(replace(spec, logs=None).as_json()).logs is None


def test_limits_come_from_the_settings_and_grow_to_a_bound() -> None:
    assert QueueLimits.of(load_settings({})) == QueueLimits()
    assert QueueLimits.of(load_settings({"multiprocess": {"tasks_per_user": 2}})).claims().tasks_per_user == 2
    limits = QueueLimits(retry_delay=2, max_retry_delay=30, restart_delay=1, max_restart_delay=8)
    assert [limits.delay_after(attempts) for attempts in (1, 2, 5, 5000)] == [2, 4, 30, 30]
    assert [limits.restart_after(deaths) for deaths in (1, 3, 4, 5000)] == [1, 4, 8, 8]
