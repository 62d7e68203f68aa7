"""A message for templates, those of pages and of exported files: what was said in pieces, calls, how a call went.

Of a long piece the rest opens on demand. A page gets no more than it needs, an exported file everything.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from markupsafe import Markup

from orihon.system import jsonio
from orihon.transfer.export.about import call_statistics, role_name
from orihon.transfer.export.prose import code, prose
from orihon.transfer.export.story import StoryMessage
from orihon.values.message.extra import notes_of
from orihon.values.message.message import Message, Part, ToolCall
from orihon.values.records import Pin

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
#: Lines and characters that an output shows before it has to be opened.
_HEAD_LINES = 8
_HEAD_CHARACTERS = 900
#: What people and models say is shown further than that.
_SAID_CHARACTERS = 5_000
_SAID_HEAD = 3_000
#: Beyond this nothing is sent unless somebody asks for the whole message.
_MOST_CHARACTERS = 40_000
_MOST_PICTURE = 1 << 20
_OUTPUTS = frozenset({"tool", "function", "system", "developer"})
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_ERROR_CHARACTERS = 300
_NOTHING = Markup()


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


@dataclass(frozen=True, slots=True)
class ContentBlock:
    """A piece of a message. ``rest`` is what opens on demand; ``missing`` characters are not on the page at all."""

    kind: str
    head: Markup = _NOTHING
    rest: Markup = _NOTHING
    lines: int = 0
    missing: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A tool call that a message makes."""

    id: str
    name: str
    arguments: ContentBlock | None


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How a call went."""

    failed: bool
    status: str
    milliseconds: float | None
    error: str


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message, ready for a template."""

    seq: int
    role: str
    kind: str  # the role as a class of the style sheet
    name: str
    call_id: str
    timestamp: str
    tokens: int
    model: str
    blocks: tuple[ContentBlock, ...]
    calls: tuple[ShownCall, ...]
    outcome: ToolOutcome | None
    pins: tuple[Pin, ...]
    preview: ContentBlock | None
    fold: int | None  # of the preview
    is_cut: bool

    @property
    def is_pinned(self) -> bool:
        return any(not pin.line for pin in self.pins)


def shown_message(told: StoryMessage, *, whole: bool = False) -> ShownMessage:
    """A message of the log; ``whole`` leaves nothing out, however long it is."""
    stored, said = told.stored, told.stored.message
    most = None if whole else _MOST_CHARACTERS
    blocks = tuple(_block(piece, said.role, most) for piece in pieces_of(said))
    calls = tuple(_call(call, most) for call in said.tool_calls)
    arguments = (call.arguments for call in calls if call.arguments is not None)
    preview = None if told.preview is None else output(told.preview.text, most)
    return ShownMessage(
        seq=stored.seq,
        role=role_name(said.role),
        kind=said.role if said.role in _ROLES else "other",
        name=str(said.tool_name or said.name or (told.tool or {}).get("tool_name") or ""),
        call_id=said.tool_call_id or "",
        timestamp=stored.timestamp,
        tokens=stored.tokens,
        model="" if stored.call is None else call_statistics(stored.call),
        blocks=blocks,
        calls=calls,
        outcome=None if told.tool is None else outcome(told.tool, whole=whole),
        pins=told.pins,
        preview=preview,
        fold=None if told.preview is None else told.preview.id,
        is_cut=any(one.missing for one in (*blocks, *arguments)),
    )


def outcome(record: Mapping[str, Any], *, whole: bool = False) -> ToolOutcome:
    """What the record of a call says about it."""
    took = record.get("duration_ms")
    status, error = str(record.get("status") or ""), str(record.get("error") or "")
    milliseconds = float(took) if isinstance(took, int | float) else None
    return ToolOutcome(status != "success", status, milliseconds, error if whole else error[:_ERROR_CHARACTERS])


def output(text: str, most: int | None = _MOST_CHARACTERS) -> ContentBlock:
    """What a program has written: its first lines, the rest on demand."""
    kept = text if most is None else text[:most]
    cut = _head_end(kept)
    lines = kept.count("\n", cut) + bool(kept[cut:])
    rest = _rest(kept[cut:], code)
    return ContentBlock("code", code(kept[:cut]), rest, lines, len(text) - len(kept))


def said_text(text: str, most: int | None = _MOST_CHARACTERS) -> ContentBlock:
    """What somebody has written, with its code blocks and headings."""
    kept = text if most is None else text[:most]
    cut = _paragraph_end(kept)
    lines = kept.count("\n", cut) + bool(kept[cut:])
    return ContentBlock("prose", prose(kept[:cut]), _rest(kept[cut:], prose), lines, len(text) - len(kept))


def _head_end(text: str) -> int:
    """Where the first lines end; a little more than them is shown at once."""
    at = 0
    for _ in range(_HEAD_LINES):
        at = text.find("\n", at) + 1
        if not at:
            at = len(text)
            break
    at = min(at, _HEAD_CHARACTERS)
    return len(text) if len(text) - at < _HEAD_CHARACTERS // 4 and text.count("\n", at) <= _HEAD_LINES // 2 else at


def _paragraph_end(text: str) -> int:
    """The end of a paragraph at which a long text can be cut without tearing a block of code."""
    if len(text) <= _SAID_CHARACTERS:
        return len(text)
    at = text.rfind("\n\n", 0, _SAID_HEAD)
    while at > 0 and text.count("```", 0, at) % 2:
        at = text.rfind("\n\n", 0, at)
    return at if at > 0 else _SAID_HEAD


def _rest(text: str, made: Callable[[str], Markup]) -> Markup:
    return made(text) if text.strip() else _NOTHING


def _block(piece: MessagePiece, role: str, most: int | None) -> ContentBlock:
    if piece.picture is not None:
        source = f"data:{piece.picture.type};base64,{piece.picture.encoded}"
        is_small = most is None or len(source) <= _MOST_PICTURE
        return ContentBlock("picture", text=source) if is_small else ContentBlock("picture", missing=len(source))
    if piece.kind == "thought":
        block = said_text(piece.text, most)
        return ContentBlock("thought", block.head + block.rest, missing=block.missing)
    if piece.kind == "unshown":
        return ContentBlock("unshown", text=piece.text)
    return output(piece.text, most) if role in _OUTPUTS else said_text(piece.text, most)


def _call(call: ToolCall, most: int | None) -> ShownCall:
    arguments = call_arguments(call)
    is_empty = arguments.strip() in ("", "{}")
    return ShownCall(call.id, call_name(call), None if is_empty else output(arguments, most))


def entry_blocks(message: Mapping[str, Any]) -> Iterator[ContentBlock]:
    """A message as a provider gets it, in pieces."""
    said = Message.from_chat(message)
    for piece in pieces_of(said):
        yield _block(piece, said.role, _MOST_CHARACTERS)
    for call in said.tool_calls:
        shown = output(call_arguments(call))
        yield ContentBlock("call", shown.head, shown.rest, shown.lines, shown.missing, call_name(call))
