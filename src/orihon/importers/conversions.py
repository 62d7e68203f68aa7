"""Messages in the words of a provider, as chat messages at once.

The same as ``Message.from_anthropic(…).as_chat()`` and ``Message.from_responses(…).as_chat()``, without the way there
and back: a transcript is read once, and nobody wants the provider's own form again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orihon.errors import InvalidMessage
from orihon.values.message.dialects import anthropic, chat, responses
from orihon.values.message.dialects.chat import read_text, read_tool_calls
from orihon.values.message.dialects.fields import read_content, read_role
from orihon.values.message.extra import check_depth, pack, wrong_type
from orihon.values.message.message import Message


def from_anthropic(message: Mapping[str, Any]) -> list[Message]:
    """The chat messages of one of Anthropic's: a result each, then what else was said."""
    content = message.get("content")
    if content is not None and not isinstance(content, str | list):
        raise wrong_type(content, "str, list or None", "content")
    check_depth(message, "message")
    try:
        return [_message(data, notes) for data, notes in anthropic.as_chat(message)]
    except (TypeError, KeyError, AttributeError) as error:
        raise _malformed(error) from error


def from_responses(item: Mapping[str, Any]) -> Message:
    """The chat message of an item of OpenAI Responses."""
    check_depth(item, "message")
    try:
        return _message(*responses.as_chat(item))
    except (TypeError, KeyError, AttributeError) as error:
        raise _malformed(error) from error


def _message(data: dict[str, Any], notes: dict[str, Any]) -> Message:
    """The same as ``Message(**chat.read(data, notes))`` for what a dialect has made of a message that can be walked."""
    call_id = data.get("tool_call_id")
    if call_id is None and "tool_call_id" in data:
        return Message(**chat.read_walked(data, notes))
    content, parts = read_content(data["content"])
    return Message(
        read_role(data["role"], also=("function",)),
        content,
        parts,
        read_tool_calls(data["tool_calls"]) if "tool_calls" in data else (),
        read_text(call_id, "tool_call_id"),
        extra=pack((), notes) if notes else {},
    )


def _malformed(error: Exception) -> InvalidMessage:
    return InvalidMessage("wrong_type", field="content[]", expected="dict", actual=f"{type(error).__name__}: {error}")
