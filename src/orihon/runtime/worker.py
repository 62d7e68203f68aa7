"""``WorkerProcess``: claim a task, hand it to the handler, say what became of it; again, until told to stop.

The first SIGTERM or SIGINT drains: the handler finishes its step, the task is paused and stays in line, the lease is
released. The second ends the process at once; the next worker takes the task over. A handler that does not return long
after ``process_timeout`` takes the process with it, since a thread cannot be ended. An error of one task never ends the
worker. A worker whose task was taken over lets go of it without a word to the catalogue.

``should_stop`` is what the handler asks between two steps. Once it has said yes it goes on saying so, and ``reason``
says why: ``drain`` (the worker is to end), ``pause`` or ``cancel`` (somebody wants it), ``timeout``, or ``lost``
(another worker has the task). Before a handler is told of a drain, the row says that the task shall go on: a worker
that dies while it pauses leaves it queued. Who renews may have to wait for a server; who measures the time never does.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orihon.catalogue import WorkerStatistics
from orihon.catalogue.queue import TELL
from orihon.errors import DamagedStore, OrihonError, StaleWriter, StateError, StorageError, StorageUnavailable, Waiting
from orihon.guard.logs import enter_task, leave_task
from orihon.notifications.sender import send_soon
from orihon.runtime.broker_queue import open_queue
from orihon.runtime.handlers import DEFAULT_HANDLER, Handler, Handlers, is_final
from orihon.runtime.queue import QueuedTask, QueueLimits, TaskQueue
from orihon.search import catch_up
from orihon.settings import Settings, load_settings
from orihon.system.clock import process_identity
from orihon.tasks.approvals.answers import sweep
from orihon.texts import text
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


EXIT_OVERDUE = 75
_SHORTEST_NAP = 0.02
_TELL_AGAIN = 30.0  # seconds
_SWEEP_SECONDS = 5.0
_SENDING_SECONDS = 5.0
_READ_AGAIN, _READING_SECONDS = 10.0, 0.5
_LAST_WORD_SECONDS = 10.0


class WorkerProcess:
    """One worker. ``run`` returns when it has been drained, or with ``until_empty`` when the queue is."""

    def __init__(
        self,
        worker_id: int | str,
        config: Mapping[str, Any] | Settings | None = None,
        *,
        base_dir: Path | str | None = None,
        handler: str | Handler = DEFAULT_HANDLER,
        limits: QueueLimits | None = None,
        until_empty: bool = False,
        queue: TaskQueue | None = None,
    ) -> None:
        """A ``queue`` that is given stays open in the end."""
        self.worker_id = str(worker_id)
        self.settings = load_settings(config)
        me = process_identity()
        self.name = f"worker-{self.worker_id}@{me.host}:{me.pid}"
        self.queue = queue or open_queue(base_dir, self.settings, limits=limits, owner=self.name)
        self._is_own_queue = queue is None
        self.figures = WorkerStatistics(self.name)
        self._handlers = Handlers(handler, self.settings, self.queue.base_dir)
        self._until_empty = until_empty
        self._draining = threading.Event()
        self._next_note = 0.0
        self._next_telling = 0.0
        self._next_sweep = 0.0
        self._next_reading = 0.0
        self._next_sending = 0.0

    @property
    def should_stop(self) -> bool:
        """Has the worker been told to end?"""
        return self._draining.is_set()

    def stop(self) -> None:
        """Finish the step at hand and end."""
        self._draining.set()

    def check(self) -> None:
        """Refuse what no task can be worked on with, before one is claimed."""
        self._handlers.check()

    def run(self) -> None:
        """Work until told to stop."""
        self.check()
        previous = self._listen()
        self.queue.catalogue.workers.add(self.name, self.worker_id)
        logger.info("%s: begins", self.name)
        try:
            self._loop()
        finally:
            self._handlers.close()
            self._note("stopped")
            logger.info("%s: ends after %d tasks", self.name, self.figures.processed)
            if self._is_own_queue:
                self.queue.close()
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _listen(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {number: signal.signal(number, self._on_signal) for number in (signal.SIGTERM, signal.SIGINT)}

    def _on_signal(self, number: int, _frame: object) -> None:
        if self._draining.is_set():
            os._exit(128 + number)
        self._draining.set()

    def _loop(self) -> None:
        nap = _SHORTEST_NAP
        while not self._draining.is_set():
            task = self._next()
            if task is not None:
                self._work(task)
            self._report_ends()
            self._process_waiting()
            self._send_notifications()
            if task is not None:
                nap = _SHORTEST_NAP
                continue
            if self._until_empty and self._is_empty():
                return
            if nap == _SHORTEST_NAP or time.monotonic() >= self._next_note:
                self._note("idle")
            if nap >= self.queue.limits.poll_interval:
                self._read_for_search()
            self.queue.wait(nap, self._draining)
            nap = min(nap * 2, self.queue.limits.poll_interval)

    def _is_empty(self) -> bool:
        try:
            return self.queue.is_empty()
        except StorageUnavailable as error:  # not known, and so not a reason to end
            logger.warning("%s: %s", self.name, error)
            return False

    def _report_ends(self) -> None:
        """Tell sources of tasks that ended in nobody's hands: cancelled while they waited, too slow, too deadly."""
        if time.monotonic() < self._next_telling:
            return
        try:
            rows = self.queue.catalogue.queue.untold_ends()
        except StorageUnavailable as error:
            logger.warning("%s: %s", self.name, error)
            return
        for row in rows:
            try:
                if self._handlers.tell_end(row):
                    self.queue.catalogue.queue.request(row.uuid, None, row.status, over=False, instead_of=TELL)
            except Exception as error:  # the others may be luckier
                self._next_telling = time.monotonic() + _TELL_AGAIN
                logger.warning("%s: its source could not be notified: %s", row.uuid, _described(error))
                logger.debug("%s: why", row.uuid, exc_info=True)

    def _process_waiting(self) -> None:
        """Tasks that wait for people: time limits, reminders, and answers whose giver has died on the way."""
        if time.monotonic() < self._next_sweep:
            return
        self._next_sweep = time.monotonic() + _SWEEP_SECONDS
        try:
            for uuid in sweep(self.queue.base).to_cancel:
                self.queue.cancel(uuid)
        except OrihonError as error:  # looked after again soon
            logger.warning("%s: %s", self.name, error)

    def _send_notifications(self) -> None:
        """What this process or another one has left in the outbox; in the background."""
        if time.monotonic() < self._next_sending:
            return
        self._next_sending = time.monotonic() + _SENDING_SECONDS
        try:
            send_soon(self.queue.base_dir, self.settings)
        except OrihonError as error:  # an address that is none
            logger.warning("%s: %s", self.name, error)

    def _read_for_search(self) -> None:
        """Read what is new into the index of the history search, for a moment: nobody has to wait for that later."""
        if not self.settings.search.idle or time.monotonic() < self._next_reading:
            return
        self._next_reading = time.monotonic() + _READ_AGAIN
        try:
            if not catch_up(self.queue.base, seconds=_READING_SECONDS):
                self._next_reading = 0.0
        except OrihonError as error:  # whoever searches is told
            logger.info("%s: %s", self.name, error)

    def _note(self, state: str, task: str | None = None) -> None:
        """Say what this worker does; often enough that who cannot see the process knows that it is alive."""
        self._next_note = time.monotonic() + self.settings.multiprocess.heartbeat_interval
        try:
            self.queue.catalogue.workers.note(self.figures, state, task)
        except StorageUnavailable as error:
            logger.warning("%s: %s", self.name, error)

    def _next(self) -> QueuedTask | None:
        try:
            return self.queue.dequeue(worker=self.figures)
        except StorageUnavailable as error:
            logger.warning("%s: no task could be claimed: %s", self.name, error)
            self._draining.wait(self.queue.limits.poll_interval)
            return None

    # ---- one task --------------------------------------------------------------------------------------------------

    def _work(self, task: QueuedTask) -> None:
        enter_task(task.lease.uuid)
        holding = Holding(
            self.queue,
            task,
            is_draining=self._draining.is_set,
            on_beat=lambda: self._note("draining" if self.should_stop else "working", task.lease.uuid),
            on_overdue=lambda: self._end_overdue(task),
            heartbeat=self.settings.multiprocess.heartbeat_interval,
            timeout=self.settings.multiprocess.process_timeout,
        )
        started = time.monotonic()
        try:
            status = self._outcome(task, holding)
        except StaleWriter as error:
            logger.warning("%s: let go: %s", task.uuid, error)
            status = None
        except OrihonError as error:  # what became of the task could not be written, or its folder not be moved
            logger.error("%s: %s", task.uuid, error)
            status = None
        finally:
            holding.close()
            leave_task(task.lease.uuid)
        self._count(status)
        logger.info("%s: %s after %.1f s", task.uuid, status and status.value, time.monotonic() - started)

    def _outcome(self, task: QueuedTask, holding: Holding) -> TaskStatus | None:
        try:
            self._handlers.of(task).handle(task, holding.should_stop)
        except StaleWriter:
            raise
        except Waiting as waiting:  # neither done nor failed: this worker is free for others
            logger.info("%s: %s", task.uuid, waiting)
            return self._let_wait(task)
        except (Exception, SystemExit) as error:
            if isinstance(error, StorageUnavailable) and error.reason == "elsewhere":
                self.queue.give_back(task, error)
                return None
            if isinstance(error, DamagedStore) and error.reason == "two_folders":
                return self.queue.set_down(task, error)
            logger.debug("%s: failed", task.uuid, exc_info=True)
            return self.queue.nack(task, _described(error), retry=not is_final(error))
        if holding.reason == "timeout":
            return self.queue.nack(task, self._timeout_text(), retry=False)
        return self.queue.ack(task, stopped=holding.reason is not None)

    def _let_wait(self, task: QueuedTask) -> TaskStatus | None:
        """Somebody may have answered by now, and another worker have the task: the claim is no attempt all the same."""
        try:
            return self.queue.ack(task, stopped=True)
        except StaleWriter:
            self.queue.catalogue.queue.forgive_attempt(task.lease.uuid)
            return None

    def _count(self, status: TaskStatus | None) -> None:
        done = status is TaskStatus.COMPLETED
        failed = status in (TaskStatus.FAILED, TaskStatus.DEAD, TaskStatus.QUEUED)
        self.figures = WorkerStatistics(self.name, self.figures.processed + done, self.figures.failed + failed)

    def _end_overdue(self, task: QueuedTask) -> None:
        """The handler has not stopped: the task is failed, and the process ends with the handler in it."""
        try:
            # In a thread of its own: a server that says nothing must not keep the process.
            failing = threading.Thread(target=self._fail_overdue, args=(task,), daemon=True)
            failing.start()
            failing.join(_LAST_WORD_SECONDS)
        finally:
            logger.error("%s: does not stop, and %s ends with it", task.uuid, self.name)
            os._exit(EXIT_OVERDUE)

    def _fail_overdue(self, task: QueuedTask) -> None:
        try:
            self.queue.nack(task, self._timeout_text(), retry=False)
        except OrihonError as error:
            logger.warning("%s: %s", task.uuid, error)

    def _timeout_text(self) -> str:
        return text("queue.timeout", seconds=self.settings.multiprocess.process_timeout)


def _described(error: BaseException) -> str:
    return str(error) if isinstance(error, OrihonError) else f"{type(error).__name__}: {error}"
