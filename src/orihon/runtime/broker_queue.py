"""The queue with a broker in front: messages wake workers and spread the load, and the catalogue decides.

A task is written into the catalogue first and announced at the broker afterwards. A delivery is only a hint: the claim
in the catalogue says whether there is anything to do, so one that comes twice, late, or for a task that nobody knows
does no harm. Every ``poll_interval``, whenever no message is there, and always while the broker is away, the catalogue
is asked itself: a message that was lost costs at most that time. A worker that is due at each of its tasks takes every
other one from a message: nobody would use them up otherwise. Promises that a broker which is away never fails anything;
it is said once, and tried again after pauses that grow. Messages come in the order of their sending: a task with a
higher priority goes first only where the catalogue is asked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from orihon.catalogue import TaskRow, WorkerStatistics
from orihon.drivers.broker import Broker, BrokerDelivery
from orihon.drivers.broker_address import BrokerAddress
from orihon.drivers.connections import ThreadConnections
from orihon.errors import InvalidSettings, StorageUnavailable
from orihon.runtime.queue import QueuedTask, QueueLimits, TaskQueue
from orihon.settings import Settings, load_settings
from orihon.tasks.base import OpenBase
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.queue")

_Result = TypeVar("_Result")

_SLICE_SECONDS = 0.25  # a wait is broken up, so that its end is seen
_MOST_STALE = 100  # deliveries with nothing behind them, before the catalogue is asked
_IDLE_SECONDS = 20.0  # a worker with a long task needs no connection meanwhile


def open_queue(
    base_dir: OpenBase | Path | str | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    *,
    limits: QueueLimits | None = None,
    owner: str | None = None,
) -> TaskQueue:
    """The queue of a base folder; with the broker that ``queue.url`` names, if it names one."""
    loaded = base_dir.settings if isinstance(base_dir, OpenBase) else load_settings(settings)
    kind: type[TaskQueue] = TaskQueue
    if loaded.queue.url is not None:
        kind = RabbitMQTaskQueue if BrokerAddress.of(loaded.queue.url).is_rabbitmq else BrokerTaskQueue
    return kind(base_dir, loaded, limits=limits, owner=owner)


class BrokerTaskQueue(TaskQueue):
    """The queue of one base folder, announced at the broker of ``queue.url``."""

    def __init__(
        self,
        base_dir: OpenBase | Path | str | None = None,
        settings: Mapping[str, Any] | Settings | None = None,
        *,
        limits: QueueLimits | None = None,
        owner: str | None = None,
    ) -> None:
        loaded = load_settings(settings)
        if loaded.queue.url is None:
            raise InvalidSettings("broker_missing")
        address = BrokerAddress.of(loaded.queue.url)
        address.require_packages()
        super().__init__(base_dir, loaded, limits=limits, owner=owner)
        self._outage = Outage(address.shown)
        self._made: WeakSet[Broker] = WeakSet()
        self._brokers = ThreadConnections(partial(_new_broker, address, loaded.queue.name, self._made))
        self._next_poll = 0.0
        self._is_turn_of_messages = False  # the last task came without one

    def close(self) -> None:
        """Close the connections; a later call opens again."""
        self._brokers.close()
        super().close()

    # ---- in --------------------------------------------------------------------------------------------------------

    def resume(self, uuid: str) -> TaskRow:
        """Let the next worker go on with a task that was paused or held back."""
        row = super().resume(uuid)
        if row.status in (TaskStatus.QUEUED, TaskStatus.PAUSED):
            self._announce(row.uuid)
        return row

    def retry(self, uuid: str) -> TaskRow:
        """Put a failed, cancelled or dead task in line again, with all its attempts and limits before it."""
        row = super().retry(uuid)
        self._announce(row.uuid)
        return row

    def ack(self, task: QueuedTask, *, stopped: bool = False) -> TaskStatus:
        """The work on a task is over, for now (``stopped``) or for good; returns what has become of it."""
        status = super().ack(task, stopped=stopped)
        if status is TaskStatus.PAUSED:
            found = self.catalogue.queue.requested(task.lease.uuid)
            if found is not None and found.requested == "resume":  # this worker ends; somebody else may go on at once
                self._announce(task.lease.uuid)
        return status

    def _announce(self, uuid: str) -> None:
        self._at_broker(lambda broker: broker.publish(uuid))

    # ---- out -------------------------------------------------------------------------------------------------------

    def get(self, timeout: float = 10.0) -> QueuedTask | None:
        """The next task, held by a lease from now on; waits for one at most so long."""
        give_up, never = time.monotonic() + timeout, threading.Event()
        while (task := self.dequeue()) is None and (left := give_up - time.monotonic()) > 0:
            self.wait(min(left, self.limits.poll_interval), never)
        return task

    def dequeue(self, *, worker: WorkerStatistics | None = None) -> QueuedTask | None:
        """The next task, held by a lease from now on; ``None`` when there is none to be had."""
        is_due = time.monotonic() >= self._next_poll
        # With tasks that take longer than the interval it is always due, and messages would pile up for ever.
        task = self._delivered(worker) if self._is_turn_of_messages or not is_due else None
        self._is_turn_of_messages = False
        if task is None:
            self._next_poll = time.monotonic() + self.limits.poll_interval
            task = super().dequeue(worker=worker)
            self._is_turn_of_messages = task is not None
        if task is not None:
            with self._brokers.use() as broker:
                broker.rest()
        return task

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait until there may be a task, at most so long; not any longer when ``stop`` is set."""
        give_up = time.monotonic() + seconds
        while (left := give_up - time.monotonic()) > 0 and not stop.is_set():
            slice_seconds = min(left, _SLICE_SECONDS)
            has_message = self._at_broker(partial(Broker.wait, seconds=slice_seconds))
            if has_message:
                return
            if has_message is None:  # the broker is away
                self.catalogue.queue.wait(min(left, max(self._outage.pause_left, 0.01)), stop)

    def renew(self, task: QueuedTask) -> None:
        """Go on holding a task; ``StaleWriter`` when another worker has it."""
        super().renew(task)
        for broker in list(self._made):
            broker.close_if_idle(_IDLE_SECONDS)

    def _delivered(self, worker: WorkerStatistics | None) -> QueuedTask | None:
        """The first task that a message names and that is to be had."""
        for _ in range(_MOST_STALE):
            delivery = self._at_broker(Broker.get)
            if delivery is None:
                break
            task = self._claimed(delivery, worker)
            if task is not None:
                return task
        return None

    def _claimed(self, delivery: BrokerDelivery, worker: WorkerStatistics | None) -> QueuedTask | None:
        try:
            claimed = self.catalogue.queue.claim(
                delivery.uuid,
                self._new_owner(),
                self.settings.context_storage.lease_seconds,
                limits=self.limits.claims(),
                worker=worker,
            )
        except BaseException:
            with self._brokers.use() as broker:
                broker.reject(delivery)
            raise
        # Now, and not at the end of the task: RabbitMQ closes channels on which a delivery was not acknowledged for
        # 30 minutes, and from here on the lease protects the work. What is not claimed has nothing behind it.
        with self._brokers.use() as broker:
            broker.ack(delivery)
        return None if claimed is None else self._taken(*claimed)

    def _at_broker(self, act: Callable[[Broker], _Result]) -> _Result | None:
        """Act at the broker; ``None``, and nothing happens, while it is away."""
        if self._outage.pause_left > 0:
            return None
        try:
            with self._brokers.use() as broker:
                result = act(broker)
        except StorageUnavailable as error:
            self._outage.note(error)
            return None
        self._outage.end()
        return result


