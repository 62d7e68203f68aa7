"""Retry, back-off and rate limiter: which failed calls are made again, when, and how many a minute.

Refusals that a second attempt cannot change (a wrong key, a wrong request) are never repeated, nor is a call whose
answer had begun: what was shown of it cannot be taken back. The rate limiter is shared by all workers of a catalogue: a
token bucket for each provider lies in ``tasks.db`` and fills at a steady rate, up to ``burst``. Whoever takes one that
is not there yet is told how long to wait for it; those who come later wait longer, in their order.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

from orihon.errors import EmptyAnswer, LLMError, Refused, TimedOut, Unreachable

_PASSING = frozenset((408, 409, 425, 429))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently."""

    retries: int = 5
    first_delay: float = 1.0
    longest_delay: float = 60.0
    longest_wait: float = 300.0  # a provider that asks for more is not waited for

    def delay(self, attempt: int, error: LLMError) -> float | None:
        """Seconds before the next attempt after the ``attempt``-th (1, 2, …) failed; ``None``: give up."""
        if attempt > self.retries or not may_pass(error) or (isinstance(error, EmptyAnswer) and attempt > 1):
            return None
        asked: float = error.fields.get("retry_after") or 0.0
        if asked > self.longest_wait:
            return None
        limit = min(self.first_delay * 2.0 ** (attempt - 1), self.longest_delay)
        # Many workers that failed together must not come back together.
        spread: float = random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        return max(asked, limit * spread)  # some ask for no wait at all, again and again


def may_pass(error: LLMError) -> bool:
    """Whether a later attempt may go better."""
    if isinstance(error, Refused):
        status = error.fields["status"]
        return error.reason != "quota" and (status in _PASSING or status >= 500)
    if isinstance(error, TimedOut):
        return error.reason == "connect"
    return isinstance(error, EmptyAnswer) or (isinstance(error, Unreachable) and error.reason == "connection")


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds that a provider asks for: ``retry-after-ms``, or ``Retry-After`` in seconds or as a date."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    given = headers.get("retry-after")
    seconds = _number(given)
    if seconds is not None or given is None:
        return seconds
    try:
        moment = parsedate_to_datetime(given)
    except (ValueError, OverflowError, TypeError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


class Buckets(Protocol):
    """Permissions by provider; ``take`` gives the seconds until one holds."""

    def take(self, provider: str, *, per_second: float, burst: int) -> float: ...


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Requests per minute, for all providers or by provider."""

    buckets: Buckets
    per_minute: float
    burst: int = 1  # permissions that may be saved up
    by_provider: Mapping[str, float] = field(default_factory=dict)

    def take(self, provider: str) -> float:
        """Take one permission; seconds to wait before it is used."""
        per_minute = self.by_provider.get(provider, self.per_minute)
        return self.buckets.take(provider, per_second=per_minute / 60, burst=self.burst)
