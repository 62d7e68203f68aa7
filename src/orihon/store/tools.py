"""``ToolStore``: what every tool was asked and what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orihon.store.side_store import SideStore
from orihon.system.clock import utc_now
from orihon.values.message.extra import expect_mapping


def tool_record(
    tool_name: str,
    arguments: Mapping[str, Any] | None,
    result: Any,
    error: str | None,
    *,
    status: str | None = None,
    duration_ms: float | None = None,
) -> dict[str, Any]:
    """The record of one call, before it has a number."""
    return {
        "tool_name": tool_name,
        "arguments": {} if arguments is None else dict(expect_mapping(arguments, "arguments")),
        "result": result,
        "status": status or ("success" if error is None else "error"),
        "error": error,
        "duration_ms": duration_ms,
        "timestamp": utc_now(),
    }


class ToolStore(SideStore):
    """Tool calls of one task, oldest first, numbered from 1."""

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
        call_id: str | None = None,
    ) -> int:
        """Record one call and return its number. ``status`` is ``error`` when an error is given.

        ``call_id`` is the id of the call in the log: by it a result is found again that is not in the log yet.
        """
        asked = arguments if arguments is not None else args
        record = tool_record(tool_name, asked, result, error, status=status, duration_ms=duration_ms)
        return self._store.add("tools", record if call_id is None else {**record, "call_id": call_id})

    def get_tool_calls(self, first: int = 1, last: int | None = None) -> list[dict[str, Any]]:
        """Calls as they are stored."""
        return list(self._store.read("tools", first, last))

    def count_tool_calls(self) -> int:
        """How many there are."""
        return self._store.count("tools")
