"""What of a message goes over the wire: an OpenAI chat message that the providers accept.

Promises that no text is empty, that there are no lone surrogates (they are not UTF-8), and that a field which
APIs send but refuse to take back is left out. Fields that they take back, such as ``reasoning_content`` or
``refusal``, stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from orihon.values.message.extra import fields_of
from orihon.values.message.parts import Part, ToolCall

EMPTY = "(empty)"
NO_OUTPUT = "(no output)"

# Parts of an answer that the same API refuses, or ignores at best, in a request.
RESPONSE_ONLY = frozenset(
    (
        "annotations",
        "finish_reason",
        "function_call",
        "index",
        "logprobs",
        "parsed",
        "provider_specific_fields",
        "stop_reason",
        "token_ids",
        "usage",
    )
)
# Fields beside the common ones that some provider takes in a request; what else a program hands over is its own.
SENT_FIELDS = RESPONSE_ONLY | {
    *("audio", "cache_control", "images", "partial", "prefix", "refusal", "weight"),
    *("extra_content", "reasoning", "reasoning_content", "reasoning_details", "thinking", "thinking_blocks"),
}
_CALL_RESPONSE_ONLY = frozenset(("index",))
# Only a user may send these; anyone else's are named in a text.
_USER_ONLY_KINDS = frozenset(("image", "file", "audio"))
_SURROGATE = re.compile("[\ud800-\udfff]")
# OpenAI takes names of up to 64 characters, without these.
_NOT_IN_A_NAME = re.compile(r"[\s<|\\/>]")


def clean(text: str) -> str:
    """``text`` with U+FFFD in place of each surrogate."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text)
    return text


def wire_content(
    role: str, content: str | None, parts: tuple[Part, ...] | None, *, may_be_null: bool
) -> str | list[Any] | None:
    """Content that is never empty, unless null is allowed."""
    if parts is None:
        if content and not content.isspace():
            return clean(content)
    elif wire_parts := [_wire_part(role, part) for part in parts if part.kind != "text" or part.text.strip()]:
        return wire_parts
    return None if may_be_null else placeholder(role)


def placeholder(role: str) -> str:
    """What stands for content that is not there."""
    return NO_OUTPUT if role == "tool" else EMPTY


def wire_name(name: str) -> str:
    """A name in the form that the providers take."""
    return _NOT_IN_A_NAME.sub("_", clean(name))[:64]


def wire_call(call: ToolCall) -> dict[str, Any]:
    """A tool call whose arguments are a JSON text, whatever form they came in."""
    if not call.extra:
        return {
            "id": clean(call.id),
            "type": "function",
            "function": {"name": clean(call.name), "arguments": clean(call.arguments) or "{}"},
        }
    data = {key: value for key, value in call.to_chat().items() if key not in _CALL_RESPONSE_ONLY}
    data["id"] = call.id
    data["type"] = data.get("type") or "function"
    function = data.get("function")
    if isinstance(function, Mapping):
        known = {"name": call.name, "arguments": call.arguments or "{}"}
        data["function"] = {key: value for key, value in {**function, **known}.items() if key != "index"}
    cleaned: dict[str, Any] = _clean_value(data)
    return cleaned


def wire_fields(extra: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The unknown fields that go back to the provider: those that say something and may be sent."""
    for key, value in fields_of(extra):
        if value is None or key in RESPONSE_ONLY:
            continue
        if key == "audio":
            # An answer carries the sound itself; a request refers to it.
            if isinstance(value, Mapping) and isinstance(value.get("id"), str):
                yield key, {"id": clean(value["id"])}
            continue
        yield clean(key), _clean_value(value)


def _wire_part(role: str, part: Part) -> Any:
    if role != "user" and part.kind in _USER_ONLY_KINDS:
        return {"type": "text", "text": f"[{part.kind}]"}
    return _clean_value(part.data)


def _clean_value(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {clean(key): _clean_value(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_clean_value(item) for item in value]
    return value
