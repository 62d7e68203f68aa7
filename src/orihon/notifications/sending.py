"""Sending in the background: one thread for each catalogue and webhook of a process.

The thread lives while there is something to send, and comes back by itself while a receiver does not answer. It uses a
catalogue of its own. Promises that the work never waits for it, nor does a forked child; a program that ends gives it
two seconds. What it has not sent stays in the outbox for the next process.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from functools import cache
from pathlib import Path

from orihon.catalogue.connect import catalogue_exists, open_catalogue
from orihon.errors import OrihonError
from orihon.notifications.delivery import deliver
from orihon.notifications.webhook import Webhook
from orihon.settings import Settings
from orihon.store.locks import ForkSafeLock

logger = logging.getLogger("orihon.notifications")

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


class _Sender:
    def __init__(self, base_dir: Path, settings: Settings) -> None:
        self._base_dir, self._settings = base_dir, settings
        wanted = settings.notifications
        assert wanted.webhook is not None
        self._webhook = Webhook(wanted.webhook, wanted.webhook_secret, allow_metadata=wanted.allow_metadata)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._asked = self._served = 0
        self._is_out = False

    def wake(self) -> None:
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._run, name="orihon-notifications", daemon=True)
            try:
                self._thread.start()
            except RuntimeError as error:  # no thread to be had, or the interpreter is about to end
                self._thread = None
                logger.info("notifications are left to the next process: %s", error)

    def wait(self, timeout: float) -> bool:
        with self._changed:
            wanted = self._asked
            self._changed.wait_for(lambda: self._served >= wanted or self._thread is None, timeout)
            return self._served >= wanted

    def _run(self) -> None:
        rest = _FIRST_REST
        while True:
            with self._changed:
                asked = self._asked
            is_done = self._pass()
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

    def _pass(self) -> bool:
        """Once through the outbox; is nothing left in it, not even what was put off?"""
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
            self._say(failed > 0, found.waiting)
        return not failed and not found.waiting

    def _say(self, is_out: bool, waiting: int) -> None:
        """An outage once, and its end."""
        if is_out and not self._is_out:
            logger.warning("webhook %s does not take notifications; waiting: %d", self._webhook.shown, waiting)
        elif self._is_out and not is_out:
            logger.info("webhook %s takes notifications again", self._webhook.shown)
        self._is_out = is_out


_SENDERS: dict[tuple[object, ...], _Sender] = {}
_LOCK = ForkSafeLock()


def _sender(base_dir: Path, settings: Settings) -> _Sender:
    wanted, database = settings.notifications, settings.database
    key = (str(base_dir), database.url, database.schema, wanted.webhook, wanted.webhook_secret, wanted.allow_metadata)
    _prepare_process()
    with _LOCK:
        if key not in _SENDERS:
            _SENDERS[key] = _Sender(base_dir, settings)
        return _SENDERS[key]


@cache
def _prepare_process() -> None:
    os.register_at_fork(after_in_child=_SENDERS.clear)  # their threads are the parent's
    atexit.register(_wait_for_all)


def _wait_for_all() -> None:
    deadline = time.monotonic() + _LAST_SECONDS
    for sender in list(_SENDERS.values()):
        sender.wait(max(0.0, deadline - time.monotonic()))
