"""Workers are killed at random while they work: every task is completed once, and no effect is doubled.

Without a broker, and with half as many kills with each of them. ``--worker-kills 100`` is the whole campaign; the suite
makes a short one.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon import MessageStore
from orihon.runtime.broker_queue import open_queue
from orihon.runtime.queue import TaskQueue
from orihon.runtime.stats import collect_worker_stats
from orihon.system.clock import is_alive
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskStatus
from tests.brokers import BROKERS, own_queue
from tests.integration.run_supervisor import Workers, put, workers

pytestmark = pytest.mark.stress

WORKERS, CALLS, SECONDS = 4, 6, 0.05
LIMITS = {"max_attempts": 1000, "restart_delay": 0.02, "max_restart_delay": 0.1}
PATIENCE = 600.0


def kill_one(queue: TaskQueue, killed: set[str], chance: random.Random) -> None:
    """Kill a worker that is at work, at some moment of it."""
    rows = queue.catalogue.workers.all(silence=3600)
    working = [row for row in rows if row.state == "working" and row.name not in killed]
    if not working:
        return
    victim = chance.choice(working)
    time.sleep(chance.random() * 0.1)
    if is_alive(victim.pid, victim.pid_start):
        os.kill(victim.pid, signal.SIGKILL)
        killed.add(victim.name)


def kill_and_refill(started: Workers, queue: TaskQueue, kills: int, chance: random.Random) -> list[str]:
    """So many kills; new tasks come as long as somebody is left to be killed."""
    uuids = [put(queue, f"calls {CALLS} {SECONDS}", number) for number in range(40 if kills >= 100 else WORKERS)]
    killed: set[str] = set()
    give_up = time.monotonic() + PATIENCE
    while len(killed) < kills:
        assert time.monotonic() < give_up
        if queue.depth() < WORKERS:
            uuids += [put(queue, f"calls {CALLS} {SECONDS}", len(uuids) + number) for number in range(WORKERS)]
        kill_one(queue, killed, chance)
        time.sleep(0.01)
    while not queue.is_empty():
        assert time.monotonic() < give_up
        assert started.process.poll() is None
        time.sleep(0.05)
    return uuids


@pytest.fixture(params=["alone", "postgres", *(f"postgres and {broker}" for broker in BROKERS)])
def config(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """Settings of one machine alone, with a shared database, and with a broker besides."""
    database, _, broker = request.param.partition(" and ")
    shared = {} if database == "alone" else {"database": request.getfixturevalue("postgres").settings}
    if not broker:
        yield shared
        return
    for own in own_queue(request.getfixturevalue(broker)):
        # Seldom enough that most tasks are taken because of a message.
        yield {**shared, **own.config, "multiprocess": {"poll_interval": 0.5}}


def test_no_task_is_lost_and_no_effect_doubled(worker_kills: int, tmp_path: Path, config: dict[str, Any]) -> None:
    queue = open_queue(tmp_path, config, owner="the test")
    limits = {**LIMITS, **config.get("multiprocess", {})}
    kills = (worker_kills + 1) // 2 if config else worker_kills
    with workers(queue, WORKERS, config=config, limits=limits) as started:
        uuids = kill_and_refill(started, queue, kills, random.Random())
        started.process.send_signal(signal.SIGTERM)
        assert started.wait() == 0
        assert started.pids() == {}
    assert queue.dequeue() is None  # whoever asks next brings the last folder to its place
    assert queue.catalogue.statistics.count_by_status() == {TaskStatus.COMPLETED: len(uuids)}
    effects = Counter((tmp_path / "effects").read_text().split())
    assert [effect for effect, count in effects.items() if count != 1] == []
    for uuid in uuids:
        folder = queue.folders.find(uuid)
        assert folder is not None
        store = MessageStore(folder.folder, queue.settings)
        results = [stored.message for stored in store.get_messages() if stored.message.role == "tool"]
        store.close()
        assert [result.tool_call_id for result in results] == [f"call-{call}" for call in range(1, CALLS + 1)]
        done = {f"{uuid}/{result.tool_call_id}" for result in results if result.content == "done"}
        assert done <= set(effects)
        findings = verify(OpenBase(tmp_path, queue.settings), uuid)
        assert [finding for finding in findings if finding.severity != "warning"] == []
    dead = [row for row in collect_worker_stats(tmp_path, queue.settings)["workers"] if row["state"] == "dead"]
    assert len(dead) >= kills
    assert queue.catalogue.statistics.check_rollups() == []
    queue.close()
