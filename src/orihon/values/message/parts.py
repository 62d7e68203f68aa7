"""``Part`` and ``ToolCall``: the pieces a message is made of.

A part is one content block of a provider, untouched, with the one word for its kind that Orihon needs. A tool
call keeps the arguments as the text the provider sent. Both give back exactly the dict they were made from.
Nested provider data is shared with the caller, not copied: treat it as read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from orihon.system import jsonio
from orihon.values.message.extra import expect, fields_of, notes_of, pack, rest, restore, wrong_type
from orihon.values.message.strings import content_strings, map_content, map_json_text

_KINDS = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "text",
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "computer_screenshot": "image",
    "file": "file",
    "input_file": "file",
    "document": "file",
    "audio": "audio",
    "audio_url": "audio",
    "input_audio": "audio",
    "thinking": "reasoning",
    "redacted_thinking": "reasoning",
    "reasoning": "reasoning",
    "reasoning_text": "reasoning",
    "summary_text": "reasoning",
}
# Providers keep adding tools of their own; these endings are how they name the blocks.
_KINDS_BY_ENDING = (
    (("tool_use", "_call"), "tool_call"),
    (("tool_result", "_call_output"), "tool_result"),
)
_TEXT_KEYS = ("text", "refusal")
_NESTED_TEXT_KEYS = ("thinking", "summary", "content", "output")


@dataclass(frozen=True, slots=True)
class Part:
    """One content block.

    ``kind`` is one of "text", "image", "file", "audio", "reasoning", "tool_call", "tool_result", "other".
    """

    kind: str
    data: Mapping[str, Any] = field(hash=False)

    @classmethod
    def of(cls, block: object, where: str = "content[]") -> Part:
        """The part for a provider's block."""
        if not isinstance(block, (dict, Mapping)):  # a dict is told at once, a mapping is asked for
            raise wrong_type(block, "dict", where)
        return cls(_kind(block.get("type")), block if isinstance(block, dict) else dict(block))

    @property
    def text(self) -> str:
        """What a person could read of it; '' if there is nothing."""
        return _readable(self.data)

    def countable(self) -> Iterator[str]:
        """Every string of it that costs tokens; pictures and sound are priced by other rules."""
        if self.kind not in ("image", "audio"):
            yield from content_strings(self.data)

    def images(self) -> Iterator[Part]:
        """Itself if it is an image, or the images inside a tool result."""
        if self.kind == "image":
            yield self
        nested = self.data.get("content")
        if self.kind == "tool_result" and isinstance(nested, list):
            for block in nested:
                if isinstance(block, Mapping):
                    yield from Part.of(block).images()

    def map_strings(self, f: Callable[[str], str]) -> Part:
        """The part with ``f`` applied to its content; itself when nothing changes."""
        data = map_content(self.data, f)
        return self if data is self.data else Part(self.kind, data)


def _kind(block_type: object) -> str:
    if not isinstance(block_type, str):
        return "other"
    known = _KINDS.get(block_type)
    if known is not None:
        return known
    for endings, kind in _KINDS_BY_ENDING:
        if block_type.endswith(endings):
            return kind
    return "other"


