"""Sessions of Cursor's agent: its transcripts (``agent-transcripts/<id>/<id>.jsonl``) and its chats (``store.db``).

Transcripts are in the words of Anthropic's API, mostly without ids for the calls and often without their results: such
a call gets an id of ours, and the next result that names no call belongs to it. A transcript in ``subagents/`` is a
child of the session whose folder that is in.

Cursor's ``store.db``: one chat in SQLite, its messages as JSON beside a graph in protocol buffers.

``meta`` holds, in hexadecimal, what is known of the chat and the id of the newest root. A node is a run of fields: the
first ones, of 32 bytes, are the ids of its children, in order. What else a node says has no published meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from orihon.drivers.postgres import statements
from orihon.importers.lines import json_lines, peek, reading_tables
from orihon.importers.registry import Importer, Problem, SaidItem, Thread, TranscriptEvent, TranscriptPart
from orihon.importers.shapes import (
    Unknown,
    as_json,
    data_url,
    fields,
    identity,
    image_block,
    items,
    message,
    model_call,
    name_for,
    objects,
    read_each,
    text_block,
    thought,
    title,
    tool_call,
    when,
    words,
)
from orihon.system import jsonio
from orihon.values.message.message import Message

_CALLS = frozenset(("tool_use", "tool_call", "tool-call"))
_RESULTS = frozenset(("tool_result", "tool-result"))
_THOUGHTS = frozenset(("thinking", "reasoning", "redacted_thinking", "redacted-reasoning"))
_BESIDE = frozenset(("turn_ended", "turn_started", "session_started", "session_ended", "status", "metadata"))
_NOT_OURS = frozenset(("uuid", "sessionId", "parentUuid", "parentId"))


class Cursor(Importer):
    """Transcripts and chats of Cursor's agent."""

    name = "cursor"

    def recognises(self, head: bytes, path: Path) -> bool:
        if is_store(head):
            return True
        seen = peek(head)
        said = [one for one in seen.found if "role" in one or "message" in one]
        return bool(said) and not seen.is_list and all(map(_is_record, said))

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        if path.suffix == ".db":
            yield from read_store(path)
            return
        transcript = _Transcript(path)
        yield from read_each(json_lines(path), transcript.take)
        yield from transcript.end()

    def ignores(self, path: Path) -> bool:
        return path.name in ("store.db-wal", "store.db-shm")


def _is_record(record: Mapping[str, Any]) -> bool:
    said = fields(record.get("message"))
    return record.get("role") in ("user", "assistant", "system") and "content" in said and not _NOT_OURS & record.keys()


