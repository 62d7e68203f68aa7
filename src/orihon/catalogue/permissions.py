"""Permissions to ask a provider: a bucket for each, shared by every process that uses the catalogue.

A bucket fills at a steady rate on the boot-time clock, so no setting of the wall clock opens or closes it. It may be
in debt: whoever takes a permission that is not there yet has it reserved, and learns how long to wait for it.
"""

from __future__ import annotations

from orihon.catalogue.tasks_db import TasksDatabase
from orihon.clock import boot_id, boottime


class Permissions:
    """What the catalogue counts for rate limits."""

    _db: TasksDatabase

    def take_permission(self, provider: str, *, per_second: float, burst: int) -> float:
        """Take one permission; seconds until it holds. A bucket that nobody has used is full."""
        boot = boot_id()
        with self._db.write() as statements:
            found = statements.one("permissions", provider=provider)
            now = boottime()
            level = float(burst)
            if found is not None and found["boot"] == boot and found["counted_at"] <= now:
                level = min(level, found["level"] + (now - found["counted_at"]) * per_second)
            statements.run("set_permissions", provider=provider, level=level - 1, counted_at=now, boot=boot)
        return max(0.0, (1 - level) / per_second)
