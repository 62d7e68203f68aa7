"""Sessions of pi (``~/.pi/agent/sessions/**/*.jsonl``), versions 1 to 3.

Entries form a tree: going on from an earlier entry leaves the later ones behind. They stay in the log and are taken out
of the view. A compaction names the first entry that is kept. What a person ran in the shell beside the conversation
becomes a tool call; state of extensions, labels and levels of thinking are no part of it and are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from orihon.importers.lines import json_lines, peek
from orihon.importers.registry import (
    CompactionItem,
    Importer,
    SaidItem,
    Thread,
    ToolItem,
    TranscriptEvent,
    TranscriptPart,
)
from orihon.importers.shapes import (
    Unknown,
    data_url,
    fields,
    identity,
    image_block,
    items,
    message,
    model_call,
    name_for,
    number,
    objects,
    read_each,
    text_block,
    thought,
    title,
    tool_call,
    total,
    usage,
    when,
    words,
)
from orihon.values.records import ModelCall

_BESIDE = frozenset(("thinking_level_change", "custom", "label", "session"))


class Pi(Importer):
    """Sessions of the coding agent pi."""

    name = "pi"

    def recognises(self, head: bytes, path: Path) -> bool:
        first = peek(head).first
        return first.get("type") == "session" and "id" in first and ("cwd" in first or "version" in first)

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        session = _Session(path)
        yield from read_each(json_lines(path), session.take)
        yield from session.unknown.problems()


class _Session:
    def __init__(self, path: Path) -> None:
        self.unknown = Unknown()
        self._path = path
        self._id = ""
        self._thread = Thread("")
        self._model = ""
        self._said = 0  # messages so far
        self._starts: list[int] = []  # for each entry of the file, the messages before it
        self._path_to: list[str] = []  # the entries from the root to the last one
        self._place: dict[str, tuple[int, int, int]] = {}  # id -> its place on the path, messages before and after it
        self._parents: dict[str, str] = {}

    def take(self, line: int, entry: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        kind = entry.get("type")
        self._starts.append(self._said)
        if not self._id:
            self._thread = self._begun(entry if kind == "session" else {}, line)
            yield self._thread
        yield from self._go_on_from(entry, line)
        before = self._said
        yield from self._read(kind, entry, line)
        if entry_id := words(entry.get("id")):
            self._place[entry_id] = (len(self._path_to), before, self._said)
            self._path_to.append(entry_id)
            self._parents[entry_id] = words(entry.get("parentId"))

    def _begun(self, header: Mapping[str, Any], line: int) -> Thread:
        self._id = identity(header.get("id")) or name_for(self._path, str(line))
        self._model = words(header.get("modelId"))
        about = {"version": header.get("version"), "parent_session": header.get("parentSession")}
        return Thread(
            self._id,
            created_at=when(header.get("timestamp")),
            cwd=words(header.get("cwd")),
            model=self._model,
            about={key: value for key, value in about.items() if value},
        )

    def _go_on_from(self, entry: Mapping[str, Any], line: int) -> Iterator[TranscriptPart]:
        """Take back what this entry does not follow."""
        if "parentId" not in entry or entry.get("type") == "session":
            return
        parent = words(entry.get("parentId"))
        if parent and parent not in self._place:  # of an entry that is not here nothing follows
            return
        while parent and not self._is_on_path(parent):
            parent = self._parents.get(parent, "")
        place, _, after = self._place.get(parent, (-1, 0, 0))
        if place + 1 < len(self._path_to):
            del self._path_to[place + 1 :]
            if self._said > after:
                yield self._event(CompactionItem("", 0, when(entry.get("timestamp")), covers=self._said - after), line)

    def _is_on_path(self, entry_id: str) -> bool:
        place = self._place.get(entry_id, (-1, 0, 0))[0]
        return 0 <= place < len(self._path_to) and self._path_to[place] == entry_id

    def _read(self, kind: object, entry: Mapping[str, Any], line: int) -> Iterator[TranscriptPart]:
        time = when(entry.get("timestamp"))
        match kind:
            case "message":
                yield from self._message(fields(entry.get("message")), time, line)
            case "custom_message":
                yield self._say(SaidItem(message("user", _blocks(entry.get("content"))), time), line)
            case "branch_summary" if words(entry.get("summary")):
                yield self._say(SaidItem(message("user", words(entry["summary"])), time), line)
            case "compaction" if words(entry.get("summary")):
                yield self._event(CompactionItem(words(entry["summary"]), self._kept(entry), time), line)
            case "model_change":
                self._model = words(entry.get("modelId")) or self._model
                yield from self._known(model=self._model)
            case "session_info":
                yield from self._known(named=title(entry.get("name")))
            case "branch_summary" | "compaction":
                pass
            case _ if words(kind) not in _BESIDE:
                self.unknown.add(kind, line)

    def _known(self, *, model: str = "", named: str = "") -> Iterator[TranscriptPart]:
        """Announce the thread again when something new is known of it."""
        better = replace(self._thread, model=model or self._thread.model, title=named or self._thread.title)
        if better != self._thread:
            self._thread = better
            yield better

    def _kept(self, entry: Mapping[str, Any]) -> int:
        first = words(entry.get("firstKeptEntryId"))
        if first in self._place:
            return self._said - self._place[first][1]
        index = number(entry.get("firstKeptEntryIndex"))
        if index is not None and 0 <= index < len(self._starts):
            return self._said - self._starts[int(index)]
        return 0

    def _message(self, said: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        time = time or when(said.get("timestamp"))
        match said.get("role"):
            case "user" | "custom" | "hookMessage":
                yield self._say(SaidItem(message("user", _blocks(said.get("content"))), time), line)
            case "assistant":
                yield self._say(SaidItem(_answer(said), time, self._call(said)), line)
            case "toolResult":
                yield from self._result(said, time, line)
            case "bashExecution":
                yield from self._shell(said, time, line)
            case "branchSummary" | "compactionSummary":
                yield self._say(SaidItem(message("user", words(said.get("summary"))), time), line)
            case role:
                self.unknown.add(role, line)

    def _call(self, said: Mapping[str, Any]) -> ModelCall | None:
        spent = fields(said.get("usage"))
        cached = spent.get("cacheRead")
        used = usage(total(spent.get("input"), cached, spent.get("cacheWrite")), cached, spent.get("output"))
        return model_call(said.get("model") or self._model, used, fields(spent.get("cost")).get("total"))

    def _result(self, said: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        call_id, name = words(said.get("toolCallId")), words(said.get("toolName"))
        rest = {"details": said.get("details")}
        result = message("tool", _blocks(said.get("content")), call_id=call_id, tool_name=name or None, rest=rest)
        yield self._say(SaidItem(result, time), line)
        if said.get("isError") is True:
            yield self._event(ToolItem(name, error=result.text[:1000], status="error", call_id=call_id), line)

    def _shell(self, said: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        command, output = words(said.get("command")), words(said.get("output"))
        if said.get("excludeFromContext") is True:
            failed = said.get("exitCode") not in (0, None)
            status = "error" if failed else "success"
            asked = {"command": command}
            yield self._event(ToolItem("bash", asked, output[:1000], status=status, timestamp=time), line)
            return
        ran = message("user", f"Ran `{command}`\n```\n{output}\n```", rest={"exitCode": said.get("exitCode")})
        yield self._say(SaidItem(ran, time), line)

    def _say(self, item: SaidItem, line: int) -> TranscriptEvent:
        self._said += 1
        return self._event(item, line)

    def _event(self, item: SaidItem | CompactionItem | ToolItem, line: int) -> TranscriptEvent:
        return TranscriptEvent(self._id, item, line)


def _answer(said: Mapping[str, Any]) -> Any:
    blocks = list(objects(said.get("content")))
    calls = [block for block in blocks if block.get("type") == "toolCall"]
    thinking = [_thinking(block) for block in blocks if block.get("type") == "thinking"]
    spoken = [block for block in blocks if block.get("type") not in ("toolCall", "thinking")]
    return message(
        "assistant",
        words(said.get("content")) or _blocks(spoken),
        calls=[tool_call(call.get("id"), call.get("name"), call.get("arguments")) for call in calls],
        reasoning=thinking,
        rest={"stopReason": said.get("stopReason"), "errorMessage": said.get("errorMessage")},
    )


def _thinking(block: Mapping[str, Any]) -> dict[str, Any]:
    signature = block.get("thinkingSignature")
    return {**thought(words(block.get("thinking"))), **({"signature": signature} if signature else {})}


def _blocks(content: object) -> str | list[Mapping[str, Any]] | None:
    if isinstance(content, str):
        return content
    found: list[Mapping[str, Any]] = []
    for block in items(content):
        if isinstance(block, str):
            found.append(text_block(block))
        elif isinstance(block, Mapping) and block.get("type") == "image" and "data" in block:
            found.append(image_block(data_url(block.get("mimeType"), block.get("data"))))
        elif isinstance(block, Mapping):
            found.append(text_block(words(block.get("text"))) if block.get("type") == "text" else block)
    return found or None
