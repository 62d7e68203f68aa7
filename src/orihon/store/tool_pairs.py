"""Tool pairs, kept whole at the door: what would make a request that providers refuse does not get into the log.

A result answers an open call; nothing else may follow while calls are open; an id is used once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from orihon.errors import ToolCallError
from orihon.store.tail import Tail
from orihon.values.message.message import Message, ToolCall


def admit(messages: Sequence[Message], tail: Tail, was_used: Callable[[str], bool]) -> list[Message]:
    """The messages with their tool ids settled, or ``ToolCallError``. ``was_used`` looks an id up in the log."""
    open_calls = dict(tail.open_calls)
    admitted = []
    for seq, message in enumerate(messages, start=tail.seq + 1):
        if message.role == "tool":
            message = _matched(message, open_calls)
            del open_calls[message.answers or ""]
        elif open_calls:
            raise ToolCallError("calls_open", calls=", ".join(open_calls), role=message.role)
        elif message.tool_calls and message.role != "assistant":
            raise ToolCallError("not_assistant", role=message.role)
        elif message.tool_calls:
            message = _with_ids(message, seq)
            _refuse_used(message, tail, was_used)
            open_calls = {call.id: call.name for call in message.tool_calls}
        admitted.append(message)
    return admitted


def _matched(message: Message, open_calls: Mapping[str, str]) -> Message:
    """A tool result with the id of the call it answers: its own, or the oldest open call of its tool."""
    if message.tool_call_id:
        if message.tool_call_id not in open_calls:
            raise ToolCallError("none_open", call=message.tool_call_id, open=", ".join(open_calls) or "-")
        return message
    tool = message.tool_name or message.name
    for call_id, name in open_calls.items():
        if name == tool:
            return replace(message, tool_call_id=call_id)
    raise ToolCallError("none_open", call=tool or "-", open=", ".join(open_calls) or "-")


def _with_ids(message: Message, seq: int) -> Message:
    """Calls that came without an id get one."""
    if all(call.id for call in message.tool_calls):
        return message
    calls = tuple(
        call if call.id else ToolCall.from_chat({**call.to_chat(), "id": f"call_{seq}_{number}"})
        for number, call in enumerate(message.tool_calls, start=1)
    )
    return replace(message, tool_calls=calls)


def _refuse_used(message: Message, tail: Tail, was_used: Callable[[str], bool]) -> None:
    seen: set[str] = set()
    for call_id in message.calls:
        if call_id in seen or (tail.used_calls.perhaps_has(call_id) and was_used(call_id)):
            raise ToolCallError("id_reused", call=call_id)
        seen.add(call_id)