class RabbitMQTaskQueue(BrokerTaskQueue):
    """The queue with RabbitMQ in front: a quorum queue, confirms, one acknowledgement for each message.

    ``RabbitMQTaskQueue(config)`` works too.
    """

    def __init__(
        self,
        base_dir: Path | str | Mapping[str, Any] | Settings | None = None,
        settings: Mapping[str, Any] | Settings | None = None,
        *,
        limits: QueueLimits | None = None,
        owner: str | None = None,
    ) -> None:
        if isinstance(base_dir, Mapping | Settings):
            base_dir, settings = None, base_dir
        loaded = load_settings(settings)
        if loaded.queue.url is None or not BrokerAddress.of(loaded.queue.url).is_rabbitmq:
            raise InvalidSettings("broker_rabbitmq")
        super().__init__(base_dir, loaded, limits=limits, owner=owner)


class Outage:
    """Whether the broker is away, since when, and when it is tried again. For all threads of a process."""

    _SHORTEST, _LONGEST = 0.5, 30.0  # seconds

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._lock = threading.Lock()
        self._pause = 0.0
        self._try_at = 0.0

    @property
    def pause_left(self) -> float:
        """Seconds until somebody may try again; nothing while all is well."""
        return self._try_at - time.monotonic() if self._pause else 0.0

    def note(self, error: StorageUnavailable) -> None:
        """It could not be reached: once more, or for the first time."""
        with self._lock:
            is_new = not self._pause
            self._pause = min(max(self._pause * 2, self._SHORTEST), self._LONGEST)
            self._try_at = time.monotonic() + self._pause
        if is_new:
            level = logging.WARNING if error.reason == "broker_away" else logging.ERROR  # somebody has to act
            logger.log(level, "%s", error)

    def end(self) -> None:
        """It answers."""
        if not self._pause:
            return
        with self._lock:
            was_away, self._pause = self._pause > 0, 0.0
        if was_away:
            logger.warning("the broker at %s is back", self._shown)


def _new_broker(address: BrokerAddress, name: str, made: WeakSet[Broker]) -> Broker:
    """Without a reference to the queue, so that a forgotten one closes at once."""
    broker = Broker(address, name)
    made.add(broker)
    return broker
