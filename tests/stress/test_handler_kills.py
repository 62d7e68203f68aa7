"""An agent is killed at random while it works: its task goes on, and what must happen once happens once at most.

``--worker-kills 100`` is the whole campaign; the suite makes a short one.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore, load_settings
from orihon.llm.scripted import Reply, ScriptedModel, ScriptedRequest, ScriptStep
from orihon.runtime.queue import TaskQueue
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskKey, TaskStatus
from tests.conformance.child import ROOT
from tests.integration.agents import config, effects, with_summaries
from tests.integration.run_supervisor import workers
from tests.stress.test_worker_kills import LIMITS, WORKERS, kill_one

pytestmark = pytest.mark.stress

STEPS = 15
PATIENCE = 300.0


def answer(request: ScriptedRequest) -> ScriptStep:
    """Three calls with every answer, two of which must not be repeated; what comes next follows from the request."""
    messages = request.body["messages"]
    step = sum(message["role"] == "assistant" for message in messages)
    task = next(message["content"] for message in messages if message["role"] == "user")
    if task.startswith("child"):
        return Reply("Counted.") if step else Reply(calls=[("effects_write", {"text": task.replace(" ", "-")})])
    if step >= STEPS:
        return Reply("Done.")
    calls = [(f"effects_{tool}", {"text": f"{task}-{tool}-{step}"}) for tool in ("write", "put")]
    third = (
        ("task_start", {"prompt": f"child {task} {step}"})
        if step % 5 == 0
        else ("effects_write", {"text": f"{task}-x-{step}"})
    )
    return Reply(f"Step {step}.", calls=[*calls, third])


def run_and_kill(folder: Path, base_url: str, backend: str, seconds: float) -> bool:
    """Start an agent and kill it so long after its first effect, if it is not done by then; was it killed?"""
    command = [sys.executable, "-m", "tests.stress.agent_process", str(folder), base_url, backend]
    before = len(effects(folder))
    process = subprocess.Popen(command, cwd=ROOT)
    while process.poll() is None and len(effects(folder)) == before:
        time.sleep(0.002)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    assert process.returncode == 0
    return False


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_killed_agent_goes_on_and_doubles_no_effect(backend: str, worker_kills: int, tmp_path: Path) -> None:
    chance = random.Random()
    with ScriptedModel(with_summaries(answer), keep_bodies=True) as model:
        settings = load_settings(config(model.base_url, context_storage={"backend": backend}))
        queue = TaskQueue(tmp_path, settings)
        uuids: list[str] = []
        killed, give_up = 0, time.monotonic() + PATIENCE + worker_kills * 3
        wanted = max(worker_kills // 2, 1)
        while killed < wanted or queue.depth() or not queue.is_empty():
            assert time.monotonic() < give_up
            if queue.is_empty():
                uuids.append(queue.enqueue(key_of(len(uuids)), prompt=f"t{len(uuids)}"))
            seconds = chance.random() * 0.3 if killed < wanted else PATIENCE
            killed += run_and_kill(tmp_path, model.base_url, backend, seconds)
    assert {row.status for row in queue.catalogue.tasks.page()} == {TaskStatus.COMPLETED}
    check_effects(tmp_path)
    for number, uuid in enumerate(uuids):
        check_log(tmp_path, uuid, f"t{number}", queue)
    queue.close()


def test_workers_that_are_killed_complete_every_task_once(worker_kills: int, tmp_path: Path) -> None:
    chance, killed = random.Random(), set[str]()
    with ScriptedModel(with_summaries(answer)) as model:
        queue = TaskQueue(tmp_path, {}, owner="the test")
        wanted = 40 if worker_kills >= 100 else 6
        uuids = [queue.enqueue(key_of(number), prompt=f"t{number}") for number in range(wanted)]
        plan: dict[str, Any] = {
            "config": config(model.base_url),
            "handler": "tests.stress.agent_process:agent",
            "limits": LIMITS,
        }
        with workers(queue, WORKERS, **plan) as started:
            give_up = time.monotonic() + PATIENCE + worker_kills * 3
            while len(killed) < worker_kills or not queue.is_empty():
                assert time.monotonic() < give_up
                if len(killed) < worker_kills:
                    kill_one(queue, killed, chance)
                    if queue.depth() < 2:
                        uuids.append(queue.enqueue(key_of(len(uuids)), prompt=f"t{len(uuids)}"))
                time.sleep(0.02)
            started.process.send_signal(signal.SIGTERM)
            assert started.wait() == 0
    assert queue.dequeue() is None  # whoever asks next brings the last folder to its place
    assert {row.status for row in queue.catalogue.tasks.page(limit=10_000)} == {TaskStatus.COMPLETED}
    check_effects(tmp_path)
    for number, uuid in enumerate(uuids):
        check_log(tmp_path, uuid, f"t{number}", queue)
    queue.close()


def key_of(number: int) -> TaskKey:
    return TaskKey("cli", "", "", "task", str(number), "me")


def check_effects(folder: Path) -> None:
    keys: dict[tuple[str, str], list[str]] = defaultdict(list)
    for tool, said, key in effects(folder):
        keys[tool, said].append(key)
    assert [what for what, made in keys.items() if what[0] == "write" and len(made) > 1] == []
    # What may be repeated is repeated under the same key.
    assert [what for what, made in keys.items() if len(set(made)) > 1] == []


def check_log(folder: Path, uuid: str, task: str, queue: TaskQueue) -> None:
    """Every call is answered once; what is told as done was done; nothing repeatable was left undone."""
    done = {said for _, said, _ in effects(folder)}
    store = MessageStore(folder / "completed" / uuid)
    told = [stored.message.text for stored in store.get_messages() if stored.message.role == "tool"]
    store.close()
    assert len(told) == 3 * STEPS
    for said in told:
        tool, _, what = said.partition(": ")
        assert tool not in ("write", "put") or what in done
    assert {said for said in told if said.startswith("put: ")} == {f"put: {task}-put-{step}" for step in range(STEPS)}
    children = [row for row in queue.catalogue.tasks.page(limit=10_000) if row.parent_uuid == uuid]
    assert len(children) == STEPS // 5
    for one in (uuid, *(row.uuid for row in children)):
        assert [
            found for found in verify(OpenBase(folder, load_settings({})), one) if found.severity != "warning"
        ] == []
