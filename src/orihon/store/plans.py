"""``PlanningHistoryStore``: the plans of a task and how they changed."""

from __future__ import annotations

from typing import Any

from orihon.store.side_store import SideStore
from orihon.system.clock import utc_now


class PlanningHistoryStore(SideStore):
    """Plans of one task, oldest first, numbered from 1."""

    def add_plan(self, plan_type: str, plan_content: Any) -> int:
        """Record a plan ("initial", "revision", …) and return its id."""
        return self._store.add(
            "planning", {"plan_type": plan_type, "plan_content": plan_content, "created_at": utc_now()}
        )

    def get_plans(self) -> list[dict[str, Any]]:
        """All of them."""
        return list(self._store.read("planning"))

    def get_latest_plan(self) -> dict[str, Any] | None:
        """The newest plan; ``None`` when there is none."""
        last = self._store.count("planning")
        return next(self._store.read("planning", last, last), None) if last else None

    def count_plans(self) -> int:
        """How many there are."""
        return self._store.count("planning")
