"""``ToolStore``: what every tool was asked and what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orihon.clock import utc_now
from orihon.settings import load_settings
from orihon.store.opening import shared_task_store
from orihon.store.task_store import TaskStore


class ToolStore:
    """Tool calls of one task, oldest first, numbered from 1."""

    def __init__(self, context_dir: Path | str, *, task_store: TaskStore | None = None) -> None:
        self.context_dir = Path(context_dir)
        self._store = task_store or shared_task_store(self.context_dir, load_settings(None))

    def add_tool_call(
        self,
        tool_name: str,
        arguments: Mapping[str, Any] | None = None,
        result: Any = None,
        error: str | None = None,
        *,
        args: Mapping[str, Any] | None = None,
        status: str | None = None,
        duration_ms: float | None = None,
    ) -> int:
        """Record one call and return its number. ``status`` is ``error`` when an error is given."""
        return self._store.add(
            "tools",
            {
                "tool_name": tool_name,
                "arguments": dict(arguments if arguments is not None else args or {}),
                "result": result,
                "status": status or ("success" if error is None else "error"),
                "error": error,
                "duration_ms": duration_ms,
                "timestamp": utc_now(),
            },
        )

    def get_tool_calls(self, first: int = 1, last: int | None = None) -> list[dict[str, Any]]:
        """Calls as they are stored."""
        return list(self._store.read("tools", first, last))

    def count_tool_calls(self) -> int:
        """How many there are."""
        return self._store.count("tools")
