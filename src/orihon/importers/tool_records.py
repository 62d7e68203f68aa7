"""What the record of a tool call says, from the call and its result in the conversation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from orihon.importers.base import ToolItem
from orihon.system import jsonio
from orihon.values.message.extra import notes_of
from orihon.values.message.message import Message, ToolCall

#: Of a result or an error, so much is kept with the record of the tool call; all of it is in the log.
SHOWN = 1000


def tool_record(call_id: str, call: ToolCall, result: Message, timestamp: str | None) -> ToolItem:
    """The record of a call and its result."""
    is_error, shown = _is_error(result), _shown(result.text)
    return ToolItem(
        tool_name=call.name,
        arguments=_arguments(call.arguments),
        result=None if is_error else shown,
        error=shown if is_error else None,
        status="error" if is_error else "success",
        timestamp=timestamp,
        call_id=call_id,
    )


def _is_error(message: Message) -> bool:
    calls = notes_of(message.extra).get("calls")
    said = calls.get(message.tool_call_id) if isinstance(calls, dict) else None
    return isinstance(said, dict) and said.get("is_error") is True


def _arguments(written: str) -> Any:
    try:
        value = jsonio.decode(written) if written else {}
    except ValueError:
        return {"input": written}  # of a tool that takes any text, or nothing that anybody can read
    return value if isinstance(value, dict) else {"input": value}


def _shown(said: str) -> str:
    return said if len(said) <= SHOWN else said[:SHOWN] + "…"


def merged(known: ToolItem, more: ToolItem) -> ToolItem:
    """What one knows, and what the other knows better."""
    names = ("tool_name", "arguments", "result", "error", "status", "duration_ms", "timestamp", "call_id")
    new = {name: getattr(more, name) for name in names if getattr(more, name) not in (None, "", {})}
    return replace(known, **new)
