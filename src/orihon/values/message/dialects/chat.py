"""OpenAI Chat Completions messages, with the small differences of those who speak alike (Ollama, vLLM …).

The old form (``function_call``, role ``function``) is read as it is and made modern by ``modernize``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orihon.values.message.dialects import Fields, absent_note, read_content, read_mapping, read_role
from orihon.values.message.extra import expect, pack, rest, wrong_type
from orihon.values.message.parts import ToolCall

_OPTIONAL = ("tool_calls", "tool_call_id", "name", "tool_name")
KNOWN = ("role", "content", *_OPTIONAL)
_ALWAYS_THERE = frozenset(("role", "content"))
_KNOWN_FIELDS = frozenset(KNOWN)


def read(data: object, notes: Mapping[str, Any] | None = None) -> Fields:
    """The fields of a chat message; ``notes`` are added to its extra."""
    return read_walked(read_mapping(data), notes)


def read_walked(message: Mapping[str, Any], notes: Mapping[str, Any] | None = None) -> Fields:
    """The same for a message of which it is known already that it can be walked."""
    role = read_role(message.get("role"), also=("function",))
    content, parts = read_content(message.get("content"))
    all_notes = {**absent_note(message, "content"), **(notes or {})}
    read = Fields(role=role, content=content, parts=parts)
    if not message.keys() <= _ALWAYS_THERE:
        as_sent = {key: message[key] for key in _OPTIONAL if key in message and message[key] in (None, [])}
        if as_sent:
            all_notes["as_sent"] = as_sent
        read["tool_calls"] = read_tool_calls(message.get("tool_calls"))
        read["tool_call_id"] = read_text(message.get("tool_call_id"), "tool_call_id")
        read["name"] = read_text(message.get("name"), "name")
        read["tool_name"] = read_text(message.get("tool_name"), "tool_name")
    is_known = message.keys() <= _KNOWN_FIELDS
    if all_notes or not is_known:
        read["extra"] = pack(() if is_known else rest(message, *KNOWN), all_notes)
    return read


def read_text(value: object, field: str) -> str | None:
    """A text or nothing."""
    return None if value is None else expect(value, str, field)


def read_tool_calls(value: object) -> tuple[ToolCall, ...]:
    """Tool calls given as chat dicts or as values."""
    if value is None:
        return ()
    if not isinstance(value, (list, tuple)):
        raise wrong_type(value, "list", "tool_calls")
    return tuple(call if isinstance(call, ToolCall) else ToolCall.from_chat(call) for call in value)


def is_old(role: str, tool_calls: tuple[ToolCall, ...], extra: Mapping[str, Any]) -> bool:
    """Whether a message is written in the old form."""
    return role == "function" or (not tool_calls and extra.get("function_call") is not None)


def modernize(data: Mapping[str, Any]) -> Fields:
    """A message of the old form in the modern one.

    The call gets the id "" and the result none at all, because the old form had no ids: the store gives them.
    """
    if data["role"] == "function":
        return read({**dict(rest(data, "name")), "role": "tool", "tool_name": data.get("name")})
    call = {"id": "", "type": "function", "function": data["function_call"]}
    return read({**dict(rest(data, "function_call")), "tool_calls": [call]})
