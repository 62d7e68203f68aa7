"""How often, how long and how many: the limits that the queue and its workers go by.

Each is the setting ``multiprocess.<name>``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from orihon.catalogue import ClaimLimits
from orihon.catalogue.queue import LONGEST_DELAY
from orihon.settings import Settings


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The figures in force."""

    max_attempts: int = 5  # claims of a task before it is given up
    retry_delay: float = 1.0  # seconds before the second attempt; doubles with each
    max_retry_delay: float = 300.0
    tasks_per_user: int | None = None  # running at a time
    poll_interval: float = 1.0  # seconds between two looks into an empty queue
    drain_seconds: float = 60.0  # from a signal until a worker that does not stop is ended
    restart_delay: float = 0.5  # seconds before a dead worker is started again; doubles with each quick death
    max_restart_delay: float = 30.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The figures that the settings name."""
        wanted = settings.multiprocess
        return cls(
            max_attempts=wanted.max_attempts,
            retry_delay=wanted.retry_delay,
            max_retry_delay=wanted.max_retry_delay,
            tasks_per_user=wanted.tasks_per_user,
            poll_interval=wanted.poll_interval,
            drain_seconds=wanted.drain_seconds,
            restart_delay=wanted.restart_delay,
            max_restart_delay=wanted.max_restart_delay,
        )

    def claims(self) -> ClaimLimits:
        """Which tasks a claim passes over."""
        if self.tasks_per_user is None:
            return ClaimLimits(self.max_attempts)
        return ClaimLimits(self.max_attempts, self.tasks_per_user)

    def delay_after(self, attempts: int) -> float:
        """Seconds until the next attempt."""
        doubled = self.retry_delay * 2.0 ** min(attempts - 1, 62)
        return min(doubled, self.max_retry_delay, LONGEST_DELAY)

    def restart_after(self, deaths: int) -> float:
        """Seconds until a worker that died so often in a row is started again."""
        return min(self.restart_delay * 2.0 ** min(deaths - 1, 62), self.max_restart_delay)
