"""Conversations of Gemini CLI, in all the forms that it has written them.

    chats/session-*.json    one conversation as one document
    chats/session-*.jsonl   the same as lines: a message that grows is written again, ``$set`` changes what is known
                            about the session or replaces its messages, ``$rewindTo`` goes back
    checkpoint-*.json       what the model was shown when somebody saved it, or when a tool was about to write
    logs.json               only what people typed, for sessions that have no file of their own

Messages of the interface (``info``, ``error``, ``warning``) were never shown to the model and are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from orihon.importers.gemini_contents import (
    added_to,
    answer_of,
    contents,
    is_content,
    results_of,
    said_in,
    text_of,
    user_message,
)
from orihon.importers.lines import json_document, json_lines, peek
from orihon.importers.registry import (
    CompactionItem,
    Importer,
    Problem,
    SaidItem,
    Thread,
    ToolItem,
    TranscriptEvent,
    TranscriptPart,
)
from orihon.importers.shapes import (
    Unknown,
    fields,
    identity,
    items,
    message,
    name_for,
    numbered,
    objects,
    read_each,
    title,
    when,
    words,
)
from orihon.values.message.message import Message
from orihon.values.records import ModelCall

_BESIDE = frozenset(("info", "error", "warning", "about", "help", "stats", "quit", "compression"))
_ANSWERS = frozenset(("gemini", "model", "assistant", "gemini_content"))
_KINDS = _BESIDE | _ANSWERS | {"user"}


class Gemini(Importer):
    """Sessions, checkpoints and logs of Gemini CLI."""

    name = "gemini"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        first = seen.first
        if seen.is_list:
            return is_content(first) or {"sessionId", "messageId", "message"} <= first.keys()
        if "sessionId" in first:
            messages = items(first.get("messages"))
            is_session = words(fields(messages[0] if messages else None).get("type")) in _KINDS
            return "uuid" not in first and ("projectHash" in first or is_session)
        history = items(first.get("clientHistory")) or items(first.get("history"))
        return bool(history) and is_content(history[0])

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        if path.suffix == ".jsonl":
            session = _Session(path)
            yield from read_each(json_lines(path), session.take)
            yield from session.end()
            return
        document = json_document(path)
        if isinstance(document, Problem):
            yield document
        elif isinstance(document, list) and not is_content(fields(document[0] if document else None)):
            yield from _logs(path, document)
        elif isinstance(document, Mapping) and "messages" in document:
            session = _Session(path)
            yield from read_each([(0, document)], session.take)
            yield from session.end()
        else:
            yield from contents(path, document)


class _Session:
    """One conversation, from its records. An answer that is written again, with more in it, comes in pieces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unknown = Unknown()
        self._id = ""
        self._thread = Thread("")
        self._answer_id = ""
        self._given: Message | None = None  # what of the last answer has been told
        self._given_call: ModelCall | None = None
        self._said = 0
        self._before: dict[str, int] = {}  # id of a message -> messages before it
        self._answered: set[str] = set()  # calls whose results have been given

    def take(self, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        yield from self._begin(record)
        changes = fields(record.get("$set"))
        if title(changes.get("summary")) not in ("", self._thread.title):
            self._thread = replace(self._thread, title=title(changes["summary"]))
            yield self._thread
        if "$rewindTo" in record:
            yield from self._go_back(words(record["$rewindTo"]), line)
        elif "messages" in changes:
            yield from self._replace(list(objects(changes["messages"])), when(changes.get("lastUpdated")), line)
        elif "messages" in record:
            yield from read_each(numbered(record["messages"]), self._message)
        elif "id" in record or "type" in record:
            yield from self._message(line, record)
        elif not changes and "sessionId" not in record:
            self._unknown.add(next(iter(record), "{}"), line)

    def end(self) -> Iterator[TranscriptPart]:
        yield from self._unknown.problems()

    def _begin(self, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        if self._id:
            return
        self._id = identity(record.get("sessionId")) or name_for(self._path, str(record.get("startTime")))
        is_child = record.get("kind") == "subagent"
        about = {"project_hash": record.get("projectHash"), "summary": record.get("summary")}
        self._thread = Thread(
            self._id,
            title=title(record.get("summary")),
            created_at=when(record.get("startTime")),
            cwd=next((words(folder) for folder in items(record.get("directories"))), ""),
            parent=self._path.parent.name if is_child and self._path.parent.name != "chats" else None,
            about={key: value for key, value in about.items() if value},
        )
        yield self._thread

    def _message(self, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        kind, record_id, time = words(record.get("type")), words(record.get("id")), when(record.get("timestamp"))
        if kind in _BESIDE:
            return
        if record_id in self._before and record_id != self._answer_id:
            yield from self._results(line, record)
            return
        if kind in _ANSWERS:
            yield from self._answer(record, record_id, time, line)
            yield from self._results(line, record)
            return
        self._before[record_id] = self._said
        if kind == "user":
            yield from self._results(line, record)
            if (said := user_message(said_in(record))) is not None:
                yield self._event(SaidItem(said, time), line)
        else:
            self._unknown.add(record.get("type"), line)

    def _answer(
        self, record: Mapping[str, Any], record_id: str, time: str | None, line: int
    ) -> Iterator[TranscriptPart]:
        """An answer, or what has come to it since it was written last."""
        answer, call = answer_of(record)
        if not record_id or record_id != self._answer_id:
            self._answer_id, self._given, self._given_call = record_id, None, None
            self._before[record_id] = self._said
        piece = answer if self._given is None or answer is None else added_to(self._given, answer)
        if piece is None and call == self._given_call:
            return
        self._said += self._given is None
        item = SaidItem(piece or message("assistant"), time, call, record_id or None)
        self._given, self._given_call = answer or self._given or item.message, call
        yield TranscriptEvent(self._id, item, line)

    def _results(self, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        for result, item in results_of(record):
            if result.tool_call_id and result.tool_call_id in self._answered:
                continue
            self._answered.add(result.tool_call_id or "")
            yield self._event(SaidItem(result, item.timestamp or when(record.get("timestamp"))), line)
            yield TranscriptEvent(self._id, item, line)

    def _go_back(self, message_id: str, line: int) -> Iterator[TranscriptPart]:
        dropped = self._said - self._before.get(message_id, 0)
        if dropped:
            yield TranscriptEvent(self._id, CompactionItem("", 0, None, covers=dropped), line)

    def _replace(self, messages: list[Mapping[str, Any]], time: str | None, line: int) -> Iterator[TranscriptPart]:
        """Another list of messages stands for the conversation: new ones at its head sum up what is gone."""
        known = [words(one.get("id")) for one in messages if words(one.get("id")) in self._before]
        new = [one for one in messages if words(one.get("id")) not in self._before]
        summary = "\n\n".join(filter(None, (text_of(one.get("content")) for one in new if one.get("type") == "user")))
        if summary:
            kept = self._said - self._before[known[0]] if known else 0
            yield TranscriptEvent(self._id, CompactionItem(summary, kept, time), line)
            self._before.update((words(one.get("id")), self._said) for one in new)

    def _event(self, item: SaidItem | ToolItem, line: int) -> TranscriptEvent:
        self._said += isinstance(item, SaidItem)
        return TranscriptEvent(self._id, item, line)


def _logs(path: Path, document: list[Any]) -> Iterator[TranscriptPart]:
    """What people typed; a session that has a file of its own is left to that."""
    begun: set[str] = set()
    elsewhere: dict[str, bool] = {}
    unknown = Unknown()
    for entry in objects(document):
        session = identity(entry.get("sessionId"))
        if not session or entry.get("type") != "user":
            unknown.add(entry.get("type") if session else "sessionId", 0)
            continue
        if session not in elsewhere:
            elsewhere[session] = _has_a_file(path, session)
        if elsewhere[session]:
            continue
        if session not in begun:
            begun.add(session)
            yield Thread(session, title(entry.get("message")), when(entry.get("timestamp")), about={"only": "prompts"})
        if (said := user_message(entry.get("message"))) is not None:
            yield TranscriptEvent(session, SaidItem(said, when(entry.get("timestamp"))))
    yield from unknown.problems()


def _has_a_file(path: Path, session: str) -> bool:
    short = session[:8]
    return short.isalnum() and any((path.parent / "chats").glob(f"session-*{short}.json*"))
