"""Token buckets of the rate limiter: one for each provider, shared by every process that uses the catalogue.

A bucket fills at a steady rate on the clock of the leases, so no machine's wall clock opens or closes it. It may be
in debt: whoever takes a token that is not there yet has it reserved, and learns how long to wait for it.
"""

from __future__ import annotations

from orihon.catalogue.tasks_db import Statements, TasksDatabase


class RateLimits:
    """What the catalogue counts for rate limits."""

    def __init__(self, database: TasksDatabase) -> None:
        self._db = database

    def take(self, provider: str, *, per_second: float, burst: int) -> float:
        """Take one permission; seconds until it holds. A bucket that nobody has used is full."""

        def action(statements: Statements) -> float:
            level = float(burst)
            moment = statements.moment()
            statements.run(
                "add_permissions", provider=provider, level=level, counted_at=moment.seconds, boot=moment.era
            )
            found = statements.one("permissions", provider=provider)  # nobody else takes from it now
            moment = statements.moment()
            if found is not None and found["boot"] == moment.era and found["counted_at"] <= moment.seconds:
                level = min(level, found["level"] + (moment.seconds - found["counted_at"]) * per_second)
            statements.run(
                "set_permissions", provider=provider, level=level - 1, counted_at=moment.seconds, boot=moment.era
            )
            return max(0.0, (1 - level) / per_second)

        return self._db.change(action)  # one that is taken twice costs a moment, and no request too many
