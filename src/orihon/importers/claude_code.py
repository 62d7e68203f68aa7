"""Sessions of Claude Code: ``~/.claude/projects/<folder>/<session>.jsonl``.

Sub-agents are threads of their own: records of a side chain in the session's file (each chain begins with a record that
has no parent), or a file ``agent-<id>.jsonl`` beside it or below ``subagents/``. Records of one answer of the model
share its id. A compact summary folds what came before it; a branch that a person left by going back is taken out of the
view. A record that stands there twice is read once. What the program notes for itself is passed over; records of a kind
that is not known are reported.

Where a person went back in a session whose records name their parents.

Such a file keeps every branch. The one that the model goes on with begins with a prompt that follows the same record as
an earlier prompt did: everything said since that earlier one was left. Parallel calls and their results make a tree
too, so nothing but two prompts after the same record counts as going back.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orihon.errors import InvalidInput
from orihon.importers.lines import json_lines, peek
from orihon.importers.registry import (
    CompactionItem,
    Importer,
    PlanItem,
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
    from_anthropic,
    items,
    model_call,
    number,
    objects,
    title,
    when,
    words,
)
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage

#: So many of the last records can be gone back to.
_MOST = 4096


@dataclass(slots=True)
class Branches:
    """The records of one session, each with the one that it follows."""

    _notes: OrderedDict[str, str] = field(default_factory=OrderedDict)  # says nothing -> what it follows
    _prompts: dict[str, tuple[str, int]] = field(default_factory=dict)  # what it follows -> prompt, messages before it

    def note(self, uuid: str, parent: str) -> None:
        """A record that says nothing: what follows it follows its parent."""
        if uuid:
            self._notes[uuid] = self._notes.get(parent, parent)
            if len(self._notes) > _MOST:
                self._notes.popitem(last=False)

    def left_by(self, uuid: str, parent: str, said: int) -> int:
        """How many of the ``said`` messages the prompt of this record leaves behind."""
        followed = self._notes.get(parent, parent)
        other, before = self._prompts.get(followed, (uuid, said))
        self._prompts[followed] = (uuid, before)
        if other == uuid or before >= said:
            return 0
        # What was left is not gone on with; its prompts are no places to go back to.
        self._prompts = {key: place for key, place in self._prompts.items() if place[1] <= before}
        return said - before

    def forget(self) -> None:
        """What came before was summed up: nobody goes back there."""
        self._prompts.clear()


#: What the program writes for itself and for its user, not for the model: snapshots, its queue, its progress, notices.
_HOUSEKEEPING = frozenset(
    (
        *("system", "file-history-snapshot", "queue-operation", "progress", "last-prompt", "permission-mode", "mode"),
        *("pr-link", "worktree-state", "content-replacement", "attribution-snapshot", "tag", "agent-name"),
        *("agent-color", "agent-setting", "speculation-accept", "marble-origami-commit", "marble-origami-snapshot"),
        *(
            "bridge-session",
            "started",
            "result",
            "context-collapse-commit",
            "context-collapse-snapshot",
            "saved_hook_context",
        ),
        *("file-history-delta", "task-summary"),
    )
)
_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
_SPOKEN = ("user", "assistant", "attachment")
#: Fields of a message of the provider that a call or the log has in its own words.
_KNOWN_FIELDS = frozenset(("model", "usage", "type", "stop_sequence"))
_COMPANIONS = ("sessions-index.json", "bridge-pointer.json")
_PLANS = {"TodoWrite": "todos", "ExitPlanMode": "plan", "exit_plan_mode": "plan"}
_SYNTHETIC = "<synthetic>"
#: A summary leaves out no more than so many of the last records.
_MOST_PLACES = 4096
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class ClaudeCode(Importer):
    """The reader of its sessions."""

    name = "claude-code"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        return not seen.is_list and any(map(_is_ours, seen.found))

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        session = _Session(path)
        for record in json_lines(path):
            if isinstance(record, Problem):
                yield record
            else:
                yield from session.take(*record)
        yield from session.unknown.problems()

    def ignores(self, path: Path) -> bool:
        if path.name in _COMPANIONS or path.name.endswith(".meta.json"):
            return True
        if path.name == "history.jsonl" and ".claude" in path.parts:  # what was typed, in all sessions
            return True
        return path.parent.name in ("tool-results", "memory")


def _is_ours(record: Mapping[str, Any]) -> bool:
    kind = record.get("type")
    if kind in ("user", "assistant"):
        has_message = isinstance(record.get("message"), Mapping)
        return has_message and "sessionId" in record and ("parentUuid" in record or "uuid" in record)
    if kind == "summary":
        return "leafUuid" in record
    if kind == "file-history-snapshot":
        return "snapshot" in record
    return kind in ("system", "queue-operation", "progress", "attachment") and "sessionId" in record


@dataclass(slots=True)
class _Session:
    """A file while it is read."""

    path: Path
    unknown: Unknown = field(default_factory=Unknown)
    _title: str = ""
    _id: str = ""
    _threads: dict[str, Thread] = field(default_factory=dict)
    _chains: dict[str, str] = field(default_factory=dict)  # record of a side chain -> its thread
    _tools: dict[str, str] = field(default_factory=dict)  # call that is not answered yet -> tool
    _said: int = 0  # messages of the session itself, an answer as one
    _answer: str = ""
    _places: OrderedDict[str, int] = field(default_factory=OrderedDict)  # last records: how many messages came before
    _kept_from: str = ""  # the first record that the next summary does not replace
    _branches: Branches = field(default_factory=Branches)
    _records: set[int] = field(default_factory=set)  # all that were read

    def take(self, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        """The next record."""
        kind = words(record.get("type"))
        if kind in _TITLES:
            yield from self._name(words(record.get(_TITLES[kind])), is_own=kind != "summary")
        elif kind in _SPOKEN:
            if not self._is_repeated(record):
                yield from self._spoken(kind, line, record)
        elif kind == "system" and record.get("subtype") == "compact_boundary":
            kept = fields(fields(record.get("compactMetadata")).get("preservedSegment"))
            self._kept_from = words(kept.get("headUuid"))
            self._branches.forget()
        elif kind in _HOUSEKEEPING:
            self._branches.note(words(record.get("uuid")), words(record.get("parentUuid")))
        else:
            self.unknown.add(kind or "?", line)

    def _is_repeated(self, record: Mapping[str, Any]) -> bool:
        """Was it read already? A session that is resumed may write again what it has."""
        uuid = record.get("uuid")
        if not uuid:
            return False
        mark = hash((str(uuid), str(record.get("timestamp"))))
        if mark in self._records:
            return True
        self._records.add(mark)
        return False

    def _name(self, said: str, *, is_own: bool) -> Iterator[TranscriptPart]:
        """A title; those of ``summary`` records are of the last branch, and a title that a person gave is better."""
        if not said or (self._title and not is_own):
            return
        self._title = said
        main = self._threads.get(self._id)
        if main is not None:
            self._threads[self._id] = replace(main, title=title(said))
            yield self._threads[self._id]

    # ---- threads -----------------------------------------------------------------------------------------------

    def _thread(self, record: Mapping[str, Any]) -> str:
        session = words(record.get("sessionId"))
        if not self._id:
            # A session that goes on in a new file begins with records of the old one: the name of the file is its own.
            self._id = self.path.stem if _UUID.fullmatch(self.path.stem) or not session else session
        if record.get("isSidechain") is not True:
            return self._id
        if agent := words(record.get("agentId")):
            return f"{session or self._id}/agent-{agent}"
        own, parent = words(record.get("uuid")), words(record.get("parentUuid"))
        thread = self._chains.get(parent) or f"{self._id}/{own or 'chain'}"
        self._chains[own] = thread
        return thread

    def _met(self, thread: str, record: Mapping[str, Any], said: str) -> Iterator[TranscriptPart]:
        if thread in self._threads:
            known = self._threads[thread]
            if not known.title and title(said):
                self._threads[thread] = replace(known, title=title(said))
                yield self._threads[thread]
            return
        is_main = thread == self._id
        about = {"version": record.get("version"), "branch": record.get("gitBranch")}
        self._threads[thread] = Thread(
            id=thread,
            title=title(self._title if is_main and self._title else said),
            created_at=when(record.get("timestamp")),
            cwd=words(record.get("cwd")),
            parent=None if is_main else thread.partition("/")[0],
            about=about,
        )
        yield self._threads[thread]

    # ---- records -----------------------------------------------------------------------------------------------

    def _spoken(self, kind: str, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        thread = self._thread(record)
        if kind == "attachment":
            yield from self._attachment(thread, line, record)
            return
        message = fields(record.get("message"))
        said = _plain(message.get("content")) if kind == "user" or record.get("isCompactSummary") else ""
        yield from self._met(thread, record, "" if record.get("isMeta") or kind != "user" else _spoken_title(said))
        moment = when(record.get("timestamp"))
        if record.get("isCompactSummary") is True and said:
            kept = self._said - self._places.get(self._kept_from, self._said) if thread == self._id else 0
            yield TranscriptEvent(thread, CompactionItem(said, kept, moment), line)
            return
        try:
            read = _messages(kind, message)
        except InvalidInput as error:
            yield Problem("message", line, {"detail": error.cause})
            return
        if thread == self._id:
            yield from self._placed(line, record, read, moment)
        yield from self._beside(thread, line, record, message, moment)
        for one in read:
            if one.role == "assistant":
                answer = words(message.get("id")) or None
                yield TranscriptEvent(thread, SaidItem(one, moment, _call(record, message), answer), line)
            else:
                yield TranscriptEvent(thread, SaidItem(one, moment), line)

    def _placed(
        self, line: int, record: Mapping[str, Any], read: Sequence[Message], moment: str | None
    ) -> Iterator[TranscriptPart]:
        """One more record of the session itself: what it leaves behind, and how many messages there are now."""
        uuid, answer = words(record.get("uuid")), words(fields(record.get("message")).get("id"))
        is_prompt = record.get("isMeta") is not True and all(one.role == "user" for one in read)
        if is_prompt and (left := self._branches.left_by(uuid, words(record.get("parentUuid")), self._said)):
            yield TranscriptEvent(self._id, CompactionItem("", 0, moment, covers=left), line)
        self._places[uuid] = self._said
        if len(self._places) > _MOST_PLACES:
            self._places.popitem(last=False)
        if any(one.role == "assistant" for one in read):
            self._said += not answer or answer != self._answer
            self._answer = answer
        else:
            self._said += len(read)

    def _attachment(self, thread: str, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        """What the program adds to what a person says; a prompt that waited in its queue is the person's own."""
        attached = fields(record.get("attachment"))
        if attached.get("type") != "queued_command":
            self._branches.note(words(record.get("uuid")), words(record.get("parentUuid")))
            return
        prompt = attached.get("prompt")
        said = _plain(prompt)
        yield from self._met(thread, record, said)
        try:
            read = _messages("user", {"role": "user", "content": prompt})
        except InvalidInput as error:
            yield Problem("message", line, {"detail": error.cause})
            return
        if thread == self._id:
            self._said += len(read)
        for one in read:
            yield TranscriptEvent(thread, SaidItem(one, when(record.get("timestamp"))), line)

    def _beside(
        self, thread: str, line: int, record: Mapping[str, Any], message: Mapping[str, Any], moment: str | None
    ) -> Iterator[TranscriptPart]:
        """Plans, and what is known about a tool call beside its result."""
        for block in objects(message.get("content")):
            if block.get("type") == "tool_use":
                self._tools[words(block.get("id"))] = words(block.get("name"))
                key = _PLANS.get(words(block.get("name")))
                plan = fields(block.get("input")).get(key) if key else None
                if key and plan:
                    yield TranscriptEvent(thread, PlanItem(key, plan, moment), line)
            elif block.get("type") == "tool_result":
                call = words(block.get("tool_use_id"))
                tool = self._tools.pop(call, "")
                told = fields(record.get("toolUseResult"))
                duration = number(told.get("durationMs")) or number(told.get("totalDurationMs"))
                if tool and duration is not None:
                    known = ToolItem(tool, duration_ms=float(duration), timestamp=moment, call_id=call)
                    yield TranscriptEvent(thread, known, line)


def _spoken_title(said: str) -> str:
    """What a person said; commands and their output are written in tags."""
    return "" if said.startswith(("<", "Caveat:")) else said


def _messages(kind: str, message: Mapping[str, Any]) -> list[Message]:
    role = message.get("role")
    kept = {key: value for key, value in message.items() if key not in _KNOWN_FIELDS and value is not None}
    return from_anthropic({**kept, "role": role if role in ("user", "assistant", "system") else kind})


def _call(record: Mapping[str, Any], message: Mapping[str, Any]) -> ModelCall | None:
    model, used = words(message.get("model")), message.get("usage")
    if model == _SYNTHETIC:  # the program speaks in the model's place: an error, an interruption
        return None
    return model_call(model, Usage.of(used) if isinstance(used, dict) else None, record.get("costUSD"))


def _plain(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(words(block.get("text")) for block in objects(items(content)) if block.get("type") == "text")
