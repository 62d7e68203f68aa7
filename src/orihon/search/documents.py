"""What can be found of a task: its messages, summaries, tool calls and plans, each as one text with a few marks.

The text is what a person would read: arguments and results of tools and other JSON come as their words, without
escapes. Of a very long record the beginning and the end count, see ``MOST_CHARACTERS``. Knows nothing of an index.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from orihon.store.contract import Stream
from orihon.store.record_codec import StoredMessage
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.system.clock import as_utc
from orihon.values.message.message import Message

DocumentKind = Literal["message", "summary", "tool", "plan"]
#: The kinds, and the streams of records that they are read from.
STREAM_OF: Mapping[DocumentKind, Stream] = {
    "message": "messages",
    "summary": "summaries",
    "tool": "tools",
    "plan": "planning",
}
KINDS: tuple[DocumentKind, ...] = tuple(STREAM_OF)
MOST_CHARACTERS = 1_000_000
_LEFT_OUT = "\n…\n"
_MAY_BE_JSON = re.compile(r'\s*(?:\{\s*["}]|\[\s*[\[{"\]0-9tfn-])')


@dataclass(frozen=True, slots=True)
class Document:
    """One thing that can be found. ``number`` counts within its kind: of a message it is its ``seq``."""

    kind: DocumentKind
    number: int
    time: str
    text: str
    role: str = ""
    tools: tuple[str, ...] = ()  # that it calls, or that it comes from
    calls: tuple[str, ...] = ()  # the ids of the tool calls that it makes, answers or records
    covers: tuple[int, int] | None = None  # the messages that a summary is about


def documents(store: TaskStore, kind: DocumentKind, first: int = 1, last: int | None = None) -> Iterator[Document]:
    """The documents of one kind by number, one at a time in memory."""
    if kind == "message":
        yield from _messages(store, first, last)
        return
    for number, record in enumerate(store.read(STREAM_OF[kind], first, last), start=max(first, 1)):
        yield _MADE_FROM[kind](number, record)


def find_document(store: TaskStore, kind: DocumentKind, number: int) -> Document | None:
    """One document; ``None`` when there is none of that number."""
    return next(documents(store, kind, number, number), None)


def _messages(store: TaskStore, first: int, last: int | None) -> Iterator[Document]:
    calls: dict[str, str] = {}
    for stored in store.messages(first, last):
        message = stored.message
        if message.tool_calls:
            calls = _calls_in(message)
        elif message.answers is not None and message.answers not in calls:
            calls = _calls_before(store, stored.seq)
        yield _message(stored, calls)


def _calls_before(store: TaskStore, seq: int) -> dict[str, str]:
    """The calls that a result may be of: nothing but other results can stand between them and it."""
    for earlier in range(seq - 1, 0, -1):
        message = store.message(earlier).message
        if message.role != "tool":
            return _calls_in(message)
    return {}


def _calls_in(message: Message) -> dict[str, str]:
    return {call.id: call.name for call in message.tool_calls}


def _message(stored: StoredMessage, calls: Mapping[str, str]) -> Document:
    message = stored.message
    names = [call.name for call in message.tool_calls]
    if message.role == "tool":
        names = [name for name in (message.tool_name or message.name or calls.get(message.answers or ""),) if name]
    return Document(
        "message",
        stored.seq,
        _moment(stored.timestamp),
        message_text(message),
        message.role,
        tuple(dict.fromkeys(names)),
        message.calls or ((message.answers,) if message.answers else ()),
    )


def message_text(message: Message, is_searched: Callable[[str], bool] = lambda tool: True) -> str:
    """All that a message says, reasoning too; the calls of a tool only if that ``is_searched``."""
    return _bounded("\n".join(_said(message, is_searched)))


def _said(message: Message, is_searched: Callable[[str], bool]) -> Iterator[str]:
    said = replace(message, tool_calls=()) if message.tool_calls else message
    yield from map(_unescaped, said.countable())
    for call in message.tool_calls:
        if is_searched(call.name):
            yield f"{call.name} {_plain_json(call.arguments)}"


def _summary(number: int, record: Mapping[str, Any]) -> Document:
    start, end = record["start_seq"], record["end_seq"]
    covers = (start, end) if isinstance(start, int) and isinstance(end, int) else None
    return Document("summary", number, _moment(record.get("created_at")), _text(record["summary"]), covers=covers)


def _tool(number: int, record: Mapping[str, Any]) -> Document:
    name = str(record["tool_name"])
    said = (name, _text(record.get("arguments")), _text(record.get("result")), _text(record.get("error")))
    text = _bounded("\n".join(part for part in said if part))
    call = record.get("call_id")
    calls = (call,) if isinstance(call, str) else ()
    return Document("tool", number, _moment(record.get("timestamp")), text, tools=(name,), calls=calls)


def _plan(number: int, record: Mapping[str, Any]) -> Document:
    text = _bounded(f"{record['plan_type']}\n{_text(record['plan_content'])}")
    return Document("plan", number, _moment(record.get("created_at")), text)


_MADE_FROM: Mapping[DocumentKind, Callable[[int, Mapping[str, Any]], Document]] = {
    "summary": _summary,
    "tool": _tool,
    "plan": _plan,
}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return _bounded(_unescaped(value))
    try:
        return _bounded("\n".join(_lines(value)))
    except RecursionError:  # nested deeper than anybody reads
        return _bounded(jsonio.encode(value).decode())


def _bounded(text: str) -> str:
    """Of a very long text its beginning and its end: what went wrong stands at the end of an output."""
    if len(text) <= MOST_CHARACTERS:
        return text
    half = (MOST_CHARACTERS - len(_LEFT_OUT)) // 2
    return f"{text[:half]}{_LEFT_OUT}{text[-half:]}"


def _unescaped(text: str) -> str:
    """A text that is JSON with escapes as its words: ``\\n`` would stick to the next word, ``\\u65e5`` hide one."""
    return _plain_json(text) if "\\" in text else text


def _plain_json(text: str) -> str:
    """The words in a JSON text; a text that is none is words already."""
    if not _MAY_BE_JSON.match(text):
        return text
    try:
        return "\n".join(_lines(jsonio.decode(text)))
    except (ValueError, RecursionError):
        return text


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for name, entry in value.items():
            lines = list(_lines(entry))
            yield f"{name}: {lines[0]}" if len(lines) == 1 else f"{name}:"
            yield from lines if len(lines) > 1 else ()
    elif isinstance(value, list):
        for entry in value:
            yield from _lines(entry)
    elif value is not None:
        yield str(value)


def _moment(stamp: object) -> str:
    """A time that sorts among the others; a record without one is older than all."""
    try:
        return as_utc(stamp) if isinstance(stamp, str) else ""
    except ValueError:
        return ""
