"""Sending to a webhook in the background, from the outbox of a catalogue or from memory.

A sender's thread lives while there is something to send, and comes back by itself while a receiver does not answer. No
work ever waits for it, nor does a forked child, whose notices are its own. What an outbox holds and was not sent stays
for the next process; a program that ends gives it two seconds. Memory is for what has no catalogue: a short queue that
drops its oldest notice when it is full and that the interpreter's end does not wait for.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from functools import cache
from pathlib import Path

from orihon.catalogue.connect import catalogue_exists, open_catalogue
from orihon.errors import OrihonError
from orihon.notifications.webhook import Webhook, WebhookFailure, deliver
from orihon.settings import Settings
from orihon.store.locks import ForkSafeLock

logger = logging.getLogger("orihon.notifications")

QUEUE = 32  # notices in memory
PAUSES = (0.5, 2.0)  # seconds before each retry from memory
_LAST_SECONDS = 2.0  # of a program that ends
_FIRST_REST, _LONGEST_REST = 5.0, 300.0  # seconds, while a receiver does not answer


def send_soon(base_dir: Path, settings: Settings) -> None:
    """There may be something in the outbox; returns at once. Nothing happens without a webhook."""
    if settings.notifications.webhook is not None:
        _sender(base_dir, settings).wake()


def wait_until_sent(base_dir: Path, settings: Settings, timeout: float) -> bool:
    """Wait until everything that was in the outbox has been tried; ``False`` when that took too long."""
    if settings.notifications.webhook is None:
        return True
    return _sender(base_dir, settings).wait(timeout)


class WebhookSender(ABC):
    """One background thread at a time for one receiver."""

    def __init__(self, webhook: Webhook, name: str) -> None:
        self._webhook = webhook
        self._name = name
        self.renew()
        _prepare_process()
        _ALL.add(self)

    def renew(self) -> None:
        """As new: in a forked child the thread is gone, and what waited is the parent's."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._asked = self._served = 0

    def wake(self) -> None:
        """There is something to send; returns at once."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # no thread to be had, or the interpreter is about to end
                self._thread = None
                logger.info("webhook %s: notifications are not sent now: %s", self._webhook.shown, error)

    def wait(self, timeout: float) -> bool:
        """Until everything has been tried; ``False`` when that took too long."""
        with self._changed:
            wanted = self._asked
            self._changed.wait_for(lambda: self._served >= wanted or self._thread is None, timeout)
            return self._served >= wanted

    def _run(self) -> None:
        rest = _FIRST_REST
        while True:
            with self._changed:
                asked = self._asked
            is_done = self._send_all()
            rest = _FIRST_REST if is_done else min(2 * rest, _LONGEST_REST)
            with self._changed:
                self._served = asked
                if is_done and self._asked == asked:
                    self._thread = None
                self._changed.notify_all()
                if self._thread is None:
                    return
                if not is_done:
                    self._changed.wait_for(lambda: self._asked > asked, rest)  # noqa: B023 - waits here and now

    @abstractmethod
    def _send_all(self) -> bool:
        """Try everything once; is nothing left? Never raises."""


class OutboxSender(WebhookSender):
    """Sends from an outbox, through a catalogue of its own."""

    def __init__(self, base_dir: Path, settings: Settings) -> None:
        wanted = settings.notifications
        assert wanted.webhook is not None
        webhook = Webhook(wanted.webhook, wanted.webhook_secret, allow_metadata=wanted.allow_metadata)
        super().__init__(webhook, "orihon-notifications")
        self._base_dir, self._settings = base_dir, settings
        self._is_out = False

    def _send_all(self) -> bool:
        try:
            if not catalogue_exists(self._base_dir, self._settings):  # gone meanwhile: opening would make it anew
                return True
            with open_catalogue(self._base_dir, self._settings) as catalogue:
                found = deliver(catalogue, self._webhook)
        except OrihonError as error:  # the catalogue is away: whoever comes later sends them
            logger.warning("notifications were not sent: %s", error)
            return True
        except Exception:  # nobody would start this thread again, and whoever waits would wait for nothing
            logger.exception("notifications were not sent")
            return True
        failed = found.failed + found.given_up
        if failed or found.delivered or not found.waiting:  # who was not asked has not said anything
            self._log_outage(failed > 0, found.waiting)
        return not failed and not found.waiting

    def _log_outage(self, is_out: bool, waiting: int) -> None:
        """An outage once, and its end."""
        if is_out and not self._is_out:
            logger.warning("webhook %s does not take notifications; waiting: %d", self._webhook.shown, waiting)
        elif self._is_out and not is_out:
            logger.info("webhook %s takes notifications again", self._webhook.shown)
        self._is_out = is_out


class MemorySender(WebhookSender):
    """Sends from memory, for the task or part of the program that its log lines name."""

    def __init__(self, webhook: Webhook, owner: str) -> None:
        super().__init__(webhook, f"orihon-webhook-{owner}")
        self._owner = owner
        self._closed = False

    def renew(self) -> None:
        super().renew()
        self._waiting: deque[tuple[str, bytes]] = deque(maxlen=QUEUE)
        self._is_sending = False
        self._abandoned = threading.Event()
        self._lost_in_outage = 0

    def post(self, event: str, body: bytes) -> None:
        """Send it soon; never waits."""
        with self._changed:
            if self._closed:
                return
            is_full = len(self._waiting) == QUEUE
            self._waiting.append((event, body))
        if is_full:
            self._log(logging.WARNING, ": the queue is full, the oldest notification is dropped")
        self.wake()

    def close(self, timeout: float) -> bool:
        """Wait until every notice has been tried; nothing is posted afterwards."""
        with self._changed:
            self._closed = True
        self.wait(timeout)
        with self._changed:
            lost = len(self._waiting) + self._is_sending
            self._waiting.clear()
        self._abandoned.set()
        if lost:
            self._log(logging.WARNING, f": closed with {lost} notifications unsent")
        return not lost

    def _send_all(self) -> bool:
        while (notice := self._next()) is not None:
            failure = self._deliver(*notice)
            if failure is not None:
                self._lost_in_outage += 1
                if self._lost_in_outage == 1:
                    self._log(logging.WARNING, f": not delivered: {failure.reason}")
            elif self._lost_in_outage:
                self._log(logging.INFO, f" answers again; not delivered: {self._lost_in_outage}")
                self._lost_in_outage = 0
        return True

    def _next(self) -> tuple[str, bytes] | None:
        with self._changed:
            self._is_sending = bool(self._waiting)
            return self._waiting.popleft() if self._waiting else None

    def _deliver(self, event: str, body: bytes) -> WebhookFailure | None:
        failure = self._webhook.post(event, body)
        for pause in PAUSES:
            if failure is None or not failure.may_pass or self._abandoned.wait(pause):
                break
            failure = self._webhook.post(event, body)
        return failure

    def _log(self, level: int, what: str) -> None:
        logger.log(level, "%s: webhook %s%s", self._owner, self._webhook.shown, what)


_ALL: weakref.WeakSet[WebhookSender] = weakref.WeakSet()
_SENDERS: dict[tuple[object, ...], OutboxSender] = {}
_LOCK = ForkSafeLock()


def _sender(base_dir: Path, settings: Settings) -> OutboxSender:
    wanted, database = settings.notifications, settings.database
    key = (str(base_dir), database.url, database.schema, wanted.webhook, wanted.webhook_secret, wanted.allow_metadata)
    with _LOCK:
        if key not in _SENDERS:
            _SENDERS[key] = OutboxSender(base_dir, settings)
        return _SENDERS[key]


@cache
def _prepare_process() -> None:
    os.register_at_fork(after_in_child=_renew_all)
    atexit.register(_wait_for_outboxes)


def _renew_all() -> None:
    for sender in list(_ALL):
        sender.renew()


def _wait_for_outboxes() -> None:
    deadline = time.monotonic() + _LAST_SECONDS
    for sender in list(_SENDERS.values()):
        sender.wait(max(0.0, deadline - time.monotonic()))
