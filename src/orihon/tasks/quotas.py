"""How much one user may take: tasks at a time, tokens a day, bytes. Settings ``quotas``; none by default.

A new task is refused where its user has as many as are allowed, or no room. A task at work pauses between two steps
when its user's tokens of the day are spent, and can be resumed on the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from orihon.catalogue import Catalogue
from orihon.catalogue.statistics import DAY, QuotaUsage
from orihon.errors import QuotaExceeded
from orihon.settings import Settings
from orihon.system.clock import utc_now

_SECONDS_BETWEEN_LOOKS = 5.0


@dataclass(frozen=True, slots=True)
class Quota:
    """What one user may take; ``None``: as much as there is."""

    tasks: int | None
    tokens_per_day: int | None
    bytes: int | None


def quota_of(settings: Settings, user: str) -> Quota:
    """The limits for a user: the user's own where there are any, everybody's for the rest."""
    own = settings.quotas.users.get(user, {})
    everybody = settings.quotas
    return Quota(
        own.get("tasks", everybody.tasks),
        own.get("tokens_per_day", everybody.tokens_per_day),
        own.get("bytes", everybody.bytes),
    )


def admission(settings: Settings, user: str) -> Callable[[QuotaUsage], None] | None:
    """What ``Tasks.register`` asks before it takes in a task of this user; ``None`` where there is no limit."""
    quota = quota_of(settings, user)
    if quota.tasks is None and quota.bytes is None:
        return None

    def admit(taken: QuotaUsage) -> None:
        if quota.tasks is not None and taken.tasks >= quota.tasks:
            raise QuotaExceeded("tasks", user=user, taken=taken.tasks, limit=quota.tasks)
        if quota.bytes is not None and taken.bytes >= quota.bytes:
            raise QuotaExceeded("bytes", user=user, taken=taken.bytes, limit=quota.bytes)

    return admit


def check_new_task(catalogue: Catalogue, settings: Settings, user: str) -> None:
    """Raises ``QuotaExceeded`` where this user may not have one more task: before work that would be in vain.

    Somebody else may be quicker afterwards; ``admission`` is what holds.
    """
    admit = admission(settings, user)
    if admit is not None:
        admit(catalogue.statistics.quota_usage(user, utc_now()[:DAY]))


def tokens_spent(catalogue: Catalogue, settings: Settings, user: str) -> Callable[[], bool]:
    """Asks whether the user's tokens of today are spent; cheap enough to ask at every step."""
    limit = quota_of(settings, user).tokens_per_day
    if limit is None:
        return lambda: False
    looked_at, spent = 0.0, False

    def is_spent() -> bool:
        nonlocal looked_at, spent
        if not looked_at or time.monotonic() - looked_at >= _SECONDS_BETWEEN_LOOKS:
            spent = catalogue.statistics.quota_usage(user, utc_now()[:DAY]).tokens >= limit
            looked_at = time.monotonic()
        return spent

    return is_spent
