"""``Message``: one message of a conversation, as a frozen value.

Lossless to and from the dicts of three dialects: OpenAI Chat Completions ("chat"), OpenAI Responses items
("responses") and Anthropic Messages ("anthropic"); what a message has no field for is kept in ``extra`` (see
``message.extra``). The log holds only chat messages: ``as_chat`` turns the others into such. Refuses malformed
input with ``InvalidMessage``. Nested provider data is shared with the caller, not copied: treat it as
read-only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

from orihon.errors import InvalidMessage
from orihon.values.message.dialects import ROLES, anthropic, chat, read_content, read_role, responses
from orihon.values.message.extra import NOTES, check_depth, pack, restore, wrong_type
from orihon.values.message.parts import Part, ToolCall
from orihon.values.message.strings import content_strings, map_across, map_content
from orihon.values.message.wire import clean, wire_call, wire_content, wire_fields, wire_name

__all__ = ["ROLES", "Message", "Part", "ToolCall"]

_Piece = TypeVar("_Piece", Part, ToolCall)

# Unknown fields that go back to the model and are read by it.
_COUNTED_FIELDS = (
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking",
    "refusal",
    "function_call",
)
# Notes that hold what the provider said, not how it said it.
_CONTENT_NOTES = ("fields", "reasoning", "blocks", "calls")
_UNREADABLE_KINDS = ("reasoning", "tool_call")


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``parts`` is set, and ``content`` None, when the provider's content was a list of blocks.

    ``tool_name`` names the tool whose result a message of role "tool" carries. ``calls``, ``answers``,
    ``body`` and ``request`` are for the chat dialect; call ``as_chat`` first.
    """

    role: str
    content: str | None = None
    parts: tuple[Part, ...] | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    tool_name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)
    dialect: str = "chat"
    unsent: tuple[str, ...] = ()  # fields of ``extra`` that a program keeps for itself

    @classmethod
    def build(
        cls,
        role: str,
        content: str | Sequence[Mapping[str, Any]] | None = None,
        *,
        tool_name: str | None = None,
        tool_calls: Sequence[ToolCall | Mapping[str, Any]] | None = None,
        tool_call_id: str | None = None,
        name: str | None = None,
        extra: Mapping[str, Any] | None = None,
        unsent: Iterable[str] = (),
    ) -> Message:
        """A chat message in modern form, from checked values; ``extra`` is the caller's data, never notes.

        Its fields that ``unsent`` names are kept, and no provider sees them.
        """
        text, parts = read_content(content)
        if parts is not None:
            check_depth(content, "content")
        message = cls(
            read_role(role, also=("function",)),
            text,
            parts,
            chat.read_tool_calls(tool_calls),
            chat.read_text(tool_call_id, "tool_call_id"),
            chat.read_text(name, "name"),
            chat.read_text(tool_name, "tool_name"),
            _checked_extra(extra) if extra is not None else {},
        )
        if chat.is_old(message.role, message.tool_calls, message.extra):
            message = message.as_chat()[0]
        return replace(message, unsent=tuple(unsent)) if unsent else message

    @classmethod
    def from_chat(cls, data: Mapping[str, Any]) -> Message:
        """A message of OpenAI Chat Completions."""
        return cls(**chat.read(data))

    def to_chat(self) -> dict[str, Any]:
        """The dict that ``from_chat`` read, or the canonical chat form."""
        self._require("chat")
        data: dict[str, Any] = {"role": self.role, "content": self._raw_content()}
        if self.name is not None:
            data["name"] = self.name
        if self.tool_name is not None:
            data["tool_name"] = self.tool_name
        if self.tool_calls:
            data["tool_calls"] = [call.to_chat() for call in self.tool_calls]
        if self.tool_call_id is not None:
            data["tool_call_id"] = self.tool_call_id
        return restore(data, self.extra) if self.extra else data

    @classmethod
    def from_responses(cls, item: Mapping[str, Any]) -> Message:
        """An item of OpenAI Responses."""
        return cls(**responses.read(item))

    def to_responses(self) -> dict[str, Any]:
        """The item that ``from_responses`` read."""
        self._require("responses")
        return responses.write(self.role, self._raw_content(), self.tool_calls, self.tool_call_id, self.extra)

    @classmethod
    def from_anthropic(cls, message: Mapping[str, Any]) -> Message:
        """A message of Anthropic Messages."""
        return cls(**anthropic.read(message))

    def to_anthropic(self) -> dict[str, Any]:
        """The message that ``from_anthropic`` read."""
        self._require("anthropic")
        return restore({"role": self.role, "content": self._raw_content()}, self.extra)

    def as_chat(self) -> tuple[Message, ...]:
        """The same content as chat messages of the modern form, which can stand in the log.

        Thinking and reasoning lie in the notes of ``extra`` under ``reasoning``. Each item of Responses is
        converted by itself: parallel calls come as one assistant message each.
        """
        if self.dialect == "anthropic":
            return tuple(Message(**chat.read(data, notes)) for data, notes in anthropic.as_chat(self.to_anthropic()))
        if self.dialect == "responses":
            return (Message(**chat.read(*responses.as_chat(self.to_responses()))),)
        if chat.is_old(self.role, self.tool_calls, self.extra):
            return (Message(**chat.modernize(self.to_chat())),)
        return (self,)

    def body(self) -> dict[str, Any]:
        """The message's fields of a log record: role and content always, the others where present."""
        self._require("chat")
        body: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_name is not None:
            body["tool_name"] = self.tool_name
        if self.tool_calls:
            body["tool_calls"] = [call.to_chat() for call in self.tool_calls]
        if self.tool_call_id is not None:
            body["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            body["name"] = self.name
        if self.parts is not None:
            body["parts"] = [part.data for part in self.parts]
        if self.extra:
            body["extra"] = self.extra
        if self.unsent:
            body["unsent"] = [*self.unsent]
        return body

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Message:
        """The message whose body this is; other fields of the record are left alone."""
        content, parts = read_content(body.get("content"))
        if body.get("parts") is not None:
            content, parts = read_content(body["parts"], "parts")
        return cls(
            read_role(body.get("role"), also=("function",)),
            content,
            parts,
            chat.read_tool_calls(body.get("tool_calls")),
            body.get("tool_call_id"),
            body.get("name"),
            body.get("tool_name"),
            body.get("extra") or {},
            unsent=tuple(body.get("unsent") or ()),
        )

    def request(self) -> dict[str, Any]:
        """The message as an OpenAI chat request carries it; see ``orihon.values.message.wire`` for what is promised."""
        self._require("chat")
        if chat.is_old(self.role, self.tool_calls, self.extra):
            return self.as_chat()[0].request()
        may_be_null = bool(self.tool_calls) and self.role == "assistant"
        content = wire_content(self.role, self.content, self.parts, may_be_null=may_be_null)
        data: dict[str, Any] = {"role": self.role, "content": content}
        if self.tool_calls:
            data["tool_calls"] = [wire_call(call) for call in self.tool_calls]
        if self.tool_call_id is not None:
            data["tool_call_id"] = clean(self.tool_call_id)
        if name := self.name or (self.tool_name if self.role == "tool" else None):
            data["name"] = wire_name(name)
        if self.extra:
            taken = {*data, *self.unsent}
            data.update((key, value) for key, value in wire_fields(self.extra) if key not in taken)
        return data

    @property
    def calls(self) -> tuple[str, ...]:
        """The ids of the tool calls it makes."""
        return tuple(call.id for call in self.tool_calls)

    @property
    def answers(self) -> str | None:
        """The id of the tool call whose result it is."""
        return self.tool_call_id if self.role == "tool" else None

    @property
    def text(self) -> str:
        """Everything in it that a person would read; reasoning and tool calls apart."""
        if self.parts is None:
            return self.content or ""
        texts = (part.text for part in self.parts if part.kind not in _UNREADABLE_KINDS)
        return "\n".join(text for text in texts if text)

    def countable(self) -> Iterator[str]:
        """Every string that costs tokens; encoded pictures, sound and files do not count as text."""
        if self.content:
            yield self.content
        for part in self.parts or ():
            yield from part.countable()
        for call in self.tool_calls:
            yield from call.countable()
        if name := self.name or self.tool_name:
            yield name
        for key in _COUNTED_FIELDS:
            if key in self.extra:
                yield from content_strings(self.extra[key])

    def images(self) -> Iterator[Part]:
        """The pictures in it, those inside tool results too."""
        for part in self.parts or ():
            yield from part.images()

    def map_strings(self, f: Callable[[str], str]) -> Message:
        """The message with ``f`` applied to every string that holds content; itself when nothing changes.

        Roles, ids, names of tools, ``type`` values and encoded payloads are left alone. Arguments of tool
        calls that were JSON stay JSON.
        """
        changes: dict[str, Any] = {
            "content": map_content(self.content, f),
            "parts": self.parts and _map_pieces(_map_across(self.parts, f), f),
            "tool_calls": _map_pieces(self.tool_calls, f),
            "name": self.name if self.role == "tool" else map_content(self.name, f),
            "extra": _map_extra(self.extra, f),
        }
        if all(value is getattr(self, key) for key, value in changes.items()):
            return self
        return replace(self, **changes)

    def _raw_content(self) -> str | list[dict[str, Any]] | None:
        return self.content if self.parts is None else [dict(part.data) for part in self.parts]

    def _require(self, dialect: str) -> None:
        if self.dialect != dialect:
            raise InvalidMessage("wrong_type", field="dialect", expected=dialect, actual=self.dialect)


def _checked_extra(extra: object) -> Mapping[str, Any]:
    if not isinstance(extra, Mapping):
        raise wrong_type(extra, "dict", "extra")
    for key in chat.KNOWN:
        if key in extra:
            raise InvalidMessage("reserved_field", field=key)
    check_depth(extra, "extra")
    return pack(extra.items())


def _map_pieces(pieces: tuple[_Piece, ...], f: Callable[[str], str]) -> tuple[_Piece, ...]:
    mapped = tuple(piece.map_strings(f) for piece in pieces)
    return pieces if all(new is old for new, old in zip(mapped, pieces, strict=True)) else mapped


def _map_across(parts: tuple[Part, ...], f: Callable[[str], str]) -> tuple[Part, ...]:
    """The same for what is split over two texts that follow each other."""
    mapped = list(parts)
    texts = [number for number, part in enumerate(parts) if isinstance(part.data.get("text"), str)]
    for first, second in pairwise(texts):
        old = mapped[first].data["text"], mapped[second].data["text"]
        new = map_across(*old, f)
        if new != old:
            for number, text in zip((first, second), new, strict=True):
                mapped[number] = Part(mapped[number].kind, {**mapped[number].data, "text": text})
    return parts if all(one is other for one, other in zip(mapped, parts, strict=True)) else tuple(mapped)


def _map_extra(extra: Mapping[str, Any], f: Callable[[str], str]) -> Mapping[str, Any]:
    notes = extra.get(NOTES)
    if notes is None:
        mapped: Mapping[str, Any] = map_content(extra, f)
        return mapped
    said = {key: notes[key] for key in _CONTENT_NOTES if key in notes}
    fields = {key: value for key, value in extra.items() if key != NOTES}
    new_said, new_fields = map_content(said, f), map_content(fields, f)
    if new_said is said and new_fields is fields:
        return extra
    return {**new_fields, NOTES: {**notes, **new_said}}
