"""A supervisor in a process of its own: ``python -m tests.integration.run_supervisor JSON``; and its remote control."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from orihon.runtime.child import LogPlan
from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.runtime.supervisor import Supervisor
from orihon.system.clock import is_alive
from orihon.values.task import TaskKey
from tests.conformance.child import ROOT
from tests.integration.worker_handlers import HANDLER

PATIENCE = 240.0
LIMITS: dict[str, Any] = {
    "max_attempts": 3,
    "retry_delay": 0.02,
    "restart_delay": 0.02,
    "poll_interval": 0.05,
    "drain_seconds": 120.0,
}


class Workers:
    """Workers on a base folder, seen from outside."""

    def __init__(self, queue: TaskQueue, process: subprocess.Popen[bytes]) -> None:
        self.queue = queue
        self.process = process

    def pids(self) -> dict[str, int]:
        """The live workers by id."""
        rows = self.queue.catalogue.workers.all(silence=3600)
        return {row.worker_id: row.pid for row in rows if row.state not in ("dead", "stopped")}

    def wait(self) -> int:
        return self.process.wait(PATIENCE)


def eventually(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, "it never came to pass"
        time.sleep(0.01)


def put(queue: TaskQueue, prompt: str, number: int = 1) -> str:
    return queue.enqueue(TaskKey("cli", "", "", "task", str(number), "me"), prompt=prompt)


@contextmanager
def workers(
    queue: TaskQueue, count: int = 2, *, config: dict[str, Any] | None = None, **options: Any
) -> Iterator[Workers]:
    """A supervisor with its workers; nothing of them is left afterwards."""
    plan = {"count": count, "config": config or {}, "base_dir": str(queue.base_dir), "handler": HANDLER, **options}
    plan["limits"] = {**LIMITS, **plan.get("limits", {})}
    command = [sys.executable, "-m", __name__, json.dumps(plan)]
    process = subprocess.Popen(command, cwd=ROOT)
    running = Workers(queue, process)
    try:
        yield running
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        for row in queue.catalogue.workers.all(silence=3600):
            if is_alive(row.pid, row.pid_start):
                os.kill(row.pid, signal.SIGKILL)


def main() -> None:
    plan = json.loads(sys.argv[1])
    limits = QueueLimits(**plan.pop("limits"))
    could_work = Supervisor(plan.pop("count"), plan.pop("config"), limits=limits, logs=LogPlan("ERROR"), **plan).run()
    sys.exit(0 if could_work else 2)


if __name__ == "__main__":
    main()
