"""While a worker holds a task: the lease is renewed, the time is measured, and requests are polled.

``should_stop`` is what the handler asks between two steps. Once it has said yes it goes on saying so, and ``reason``
says why: ``drain`` (the worker is to end), ``pause`` or ``cancel`` (somebody wants it), ``timeout``, or ``lost``
(another worker has the task). Before a handler is told of a drain, the row says that the task shall go on: a worker
that dies while it pauses leaves it queued. Who renews may have to wait for a server; who measures the time never does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from orihon.errors import StateError, StorageError
from orihon.runtime.queue import QueuedTask, TaskQueue
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.worker")

_LOOK_SECONDS = 0.1  # a handler may ask at every word of an answer
_LAST_BEAT_SECONDS = 5.0  # a renewal that comes later is refused, since the lease is released


class Holding:
    """One task in the hands of one worker. Close it when the work is over."""

    def __init__(
        self,
        queue: TaskQueue,
        task: QueuedTask,
        *,
        is_draining: Callable[[], bool],
        on_beat: Callable[[], object],
        on_overdue: Callable[[], object],
        heartbeat: float,
        timeout: float,
    ) -> None:
        """``on_beat`` is called, in another thread, with each renewal of the lease; ``on_overdue`` when the handler
        does not stop long after its time is up.
        """
        self.reason: str | None = None
        self._queue = queue
        self._task = task
        self._is_draining = is_draining
        self._on_beat = on_beat
        self._on_overdue = on_overdue
        self._heartbeat = heartbeat
        self._deadline = time.monotonic() + timeout
        self._next_look = 0.0
        self._is_lost = False
        self._closed = threading.Event()
        self._beating = threading.Thread(target=self._beat_on, name=f"orihon-holding-{task.uuid}", daemon=True)
        self._watching = threading.Thread(target=self._poll_all, name=f"orihon-overdue-{task.uuid}", daemon=True)
        self._beating.start()
        self._watching.start()

    def should_stop(self) -> bool:
        """Shall the handler finish its step, pause the task and return?"""
        if self.reason is None:
            self.reason = self._poll()
            if self.reason is not None:
                logger.info("%s: is to stop: %s", self._task.uuid, self.reason)
        return self.reason is not None

    def close(self) -> None:
        """The work is over: nothing is renewed any more."""
        self._closed.set()
        self._watching.join()
        self._beating.join(_LAST_BEAT_SECONDS)

    def _poll(self) -> str | None:
        if self._is_lost:
            return "lost"
        if time.monotonic() >= self._deadline:
            return "timeout"
        if self._is_draining():
            return self._requested() or self._leave_in_line()
        if time.monotonic() < self._next_look:
            return None
        self._next_look = time.monotonic() + _LOOK_SECONDS
        return self._requested()

    def _requested(self) -> str | None:
        lease = self._task.lease
        found = self._queue.catalogue.queue.requested(lease.uuid)
        if found is None or (found.epoch > lease.epoch and found.lease_owner != lease.owner):
            return "lost"
        return found.requested if found.requested in ("pause", "cancel") else None

    def _leave_in_line(self) -> str:
        # What somebody else wants of the task, even this moment, counts more.
        self._queue.catalogue.queue.request(self._task.lease.uuid, "resume", TaskStatus.RUNNING, over=False)
        return "drain"

    def _poll_all(self) -> None:
        overdue = self._deadline + self._queue.limits.drain_seconds
        if not self._closed.wait(max(0.0, overdue - time.monotonic())):
            self._on_overdue()

    def _beat_on(self) -> None:
        while not self._closed.wait(self._heartbeat):
            if not self._is_lost:
                self._beat()

    def _beat(self) -> None:
        try:
            self._queue.renew(self._task)
            if not self._closed.is_set():
                self._on_beat()
        except StateError as error:
            if error.reason != "released":  # the handler has ended the task itself
                self._is_lost = True
                logger.warning("%s: lost to another worker: %s", self._task.uuid, error)
        except StorageError as error:
            logger.warning("%s: the lease could not be renewed: %s", self._task.uuid, error)
