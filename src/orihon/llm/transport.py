"""Requests to a provider of models: addresses, the HTTP driver's connections, server-sent events, and what errors mean.

Errors name the address without user names, passwords or queries, and never a header.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from orihon.compression.model.call import says_overflow
from orihon.drivers.http import HttpCall, HttpClient, HttpError, Response, Timeouts, shown_url
from orihon.errors import Cancelled, CutOff, LLMError, NotJSON, Overflow, Refused, TimedOut, Unreachable
from orihon.guard.masking.redaction import hide
from orihon.llm.answers import excerpt
from orihon.llm.retry import retry_after
from orihon.system import jsonio


class CancellableCall(HttpCall):
    """One call of a model, which other threads may end. It may take several requests."""

    def check(self) -> None:
        """``Cancelled`` if somebody has ended it."""
        try:
            super().check()
        except HttpError:
            raise Cancelled("by_caller") from None


class Transport:
    """Connections to one provider, kept open between calls; for all threads of a process."""

    def __init__(self, timeouts: Timeouts | None = None, *, allow_metadata: bool = False) -> None:
        self.timeouts = timeouts or Timeouts()
        self._client = HttpClient(allow_metadata=allow_metadata)

    @contextmanager
    def post_file(
        self, url: str, headers: Mapping[str, str], body: Path | bytes, call: CancellableCall | None = None
    ) -> Iterator[Response]:
        """Send ``body`` and give the answer, whatever its status; errors while the answer is read are wrapped too."""
        sent = {"Content-Type": "application/json", **headers}
        try:
            with self._client.request(
                "POST", url, sent, body=body, timeouts=self.timeouts, call=call or CancellableCall()
            ) as response:
                yield response
        except HttpError as error:
            raise _as_ours(error, shown_url(url)) from error

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._client.close()


def _as_ours(error: HttpError, url: str) -> LLMError:
    match error.kind:
        case "cancelled":
            return Cancelled("by_caller")
        case "connect" | "read" | "total":
            return TimedOut(error.kind, url=url, seconds=error.limit)
        case "cut":
            return CutOff("connection", url=url, detail=error.detail)
        case "too_large":
            return NotJSON("too_large", limit=int(error.limit))
        case "metadata":
            return Unreachable("metadata", url=url)
        case "url" | "connection":
            return Unreachable(error.kind, url=url, detail=error.detail)


def endpoint(base_url: str, prefix: str, path: str, *, instead_of: str = "") -> str:
    """``base_url`` with ``path`` behind it; ``prefix`` is added when it has no path, or one that is ``instead_of``."""
    parts = parsed(base_url)
    base = parts.path.rstrip("/")
    if base in ("", instead_of):
        base = prefix
    if not base.endswith(path):
        base += path
    return urlunsplit((parts.scheme, parts.netloc, base, parts.query, ""))


def parsed(url: str) -> SplitResult:
    """An address in its parts, if it is one."""
    try:
        return urlsplit(url)
    except ValueError as error:  # which may quote a password
        raise Unreachable("url", url="?", detail=re.sub("'.*'", "…", str(error), flags=re.DOTALL)) from None


def without_user(url: str) -> tuple[str, str | None]:
    """An address without the user's name and password, and the header that stands for them: addresses are logged."""
    parts = parsed(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    encoded = base64.b64encode(unquote(user).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), f"Basic {encoded}"


def events(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The data of every event, in order. Comments, names and ids are left out; an event at the very end counts."""
    data: list[bytes] = []
    for number, line in enumerate(lines):
        if number == 0:
            line = line.removeprefix(b"\xef\xbb\xbf")  # a byte order mark is allowed there
        if not line:
            if data:
                yield b"\n".join(data)
                data = []
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
    if data:
        yield b"\n".join(data)


_LARGEST_ERROR = 1 << 16
_TOO_LONG = 413
_SHORTEST_SECRET = 8  # of a query: "api-version=1" is none
_OTHER_REASONS = (401, 403, 404, 408, 429, 503, 529)
#: What providers call a refusal that came inside a stream, by the status that it would have had.
_STATUS_OF = {
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "api_error": 500,
    "server_error": 500,
}


def refusal(response: Response, url: str, secret: str | None) -> LLMError:
    """The error that an answer with a bad status stands for."""
    raw = response.read(_LARGEST_ERROR)
    return _error(response.status, _said(raw), url, secret, retry_after(response.headers))


def refusal_in_stream(error: Any, url: str, secret: str | None) -> LLMError:
    """The error that came in the place of a piece of the answer."""
    kind = error.get("type") or error.get("code") if isinstance(error, Mapping) else None
    status = _STATUS_OF.get(str(kind), 0) or (kind if isinstance(kind, int) else 400)
    return _error(status, _said(jsonio.encode({"error": error})), url, secret, None)


def _error(status: int, said: str, url: str, secret: str | None, wait: float | None) -> LLMError:
    for hidden in (*([secret] if secret else []), *_query_secrets(url)):
        said = said.replace(hidden, "***")
    said = hide(said)  # some servers quote what they were sent
    where = {"url": shown_url(url), "status": status, "said": excerpt(said) or "-"}
    # Some say "too many tokens" of those per minute: what is refused for another reason is no overflow.
    if status == _TOO_LONG or (says_overflow(said) and status not in _OTHER_REASONS):
        return Overflow("window", **where)
    if status in (401, 403):
        return Refused("key", **where)
    if status == 404:
        return Refused("not_found", **where)
    if status == 429 and "insufficient_quota" in said:
        return Refused("quota", **where)
    if status == 429:
        return Refused("too_often", **where, retry_after=wait, wait="?" if wait is None else f"{wait:g}")
    return Refused("status", **where, retry_after=wait)


def _query_secrets(url: str) -> list[str]:
    """What the query of an address may hold in secret, as it is written and as it is meant."""
    query = urlsplit(url).query
    written = [part.partition("=")[2] for part in query.split("&")]
    meant = [value for _, value in parse_qsl(query)]
    return [value for value in {*written, *meant} if len(value) >= _SHORTEST_SECRET]


def _said(raw: bytes) -> str:
    """The words of an error in any of the usual shapes, with its code."""
    try:
        value = jsonio.decode(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
    error = value.get("error", value) if isinstance(value, Mapping) else value
    if not isinstance(error, Mapping):
        return str(error)
    words = [error.get(key) for key in ("code", "type", "message", "detail")]
    return ": ".join(str(word) for word in words if word) or str(error)
