"""Chat messages: a JSON list, an object with ``messages``, or JSON Lines of either.

OpenAI's, and Anthropic's, which are told by their blocks. Lines that are messages are one conversation. Lines, or
objects of a list, with ``messages`` of their own (data for fine tuning, requests of a batch) are one each. A first line
that is no message tells about the conversation.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

from orihon.errors import InvalidInput
from orihon.importers.files import head_of
from orihon.importers.lines import json_document, json_lines, peek
from orihon.importers.registry import Importer, Problem, SaidItem, Thread, ThreadEnd, TranscriptEvent, TranscriptPart
from orihon.importers.shapes import Unknown, fields, identity, items, model_call, name_for, objects, title, when, words
from orihon.values.message.message import ROLES, Message
from orihon.values.records import ModelCall, Usage

_ROLES = frozenset((*ROLES, "function"))
_TIMES = ("timestamp", "created_at", "created", "time")
#: What a record says about a message, and not in it.
_BESIDE = frozenset((*_TIMES, "usage", "model"))
#: Blocks that only Anthropic's messages have.
_ANTHROPIC = frozenset(("tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"))
#: Where a line keeps its messages besides at its top.
_WRAPPED = ("body", "input", "request")
#: Fields of documents that other formats write around such a list.
_NOT_OURS = frozenset(("trajectory_format", "trajectory", "traj", "simulations", "sessionId", "instance_id", "info"))
_HEADER_LINES = 3
#: So many instructions may stand at the beginning.
_MOST_INSTRUCTIONS = 16


class OpenAIChat(Importer):
    """The reader of chat messages."""

    name = "openai-chat"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        if _NOT_OURS & seen.first.keys():
            return False
        return any(map(_is_message, seen.found[:2])) or _messages_of(seen.first) is not None

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        head = head_of(path)
        if isinstance(head, Problem):
            yield head
        elif peek(head).is_list or (isinstance(next(json_lines(path), None), Problem) and _is_document(path)):
            yield from _read_document(path)
        else:
            yield from _read_lines(path)


def _is_document(path: Path) -> bool:
    """One JSON value over many lines."""
    return not isinstance(json_document(path), Problem)


def _read_document(path: Path) -> Iterator[TranscriptPart]:
    value = json_document(path)
    if isinstance(value, Problem):
        yield value
        return
    if isinstance(value, Mapping):
        yield from _conversation(value, _messages_of(value), path, 0)
        return
    listed = items(value)
    if any(_messages_of(one) for one in listed[:_HEADER_LINES]):
        for number, one in enumerate(listed, start=1):
            yield from _conversation(fields(one), _messages_of(one), path, number)
    elif listed:
        yield from _conversation({}, listed, path, 0)


def _read_lines(path: Path) -> Iterator[TranscriptPart]:
    thread: str | None = None
    about: dict[str, Any] = {}
    head: list[tuple[int, dict[str, Any]]] = []  # held until somebody speaks: many files have the same instructions
    unknown = Unknown()
    for record in json_lines(path):
        if isinstance(record, Problem):
            yield record
            continue
        number, value = record
        if _is_message(value):
            if thread is None:
                head.append(record)
                if _is_instruction(value) and len(head) < _MOST_INSTRUCTIONS:
                    continue
                thread = yield from _begun(about, head, path)
            else:
                yield _said(value, thread, number)
        elif (own := _messages_of(value)) is not None:
            yield from _conversation(value, own, path, number)
        elif thread is None and not about:
            about = value
        else:
            unknown.add(words(value.get("type")) or words(value.get("role")) or "?", number)
    if thread is None and head:
        yield from _begun(about, head, path)
    yield from unknown.problems()


def _begun(
    about: Mapping[str, Any], head: list[tuple[int, dict[str, Any]]], path: Path
) -> Generator[TranscriptPart, None, str]:
    """The thread of a file of messages, and its first ones."""
    thread = _thread(about, [value for _, value in head], path, 0)
    yield thread
    for number, value in head:
        yield _said(value, thread.id, number)
    return thread.id


def _conversation(
    about: Mapping[str, Any], messages: list[Any] | None, path: Path, number: int
) -> Iterator[TranscriptPart]:
    if messages is None:
        yield Problem("unknown_kind", number, {"kind": "?", "count": 1})
        return
    thread = _thread(about, messages, path, number)
    yield thread
    before, after = _system(about, messages), _answer(about)
    for value in (*([before] if before else []), *messages, *([after] if after else [])):
        if _is_message(value):
            yield _said(value, thread.id, number)
        else:
            yield Problem("unknown_kind", number, {"kind": words(fields(value).get("role")) or "?", "count": 1})
    yield ThreadEnd(thread.id)


def _thread(about: Mapping[str, Any], messages: list[Any], path: Path, number: int) -> Thread:
    own = identity(about.get("id")) or identity(about.get("custom_id"))
    first = next((one for one in messages if isinstance(one, Mapping)), {})
    spoken = next((one for one in messages[:_MOST_INSTRUCTIONS] if not _is_instruction(one)), None)
    marks = [own] if own else [str(first.get("content")), str(fields(spoken).get("content"))]
    told = {key: value for key, value in about.items() if isinstance(value, str | int | float) and key != "id"}
    asked = next((one.get("content") for one in messages if fields(one).get("role") == "user"), "")
    return Thread(
        id=name_for(path, str(number), *marks),
        title=words(about.get("title")) or title(asked) or path.name,
        created_at=_moment(about) or _moment(first),
        model=words(about.get("model")),
        about=told,
    )


def _said(value: Mapping[str, Any], thread: str, number: int) -> TranscriptEvent | Problem:
    try:
        told = {key: one for key, one in value.items() if key not in _BESIDE}
        blocks = objects(value.get("content"))
        is_anthropic = any(words(block.get("type")) in _ANTHROPIC for block in blocks)
        message = Message.from_anthropic(told) if is_anthropic else Message.from_chat(told)
    except InvalidInput as error:
        return Problem("message", number, {"detail": error.cause})
    return TranscriptEvent(thread, SaidItem(message, _moment(value), _call(value)), number)


def _call(value: Mapping[str, Any]) -> ModelCall | None:
    if value.get("role") != "assistant":
        return None
    used = value.get("usage")
    return model_call(value.get("model"), Usage.of(used) if isinstance(used, dict) else None, value.get("cost"))


def _moment(value: Mapping[str, Any]) -> str | None:
    for key in _TIMES:
        if key in value and (moment := when(value[key])):
            return moment
    return None


def _is_instruction(value: object) -> bool:
    return fields(value).get("role") in ("system", "developer")


def _is_message(value: object) -> bool:
    if not isinstance(value, dict) or words(value.get("role")) not in _ROLES:
        return False
    return "content" in value or "tool_calls" in value or "function_call" in value


def _messages_of(value: object) -> list[Any] | None:
    """The messages that an object holds."""
    whole = fields(value)
    for place in (whole, *(fields(whole.get(name)) for name in _WRAPPED)):
        found = place.get("messages")
        if isinstance(found, list) and any(_is_message(one) for one in found[:_HEADER_LINES]):
            return found
    return None


def _system(about: Mapping[str, Any], messages: list[Any]) -> Mapping[str, Any] | None:
    """The system prompt of a request that keeps it beside the messages."""
    places = (about, *(fields(about.get(name)) for name in _WRAPPED))
    prompt = next((place["system"] for place in places if place.get("system")), None)
    if not isinstance(prompt, str | list) or any(map(_is_instruction, messages)):
        return None
    return {"role": "system", "content": prompt}


def _answer(about: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The answer that was kept beside its request, with what it has used."""
    whole = fields(about.get("response"))
    answered = fields(whole.get("body")) or whole or about
    choice = next(iter(items(answered.get("choices"))), None)
    message = fields(fields(choice).get("message"))
    if not _is_message(message):
        return None
    return {**message, **{key: answered[key] for key in ("usage", "model", "created") if key in answered}}
