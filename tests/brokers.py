"""A queue of a test's own at a real broker, seen as somebody else's program sees it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

import pytest

kombu: Any = import_module("kombu")  # untyped

BROKERS = ("rabbitmq", "redis")
_QUESTIONS = 8


@dataclass(frozen=True, slots=True)
class OwnQueue:
    """A queue that nobody else uses, and that is gone afterwards."""

    url: str
    name: str

    @property
    def config(self) -> dict[str, Any]:
        """Settings that name it."""
        return self.at(self.url)

    def at(self, url: str) -> dict[str, Any]:
        """Settings that name it at another address."""
        return {"queue": {"url": url, "name": self.name}}

    @property
    def is_redis(self) -> bool:
        return urlsplit(self.url).scheme == "redis"

    def send(self, body: Any, **options: Any) -> None:
        """Put anything into the queue."""
        # Without a confirmation whoever asks next could be faster.
        confirmed = {} if self.is_redis else {"confirm_publish": True}
        with kombu.Connection(self.url, transport_options=confirmed) as connection:
            connection.Producer().publish(body, exchange="", routing_key=self.name, **options)

    def size(self) -> int:
        """How many messages wait."""
        if self.is_redis:
            return self._ask_redis("llen", self.name)
        with kombu.Connection(self.url) as connection:
            channel = connection.channel()
            # RabbitMQ says that there are none when its queue has not told it within a quarter of a second.
            counts = (int(channel.queue_declare(self.name, passive=True).message_count) for _ in range(_QUESTIONS))
            return next((count for count in counts if count), 0)

    def take(self) -> tuple[Any, dict[str, Any]]:
        """One message: its content as the broker has it, and its properties."""
        with kombu.Connection(self.url) as connection:
            message = kombu.Queue(self.name)(connection.channel()).get(no_ack=True, accept=["json"])
            assert message is not None
            return message.payload, message.properties

    def delete(self) -> None:
        if self.is_redis:
            client = _redis(self.url)
            client.delete(*client.scan_iter(f"{self.name}*"), f"{self.name}")
            client.close()
        else:
            with kombu.Connection(self.url) as connection:
                connection.channel().queue_delete(self.name)

    def unacknowledged(self) -> int:
        """Messages that Redis has delivered and not yet forgotten."""
        return self._ask_redis("hlen", f"{self.name}.unacked")

    def push_raw(self, item: bytes) -> None:
        """Into Redis without kombu's envelope."""
        self._ask_redis("lpush", self.name, item)

    def _ask_redis(self, command: str, *arguments: Any) -> int:
        client = _redis(self.url)
        try:
            return int(getattr(client, command)(*arguments))
        finally:
            client.close()


def _redis(url: str) -> Any:
    return import_module("redis").Redis.from_url(url)


def own_queue(url: str) -> Iterator[OwnQueue]:
    queue = OwnQueue(url, f"orihon_test_{secrets.token_hex(6)}")
    yield queue
    queue.delete()


def said(caplog: pytest.LogCaptureFixture, *levels: int) -> list[str]:
    """What the queue and the broker have logged at these levels."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name in ("orihon.queue", "orihon.broker") and record.levelno in (levels or (logging.WARNING,))
    ]
