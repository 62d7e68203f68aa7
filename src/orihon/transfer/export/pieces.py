"""What is in a message, piece by piece, for people: texts, thoughts, pictures, calls, and what cannot be shown."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orihon.system import jsonio
from orihon.values.message.extra import notes_of
from orihon.values.message.message import Message, Part, ToolCall

_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
#: Raster pictures that every browser shows and that can carry no script, by their first bytes.
_MAGIC = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
_HEADER_CHARACTERS = 32
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True, slots=True)
class RasterImage:
    """A raster picture; ``type`` is what its bytes say, not what its sender said."""

    type: str
    encoded: str


@dataclass(frozen=True, slots=True)
class MessagePiece:
    """``text`` is said, ``thought`` was only thought; ``unshown`` names something that is in the task but not here."""

    kind: Literal["text", "thought", "picture", "unshown"]
    text: str = ""
    picture: RasterImage | None = None


def pieces_of(message: Message) -> Iterator[MessagePiece]:
    """Thoughts first, as they came; calls apart."""
    for thought in _thoughts(message.extra):
        yield MessagePiece("thought", thought)
    if message.content:
        yield MessagePiece("text", message.content)
    for part in message.parts or ():
        yield from _pieces_of_part(part)
    if isinstance(refusal := message.extra.get("refusal"), str):
        yield MessagePiece("text", refusal)


def _pieces_of_part(part: Part) -> Iterator[MessagePiece]:
    if part.kind == "image":
        yield _picture(part.data)
        return
    kind: Literal["text", "thought"] = "thought" if part.kind == "reasoning" else "text"
    if said := part.text:
        yield MessagePiece(kind, said)
    pictures = list(part.images())
    for picture in pictures:
        yield _picture(picture.data)
    if not said and not pictures:
        yield MessagePiece("unshown", _name_of(part.data))


def _thoughts(extra: Mapping[str, Any]) -> Iterator[str]:
    for field in _THOUGHTS:
        if isinstance(said := extra.get(field), str) and said:
            yield said
    for block in notes_of(extra).get("reasoning") or ():
        if isinstance(block, Mapping) and (said := Part.of(block).text):
            yield said


def _picture(data: Mapping[str, Any]) -> MessagePiece:
    source = data.get("image_url") or data.get("source") or {}
    source = source if isinstance(source, Mapping) else {"url": source}
    sent = str(source.get("data") or source.get("url") or "")
    head, comma, body = sent.partition(",") if sent.startswith("data:") else ("", "", sent)
    kind = _type_of(body) if not comma or head.endswith(";base64") else None
    if kind is not None and _BASE64.fullmatch(body):
        return MessagePiece("picture", picture=RasterImage(kind, body))
    place = "" if sent.startswith("data:") or not source.get("url") else sent
    return MessagePiece("unshown", f"{_name_of(data)} {place}".rstrip())


def _type_of(encoded: str) -> str | None:
    try:
        start = base64.b64decode(encoded[:_HEADER_CHARACTERS], validate=True)
    except (binascii.Error, ValueError):
        return None
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


def _name_of(data: Mapping[str, Any]) -> str:
    """The type of a block, and the name of its file."""
    inner = data.get("file")
    named = (data, inner) if isinstance(inner, Mapping) else (data,)
    names = [str(one[key]) for one in named for key in ("filename", "file_id", "title") if one.get(key)]
    return " ".join([str(data.get("type", "?")), *names[:1]])


def call_name(call: ToolCall) -> str:
    """The tool that is called; of a call nobody knows, its type."""
    return call.name or str(call.extra.get("type", "?"))


def call_arguments(call: ToolCall) -> str:
    """The arguments, indented where they are JSON."""
    if not call.name:
        return pretty(call.to_chat())
    try:
        value = jsonio.decode(call.arguments)
    except ValueError:
        return call.arguments
    return pretty(value) if isinstance(value, dict | list) else call.arguments


def pretty(value: Any) -> str:
    """Data for people: a text as it is, anything else as indented JSON."""
    return value if isinstance(value, str) else jsonio.encode_pretty(value).decode().rstrip()
