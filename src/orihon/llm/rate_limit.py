"""The rate limiter of model providers, shared by all workers of a catalogue.

A token bucket for each provider lies in ``tasks.db`` and fills at a steady rate, up to ``burst``. Whoever
takes one that is not there yet is told how long to wait for it; those who come later wait longer, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from orihon.catalogue.rate_limits import RateLimits


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Requests per minute, for all providers or by provider."""

    buckets: RateLimits
    per_minute: float
    burst: int = 1  # permissions that may be saved up
    by_provider: Mapping[str, float] = field(default_factory=dict)

    def take(self, provider: str) -> float:
        """Take one permission; seconds to wait before it is used."""
        per_minute = self.by_provider.get(provider, self.per_minute)
        return self.buckets.take(provider, per_second=per_minute / 60, burst=self.burst)
