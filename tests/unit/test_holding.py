"""A worker whose catalogue does not answer: the time is measured all the same."""

from __future__ import annotations

import threading
from pathlib import Path

from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.runtime.worker import Holding
from orihon.values.task import TaskKey


def test_a_renewal_that_hangs_does_not_keep_the_end_of_time(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path, limits=QueueLimits(drain_seconds=0.2), owner="worker-1")
    queue.enqueue(TaskKey("cli", "o", "r", "issue", "1").as_dict(), "hanako")
    task = queue.dequeue()
    assert task is not None
    hangs, goes_on, is_overdue = threading.Event(), threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        goes_on.wait(120)

    holding = Holding(
        queue,
        task,
        is_draining=lambda: False,
        on_beat=hang,
        on_overdue=is_overdue.set,
        heartbeat=0.05,
        timeout=0.2,
    )
    assert hangs.wait(60)
    assert is_overdue.wait(60)
    goes_on.set()
    holding.close()
    queue.close()
