"""Workers as they are: processes under a supervisor, on a real queue, with everything that can happen to them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon import MessageStore, load_settings
from orihon.catalogue import TaskRow
from orihon.errors import InvalidInput
from orihon.runtime import supervisor
from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.runtime.stats import collect_worker_stats
from orihon.runtime.worker import WorkerProcess
from orihon.system.clock import is_alive
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskStatus
from tests.helpers import refused
from tests.integration.run_supervisor import LIMITS, eventually, put, workers
from tests.integration.worker_handlers import HANDLER, HELD

SHORT_LEASE = {"context_storage": {"lease_seconds": 3.0}, "multiprocess": {"heartbeat_interval": 0.2}}
ENDLESS = "steps 1000000 0.02"
FOR_EVER = 3600.0  # seconds


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[TaskQueue]:
    opened = TaskQueue(tmp_path, {}, limits=QueueLimits(**LIMITS), owner="the test")
    yield opened
    opened.close()


def test_a_supervisor_survives_that_a_worker_cannot_be_started(
    tmp_path: Path, queue: TaskQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid = put(queue, "steps 1 0.01")
    command = supervisor._COMMAND
    monkeypatch.setattr(supervisor, "_COMMAND", (str(tmp_path / "nothing there"),))
    limits = QueueLimits(**LIMITS)
    running = supervisor.Supervisor(1, {}, base_dir=tmp_path, handler=HANDLER, limits=limits, until_empty=True)
    (worker,) = running.workers
    supervisor.monitor_workers(running.workers)
    assert (worker.is_alive, worker.is_done, worker.quick_deaths) == (False, False, 1)
    monkeypatch.setattr(supervisor, "_COMMAND", command)
    assert running.run()
    assert statuses(queue, uuid) == {TaskStatus.COMPLETED}


def rows(queue: TaskQueue, *uuids: str) -> list[TaskRow]:
    return [queue.catalogue.tasks.get(uuid) for uuid in uuids]


def statuses(queue: TaskQueue, *uuids: str) -> set[TaskStatus]:
    return {row.status for row in rows(queue, *uuids)}


def steps_of(queue: TaskQueue, uuid: str) -> list[str | None]:
    store = MessageStore(queue.base_dir / "completed" / uuid)
    found = [stored.message.content for stored in store.get_messages()]
    store.close()
    return found


def check_done_once(queue: TaskQueue, count: int, *uuids: str) -> None:
    """Every task completed, every step stored once, every effect done once, nothing wrong anywhere."""
    assert statuses(queue, *uuids) == {TaskStatus.COMPLETED}
    for uuid in uuids:
        assert steps_of(queue, uuid) == [f"step {number}" for number in range(1, count + 1)]
        findings = verify(OpenBase(queue.base_dir, load_settings({})), uuid)
        assert [finding for finding in findings if finding.severity != "warning"] == []
    assert sorted((queue.base_dir / "effects").read_text().split()) == sorted(uuids)
    assert queue.is_empty()


def test_a_batch_is_worked_off_and_counted(queue: TaskQueue) -> None:
    uuids = [put(queue, "steps 3 0.01", number) for number in range(12)]
    with workers(queue, 3, until_empty=True) as started:
        assert started.wait() == 0
    check_done_once(queue, 3, *uuids)
    stats = collect_worker_stats(queue.base_dir, {})
    assert (stats["total_tasks_processed"], stats["total_tasks_failed"], stats["waiting"]) == (12, 0, 0)
    assert {worker["state"] for worker in stats["workers"]} == {"stopped"}
    assert len(stats["workers"]) == 3


def test_misfortunes_of_a_task_are_its_own(queue: TaskQueue) -> None:
    others = [put(queue, "steps 3 0.01", number) for number in range(6)]
    named = {
        what: put(queue, what) for what in ("poison", "fail", "exit", "fail_once", "fail_inside", "refuse", "twin")
    }
    named["reach"] = put(queue, f"reach {others[0]}")
    with workers(queue, 2, until_empty=True) as started:
        assert started.wait() == 0
    check_done_once(queue, 3, *others)
    found = {what: queue.catalogue.tasks.get(uuid) for what, uuid in named.items()}
    dead, done, failed = TaskStatus.DEAD, TaskStatus.COMPLETED, TaskStatus.FAILED
    assert {what: (row.status, row.attempts) for what, row in found.items()} == {
        "poison": (dead, 3),
        "fail": (dead, 3),
        "exit": (dead, 3),
        "fail_once": (done, 2),
        "fail_inside": (done, 3),
        "refuse": (failed, 1),
        "twin": (done, 1),
        "reach": (dead, 3),
    }
    assert "the worker died in each of 3 attempts" in str(found["poison"].error_message)
    assert "on strike" in str(found["fail"].error_message)
    assert found["twin"].lease_owner is None
    assert len(queue.folders.places(str(found["twin"].uuid))) == 1
    assert others[0] in str(found["reach"].error_message)
    states = [worker["state"] for worker in collect_worker_stats(queue.base_dir, {})["workers"]]
    assert sorted(states) == ["dead"] * 3 + ["stopped"] * 2


def test_a_tool_server_does_not_outlive_its_worker(queue: TaskQueue) -> None:
    """It ignores the end of its input and SIGTERM, and so does its child in another session."""
    pids = queue.base_dir / "pids"

    def started_servers() -> list[int]:
        return [int(pid) for pid in pids.read_text().split()] if pids.exists() else []

    def are_alive(found: list[int]) -> bool:
        return any(Path(f"/proc/{pid}/exe").exists() for pid in found)

    put(queue, f"serve {pids}")
    with workers(queue, 1) as started:
        eventually(started_servers)
        first = started_servers()
        assert are_alive(first)
        (worker,) = started.pids().values()
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: not are_alive(first))
        eventually(lambda: len(started_servers()) > len(first))  # another worker has taken the task over
    eventually(lambda: not are_alive(started_servers()))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_drained_workers_leave_paused_tasks_that_go_on_later(queue: TaskQueue, number: signal.Signals) -> None:
    uuids = [put(queue, "steps 10 0.02", each) for each in range(2)]
    (queue.base_dir / HELD).touch()
    with workers(queue, 2, limits={"drain_seconds": FOR_EVER}) as started:
        eventually(lambda: all((queue.base_dir / "running" / uuid / "current.jsonl").exists() for uuid in uuids))
        started.process.send_signal(number)
        assert started.wait() == 0
        assert started.pids() == {}
    for row in rows(queue, *uuids):
        assert (row.status, row.requested, row.lease_owner, row.attempts) == (TaskStatus.PAUSED, "resume", None, 0)
        assert (queue.base_dir / "paused" / row.uuid).is_dir()
    (queue.base_dir / HELD).unlink()
    with workers(queue, 2, until_empty=True) as started:
        assert started.wait() == 0
    check_done_once(queue, 10, *uuids)


def test_a_second_signal_ends_at_once_and_the_task_is_taken_over(queue: TaskQueue) -> None:
    uuid = put(queue, "hang")
    config = {"multiprocess": {"heartbeat_interval": 0.1}}
    with workers(queue, 1, config=config, limits={"drain_seconds": FOR_EVER}) as started:
        eventually(lambda: queue.catalogue.tasks.get(uuid).lease_owner)
        started.process.send_signal(signal.SIGTERM)
        # Two signals that come before the first one is heard would be one.
        eventually(lambda: [row.state for row in queue.catalogue.workers.all(silence=FOR_EVER)] == ["draining"])
        assert started.process.poll() is None  # the handler does not stop
        started.process.send_signal(signal.SIGTERM)
        assert started.wait() == 0
        assert started.pids() == {}
    task = queue.dequeue()
    assert task is not None
    assert (task.uuid, task.attempt, task.lease.epoch) == (uuid, 2, 2)


@pytest.mark.parametrize(
    ("prompt", "drain_seconds", "left"),
    [
        (ENDLESS, FOR_EVER, (TaskStatus.PAUSED, "resume")),
        ("hang", 0.2, (TaskStatus.RUNNING, None)),  # its worker went with it: the next one takes it
    ],
)
def test_no_worker_is_left_alone_when_its_supervisor_is_killed(
    queue: TaskQueue, prompt: str, drain_seconds: float, left: tuple[TaskStatus, str | None]
) -> None:
    uuid = put(queue, prompt)
    with workers(queue, 1, limits={"drain_seconds": drain_seconds}) as started:
        eventually(lambda: statuses(queue, uuid) == {TaskStatus.RUNNING})
        (pid,) = started.pids().values()
        started.process.kill()
        eventually(lambda: not is_alive(pid, 0))
    (row,) = rows(queue, uuid)
    assert (row.status, row.requested) == left


def test_a_dead_worker_is_replaced(queue: TaskQueue) -> None:
    with workers(queue, 1) as started:
        eventually(started.pids)
        (pid,) = started.pids().values()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: started.pids() and started.pids() != {"1": pid})
        uuid = put(queue, "steps 1 0")
        eventually(lambda: statuses(queue, uuid) == {TaskStatus.COMPLETED})


def test_people_pause_resume_and_cancel_what_runs(queue: TaskQueue) -> None:
    uuid, other = put(queue, ENDLESS), put(queue, "wait")
    with workers(queue, 2):
        eventually(lambda: statuses(queue, uuid, other) == {TaskStatus.RUNNING})
        assert queue.pause(uuid).requested == "pause"
        assert queue.cancel(other).requested == "cancel"
        eventually(lambda: rows(queue, uuid)[0].status is TaskStatus.PAUSED)
        eventually(lambda: rows(queue, other)[0].status is TaskStatus.CANCELLED)
        eventually(lambda: rows(queue, uuid)[0].requested is None)
        queue.resume(uuid)
        eventually(lambda: rows(queue, uuid)[0].status is TaskStatus.RUNNING)
        queue.cancel(uuid)
        eventually(lambda: rows(queue, uuid)[0].status is TaskStatus.CANCELLED)
        eventually((queue.base_dir / "completed" / uuid).is_dir)  # the folder follows


def _stopped_until_taken_over(queue: TaskQueue, uuid: str) -> int:
    """Stop the worker that has a task, until another one has it; one that holds the lock of the catalogue just then
    keeps all others out, and is stopped again. Returns its process, which stands still.
    """
    for _ in range(5):
        pid = rows(queue, uuid)[0].lease_pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        give_up = time.monotonic() + 20
        while time.monotonic() < give_up:
            if rows(queue, uuid)[0].lease_pid not in (None, pid):
                return pid
            time.sleep(0.02)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.1)
    raise AssertionError("nobody took the task over")


def test_a_worker_stopped_past_its_lease_lets_go_and_goes_on(queue: TaskQueue) -> None:
    uuid = put(queue, "steps 20 0.03")
    (queue.base_dir / HELD).touch()
    # A busy machine may stop the other worker past its short lease, too.
    with workers(queue, 2, config=SHORT_LEASE, limits={"max_attempts": 1000}) as started:
        eventually(lambda: (queue.base_dir / "running" / uuid / "current.jsonl").exists())
        first = _stopped_until_taken_over(queue, uuid)
        os.kill(first, signal.SIGCONT)
        (queue.base_dir / HELD).unlink()
        eventually(lambda: statuses(queue, uuid) == {TaskStatus.COMPLETED})
        # Both workers go on with what comes next: these two are not done by one alone.
        others = [put(queue, "wait", number) for number in (2, 3)]
        eventually(lambda: {row.lease_pid for row in rows(queue, *others)} == set(started.pids().values()))
        assert first in started.pids().values()
        for other in others:
            queue.cancel(other)
        eventually(lambda: statuses(queue, *others) == {TaskStatus.CANCELLED})
    assert steps_of(queue, uuid) == [f"step {number}" for number in range(1, 21)]
    assert (queue.base_dir / "effects").read_text().split().count(uuid) == 1
    (row,) = rows(queue, uuid)
    assert row.attempts == row.retry_count + 1 >= 2


def test_a_task_has_only_so_much_time(queue: TaskQueue) -> None:
    slow, hanging = put(queue, ENDLESS), put(queue, "hang")
    config = {"multiprocess": {"process_timeout": 1}}
    with workers(queue, 1, config=config, limits={"drain_seconds": 2.0}):
        eventually(lambda: statuses(queue, slow, hanging) == {TaskStatus.FAILED})
        # For a new worker: the old one went with the hanging handler. On a busy machine one may take too long.
        eventually(lambda: _ended(queue, put(queue, "steps 1 0")) is TaskStatus.COMPLETED)
        eventually((queue.base_dir / "completed" / slow).is_dir)
    for row in rows(queue, slow, hanging):
        assert "process_timeout" in str(row.error_message)


def _ended(queue: TaskQueue, uuid: str) -> TaskStatus:
    """How a task has ended, once it has."""
    eventually(lambda: statuses(queue, uuid) & {TaskStatus.COMPLETED, TaskStatus.FAILED})
    return queue.catalogue.tasks.get(uuid).status


def test_workers_that_cannot_work_say_so_and_end(queue: TaskQueue) -> None:
    with workers(queue, 2, handler="tests.nowhere:Nothing") as started:
        assert started.wait() == 2
    with refused(InvalidInput, "handler"):
        WorkerProcess(1, {}, base_dir=queue.base_dir, handler="os:curdir").run()


def test_a_task_whose_end_cannot_be_written_ends_no_worker(queue: TaskQueue) -> None:
    put(queue, "vanish")
    uuid = put(queue, "steps 1 0", 2)
    limits = QueueLimits(**LIMITS)
    worker = WorkerProcess(7, {}, base_dir=queue.base_dir, handler=HANDLER, limits=limits, until_empty=True)
    worker.run()
    assert statuses(queue, uuid) == {TaskStatus.COMPLETED}


def test_a_worker_works_inside_a_program_too(queue: TaskQueue) -> None:
    uuids = [put(queue, "steps 2 0", number) for number in range(3)]
    failing = put(queue, "fail")
    before = signal.getsignal(signal.SIGTERM)
    worker = WorkerProcess(
        7, {}, base_dir=queue.base_dir, handler=HANDLER, limits=QueueLimits(**LIMITS), until_empty=True
    )
    worker.run()
    assert signal.getsignal(signal.SIGTERM) is before
    check_done_once(queue, 2, *uuids)
    assert statuses(queue, failing) == {TaskStatus.DEAD}
    assert (worker.figures.processed, worker.figures.failed, worker.should_stop) == (3, 3, False)
