"""Workers: the same batch with 1, 2, 4 and 8 of them.

    python -m benchmarks.workers [--tasks 100] [--calls 5] [--seconds 0.1] [--workers 1 2 4 8] [--repeats 1]

The model takes a tenth of a second for each call, as one that waits for a server does; each answer is stored in the
task's log. Start-up is left out: the clock starts when every worker is idle and stops when nothing is left.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from orihon.runtime.handler import open_context
from orihon.runtime.queue import QueuedTask, QueueLimits, TaskQueue
from orihon.runtime.supervisor import Supervisor
from orihon.settings import Settings
from orihon.values.task import TaskKey, TaskStatus

HANDLER = "benchmarks.workers:SlowModel"


class SlowModel:
    """Asks a model that takes a while, and stores what it says."""

    def __init__(self, settings: Settings, base_dir: Path) -> None:
        self._settings = settings
        self._base_dir = base_dir

    def handle(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        calls, seconds = task.prompt.split()
        context = open_context(task, self._base_dir, self._settings)
        context.message_store.add_message("user", "Do it.")
        for number in range(int(calls)):
            if should_stop():
                context.stop()
                return
            time.sleep(float(seconds))
            context.message_store.add_message("assistant", f"Answer {number}.")
        context.complete()


@dataclass(frozen=True, slots=True)
class Measured:
    seconds: float
    processor: float  # share of one core
    memory: float  # MiB of all workers


def measure(count: int, tasks: int, calls: int, seconds: float) -> Measured:
    folder = Path(tempfile.mkdtemp(prefix="orihon-workers-"))
    queue = TaskQueue(folder, {})
    supervisor = Supervisor(count, {}, base_dir=folder, handler=HANDLER, limits=QueueLimits(poll_interval=0.02))
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        while sum(row.state == "idle" for row in queue.catalogue.workers.all(60)) < count:
            time.sleep(0.05)
        processes = [psutil.Process(row.pid) for row in queue.catalogue.workers.all(60)]
        before = sum(sum(process.cpu_times()[:2]) for process in processes)
        started = time.perf_counter()
        for number in range(tasks):
            queue.enqueue(TaskKey("cli", "", "", "task", str(number)), prompt=f"{calls} {seconds}")
        while not queue.is_empty():
            time.sleep(0.02)
        taken = time.perf_counter() - started
        used = sum(sum(process.cpu_times()[:2]) for process in processes) - before
        memory = sum(process.memory_full_info().pss for process in processes) / 2**20
        others = [row for row in queue.catalogue.tasks.page(limit=tasks) if row.status is not TaskStatus.COMPLETED]
        assert not others, [(row.status, row.requested, row.attempts, row.error_message) for row in others]
        return Measured(taken, used / taken, memory)
    finally:
        supervisor.stop()
        thread.join()
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    print(f"{options.tasks} tasks, {options.calls} calls each, {options.seconds:g} s a call", flush=True)
    print(
        "| workers | time | tasks a second | as fast as one | CPU (of one core) | memory |\n|---|---|---|---|---|---|"
    )
    alone = 0.0
    for count in options.workers:
        runs = [measure(count, options.tasks, options.calls, options.seconds) for _ in range(options.repeats)]
        taken = statistics.median(run.seconds for run in runs)
        alone = alone or taken * count
        print(
            f"| {count} | {taken:.2f} s | {options.tasks / taken:.2f} | {alone / taken:.2f} × "
            f"| {100 * statistics.median(run.processor for run in runs):.0f} % "
            f"| {statistics.median(run.memory for run in runs):.0f} MiB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
