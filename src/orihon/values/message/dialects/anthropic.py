"""Anthropic Messages: a role, and a text or a list of blocks with the tool calls and results among them."""

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
from orihon.values.message.extra import expect, pack, rest

_THINKING = ("thinking", "redacted_thinking")


def read(data: object) -> Fields:
    """The fields of an Anthropic message."""
    message = read_mapping(data)
    role = read_role(message.get("role"))
    content, parts = read_content(message.get("content"))
    extra = pack(rest(message, "role", "content"), absent_note(message, "content"))
    return Fields(role=role, content=content, parts=parts, extra=extra, dialect="anthropic")


def as_chat(message: Mapping[str, Any]) -> list[ChatMessage]:
    """One tool message for each result, then a message with everything else, if there is anything."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    results = [_tool_message(block) for block in blocks if block.get("type") == "tool_result"]
    others = [block for block in blocks if block.get("type") != "tool_result"]
    if others or not results:
        results.append(_message(message["role"], content if isinstance(content, str) else others))
    if fields := dict(rest(message, "role", "content")):
        first, notes = results[0]
        results[0] = first, {"dialect": "anthropic", **notes, "fields": fields}
    return results


def _message(role: str, content: str | list[Mapping[str, Any]]) -> ChatMessage:
    if isinstance(content, str):
        return {"role": role, "content": content}, {}
    calls: list[Mapping[str, Any]] = []
    thinking: list[Mapping[str, Any]] = []
    spoken: list[Mapping[str, Any]] = []
    for block in content:
        kind = block.get("type")
        (calls if kind == "tool_use" else thinking if kind in _THINKING else spoken).append(block)
    chat, leftovers = chat_content(spoken)
    message: dict[str, Any] = {"role": role, "content": chat}
    if calls:
        message["tool_calls"] = [_tool_call(block) for block in calls]
    unfit = {block["id"]: unfit for block in calls if (unfit := dict(rest(block, "type", "id", "name", "input")))}
    return with_notes(message, "anthropic", reasoning=thinking, blocks=leftovers, calls=unfit)


def _tool_call(block: Mapping[str, Any]) -> dict[str, Any]:
    arguments = jsonio.encode(block.get("input", {})).decode()
    return {
        "id": expect(block.get("id"), str, "tool_use.id"),
        "type": "function",
        "function": {"name": block.get("name"), "arguments": arguments},
    }


def _tool_message(block: Mapping[str, Any]) -> ChatMessage:
    chat, leftovers = chat_content(block.get("content"))
    message = {
        "role": "tool",
        "content": chat,
        "tool_call_id": expect(block.get("tool_use_id"), str, "tool_result.tool_use_id"),
    }
    fields = dict(rest(block, "type", "tool_use_id", "content"))
    calls = {message["tool_call_id"]: fields} if fields else {}
    return with_notes(message, "anthropic", blocks=leftovers, calls=calls)
