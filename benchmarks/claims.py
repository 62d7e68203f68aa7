"""Claims: many workers empty one queue, and no task is run twice.

    python -m benchmarks.claims [--tasks 1000] [--workers 8] [--folder FOLDER]

Real processes on one ``tasks.db`` on disk; start-up left out. First every task is claimed, then every task is
acknowledged, and both are timed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from orihon.runtime.queue import TaskQueue
from orihon.values.task import TaskKey, TaskStatus


def child(folder: Path) -> None:
    """Waits for a line, claims until there is nothing left, says what; then the same for acknowledging."""
    queue = TaskQueue(folder, {})
    queue.depth()
    print("ready", flush=True)
    sys.stdin.readline()
    held = []
    while task := queue.dequeue():
        held.append(task)
    print(" ".join(str(task.uuid) for task in held), flush=True)
    sys.stdin.readline()
    for task in held:
        queue.ack(task)
    print("done", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--child", type=Path)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    folder = Path(tempfile.mkdtemp(prefix="orihon-claims-", dir=options.folder))
    try:
        measure(folder, options.tasks, options.workers)
    finally:
        shutil.rmtree(folder)


def measure(folder: Path, tasks: int, workers: int) -> None:
    queue = TaskQueue(folder, {})
    names = [queue.enqueue(TaskKey("cli", "", "", "task", str(number))) for number in range(tasks)]
    command = [sys.executable, "-m", "benchmarks.claims", "--child", str(folder)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(workers)
    ]
    _answers(children)
    started = time.perf_counter()
    _go(children)
    claimed = [name for line in _answers(children) for name in line.split()]
    claiming = time.perf_counter() - started
    _go(children)
    _answers(children)
    acknowledging = time.perf_counter() - started - claiming
    for process in children:
        process.communicate()
    twice = len(claimed) - len(set(claimed))
    assert sorted(claimed) == sorted(names)
    assert queue.catalogue.statistics.count_by_status() == {TaskStatus.COMPLETED: tasks}
    print(
        f"claims, {workers} workers, {tasks:,} tasks: {tasks / claiming:,.0f} a second (wanted: at least 300), "
        f"run twice: {twice}; acknowledged {tasks / acknowledging:,.0f} a second, each on disk"
    )


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def _go(children: list[subprocess.Popen[str]]) -> None:
    for process in children:
        _pipe(process.stdin).write("go\n")
        _pipe(process.stdin).flush()


def _answers(children: list[subprocess.Popen[str]]) -> list[str]:
    return [_pipe(process.stdout).readline() for process in children]


if __name__ == "__main__":
    main()
