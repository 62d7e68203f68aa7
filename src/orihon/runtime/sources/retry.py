"""Calls to GitHub and GitLab that may fail and pass: repeated a few times, never for long, then one clear error.

Owns the waits: what the server asks for (``Retry-After`` as seconds or date, the end of a rate limit), else a
growing time with jitter. The libraries' own repetition is switched off: it waits as long as the server says, and sends
a comment twice. Refuses to wait longer than ``longest_wait``: then the error says how long it would have been.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from orihon.errors import SourceError

_log = logging.getLogger("orihon.sources")
_Answer = TypeVar("_Answer")

#: What GitHub asks of those who hit its secondary limit and were told no time.
SECONDARY_WAIT = 60.0
LONGEST_DETAIL = 200

_MAY_PASS = frozenset((408, 425, 429, *range(500, 600)))
_REASONS = {401: "token", 403: "forbidden", 404: "not_found", 410: "not_found", 429: "rate_limited"}


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how long. ``sleep`` may be a worker's way to wait that a signal ends."""

    tries: int = 4
    first_wait: float = 1.0
    longest_wait: float = 90.0
    sleep: Callable[[float], object] = time.sleep


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failed call, explained."""

    reason: str
    detail: str
    status: int = 0
    wait: float | None = None  # what the server asks for
    may_pass: bool = False


class Calls:
    """Makes calls to one service. ``kinds`` are its library's exceptions, ``explain`` reads them."""

    def __init__(
        self,
        service: str,
        address: str,
        kinds: tuple[type[Exception], ...],
        explain: Callable[[Exception], Trouble],
        retry: Retry,
        secret: str,
    ) -> None:
        self._service = service
        self._address = address
        self._kinds = kinds
        self._explain = explain
        self._retry = retry
        self._secret = secret

    def __call__(self, action: Callable[[], _Answer]) -> _Answer:
        """What the action returns. It may run several times and must bear that."""
        attempt = 1
        while True:
            try:
                return action()
            except self._kinds as error:
                trouble = self._explain(error)
                wait = self._wait(trouble, attempt)
                if wait is None:
                    raise self._error(trouble) from error
            _log.info("%s: %s (%s); again in %.1f s", self._service, trouble.reason, trouble.status, wait)
            self._retry.sleep(wait)
            attempt += 1

    def _wait(self, trouble: Trouble, attempt: int) -> float | None:
        if not trouble.may_pass or attempt >= self._retry.tries:
            return None
        if trouble.wait is not None:
            return trouble.wait if trouble.wait <= self._retry.longest_wait else None
        grown = min(self._retry.first_wait * 2.0 ** (attempt - 1), self._retry.longest_wait)
        return grown * random.uniform(0.5, 1.0)  # noqa: S311 - spreads the load, guards nothing

    def _error(self, trouble: Trouble) -> SourceError:
        detail = trouble.detail[:LONGEST_DETAIL]
        return SourceError(
            trouble.reason,
            service=self._service,
            address=self._address,
            status=trouble.status,
            detail=detail.replace(self._secret, "***") if self._secret else detail,
            wait=round(trouble.wait or 0.0),
        )


def refusal(status: int, detail: str, headers: Mapping[str, str], *, limited: bool = False) -> Trouble:
    """The trouble behind an HTTP status; ``limited`` for a rate limit that does not say 429."""
    lower = {name.lower(): value for name, value in headers.items()}
    wait = asked_wait(lower)
    if limited or status == 429:
        return Trouble("rate_limited", detail, status, SECONDARY_WAIT if wait is None else wait, may_pass=True)
    if status in _MAY_PASS:
        return Trouble("server", detail, status, wait, may_pass=True)
    return Trouble(_REASONS.get(status, "refused"), detail, status)


def unreachable(error: Exception) -> Trouble:
    """No answer at all."""
    return Trouble("unreachable", f"{type(error).__name__}: {error}", may_pass=True)


def asked_wait(headers: Mapping[str, str]) -> float | None:
    """The seconds that the server wants us to wait; header names in small letters."""
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    if value:
        try:
            when = parsedate_to_datetime(value)
        except ValueError:
            return None
        return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    reset = headers.get("x-ratelimit-reset", headers.get("ratelimit-reset", ""))
    spent = headers.get("x-ratelimit-remaining", headers.get("ratelimit-remaining", "")) == "0"
    return max(0.0, int(reset) - time.time()) + 1.0 if spent and reset.isascii() and reset.isdigit() else None
