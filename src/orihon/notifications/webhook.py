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
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from orihon.errors import InvalidSettings
from orihon.notifications.targets import MetadataAddress, names_metadata

if TYPE_CHECKING:
    from urllib.request import OpenerDirector

TIMEOUT = 5.0  # seconds for a receiver to answer, in however many pieces
_PLAIN_URL = re.compile(r"[!-~]+")  # urllib's own complaint about anything else would quote the address
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
        self._opener = _opener(allow_metadata)
        self._is_refused = not allow_metadata and names_metadata(urlsplit(self._url).hostname)

    def post(self, event: str, body: bytes) -> WebhookFailure | None:
        """Send one notice; ``None`` when it was taken."""
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request

        if self._is_refused:
            return WebhookFailure(_described(MetadataAddress()))
        headers = self._headers | signed_headers(self._secret, event, body, int(time.time()))
        request = Request(self._url, data=body, headers=headers, method="POST")  # noqa: S310 - http(s), checked
        try:
            with self._opener.open(request, timeout=TIMEOUT):
                return None
        except HTTPError as error:
            with error:
                return WebhookFailure(f"HTTP {error.code}", may_pass=error.code >= 500 or error.code in _BUSY)
        except URLError as error:
            return WebhookFailure(_described(error.reason))
        except (OSError, HTTPException, ValueError) as error:
            return WebhookFailure(_described(error))


def signed_headers(secret: str | None, event: str, body: bytes, timestamp: int) -> dict[str, str]:
    """What a receiver checks: who sent it, when, and whether it has seen it already."""
    headers = {"X-Orihon-Id": event, "X-Orihon-Timestamp": str(timestamp)}
    if not secret:
        return headers
    key = secret.encode("utf-8", "surrogateescape")  # an environment may hold any bytes
    digest = hmac.new(key, f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return headers | {"X-Orihon-Signature": f"sha256={digest}"}


def _described(error: object) -> str:
    """What happened, without the texts of libraries, which may quote the address."""
    return (isinstance(error, OSError) and error.strerror) or type(error).__name__


def _parsed(url: str) -> tuple[str, dict[str, str], str]:
    """The address without user and password, the headers with them, and what of it may be shown."""
    headers = {"Content-Type": "application/json", "User-Agent": "orihon"}
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


@cache
def _opener(allow_metadata: bool) -> OpenerDirector:
    """Made with the first webhook: urllib.request takes a while to import, and most tasks have none.

    Not in the background thread: a fork in the middle of an import would leave its lock held in the child.
    """
    from urllib.request import HTTPRedirectHandler, build_opener

    from orihon.notifications.deadline import in_time_handlers
    from orihon.notifications.targets import refuse_metadata

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(self, *_: object, **__: object) -> None:
            return None

    check = (lambda _: None) if allow_metadata else refuse_metadata
    return build_opener(NoRedirects, *in_time_handlers(lambda: TIMEOUT, check))
