"""The webhook: one notice, posted once, signed.

Owns the address, the headers and what an answer means; when and how often is the business of who calls it. Of the
address only scheme and host are ever shown: any other part of it may be a secret, and the signing secret is one.
Refuses addresses that are not http or https and those at which clouds hand out credentials, and does not follow
redirects, which could carry notice and password elsewhere.

With a secret each request carries ``X-Orihon-Signature: sha256=…``, the HMAC of the timestamp, a dot and the body.
``X-Orihon-Id`` stays the same however often a notice is sent: it comes at least once, and may come twice.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import time
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from orihon.drivers import http
from orihon.drivers.http import HttpClient, HttpError
from orihon.errors import InvalidSettings

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
