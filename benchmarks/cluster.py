"""A small cluster under fire: two "hosts", one PostgreSQL, one RabbitMQ that is restarted, workers that are killed.

    python -m benchmarks.cluster [--tasks 1000] [--workers 4] [--calls 3] [--seconds 0.05] [--kill-every 1.0]

Each host is a base folder of its own with its own supervisor. The records and the catalogue are in PostgreSQL (at
``ORIHON_TEST_POSTGRES_URL`` or 127.0.0.1:5432), the tasks are announced through a private RabbitMQ. A worker is killed
every second, the broker is restarted once in the middle. In the end every task must have completed exactly once, with
every message once and every effect once.
"""

from __future__ import annotations

import argparse
import os
import random
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from orihon.runtime.broker_queue import open_queue
from orihon.runtime.handler import open_context
from orihon.runtime.queue import QueuedTask, QueueLimits, TaskQueue
from orihon.runtime.supervisor import Supervisor
from orihon.settings import Settings, load_settings
from orihon.system.clock import is_alive
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.values.task import TaskKey, TaskStatus
from tests.private_rabbitmq import PrivateRabbitMQ
from tests.services import POSTGRES

HANDLER = "benchmarks.cluster:ShortTask"
LIMITS = QueueLimits(max_attempts=1000, retry_delay=0.05, restart_delay=0.05, max_restart_delay=0.2, poll_interval=0.5)
PATIENCE = 900.0


class ShortTask:
    """A few messages with a pause between them; each is stored once, and one effect at the end of each."""

    def __init__(self, settings: Settings, base_dir: Path) -> None:
        self._settings = settings
        self._base_dir = base_dir

    def handle(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        calls, seconds = task.prompt.split()
        context = open_context(task, self._base_dir, self._settings)
        store = context.message_store
        try:
            while store.count_messages() < int(calls):
                if should_stop():
                    context.stop()
                    return
                time.sleep(float(seconds))
                store.add_message("user", f"step {store.count_messages() + 1}")
            context.complete()
        finally:
            context.close()


class Hosts:
    """Supervisors, each on a base folder of its own."""

    def __init__(self, folder: Path, config: dict[str, Any], workers: int) -> None:
        self.supervisors = [
            Supervisor(workers, config, base_dir=folder / name, handler=HANDLER, limits=LIMITS)
            for name in ("host-a", "host-b")
        ]
        self._threads = [threading.Thread(target=supervisor.run) for supervisor in self.supervisors]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        for supervisor in self.supervisors:
            supervisor.stop()
        for thread in self._threads:
            thread.join()


def kill_one(queue: TaskQueue, chance: random.Random) -> bool:
    """End a worker that is at work, as a crash does."""
    working = [
        row for row in queue.catalogue.workers.all(3600) if row.state == "working" and is_alive(row.pid, row.pid_start)
    ]
    if working:
        os.kill(chance.choice(working).pid, signal.SIGKILL)
    return bool(working)


def check(queue: TaskQueue, folder: Path, settings: Settings, uuids: list[str], calls: int) -> dict[str, int]:
    """Everything once; what is printed was counted here."""
    rows = [queue.catalogue.tasks.get(uuid) for uuid in uuids]
    lost = [row.uuid for row in rows if row.status is not TaskStatus.COMPLETED]
    findings = messages = 0
    twice: list[str] = []
    for row in rows:
        found = [one for one in verify(OpenBase(folder / "host-a", settings), row.uuid) if one.severity != "warning"]
        findings += len(found)
        messages += row.total_messages
        if row.total_messages != calls:
            twice.append(row.uuid)
    return {
        "tasks": len(rows),
        "lost": len(lost),
        "run twice": len(twice),
        "messages": messages,
        "findings": findings,
        "take-overs": sum(row.retry_count for row in rows),
        "rollup differences": len(queue.catalogue.statistics.check_rollups()),
    }


def campaign(options: argparse.Namespace, folder: Path, config: dict[str, Any], broker: PrivateRabbitMQ) -> None:
    settings, chance = load_settings(config), random.Random()
    for name in ("host-a", "host-b"):
        (folder / name).mkdir()
    queue = open_queue(folder / "host-a", settings, limits=LIMITS)
    hosts = Hosts(folder, config, options.workers)
    kills, restarted, give_up = 0, False, time.monotonic() + PATIENCE
    started = time.perf_counter()
    try:
        uuids = [
            queue.enqueue(TaskKey("cli", "", "", "task", str(number)), prompt=f"{options.calls} {options.seconds}")
            for number in range(options.tasks)
        ]
        next_kill = time.monotonic() + options.kill_every
        while not queue.is_empty():
            assert time.monotonic() < give_up, "the tasks did not come to an end"
            if time.monotonic() >= next_kill:
                kills += kill_one(queue, chance)
                next_kill = time.monotonic() + options.kill_every
            if not restarted and queue.depth() < options.tasks / 2:
                threading.Thread(target=broker.restart).start()
                restarted = True
            time.sleep(0.05)
        taken = time.perf_counter() - started
    finally:
        hosts.stop()
    queue.dequeue()  # whoever asks next settles what the last dead worker left
    figures = check(queue, folder, settings, uuids, options.calls)
    queue.close()
    print(f"{2 * options.workers} workers on 2 hosts, {kills} killed, broker restarted: {restarted}")
    print(f"{taken:.1f} s, {len(uuids) / taken:.1f} tasks/s")
    print(", ".join(f"{name}: {count}" for name, count in figures.items()))
    attempts = Counter(queue.catalogue.tasks.get(uuid).attempts for uuid in uuids)
    print("attempts: " + ", ".join(f"{count} x {tries}" for tries, count in sorted(attempts.items())))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=4, help="on each of the two hosts")
    parser.add_argument("--calls", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.05)
    parser.add_argument("--kill-every", type=float, default=1.0)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="orihon-cluster-"))
    schema = f"orihon_bench_{secrets.token_hex(4)}"
    config: dict[str, Any] = {
        "database": {"url": POSTGRES.address, "schema": schema, "pool_size": 4},
        "context_storage": {"lease_seconds": 10},
        "multiprocess": {"heartbeat_interval": 2},
    }
    try:
        with PrivateRabbitMQ(folder / "rabbitmq") as broker:
            campaign(options, folder, config | {"queue": {"url": broker.url, "name": schema}}, broker)
    finally:
        with psycopg.connect(POSTGRES.address, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
