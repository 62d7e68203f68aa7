"""Sessions of Cursor's agent: its transcripts (``agent-transcripts/<id>/<id>.jsonl``) and its chats (``store.db``).

Transcripts are in the words of Anthropic's API, mostly without ids for the calls and often without their results: such
a call gets an id of ours, and the next result that names no call belongs to it. A transcript in ``subagents/`` is a
child of the session whose folder that is in. The databases are read by ``cursor_store``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orihon.importers.base import Importer, SaidItem, Thread, TranscriptEvent, TranscriptPart
from orihon.importers.cursor_store import is_store, read_store
from orihon.importers.lines import json_lines
from orihon.importers.peek import peek
from orihon.importers.shapes import (
    Unknown,
    as_json,
    data_url,
    fields,
    image_block,
    items,
    message,
    model_call,
    name_for,
    objects,
    read_each,
    text_block,
    thought,
    tool_call,
    when,
    words,
)
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
