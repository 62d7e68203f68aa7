"""Pieces of one answer of a model, put together to one message without losing any of them.

What the record of a tool call says, from the call and its result in the conversation.

Which messages of a log the other agent never had, so that its counts can be told in ours.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orihon.importers.registry import ToolItem
from orihon.system import jsonio
from orihon.values.message.extra import NOTES, notes_of
from orihon.values.message.message import Message, ToolCall
from orihon.values.message.parts import Part
from orihon.values.records import ModelCall, Usage


def joined(pieces: Sequence[Message]) -> Message:
    """One chat message of several: contents one after the other, then all calls."""
    said = [piece for piece in pieces if not is_empty(piece)]
    if len(said) <= 1:
        return said[0] if said else pieces[0]
    content, parts = _content(said)
    return Message(
        role=said[0].role,
        content=content,
        parts=parts,
        tool_calls=tuple(call for piece in said for call in piece.tool_calls),
        name=next((piece.name for piece in said if piece.name), None),
        extra=_extra(said),
    )


def is_empty(message: Message) -> bool:
    """Does it say nothing at all? Such a piece only carries what a call has used."""
    return not (message.content or message.parts or message.tool_calls or message.extra)


def joined_call(calls: Sequence[ModelCall], *, is_one: bool) -> ModelCall | None:
    """What an answer has used: of one that was recorded in pieces the last word, of several calls the sum."""
    if len(calls) <= 1:
        return calls[0] if calls else None
    usages = [call.usage for call in calls if call.usage is not None]
    costs = [call.cost for call in calls if call.cost is not None]
    if is_one:
        # Each piece repeats the figures, and only the last one knows how much was said.
        usage = max(usages, key=lambda usage: usage.output, default=None)
        return ModelCall(calls[-1].model, usage, max(costs, default=None))
    added = Usage(*(sum(getattr(usage, name) for usage in usages) for name in ("input", "cached", "output")))
    return ModelCall(calls[-1].model, added if usages else None, sum(costs) if costs else None)


def _content(pieces: Sequence[Message]) -> tuple[str | None, tuple[Part, ...] | None]:
    speaking = [piece for piece in pieces if piece.content or piece.parts]
    if len(speaking) == 1:
        return speaking[0].content, speaking[0].parts
    parts = [part for piece in speaking for part in _parts(piece)]
    return (None, tuple(parts)) if parts else (None, None)


def _parts(piece: Message) -> Sequence[Part]:
    if piece.parts is not None:
        return piece.parts
    return [Part.of({"type": "text", "text": piece.content})] if piece.content else []


def _extra(pieces: Sequence[Message]) -> dict[str, Any]:
    if not any(piece.extra for piece in pieces):
        return {}
    extra: dict[str, Any] = {}
    notes: dict[str, Any] = {}
    before = 0  # parts of the pieces before this one
    for piece in pieces:
        _add(extra, {key: value for key, value in piece.extra.items() if key != NOTES})
        for key, note in notes_of(piece.extra).items():
            if key == "reasoning":
                notes.setdefault(key, []).extend(note)
            elif key == "blocks":
                notes.setdefault(key, {}).update({str(int(index) + before): block for index, block in note.items()})
            elif isinstance(note, Mapping):
                _add(notes.setdefault(key, {}), note)
            else:
                notes.setdefault(key, note)
        before += bool(piece.content) if piece.parts is None else len(piece.parts)
    notes.pop("absent", None)
    return {**extra, NOTES: notes} if notes else extra


def _add(fields: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Fields of a later piece; one that says something else stands beside, under a name of its own."""
    for key, value in more.items():
        name, number = key, 1
        while name in fields and fields[name] != value:
            number += 1
            name = f"{key}.{number}"
        fields[name] = value


#: Of a result or an error, so much is kept with the record of the tool call; all of it is in the log.
SHOWN = 1000


def tool_record(call_id: str, call: ToolCall, result: Message, timestamp: str | None) -> ToolItem:
    """The record of a call and its result."""
    is_error, shown = _is_error(result), _shown(result.text)
    return ToolItem(
        tool_name=call.name,
        arguments=_arguments(call.arguments),
        result=None if is_error else shown,
        error=shown if is_error else None,
        status="error" if is_error else "success",
        timestamp=timestamp,
        call_id=call_id,
    )


def _is_error(message: Message) -> bool:
    calls = notes_of(message.extra).get("calls")
    said = calls.get(message.tool_call_id) if isinstance(calls, dict) else None
    return isinstance(said, dict) and said.get("is_error") is True


def _arguments(written: str) -> Any:
    try:
        value = jsonio.decode(written) if written else {}
    except ValueError:
        return {"input": written}  # of a tool that takes any text, or nothing that anybody can read
    return value if isinstance(value, dict) else {"input": value}


def _shown(said: str) -> str:
    return said if len(said) <= SHOWN else said[:SHOWN] + "…"


def merged(known: ToolItem, more: ToolItem) -> ToolItem:
    """What one knows, and what the other knows better."""
    names = ("tool_name", "arguments", "result", "error", "status", "duration_ms", "timestamp", "call_id")
    new = {name: getattr(more, name) for name in names if getattr(more, name) not in (None, "", {})}
    return replace(known, **new)


@dataclass(slots=True)
class Additions:
    """Numbers of messages that were added to make a history legal."""

    _numbers: list[int] = field(default_factory=list)

    def add(self, number: int) -> None:
        """This message is ours."""
        insort(self._numbers, number)

    def reach(self, end: int, count: int) -> int:
        """How many messages up to number ``end`` hold the last ``count`` of the other agent's."""
        wanted = max(count, 0)
        if not wanted:
            return 0
        length = wanted
        while (full := wanted + self._between(end - length, end)) != length:
            length = full
        return length

    def _between(self, after: int, end: int) -> int:
        return bisect_right(self._numbers, end) - bisect_left(self._numbers, after + 1)
