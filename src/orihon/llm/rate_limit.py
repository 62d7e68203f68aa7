"""A limit on how often a provider is asked, shared by all workers of a catalogue.

A bucket of permissions for each provider lies in ``tasks.db`` and fills at a steady rate, up to ``burst``. Whoever
takes one that is not there yet is told how long to wait for it; those who come later wait longer, in their order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class Buckets(Protocol):
    """Where the permissions are counted: a ``Catalogue``."""

    def take_permission(self, provider: str, *, per_second: float, burst: int) -> float:
        """Seconds until the permission that was taken holds."""
        ...


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
        return self.buckets.take_permission(provider, per_second=per_minute / 60, burst=self.burst)
