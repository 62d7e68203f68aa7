"""How each provider writes a message: one module a dialect, plain dicts in, fields of a ``Message`` out.

The modules know nothing of ``Message`` itself; it is built on them. Converting into chat form returns chat
dicts with notes (see ``message.extra``) for everything that a chat message has no place for, so that nothing
is lost.

What all dialects share: the fields of a message as they are read, its role and its content.

Content blocks of Anthropic and Responses in chat form.

What a chat part has no field for (``cache_control``, citations, titles …) is handed back beside it. A block
that chat cannot express at all becomes a text: what is readable in it, or its type in brackets; then the
whole block is handed back, so that nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Required, TypedDict

from orihon.errors import InvalidMessage
from orihon.values.message.extra import check_depth, expect, wrong_type
from orihon.values.message.parts import Part, ToolCall

ROLES = ("system", "developer", "user", "assistant", "tool")

Content = str | None
Parts = tuple[Part, ...] | None


class Fields(TypedDict, total=False):
    """Keyword arguments of ``Message``."""

    role: Required[str]
    content: Content
    parts: Parts
    tool_calls: tuple[ToolCall, ...]
    tool_call_id: str | None
    name: str | None
    tool_name: str | None
    extra: Mapping[str, Any]
    dialect: str


def read_mapping(data: object) -> Mapping[str, Any]:
    """A provider's dict, if it is one that can be walked."""
    if not isinstance(data, (dict, Mapping)):  # a dict is told at once, a mapping is asked for
        raise wrong_type(data, "dict", "message")
    check_depth(data, "message")
    return data


def read_role(role: object, also: tuple[str, ...] = ()) -> str:
    """A role that Orihon knows, or one of those that only this dialect has."""
    name = expect(role, str, "role")
    if name not in ROLES and name not in also:
        raise InvalidMessage("unknown_role", role=name, known=", ".join(ROLES))
    return name


def read_content(value: object, field: str = "content") -> tuple[Content, Parts]:
    """Content that is a text, a list of blocks, or nothing."""
    if value is None or isinstance(value, str):
        return value, None
    if isinstance(value, (list, tuple)):
        return None, tuple(Part.of(block, f"{field}[]") for block in value)
    raise wrong_type(value, "str, list or None", field)


def absent_note(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The note that a key of the canonical form was not there."""
    return {} if key in data else {"absent": [key]}


# A chat dict, and the notes that go with it.
ChatMessage = tuple[dict[str, Any], dict[str, Any]]

# The chat form of a block and the keys that it covers.
_Converted = tuple[dict[str, Any], tuple[str, ...]]

_TEXTS = ("text", "input_text", "output_text")


def with_notes(message: dict[str, Any], dialect: str, **notes: Any) -> ChatMessage:
    """A chat message with those notes that say something, and where they come from if there are any."""
    telling = {key: note for key, note in notes.items() if note}
    return message, {"dialect": dialect, **telling} if telling else {}


def chat_content(blocks: object) -> tuple[str | list[dict[str, Any]] | None, dict[str, Any]]:
    """Chat content for a text or a list of blocks, and what did not fit, by index.

    A single text becomes a plain string, since that is what most chat messages hold.
    """
    if not isinstance(blocks, list):
        return (blocks if isinstance(blocks, str) else None), {}
    if len(blocks) == 1 and (text := _plain_text(blocks[0])) is not None:
        return text, {}
    converted = [_convert(block) for block in blocks]
    leftovers = {str(index): unfit for index, (_, unfit) in enumerate(converted) if unfit}
    parts = [part for part, _ in converted]
    if not parts:
        return None, leftovers
    if len(parts) == 1 and parts[0].get("type") == "text":
        return parts[0]["text"], leftovers
    return parts, leftovers


def _plain_text(block: object) -> str | None:
    """The text of a block that is nothing else, as nearly all are."""
    if not isinstance(block, dict) or len(block) != 2 or block.get("type") not in _TEXTS:
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


def _convert(block: object) -> tuple[dict[str, Any], dict[str, Any]]:
    part = Part.of(block)
    form = _chat_form(part)
    if form is None:
        return {"type": "text", "text": _in_words(part)}, dict(part.data)
    chat, covered = form
    unfit = {key: value for key, value in part.data.items() if key not in covered and value not in (None, [])}
    return chat, unfit


def _in_words(part: Part) -> str:
    return part.text or "\n".join(part.countable()) or f"[{part.data.get('type', 'item')}]"


def _chat_form(part: Part) -> _Converted | None:
    match part.data.get("type"):
        case "text" | "input_text" | "output_text":
            text = part.data.get("text")
            return ({"type": "text", "text": text}, ("type", "text")) if isinstance(text, str) else None
        case "refusal" | "input_audio" | "image_url" | "file":
            return dict(part.data), tuple(part.data)
        case "image":
            return _image(_source_url(part.data.get("source")), "source")
        case "input_image":
            return _image(part.data.get("image_url"), "image_url", part.data.get("detail"))
        case "computer_screenshot":
            return _image(part.data.get("image_url"), "image_url")
        case "document":
            return _document(part.data)
        case "input_file":
            return _input_file(part.data)
    return None


def _image(url: object, key: str, detail: object = None) -> _Converted | None:
    if not isinstance(url, str):
        return None
    image = {"url": url} if detail is None else {"url": url, "detail": detail}
    return {"type": "image_url", "image_url": image}, ("type", key, "detail")


def _source_url(source: object) -> str | None:
    """The URL of an Anthropic source; files of its own store have none."""
    if not isinstance(source, Mapping):
        return None
    match source.get("type"):
        case "base64":
            return f"data:{source.get('media_type')};base64,{source.get('data')}"
        case "url":
            url = source.get("url")
            return url if isinstance(url, str) else None
    return None


def _document(block: Mapping[str, Any]) -> _Converted | None:
    source = block.get("source")
    if isinstance(source, Mapping) and source.get("type") == "text" and isinstance(source.get("data"), str):
        return {"type": "text", "text": source["data"]}, ("type", "source")
    url = _source_url(source)
    if url is None or not url.startswith("data:"):
        return None
    title = block.get("title")
    name = title if isinstance(title, str) and title else "document.pdf"
    return {"type": "file", "file": {"filename": name, "file_data": url}}, ("type", "source", "title")


def _input_file(block: Mapping[str, Any]) -> _Converted | None:
    keys = tuple(key for key in ("file_id", "file_data", "filename") if block.get(key) is not None)
    if "file_id" not in keys and "file_data" not in keys:
        return None
    return {"type": "file", "file": {key: block[key] for key in keys}}, ("type", *keys)
