"""Workers and people: a task that waits frees its worker, and goes on with any worker once it is answered."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon import MessageStore, Waiting, load_settings
from orihon.llm.scripted import Reply
from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.runtime.worker import WorkerProcess
from orihon.tasks.approvals.answers import approve, pending, reject, sweep
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskStatus
from tests.integration.agents import world
from tests.integration.asking_handlers import ANSWERED_AT_ONCE, HANDLER, AskingHandler
from tests.integration.run_supervisor import LIMITS, eventually, put, workers

SETTINGS = load_settings({})


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[TaskQueue]:
    opened = TaskQueue(tmp_path, {}, limits=QueueLimits(**LIMITS), owner="the test")
    yield opened
    opened.close()


def said(queue: TaskQueue, uuid: str) -> list[str]:
    store = MessageStore(queue.base_dir / "completed" / uuid)
    found = [stored.message.text.splitlines()[0] for stored in store.get_messages()]
    store.close()
    return found


def is_done(queue: TaskQueue, uuid: str) -> bool:
    """Completed, and its folder has followed."""
    row = queue.catalogue.tasks.get(uuid)
    return row.status is TaskStatus.COMPLETED and row.lease_owner is None


def is_waiting(queue: TaskQueue, uuid: str) -> bool:
    row = queue.catalogue.tasks.get(uuid)
    return row.status is TaskStatus.WAITING and row.lease_owner is None


def test_a_worker_is_free_for_others_while_a_task_waits(queue: TaskQueue) -> None:
    first = put(queue, "ask 2", 1)
    with workers(queue, 1, handler=HANDLER) as started:
        eventually(lambda: is_waiting(queue, first))
        others = [put(queue, "work", number) for number in (2, 3)]
        eventually(lambda: all(is_done(queue, uuid) for uuid in others))
        assert queue.catalogue.tasks.get(first).attempts == 0
        assert (queue.base_dir / "paused" / first).is_dir()
        done = approve(OpenBase(queue.base_dir, SETTINGS), first, by="ann")
        assert done.requested == "resume"
        eventually(lambda: [one.checkpoint.name for one in pending(OpenBase(queue.base_dir, SETTINGS))] == ["step 2"])
        eventually(lambda: is_waiting(queue, first))
        reject(OpenBase(queue.base_dir, SETTINGS), first, by="bob", reason="not that")
        eventually(lambda: is_done(queue, first))
        started.process.send_signal(signal.SIGTERM)
        assert started.wait() == 0
    row = queue.catalogue.tasks.get(first)
    assert (row.attempts, row.retry_count, row.error_message) == (1, 0, None)
    assert said(queue, first) == [
        "ask 2",
        "## Approved: step 1",
        "step 1: approve",
        "## Rejected: step 2",
        "step 2: reject",
    ]
    assert [found for found in verify(OpenBase(queue.base_dir, SETTINGS), first) if found.severity != "warning"] == []


def test_an_answer_that_comes_before_the_worker_has_let_go_costs_no_attempt(queue: TaskQueue) -> None:
    uuid = put(queue, "ask 4")
    limits = QueueLimits(**LIMITS)
    assert limits.max_attempts < 4
    WorkerProcess("1", {}, base_dir=queue.base_dir, handler=ANSWERED_AT_ONCE, limits=limits, until_empty=True).run()
    assert is_done(queue, uuid)
    assert queue.catalogue.tasks.get(uuid).attempts == 1


def test_workers_look_after_time_limits(queue: TaskQueue) -> None:
    uuid = put(queue, "ask 1 0.3")
    with workers(queue, 1, handler=HANDLER):
        eventually(lambda: is_done(queue, uuid))
    assert said(queue, uuid)[1:] == ["## Rejected: step 1", "step 1: reject"]


def test_a_waiting_task_survives_the_death_of_every_worker_and_can_be_cancelled(queue: TaskQueue) -> None:
    kept, dropped = put(queue, "ask 1", 1), put(queue, "ask 1", 2)
    with workers(queue, 2, handler=HANDLER) as started:
        eventually(lambda: is_waiting(queue, kept) and is_waiting(queue, dropped))
        for pid in started.pids().values():
            os.kill(pid, signal.SIGKILL)
    assert queue.cancel(dropped).status is TaskStatus.CANCELLED
    approve(OpenBase(queue.base_dir, SETTINGS), kept, by="ann")
    with workers(queue, 1, handler=HANDLER, until_empty=True) as started:
        assert started.wait() == 0
    assert said(queue, kept)[1:] == ["## Approved: step 1", "step 1: approve"]


def test_a_wish_to_cancel_that_comes_while_a_task_asks_is_seen(queue: TaskQueue) -> None:
    uuid = put(queue, "ask 1")
    task = queue.dequeue()
    assert task is not None
    assert queue.catalogue.queue.request(uuid, "cancel", TaskStatus.RUNNING)
    with pytest.raises(Waiting):
        AskingHandler(SETTINGS, queue.base_dir).handle(task, lambda: False)
    assert sweep(OpenBase(queue.base_dir, SETTINGS)).to_cancel == [uuid]
    assert queue.ack(task, stopped=True) is TaskStatus.CANCELLED


def test_a_model_asks_by_a_tool_and_gets_the_answer_as_a_message(tmp_path: Path) -> None:
    steps = [
        Reply(calls=[("checkpoint_ask", {"question": "Delete the old tables?", "name": "tables"})]),
        Reply(calls=[("checkpoint_ask", {"question": "And now?"})]),
        Reply("Done as you said."),
    ]
    with world(tmp_path / "base", steps) as made:
        uuid = made.put("Clean up.")

        def work() -> TaskStatus:
            WorkerProcess("1", made.settings, base_dir=made.folder, until_empty=True).run()
            return made.queue.catalogue.tasks.get(uuid).status

        assert work() is TaskStatus.WAITING
        (found,) = pending(OpenBase(made.folder, made.settings))
        assert (found.checkpoint.name, found.checkpoint.question) == ("tables", "Delete the old tables?")
        assert work() is TaskStatus.WAITING  # nobody goes on before it is answered
        reject(OpenBase(made.folder, made.settings), uuid, by="ann", reason="keep them")
        assert work() is TaskStatus.WAITING
        approve(OpenBase(made.folder, made.settings), uuid, by="ann")
        assert work() is TaskStatus.COMPLETED
        roles = [stored.message.role for stored in made.messages(uuid)]
        assert roles == ["system", "user", *["assistant", "tool", "user"] * 2, "assistant"]
        told = made.messages(uuid)[4].message.text
        assert told.startswith("## Rejected: tables")
        assert told.endswith("keep them")
        assert "Delete" not in told  # a model does not speak with a person's voice
        last = made.model.requests[2].body["messages"]
        assert [message["role"] for message in last][-3:] == ["assistant", "tool", "user"]
        assert [
            found for found in verify(OpenBase(made.folder, made.settings), uuid) if found.severity != "warning"
        ] == []


def test_a_helper_has_nobody_to_ask(tmp_path: Path) -> None:
    steps = [
        Reply(calls=[("task_start", {"prompt": "Help."})]),
        Reply("I helped."),
        Reply("Done."),
    ]
    with world(tmp_path / "base", steps) as made:
        made.put("Do it.")
        assert made.work() is TaskStatus.COMPLETED
        tools = [request.body.get("tools", []) for request in made.model.requests]
        offered = [{tool["function"]["name"] for tool in given} for given in tools]
        assert ["checkpoint_ask" in names for names in offered if names] == [True, False, True]