@dataclass(slots=True)
class _Transcript:
    path: Path
    unknown: Unknown = field(default_factory=Unknown)
    _id: str = ""
    _open: list[str] = field(default_factory=list)  # ids of calls without results
    _calls: int = 0

    def take(self, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        if not self._id:
            yield self._begin(record)
        role = record.get("role")
        if role not in ("user", "assistant", "system"):
            if words(record.get("type")) not in _BESIDE:
                self.unknown.add(record.get("type") or role, line)
            return
        content = fields(record.get("message")).get("content", record.get("content"))
        blocks = [text_block(content)] if isinstance(content, str) else items(content)
        if role == "assistant":
            yield self._answer(record, list(objects(blocks)), line)
            return
        results = [block for block in objects(blocks) if words(block.get("type")) in _RESULTS]
        for result in results:
            yield self._event(SaidItem(self._result(result), when(record.get("timestamp"))), line)
        said = [block for block in objects(blocks) if words(block.get("type")) not in _RESULTS]
        if said or not results:
            yield self._event(SaidItem(message(str(role), _blocks(said) or ""), when(record.get("timestamp"))), line)

    def end(self) -> Iterator[TranscriptPart]:
        yield from self.unknown.problems()

    def _begin(self, record: Mapping[str, Any]) -> Thread:
        folder = self.path.parent
        parent = folder.parent.name if folder.name == "subagents" else None
        own = folder.name == self.path.stem or parent is not None or "agent-transcripts" in self.path.parts
        self._id = self.path.stem if own else name_for(self.path, as_json(record.get("message")))
        index = self.path.parts.index("agent-transcripts") if "agent-transcripts" in self.path.parts else 0
        about = {"project": self.path.parts[index - 1]} if index else {}
        return Thread(self._id, parent=parent, about=about)

    def _answer(self, record: Mapping[str, Any], blocks: list[Mapping[str, Any]], line: int) -> TranscriptEvent:
        calls = [block for block in blocks if words(block.get("type")) in _CALLS]
        said = [block for block in blocks if words(block.get("type")) not in _CALLS | _THOUGHTS]
        answer = message(
            "assistant",
            _blocks(said) or None,
            calls=[tool_call(self._name(one), one.get("name"), one.get("input", one.get("args"))) for one in calls],
            reasoning=[_thought(block) for block in blocks if words(block.get("type")) in _THOUGHTS],
        )
        return self._event(SaidItem(answer, when(record.get("timestamp")), model_call(record.get("model"))), line)

    def _name(self, call: Mapping[str, Any]) -> str:
        self._calls += 1
        named = words(call.get("id")) or f"call_{self._calls}"
        self._open.append(named)
        return named

    def _result(self, block: Mapping[str, Any]) -> Message:
        said_id = words(block.get("tool_use_id"))
        call_id = said_id if said_id in self._open or not self._open else self._open[0]
        if call_id in self._open:
            self._open.remove(call_id)
        content = block.get("content", block.get("result"))
        said = content if isinstance(content, str) else _blocks(list(objects(content))) or as_json(content)
        rest = {"tool_use_id": said_id if said_id != call_id else None}
        return message("tool", said, call_id=call_id or None, tool_name=words(block.get("name")) or None, rest=rest)

    def _event(self, item: SaidItem, line: int) -> TranscriptEvent:
        return TranscriptEvent(self._id, item, line)


def _thought(block: Mapping[str, Any]) -> Mapping[str, Any]:
    said = words(block.get("thinking")) or words(block.get("text"))
    return block if block.get("type") in ("thinking", "redacted_thinking") else thought(said)


def _blocks(blocks: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [_block(block) for block in blocks]


def _block(block: Mapping[str, Any]) -> Mapping[str, Any]:
    source = fields(block.get("source"))
    if block.get("type") == "image" and source.get("type") == "base64":
        return image_block(data_url(source.get("media_type"), source.get("data")))
    if block.get("type") == "text" or isinstance(block.get("text"), str):
        return text_block(words(block.get("text")))
    return block if "type" in block else text_block(as_json(block))


_MAGIC = b"SQLite format 3\0"
_ID_BYTES = 32
_LARGEST = 64 << 20
_DEEPEST = 64


def is_store(head: bytes) -> bool:
    """Is this the first page of such a database?"""
    page = head[: 1 << 14]
    return head.startswith(_MAGIC) and b"CREATE TABLE blobs" in page and b"CREATE TABLE meta" in page


def read_store(path: Path) -> Iterator[TranscriptPart]:
    """The messages of the chat, from its newest root."""
    try:
        with reading_tables(path, "meta", "blobs") as connection:
            yield from _Store(path, connection).read()
    except (apsw.Error, UnicodeDecodeError) as error:
        yield Problem("unreadable", fields={"detail": str(error)})


class _Store:
    def __init__(self, path: Path, connection: apsw.Connection) -> None:
        self._path = path
        self._connection = connection
        self._sql = {name: text.decode() for name, text in statements("orihon.importers", "cursor.sql").items()}
        self._unknown = Unknown()
        self._seen: set[str] = set()
        self._model = ""
        self._id = ""

    def read(self) -> Iterator[TranscriptPart]:
        about = self._about()
        root = words(about.get("latestRootBlobId"))
        if not root:
            return
        agent = identity(about.get("agentId")) or self._path.parent.name
        self._id = f"{agent}-store" if agent else name_for(self._path, root)
        self._model = words(about.get("lastUsedModel"))
        yield Thread(
            self._id,
            title(about.get("name")),
            when(about.get("createdAt")),
            model=self._model,
            about=_told(about, "mode"),
        )
        messages = ((0, said) for said in self._messages(root, 0))
        yield from read_each(messages, self._message)
        yield from self._unknown.problems()

    def _about(self) -> Mapping[str, Any]:
        row = self._connection.execute(self._sql["meta"]).fetchone()
        try:
            written = row[0] if row else ""
            raw = written if isinstance(written, bytes) else bytes.fromhex(words(written))
            return fields(jsonio.decode(raw, odd_numbers=False))
        except ValueError:
            return {}

    def _messages(self, blob_id: str, depth: int) -> Iterator[Mapping[str, Any]]:
        """The messages below a node, in order, each once."""
        if blob_id in self._seen or depth > _DEEPEST:
            return
        self._seen.add(blob_id)
        row = self._connection.execute(self._sql["blob"], (blob_id,)).fetchone()
        data = row[0] if row and isinstance(row[0], bytes) else b""
        if row is None:
            self._unknown.add("missing blob", 0)
        if data[:1] == b"{" and len(data) <= _LARGEST:
            try:
                yield fields(jsonio.decode(data, odd_numbers=False))
            except ValueError:
                self._unknown.add("blob", 0)
            return
        for child in _children(data):
            yield from self._messages(child, depth + 1)

    def _message(self, line: int, said: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        role, content = said.get("role"), said.get("content")
        blocks: list[Mapping[str, Any]] = [text_block(content)] if isinstance(content, str) else list(objects(content))
        if role == "assistant":
            yield TranscriptEvent(self._id, SaidItem(_answer(blocks), call=model_call(self._model)))
        elif role in ("user", "system"):
            yield TranscriptEvent(self._id, SaidItem(message(role, [_stored_block(block) for block in blocks] or "")))
        elif role == "tool":
            for block in blocks:
                result = block.get("result", block.get("output"))
                name = words(block.get("toolName")) or None
                call_id = words(block.get("toolCallId")) or None
                yield TranscriptEvent(
                    self._id, SaidItem(message("tool", as_json(result), call_id=call_id, tool_name=name))
                )
        elif role is not None:
            self._unknown.add(role, 0)


def _answer(blocks: list[Mapping[str, Any]]) -> Any:
    calls = [block for block in blocks if block.get("type") == "tool-call"]
    thoughts = [block for block in blocks if block.get("type") in ("reasoning", "redacted-reasoning")]
    return message(
        "assistant",
        [_stored_block(block) for block in blocks if block not in calls and block not in thoughts] or None,
        calls=[
            tool_call(call.get("toolCallId"), call.get("toolName"), call.get("args", call.get("input")))
            for call in calls
        ],
        reasoning=[thought(words(block.get("text")) or words(block.get("data"))) for block in thoughts],
    )


def _stored_block(block: Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(block.get("text"), str):
        return text_block(block["text"])
    if block.get("type") == "image" and isinstance(block.get("image"), str):
        written = block["image"]
        is_url = written.startswith(("http", "data:"))
        return image_block(written if is_url else data_url(block.get("mimeType") or "image/png", written))
    return text_block(as_json(block))


def _told(about: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: about[name] for name in names if about.get(name)}


def _children(node: bytes) -> Iterator[str]:
    """The ids of blobs in a message of protocol buffers; where it is none, nothing."""
    at = 0
    while at < len(node):
        key, at = _varint(node, at)
        match key & 7:
            case 0:
                _, at = _varint(node, at)
            case 1:
                at += 8
            case 5:
                at += 4
            case 2:
                size, at = _varint(node, at)
                if size == _ID_BYTES and at + size <= len(node) and key >> 3 == 1:
                    yield node[at : at + size].hex()
                at += size
            case _:
                return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    return value, len(data)
