"""What stands before every route: Host, Origin, size, the token or cookie, and the headers of every answer.

A browser sends requests for any web page that it shows, and DNS can make another name mean this address: so a request
counts only when its Host is one of ours, and its Origin, where it has one, too (CVE-2025-66416, CVE-2025-49596).
"""

from __future__ import annotations

import logging
import math
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orihon.errors import InvalidInput, StorageError
from orihon.system.crowd import peer_of
from orihon.web.access import Access, Visitor
from orihon.web.refusal import Refusal, refusal
from orihon.web.renderer import spoken_to

logger = logging.getLogger("orihon.web")

#: The one address that needs no token: it is where the token is shown.
LOGIN = "/login"
MARK_HEADER = "x-csrf-token"
_SAFE = ("GET", "HEAD", "OPTIONS")
#: Far more than any browser sends, and any page asks for.
_MOST_HEADERS = _MOST_FIELDS = 100
_LONGEST_ADDRESS = 32 << 10

_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer a browser would say "Origin: null" when a form is sent, and the login form is one.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True)
class Names:
    """The names by which this server may be called, as browsers write them: hosts ``127.0.0.1:8377``, and origins."""

    hosts: frozenset[str]
    origins: frozenset[str]

    def allows(self, headers: Headers) -> bool:
        """Is the request meant for this server, and not sent by a page from elsewhere?"""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return False
        return all(origin.lower() in self.origins for origin in origins)

    def is_encrypted(self, headers: Headers) -> bool:
        """Is it HTTPS by which the browser calls this name? Then the cookie goes no other way."""
        return f"https://{headers.get('host', '').lower()}" in self.origins


def policy(nonce: str) -> str:
    """The content security policy: nothing runs and nothing is styled but what carries the nonce of this answer."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def peer_in(scope: Scope) -> str:
    """For whom wrong tokens count."""
    return peer_of((scope.get("client") or ("",))[0])


def too_many(wait: float) -> Refusal:
    """For so many seconds no more wrong tokens are looked at."""
    return Refusal(429, "too_many", {"retry-after": str(math.ceil(wait))})


def no_grants(error: Exception) -> Refusal:
    """Nobody can say now whether a grant is good; to strangers no more than that is said."""
    logger.warning("grants cannot be looked up now: %s", error)
    return Refusal(503, "grants")


class Gate:
    """The first to see a request. ``scope["state"]`` gets ``visitor`` and ``nonce``."""

    def __init__(self, app: ASGIApp, access: Access, names: Names) -> None:
        self._app = app
        self._access = access
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        assert scope["type"] == "http"  # the server speaks nothing else
        nonce = secrets.token_urlsafe(16)
        state = scope.setdefault("state", {})
        state["nonce"] = nonce
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer[name] = value
                answer.setdefault("content-security-policy", policy(nonce))
                answer.setdefault("cache-control", "no-store")
            await send(message)

        try:
            refused = await self._refused(scope, headers)
            if refused is None:
                await self._app(scope, receive, send_guarded)
                return
            with spoken_to(scope):
                answer = refusal(scope, refused)
            await answer(scope, receive, send_guarded)
        except ClientDisconnect:
            return
        except Exception:
            # The reader has got an answer that says so. The query stays out of the log: people search for things.
            logger.exception("%s %s failed", scope["method"], scope["path"])

    async def _refused(self, scope: Scope, headers: Headers) -> Refusal | None:
        if not self._names.allows(headers):
            return Refusal(403, "host")
        query: bytes = scope["query_string"]
        # Two lengths: a proxy in front may have read another request than this one.
        has_two = "transfer-encoding" in headers and "content-length" in headers
        is_large = len(scope["headers"]) > _MOST_HEADERS or query.count(b"&") >= _MOST_FIELDS
        if has_two or is_large or len(scope["raw_path"]) + len(query) > _LONGEST_ADDRESS:
            return Refusal(400, "request")
        changing = scope["method"] not in _SAFE
        if changing and headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return Refusal(403, "origin")
        if scope["path"] == LOGIN:
            return None
        try:
            visitor, shown_token = await self._visitor(scope, headers)
        except (StorageError, OSError) as error:
            return no_grants(error)
        if visitor is None:
            wait = self._access.failures.seconds_to_wait(peer_in(scope)) if shown_token else 0
            return too_many(wait) if wait else Refusal(401, "token", {"www-authenticate": "Bearer"})
        if changing and not self._access.is_marked(visitor, headers.get(MARK_HEADER, "")):
            return Refusal(403, "mark")
        scope["state"]["visitor"] = scope["state"]["connection"].visitor = visitor
        scope["state"]["is_still_in"] = partial(self._is_still_in, visitor)
        scope["state"]["mark"] = self._access.mark_of(visitor) if visitor.session else ""
        return None

    async def _is_still_in(self, visitor: Visitor) -> bool:
        """For answers that go on: is the one who asked for it still let in?"""
        if visitor.grant:
            return await run_in_threadpool(self._access.is_still_in, visitor)
        return self._access.is_still_in(visitor)

    async def _visitor(self, scope: Scope, headers: Headers) -> tuple[Visitor | None, bool]:
        """Who asks, and whether by a token. In another thread: a grant may have to be looked up for it."""
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and token:
            return await run_in_threadpool(self._access.by_token, token.strip(), peer_in(scope)), True
        cookie = HTTPConnection(scope).cookies.get(self._access.cookie, "")
        return await run_in_threadpool(self._access.by_session, cookie) if cookie else None, False


# ---- by which names browsers may call --------------------------------------------------------------------------------

_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9_.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]{2,45}\]")


def names_of(given: Sequence[str], scheme: str, port: int) -> Names:
    """The allow-list of a server that listens at this port."""
    hosts, origins = set(), set()
    for name in given:
        origin = origin_of(name, scheme, port)
        kind, _, host = origin.partition("://")
        origins.add(origin)
        # A browser leaves the usual port out; other programs may write it.
        usual = f"{host}:{_DEFAULT_PORTS[kind]}"
        hosts |= {host} if urlsplit(origin).port else {host, usual}
    return Names(frozenset(hosts), frozenset(origins))


def origin_of(name: str, scheme: str, port: int) -> str:
    """The origin that a name stands for: ``http://127.0.0.1:8377``."""
    try:
        parts = urlsplit(name if "://" in name else f"{scheme}://{name if _has_port(name) else f'{name}:{port}'}")
        host, given_port = authority((parts.hostname or "").lower()), parts.port
    except ValueError as error:
        raise InvalidInput("web_name", name=name) from error
    extra = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    if parts.scheme not in _DEFAULT_PORTS or extra or not _HOST.fullmatch(host):
        raise InvalidInput("web_name", name=name)
    is_usual = given_port in (None, _DEFAULT_PORTS[parts.scheme])
    return f"{parts.scheme}://{host}" if is_usual else f"{parts.scheme}://{host}:{given_port}"


def authority(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _has_port(name: str) -> bool:
    return bool(re.search(r":[0-9]+$", name)) and (name.startswith("[") or name.count(":") == 1)
