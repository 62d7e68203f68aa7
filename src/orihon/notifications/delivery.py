"""Delivery: rows of the outbox to the webhook, by whichever process comes to it.

A row is taken before it is sent, so that two processes do not send it at the same time, and settled afterwards; who
dies in between leaves it to the next one. What does not arrive is tried again after ever longer pauses, for a day, then
given up, and that is logged. A receiver may get a notice twice and out of order, and knows it by its id.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NoticeRow
from orihon.notifications.notification import Notification
from orihon.notifications.webhook import Webhook, WebhookFailure
from orihon.system import jsonio
from orihon.system.json_shapes import AsJson

logger = logging.getLogger("orihon.notifications")

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 3600.0  # seconds before a row is tried again
GIVE_UP_SECONDS = 86_400.0
_LEAST_ATTEMPTS = 8  # of a row that nobody came to for a day
_FAILURES_IN_A_ROW = 3  # then the receiver is left alone for now
_NOT_MEANT_SECONDS = 3600.0  # older than this before there was any webhook


@dataclass(frozen=True, slots=True)
class Delivery(AsJson):
    """What became of the rows that were due."""

    delivered: int = 0
    failed: int = 0  # to be tried again
    given_up: int = 0
    waiting: int = 0  # still to be delivered, these failures included


def deliver(catalogue: Catalogue, webhook: Webhook, *, early: bool = False, seconds: float = math.inf) -> Delivery:
    """Send every row that is due, least tried and oldest first; ``early``: those too that were put off.

    A receiver that fails three times in a row is left alone; the next call begins with other rows. None is begun after
    so many ``seconds``: of a slow receiver's the rest is left to the next one.
    """
    give_up = time.monotonic() + seconds
    catalogue.outbox.begin_webhook(_ago(_NOT_MEANT_SECONDS))
    counts = {"delivered": 0, "pending": 0, "given_up": 0}
    failures = 0
    for number in _each_once(catalogue, early=early):
        if failures == _FAILURES_IN_A_ROW or time.monotonic() >= give_up:
            break
        row = catalogue.outbox.take(number, early=early)
        if row is None:
            continue  # somebody else was quicker
        state = deliver_one(catalogue, webhook, row)
        counts[state] += 1
        failures = 0 if state == "delivered" else failures + 1
    return Delivery(counts["delivered"], counts["pending"], counts["given_up"], catalogue.outbox.count_pending())


def _each_once(catalogue: Catalogue, *, early: bool) -> Iterator[int]:
    """The numbers of what is due, and of what comes meanwhile."""
    seen: set[int] = set()
    while found := [number for number in catalogue.outbox.due(early=early) if number not in seen]:
        seen.update(found)
        yield from found


def deliver_one(catalogue: Catalogue, webhook: Webhook, row: NoticeRow) -> str:
    """Send a row that was taken, and write down what became of it."""
    failure = webhook.post(row.event, jsonio.encode(Notification.of(row).payload()))
    if failure is None:
        catalogue.outbox.settle(row, "delivered")
        return "delivered"
    if row.attempts >= _LEAST_ATTEMPTS and row.created_at < _ago(GIVE_UP_SECONDS):
        return _give_up(catalogue, webhook, row, failure)
    catalogue.outbox.settle(row, "pending", error=failure.reason, again_in=pause_after(row.attempts))
    return "pending"


def pause_after(attempts: int) -> float:
    """Seconds until a row is tried again."""
    return float(min(FIRST_PAUSE * 2 ** min(attempts - 1, 20), LONGEST_PAUSE))


def _give_up(catalogue: Catalogue, webhook: Webhook, row: NoticeRow, failure: WebhookFailure) -> str:
    catalogue.outbox.settle(row, "given_up", error=failure.reason)
    logger.error(
        "notification %s (%s) is given up after %d attempts: webhook %s: %s",
        *(row.id, row.kind, row.attempts, webhook.shown, failure.reason),
    )
    return "given_up"


def _ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="microseconds")
