"""``Broker``: one connection to a message broker, through kombu.

A message is JSON, ``{"uuid": …}`` and nothing else: it says that a task may be in line, and the catalogue says whether
it is. RabbitMQ gets a durable quorum queue, persistent messages, confirms and heartbeats; Redis and SQS what kombu
makes of them. Promises that every call ends within seconds, that a connection which broke is opened again, and that
what cannot be read is dropped with a warning, never decoded by anything but JSON. Every trouble is a
``StorageUnavailable`` without secrets. Each thread has its own, and none goes through a fork (``ThreadConnections``).

``wake_workers``: notifies the workers that listen to a broker, from whoever has enqueued a task again.

Promises that a broker which is away, or not installed here, fails nothing: it is said in the log, and the workers find
the task in the catalogue by themselves, at most a ``queue.poll_interval`` later.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from orihon.drivers.broker_address import BrokerAddress
from orihon.errors import OrihonError
from orihon.settings import Settings
from orihon.system import jsonio

logger = logging.getLogger("orihon.broker")

_Result = TypeVar("_Result")

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0
HEARTBEAT = 60  # seconds; a connection that nobody used for most of it is opened anew
STALE_SECONDS = 45.0
#: After so long Redis and SQS deliver a message again that nobody acknowledged; we do it within moments.
VISIBILITY_SECONDS = 60
SQS_SECONDS = 1  # how long SQS waits for a message before it says that there is none: each question is paid for
_ASK_SECONDS = 0.1  # between two questions to a broker that cannot tell by itself
_RESTORE_SECONDS = 10.0
_AT_ONCE = 0.001  # zero would mean for ever


@dataclass(frozen=True, slots=True)
class BrokerDelivery:
    """A message that is ours until it is acknowledged."""

    uuid: str
    message: Any = field(repr=False)  # kombu's
    link: _Link = field(repr=False, compare=False)


class Broker:
    """The queue ``name`` at a broker. Connects when it is first needed, and again when the connection is gone."""

    def __init__(self, address: BrokerAddress, name: str) -> None:
        self._address = address
        self._name = name
        self._lock = threading.RLock()
        self._link: _Link | None = None
        self._last_use = 0.0

    def publish(self, uuid: str) -> None:
        """Say that a task may be in line; the broker has it when this returns. Saying it twice does no harm."""
        self._do(lambda link: link.publish(uuid))

    def wait(self, seconds: float) -> bool:
        """Wait for a message, at most so long; it is for the next ``get``."""
        return self._do(lambda link: link.wait(seconds))

    def get(self, timeout: float = 0.0) -> BrokerDelivery | None:
        """A message, to be acknowledged or rejected."""
        return self._do(lambda link: link.inbox.pop() if link.wait(timeout) else None)

    def ack(self, delivery: BrokerDelivery) -> None:
        """The message has done its work. When that cannot be said any more, it comes again, to somebody."""
        self._say(delivery.link, lambda: delivery.message.ack())

    def reject(self, delivery: BrokerDelivery) -> None:
        """Somebody shall get the message again."""
        self._say(delivery.link, lambda: delivery.message.requeue())

    def rest(self) -> None:
        """Nothing shall be sent here for a while; what came already goes to somebody else."""
        if self._link is not None:
            self._say(self._link, self._link.rest)

    def close(self) -> None:
        """End the connection; a later call opens it again."""
        with self._lock:
            link, self._link = self._link, None
            if link is not None:
                link.close()

    def close_if_idle(self, seconds: float) -> None:
        """End the connection if nobody has used it for so long. Callable from any thread."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            if time.monotonic() - self._last_use >= seconds:
                self.close()
        finally:
            self._lock.release()

    def __del__(self) -> None:
        if self._link is not None:  # its thread has ended
            self._link.drop()

    def _say(self, link: _Link, act: Callable[[], object]) -> None:
        """Act on this connection, if it is still there. Without it the broker does the same by itself."""
        with self._lock:
            if link is self._link:
                try:
                    act()
                except Exception:  # of many kinds, as in _do
                    logger.debug("%s: broken", self._address.shown, exc_info=True)
                    self._drop()

    def _do(self, act: Callable[[_Link], _Result]) -> _Result:
        """Act on the connection; on a new one if the one of before turns out to be dead."""
        with self._lock:
            self.close_if_idle(STALE_SECONDS)  # nobody has sent heartbeats: the broker has given it up, or will
            is_last = self._link is None
            while True:
                try:
                    if self._link is None:
                        self._link = open_link(self._address, self._name)
                    result = act(self._link)
                    self._last_use = time.monotonic()
                    return result
                except Exception as error:  # drivers raise whatever a broken connection makes them trip over
                    self._drop()
                    logger.debug("%s: broken", self._address.shown, exc_info=True)
                    if is_last:
                        raise self._address.trouble(error, self._name) from error
                    is_last = True

    def _drop(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.drop()


class _Link(ABC):
    """An open connection. What came and was not asked for yet is in ``inbox``."""

    def __init__(self, connection: Any, name: str, arguments: dict[str, Any]) -> None:
        self.inbox: list[BrokerDelivery] = []
        self._connection = connection
        with self._bounded():
            self._channel = connection.channel()
            self._queue = _kombu().Queue(name, durable=True, queue_arguments=arguments)(self._channel)
            self._queue.queue_declare()
        self._producer = _kombu().Producer(self._channel, serializer="json", auto_declare=False)

    def publish(self, uuid: str) -> None:
        with self._bounded():
            self._producer.publish(
                {"uuid": uuid}, exchange="", routing_key=self._queue.name, delivery_mode=2, timeout=ANSWER_SECONDS
            )

    @abstractmethod
    def wait(self, seconds: float) -> bool:
        """Has something come within the time? It is in ``inbox`` then."""

    def rest(self) -> None:
        while self.inbox:
            self.inbox.pop().message.requeue()

    def close(self) -> None:
        with suppress(Exception), self._bounded():  # a broker that is gone gives messages back by itself
            self.rest()
            self._connection.release()
        self.drop()

    def drop(self) -> None:
        """Without a word to a broker that may not answer."""
        with suppress(Exception):  # half of it may be gone already
            self._connection.collect()

    def _ask(self) -> None:
        """The first message that is in the queue this moment and can be read, into the inbox."""
        while not self.inbox and (message := self._first()) is not None:
            self._take(self._channel.message_to_python(message))

    def _first(self) -> Any:
        return self._channel.basic_get(queue=self._queue.name, no_ack=False)

    def _take(self, message: Any) -> None:
        """Into the inbox, if it is one of ours."""
        uuid = None if message.errors else _uuid_in(message.body)
        if uuid is None:
            self._warn()
            message.ack()
        else:
            self.inbox.append(BrokerDelivery(uuid, message, self))

    def _warn(self) -> None:
        logger.warning("a message in the queue %s that nobody can read is dropped", self._queue.name)

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        """Whatever is asked of the broker here is answered in time, or fails."""
        yield


class _RabbitLink(_Link):
    """RabbitMQ sends messages by itself, one at a time, while we listen."""

    def __init__(self, connection: Any, name: str) -> None:
        # Of kombu's ``connection`` it is the part that never connects again behind our back.
        self._amqp = connection.connection
        # A classic queue lives on one node and goes with it.
        super().__init__(connection, name, {"x-queue-type": "quorum"})
        with self._bounded():
            self._channel.basic_qos(0, 1, False)
        self._consumer = _kombu().Consumer(self._channel, [self._queue], on_message=self._take, auto_declare=False)
        self._is_listening = False

    def wait(self, seconds: float) -> bool:
        with self._bounded():
            if seconds <= 0 and not self._is_listening and not self.inbox:
                self._ask()
            elif not self.inbox:
                self._listen(max(seconds, _AT_ONCE))
            return bool(self.inbox)

    def rest(self) -> None:
        with self._bounded():
            self._stop_listening()
            super().rest()

    def _listen(self, seconds: float) -> None:
        if not self._is_listening:
            self._consumer.consume()
            self._is_listening = True
        self._amqp.heartbeat_tick()
        with suppress(TimeoutError):
            self._amqp.drain_events(timeout=seconds)
        if self.inbox:
            # Before this one is acknowledged, since the next would come then, to somebody who is busy.
            self._stop_listening()

    def _stop_listening(self) -> None:
        if self._is_listening:
            self._is_listening = False
            self._consumer.cancel()

    @contextmanager
    def _bounded(self) -> Iterator[None]:
        # py-amqp waits for answers for ever; its own ``read_timeout`` only makes it try again.
        with self._amqp.transport.having_timeout(ANSWER_SECONDS):
            yield


class _AskingLink(_Link):
    """Redis and SQS are asked. Not by kombu's consumer: a BRPOP that is under way takes a message to a busy worker."""

    def __init__(self, connection: Any, name: str) -> None:
        super().__init__(connection, name, {})
        self._channel.do_restore = False  # at its end, with a print; ``rest`` does it
        self._next_restore = 0.0

    def wait(self, seconds: float) -> bool:
        give_up = time.monotonic() + seconds
        while not self.inbox:
            self._ask()
            left = give_up - time.monotonic()
            if self.inbox or left <= 0:
                break
            time.sleep(min(left, _ASK_SECONDS))
        return bool(self.inbox)

    def _ask(self) -> None:
        self._restore()
        super()._ask()

    def _first(self) -> Any:
        while True:
            try:
                return super()._first()
            except (ValueError, KeyError, TypeError):  # not from kombu; taken off the queue all the same
                self._warn()

    def _restore(self) -> None:
        """Redis: what was delivered to somebody who died is put back, now and then. SQS does it by itself."""
        restore = getattr(self._channel.qos, "restore_visible", None)
        if restore is not None and time.monotonic() >= self._next_restore:
            self._next_restore = time.monotonic() + _RESTORE_SECONDS
            restore(interval=1)


def open_link(address: BrokerAddress, name: str) -> _Link:
    """Connect, and declare the queue."""
    connection = _kombu().Connection(
        address.url,
        connect_timeout=CONNECT_SECONDS,
        heartbeat=HEARTBEAT if address.is_rabbitmq else 0,
        transport_options=_options(address, name),
    )
    try:
        # Each address once; kombu's own way would wait two seconds and try again.
        connection.ensure_connection(
            max_retries=address.url.count(";"), interval_start=0, interval_step=0, reraise_as_library_errors=False
        )
        return _RabbitLink(connection, name) if address.is_rabbitmq else _AskingLink(connection, name)
    except BaseException:
        with suppress(Exception):  # what was opened goes with it
            connection.collect()
        raise


def _kombu() -> Any:
    """Untyped, and loaded when somebody has a broker."""
    return import_module("kombu")


def _options(address: BrokerAddress, name: str) -> dict[str, Any]:
    if address.is_rabbitmq:
        return {"confirm_publish": True}
    if address.scheme == "sqs":
        return {
            "wait_time_seconds": SQS_SECONDS,
            "visibility_timeout": VISIBILITY_SECONDS,
            "is_secure": address.is_secure,
            "client-config": {
                "connect_timeout": CONNECT_SECONDS,
                "read_timeout": ANSWER_SECONDS,
                "retries": {"total_max_attempts": 1},
            },
        }
    return {
        "socket_connect_timeout": CONNECT_SECONDS,
        "socket_timeout": ANSWER_SECONDS,
        "socket_keepalive": True,
        "visibility_timeout": VISIBILITY_SECONDS,
        "priority_steps": [0],
        # Of our own: with kombu's names we would put back what other programs work on.
        "unacked_key": f"{name}.unacked",
        "unacked_index_key": f"{name}.unacked_index",
        "unacked_mutex_key": f"{name}.unacked_mutex",
    }


def _uuid_in(body: Any) -> str | None:
    try:
        content = jsonio.decode(body.encode() if isinstance(body, str) else bytes(body))
    except (ValueError, TypeError):
        return None
    uuid = content.get("uuid") if isinstance(content, dict) else None
    return uuid if isinstance(uuid, str) and len(content) == 1 else None


def wake_workers(settings: Settings, uuid: str) -> None:
    """Say at the broker, if there is one, that a task may be in line."""
    if settings.queue.url is None:
        return
    try:
        address = BrokerAddress.of(settings.queue.url)
        address.require_packages()
        with closing(Broker(address, settings.queue.name)) as broker:
            broker.publish(uuid)
    except OrihonError as error:
        logger.warning("%s: %s", uuid, error)
