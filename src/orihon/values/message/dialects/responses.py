"""OpenAI Responses items: messages, tool calls, their outputs and reasoning, each an item of its own.

Items that Orihon has no fields for (reasoning, calls of built-in tools, whatever comes next) are kept whole,
as the only part of their message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orihon.system import jsonio
from orihon.values.message.dialects import (
    ChatMessage,
    Fields,
    absent_note,
    chat_content,
    read_content,
    read_mapping,
    read_role,
    with_notes,
)
from orihon.values.message.extra import expect, notes_of, pack, rest, restore
from orihon.values.message.parts import Part, ToolCall

# Item type -> type of the call in chat, and where both keep what the model wrote.
_CALLS = {"function_call": ("function", "arguments"), "custom_tool_call": ("custom", "input")}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_ENVELOPE = ("type", "id", "call_id", "status")


def read(data: object) -> Fields:
    """The fields of a Responses item; the role is derived where the item has none."""
    item = read_mapping(data)
    kind = None if item.get("type") is None else expect(item["type"], str, "type")
    if kind == "message" or (kind is None and ("role" in item or "id" not in item)):
        return _read_message(item)
    if kind in _CALLS:
        return _read_call(item, kind)
    if kind in _OUTPUTS and not isinstance(item.get("output"), Mapping):  # Codex has written objects there
        return _read_output(item)
    extra = pack((), {"whole": True})
    return Fields(role=_role(kind), parts=(Part.of(item),), extra=extra, dialect="responses")


def write(
    role: str,
    content: str | list[dict[str, Any]] | None,
    tool_calls: tuple[ToolCall, ...],
    tool_call_id: str | None,
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """The item that was read."""
    if notes_of(extra).get("whole"):
        assert isinstance(content, list)
        return content[0]
    kind = extra.get("type")
    if kind in _CALLS:
        call = tool_calls[0].to_chat()
        return restore({"call_id": call["id"], **call[_CALLS[kind][0]]}, extra)
    if kind in _OUTPUTS:
        return restore({"call_id": tool_call_id, "output": content}, extra)
    return restore({"role": role, "content": content}, extra)


def as_chat(item: Mapping[str, Any]) -> ChatMessage:
    """The chat message that says the same."""
    kind = item.get("type") or ("message" if "role" in item else "item_reference")
    if kind == "message":
        chat, leftovers = chat_content(item.get("content"))
        message = {"role": item["role"], "content": chat}
        fields = dict(rest(item, "type", "role", "content"))
        return with_notes(message, "responses", blocks=leftovers, fields=fields)
    if kind == "reasoning":
        return with_notes({"role": "assistant", "content": None}, "responses", reasoning=[item])
    if kind.endswith("_call_output"):
        return _output_as_chat(item)
    if kind.endswith("_call") and isinstance(item.get("call_id"), str):
        return _call_as_chat(item, kind)
    chat, leftovers = chat_content([item])
    return with_notes({"role": _role(kind), "content": chat}, "responses", blocks=leftovers)


def _read_message(item: Mapping[str, Any]) -> Fields:
    content, parts = read_content(item.get("content"))
    extra = pack(rest(item, "role", "content"), absent_note(item, "content"))
    role = read_role(item.get("role"))
    return Fields(role=role, content=content, parts=parts, extra=extra, dialect="responses")


def _read_call(item: Mapping[str, Any], kind: str) -> Fields:
    call = ToolCall.from_chat(_chat_call(item, kind))
    extra = pack(rest(item, "call_id", "name", _CALLS[kind][1]))
    return Fields(role="assistant", tool_calls=(call,), extra=extra, dialect="responses")


def _chat_call(item: Mapping[str, Any], kind: str) -> dict[str, Any]:
    call_id = expect(item.get("call_id"), str, "call_id")
    call_type, words = _CALLS[kind]
    asked = {key: item[key] for key in ("name", words) if key in item}
    return {"id": call_id, "type": call_type, call_type: asked}


def _read_output(item: Mapping[str, Any]) -> Fields:
    content, parts = read_content(item.get("output"), "output")
    return Fields(
        role="tool",
        content=content,
        parts=parts,
        tool_call_id=expect(item.get("call_id"), str, "call_id"),
        extra=pack(rest(item, "call_id", "output"), absent_note(item, "output")),
        dialect="responses",
    )


def _role(kind: str | None) -> str:
    if kind is None:
        return "assistant"
    if kind.endswith("_call_output"):
        return "tool"
    return "user" if kind == "mcp_approval_response" else "assistant"


def _call_as_chat(item: Mapping[str, Any], kind: str) -> ChatMessage:
    if kind in _CALLS:
        call = _chat_call(item, kind)
        taken: tuple[str, ...] = ("type", "call_id", "name", _CALLS[kind][1])
    else:  # a built-in tool: its type is its name, and what it was asked is all that is not envelope
        asked = dict(rest(item, *_ENVELOPE))
        taken = ("call_id", *asked)
        function = {"name": kind.removesuffix("_call"), "arguments": jsonio.encode(asked).decode()}
        call = {"id": item["call_id"], "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return with_notes(message, "responses", fields=dict(rest(item, *taken)))


def _output_as_chat(item: Mapping[str, Any]) -> ChatMessage:
    output = item.get("output")
    if isinstance(output, Mapping):
        output = [output]
    chat, leftovers = chat_content(output)
    message = {"role": "tool", "content": chat, "tool_call_id": item.get("call_id") or item.get("id")}
    implied = ("type",) if item.get("type") in _OUTPUTS else ()
    fields = dict(rest(item, "call_id", "output", *implied))
    return with_notes(message, "responses", blocks=leftovers, fields=fields)
