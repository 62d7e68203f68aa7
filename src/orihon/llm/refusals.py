"""What a provider's error means, from its status and its body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from orihon.compression.model.call import says_overflow
from orihon.drivers.http import Response, shown_url
from orihon.errors import LLMError, Overflow, Refused
from orihon.guard.masking.redaction import hide
from orihon.llm.answers import excerpt
from orihon.llm.retry import retry_after
from orihon.system import jsonio

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
