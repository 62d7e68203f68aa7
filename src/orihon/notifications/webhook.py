"""The webhook: one notice, posted once, signed.

Owns the address, the headers and what an answer means; when and how often is the business of who calls it. Of the
address only scheme and host are ever shown: any other part of it may be a secret, and the signing secret is one.
Refuses addresses that are not http or https and those at which clouds hand out credentials, and does not follow
redirects, which could carry notice and password elsewhere.

With a secret each request carries ``X-Orihon-Signature: sha256=…``, the HMAC of the timestamp, a dot and the body.
``X-Orihon-Id`` stays the same however often a notice is sent: it comes at least once, and may come twice.

Delivery: rows of the outbox to the webhook, by whichever process comes to it.

A row is taken before it is sent, so that two processes do not send it at the same time, and settled afterwards; who
dies in between leaves it to the next one. What does not arrive is tried again after ever longer pauses, for a day, then
given up, and that is logged. A receiver may get a notice twice and out of order, and knows it by its id.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from orihon.catalogue import Catalogue
from orihon.catalogue.outbox import NoticeRow
from orihon.drivers import http
from orihon.drivers.http import HttpClient, HttpError
from orihon.errors import InvalidSettings
from orihon.notifications.notification import Notification
from orihon.system import jsonio
from orihon.system.json_shapes import AsJson

TIMEOUT = 5.0  # seconds for a receiver, connecting and every piece of its answer included
_PLAIN_URL = re.compile(r"[!-~]+")
_BUSY = (408, 425, 429)


@dataclass(frozen=True, slots=True)
class WebhookFailure:
    """Why a notice did not arrive; ``may_pass`` where the receiver may take it soon."""

    reason: str
    may_pass: bool = True


class Webhook:
    """An address that takes notices as JSON."""

    def __init__(self, url: str, secret: str | None = None, *, allow_metadata: bool = False) -> None:
        self._url, self._headers, self.shown = _parsed(url)
        self._secret = secret
        self._http = HttpClient(allow_metadata=allow_metadata)
        http.load()

    def post(self, event: str, body: bytes) -> WebhookFailure | None:
        """Send one notice; ``None`` when it was taken."""
        headers = self._headers | signed_headers(self._secret, event, body, int(time.time()))
        try:
            status = self._http.fetch("POST", self._url, headers, body=body, seconds=TIMEOUT).status
        except HttpError as error:
            return WebhookFailure(_described(error))
        if 200 <= status < 300:
            return None
        return WebhookFailure(f"HTTP {status}", may_pass=status >= 500 or status in _BUSY)


def signed_headers(secret: str | None, event: str, body: bytes, timestamp: int) -> dict[str, str]:
    """What a receiver checks: who sent it, when, and whether it has seen it already."""
    headers = {"X-Orihon-Id": event, "X-Orihon-Timestamp": str(timestamp)}
    if not secret:
        return headers
    key = secret.encode("utf-8", "surrogateescape")  # an environment may hold any bytes
    digest = hmac.new(key, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return headers | {"X-Orihon-Signature": f"sha256={digest}"}


def _described(error: HttpError) -> str:
    """What happened, without the texts of libraries, which may quote the address."""
    if error.kind == "metadata":
        return "a metadata address; see notifications.allow_metadata"
    if error.kind in ("connect", "read", "total"):
        return TimeoutError.__name__
    cause: BaseException = error
    while under := cause.__cause__ or cause.__context__:
        cause = under
    return (isinstance(cause, OSError) and cause.strerror) or type(cause).__name__


def _parsed(url: str) -> tuple[str, dict[str, str], str]:
    """The address without user and password, the headers with them, and what of it may be shown."""
    headers = {"Content-Type": "application/json", "User-Agent": "orihon", "Connection": "close"}
    try:
        parts = urlsplit(url)
        place = _host_and_port(parts)
    except ValueError:  # its text would quote the address
        place = ""
    shown = f"{parts.scheme}://{place}" if place else "?"
    if not place or parts.scheme not in ("http", "https") or not _PLAIN_URL.fullmatch(url):
        raise InvalidSettings("webhook", address=shown)
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode('ascii')}"
    return urlunsplit((parts.scheme, place, parts.path, parts.query, "")), headers, shown


def _host_and_port(parts: SplitResult) -> str:
    if not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return host if parts.port is None else f"{host}:{parts.port}"


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
