"""Notices of a task without a catalogue, to a webhook from memory.

One background thread at a time, which lives while there is something to send; a short queue drops its oldest notice
when it is full, and an outage is logged once. Neither the interpreter's exit nor a forked child waits for it: what has
a catalogue goes through its outbox instead, which loses nothing.
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import deque
from functools import cache

from orihon.notifications.webhook import Webhook, WebhookFailure

logger = logging.getLogger("orihon.notifications")

QUEUE = 32
PAUSES = (0.5, 2.0)  # seconds before each retry


class Posting:
    """Posts JSON to a webhook, in the background."""

    def __init__(self, webhook: Webhook, task: str) -> None:
        self._webhook = webhook
        self._task = task
        self._closed = False
        self.renew()
        _renew_at_forks()
        _POSTINGS.add(self)

    def renew(self) -> None:
        """As new, with nothing to send: in a forked child the thread is gone, and what waited is the parent's."""
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, bytes]] = deque()
        self._thread: threading.Thread | None = None
        self._abandoned = False
        self._lost_in_outage = 0

    def post(self, event: str, body: bytes) -> None:
        """Send it soon; never waits."""
        problems = []
        with self._changed:
            if self._closed:
                return
            if len(self._waiting) == QUEUE:
                self._waiting.popleft()
                problems.append("the queue is full, the oldest notification is dropped")
            self._waiting.append((event, body))
            if not self._is_working():
                self._thread = threading.Thread(target=self._run, name=f"orihon-webhook-{self._task}", daemon=True)
                try:
                    self._thread.start()
                except RuntimeError as error:  # no thread to be had, or the interpreter is about to end
                    self._thread = None
                    problems.append(str(error))
        for problem in problems:
            logger.warning("%s: webhook %s: %s", self._task, self._webhook.shown, problem)

    def close(self, timeout: float) -> bool:
        """Wait until every notice has been tried; nothing is posted afterwards."""
        with self._changed:
            self._closed = True
            done = self._changed.wait_for(lambda: not self._is_working(), timeout)
            lost = len(self._waiting) + (not done)
            self._waiting.clear()
            self._abandoned = True
            self._changed.notify_all()
        if lost:
            logger.warning("%s: webhook %s: closed with %d notifications unsent", self._task, self._webhook.shown, lost)
        return not lost

    def _is_working(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        while (notice := self._next()) is not None:
            failure = self._deliver(*notice)
            if failure is None:
                self._note_success()
            else:
                self._note_failure(failure)

    def _next(self) -> tuple[str, bytes] | None:
        with self._changed:
            if self._waiting:
                return self._waiting.popleft()
            self._thread = None
            self._changed.notify_all()
            return None

    def _deliver(self, event: str, body: bytes) -> WebhookFailure | None:
        failure = self._webhook.post(event, body)
        for pause in PAUSES:
            if failure is None or not failure.may_pass or self._is_abandoned_within(pause):
                break
            failure = self._webhook.post(event, body)
        return failure

    def _is_abandoned_within(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._abandoned, seconds)

    def _note_success(self) -> None:
        if self._lost_in_outage:
            lost, self._lost_in_outage = self._lost_in_outage, 0
            logger.info("%s: webhook %s answers again; not delivered: %d", self._task, self._webhook.shown, lost)

    def _note_failure(self, failure: WebhookFailure) -> None:
        self._lost_in_outage += 1
        if self._lost_in_outage == 1:
            logger.warning("%s: webhook %s: not delivered: %s", self._task, self._webhook.shown, failure.reason)


_POSTINGS: weakref.WeakSet[Posting] = weakref.WeakSet()


@cache
def _renew_at_forks() -> None:
    os.register_at_fork(after_in_child=_renew_all)


def _renew_all() -> None:
    for posting in list(_POSTINGS):
        posting.renew()