def _readable(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for text in map(_readable, value) if text)
    if not isinstance(value, Mapping):
        return ""
    for key in _TEXT_KEYS:
        if isinstance(text := value.get(key), str):
            return text
    source = value.get("source")
    if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
        return _readable(source.get("data") or source.get("content"))
    return _readable([value.get(key) for key in _NESTED_TEXT_KEYS])


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool by the model.

    ``arguments`` is the text as the provider sent it: JSON for a function, free text for a call of type
    "custom". ``extra`` mirrors the shape of the chat dict, without ``id``, ``name`` and ``arguments``.
    """

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def from_chat(cls, data: Mapping[str, Any]) -> ToolCall:
        """The call that a chat message holds under ``tool_calls``."""
        if not isinstance(data, (dict, Mapping)):
            raise wrong_type(data, "dict", "tool_calls[]")
        if (plain := _plain_call(data)) is not None:
            return cls(*plain)
        payload_key, text_key = _payload_keys(data.get("type"))
        notes, others = _read_envelope(data, payload_key)
        call_id = "" if data.get("id") is None else expect(data["id"], str, "tool_calls[].id")
        payload = data.get(payload_key)
        if not isinstance(payload, Mapping):
            if data.get("type") in (None, "function", "custom"):
                raise wrong_type(payload, "dict", f"tool_calls[].{payload_key}")
            opaque = {**others, payload_key: payload} if payload_key in data else others
            return cls(call_id, "", "", pack(opaque.items(), {**notes, "opaque": True}))
        name = expect(payload.get("name"), str, f"tool_calls[].{payload_key}.name")
        arguments, form = _read_arguments(payload, text_key)
        if form:
            notes["arguments"] = form
        if unknown := dict(rest(payload, "name", text_key)):
            others[payload_key] = unknown
        return cls(call_id, name, arguments, pack(others.items(), notes))

    def to_chat(self) -> dict[str, Any]:
        """The chat dict: the one it was made from, or the canonical form."""
        data: dict[str, Any] = {"id": self.id, "type": "function"}
        if not self.extra:
            data["function"] = {"name": self.name, "arguments": self.arguments}
            return data
        restore(data, self.extra)
        notes = notes_of(self.extra)
        if notes.get("opaque"):
            return data
        payload_key, text_key = _payload_keys(data.get("type"))
        payload = {"name": self.name, text_key: self.arguments, **data.get(payload_key, {})}
        match notes.get("arguments"):
            case "absent":
                del payload[text_key]
            case "null":
                payload[text_key] = None
            case "json":
                payload[text_key] = jsonio.decode(self.arguments)
        data[payload_key] = payload
        return data

    def countable(self) -> Iterator[str]:
        """Every string of it that costs tokens."""
        if notes_of(self.extra).get("opaque"):
            yield from content_strings(dict(fields_of(self.extra)))
        else:
            yield self.name
            yield self.arguments

    def map_strings(self, f: Callable[[str], str]) -> ToolCall:
        """The call with ``f`` applied to its arguments and unknown fields; itself when nothing changes."""
        arguments = map_json_text(self.arguments, f) if self.arguments else self.arguments
        extra = map_content(self.extra, f) if self.extra else self.extra
        if arguments == self.arguments and extra is self.extra:
            return self
        return replace(self, arguments=arguments, extra=extra)


def _plain_call(data: Mapping[str, Any]) -> tuple[str, str, str] | None:
    """Id, name and arguments of a call in canonical form, as nearly all are."""
    asked = data.get("function")
    if len(data) != 3 or data.get("type") != "function" or type(asked) is not dict or len(asked) != 2:
        return None
    call_id, name, arguments = data.get("id"), asked.get("name"), asked.get("arguments")
    if isinstance(call_id, str) and isinstance(name, str) and isinstance(arguments, str):
        return call_id, name, arguments
    return None


def _payload_keys(call_type: object) -> tuple[str, str]:
    return ("custom", "input") if call_type == "custom" else ("function", "arguments")


def _read_envelope(data: Mapping[str, Any], payload_key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Notes and unknown fields of a call, the payload apart."""
    notes: dict[str, Any] = {}
    others = dict(rest(data, "id", "type", payload_key))
    if "type" in data and data["type"] != "function":
        others["type"] = data["type"]
    if absent := [key for key in ("id", "type") if key not in data]:
        notes["absent"] = absent
    if "id" in data and data["id"] is None:
        notes["as_sent"] = {"id": None}
    return notes, others


def _read_arguments(payload: Mapping[str, Any], text_key: str) -> tuple[str, str]:
    """The text, and how it was sent if not as a text."""
    if text_key not in payload:
        return "", "absent"
    value = payload[text_key]
    if isinstance(value, str):
        return value, ""
    if value is None:
        return "", "null"
    if isinstance(value, (dict, list)):  # Ollama sends the value itself
        return jsonio.encode(value).decode(), "json"
    raise wrong_type(value, "str", f"tool_calls[].{text_key}")
