"""Sessions of the older Kimi CLI: what went over its wire, with times and usage, and the context that it kept.

``wire.jsonl`` tells everything and is read where it is; beside it ``context.jsonl``, which is written anew at each
compaction, is only asked for the summary. Without it the context is the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orihon.importers.lines import is_beside, json_lines
from orihon.importers.registry import (
    CompactionItem,
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
    as_json,
    fields,
    image_block,
    message,
    model_call,
    name_for,
    objects,
    read_each,
    text_block,
    thought,
    tool_call,
    total,
    usage,
    when,
    words,
)
from orihon.values.message.message import Message

_OWN_ROLES = frozenset(("_system_prompt", "_checkpoint", "_usage"))
_COMPACTED = "Previous context has been compacted"
_BESIDE = frozenset(
    (
        *("TurnEnd", "StepInterrupted", "StepRetry", "CompactionBegin", "HookTriggered", "HookResolved", "HookRequest"),
        *("MCPLoadingBegin", "MCPLoadingEnd", "Notification", "BtwBegin", "BtwEnd", "ApprovalRequest"),
        *("ApprovalResponse", "ApprovalRequestResolved", "QuestionRequest", "QuestionResponse", "ToolCallRequest"),
        *("HookResponse", "MCPStatusSnapshot"),
    )
)


def is_context(found: Sequence[Mapping[str, Any]]) -> bool:
    """Are these lines of a kept context?"""
    return any(words(record.get("role")) in _OWN_ROLES for record in found)


def is_wire(found: Sequence[Mapping[str, Any]]) -> bool:
    """Are these lines of what went over the wire?"""
    return any("timestamp" in one and {"type", "payload"} <= fields(one.get("message")).keys() for one in found)


def spoken(content: object) -> tuple[str | list[Mapping[str, Any]] | None, list[Mapping[str, Any]]]:
    """What was said in the parts of a message, and what was thought."""
    if isinstance(content, str):
        return content, []
    blocks: list[Mapping[str, Any]] = []
    reasoning: list[Mapping[str, Any]] = []
    for part in objects(content):
        match part.get("type"):
            case "think" | "thinking":
                sealed = {"signature": part["encrypted"]} if part.get("encrypted") else {}
                reasoning.append({**thought(words(part.get("think")) or words(part.get("thinking"))), **sealed})
            case "text":
                blocks.append(text_block(words(part.get("text"))))
            case "image_url" | "imageUrl":
                found = part.get("image_url", part.get("imageUrl"))
                blocks.append(image_block(words(fields(found).get("url")) or words(found)))
            case _:
                blocks.append(part)
    return blocks or None, reasoning


def result_message(call_id: str, output: object, result: Mapping[str, Any]) -> Message:
    """The result of a tool."""
    blocks, _ = spoken(output) if isinstance(output, str | list) else (as_json(output), [])
    note = words(result.get("message")) or words(result.get("note"))
    return message("tool", blocks or "", call_id=call_id or None, rest={"message": note})


def read_context(path: Path) -> Iterator[TranscriptPart]:
    """A session from its context; nothing when its wire tells more."""
    wire = path.with_name("wire.jsonl")
    if path.stem.startswith("context") and is_beside(wire) and wire.stat().st_size:
        return
    named = _session(path) if path.name == "context.jsonl" else ""
    thread = Thread(named or name_for(path, str(path.parent.name)))
    unknown = Unknown()
    yield thread

    def take(line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        role = words(record.get("role"))
        if role == "_system_prompt":
            yield TranscriptEvent(thread.id, SaidItem(message("system", words(record.get("content")))), line)
        elif role in ("user", "assistant", "system", "tool"):
            blocks, reasoning = spoken(record.get("content"))
            calls = [
                tool_call(call.get("id"), fields(call.get("function")).get("name"), _asked(call))
                for call in objects(record.get("tool_calls"))
            ]
            call_id = words(record.get("tool_call_id")) or None
            said = message(role, blocks, calls=calls, call_id=call_id, reasoning=reasoning)
            yield TranscriptEvent(thread.id, SaidItem(said), line)
        elif role not in _OWN_ROLES:
            unknown.add(f"role {role}", line)

    yield from read_each(json_lines(path), take)
    yield from unknown.problems()


def _asked(call: Mapping[str, Any]) -> object:
    return fields(call.get("function")).get("arguments")


def _session(path: Path) -> str:
    folder = path.parent
    return f"{folder.parent.parent.name}-{folder.name}" if folder.parent.name == "subagents" else folder.name


def read_wire(path: Path) -> Iterator[TranscriptPart]:
    """A session from what went over its wire."""
    wire = _Wire(path)
    yield from read_each(json_lines(path), wire.take)
    yield from wire.unknown.problems()


@dataclass(slots=True)
class _Speaker:
    id: str
    step: str = ""
    steps: int = 0


@dataclass(slots=True)
class _Wire:
    path: Path
    unknown: Unknown = field(default_factory=Unknown)
    _main: _Speaker | None = None
    _others: dict[str, _Speaker] = field(default_factory=dict)

    def take(self, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        envelope, time = fields(record.get("message")), when(record.get("timestamp"))
        if self._main is None:
            self._main = _Speaker(
                _session(self.path) if self.path.name == "wire.jsonl" else name_for(self.path, str(time))
            )
            is_child = self.path.parent.parent.name == "subagents"
            parent = self.path.parent.parent.parent.name if is_child else None
            yield Thread(self._main.id, created_at=time, parent=parent)
        if envelope:
            yield from self._envelope(self._main, envelope, time, line)
        elif record.get("type") != "metadata":
            self.unknown.add(record.get("type"), line)

    def _envelope(
        self, who: _Speaker, sent: Mapping[str, Any], time: str | None, line: int
    ) -> Iterator[TranscriptPart]:
        kind, data = words(sent.get("type")), fields(sent.get("payload"))
        match kind:
            case "TurnBegin" | "SteerInput":
                blocks, _ = spoken(data.get("user_input"))
                yield TranscriptEvent(who.id, SaidItem(message("user", blocks or ""), time), line)
            case "StepBegin":
                who.steps += 1
                who.step = f"{who.steps}"
            case "ContentPart" | "TextPart" | "ThinkPart" | "ImageURLPart":
                blocks, reasoning = spoken([data])
                yield self._piece(who, message("assistant", blocks, reasoning=reasoning), time, line)
            case "ToolCall":
                call = tool_call(data.get("id"), fields(data.get("function")).get("name"), _asked(data))
                yield self._piece(who, message("assistant", calls=[call]), time, line)
            case "ToolResult":
                yield from self._result(who, data, time, line)
            case "StatusUpdate":
                yield from self._used(who, data, time, line)
            case "SubagentEvent":
                yield from self._child(data, time, line)
            case "CompactionEnd":
                if summary := self._summary():
                    yield TranscriptEvent(who.id, CompactionItem(summary, 0, time), line)
            case "PlanDisplay":
                yield TranscriptEvent(who.id, PlanItem("plan", words(data.get("content")), time), line)
            case _ if kind not in _BESIDE:
                self.unknown.add(kind, line)

    def _piece(self, who: _Speaker, said: Message, time: str | None, line: int) -> TranscriptEvent:
        return TranscriptEvent(who.id, SaidItem(said, time, None, who.step or None), line)

    def _result(self, who: _Speaker, data: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        result = fields(data.get("return_value")) or fields(data.get("result"))
        call_id = words(data.get("tool_call_id"))
        said = result_message(call_id, result.get("output"), result)
        yield TranscriptEvent(who.id, SaidItem(said, time), line)
        if result.get("is_error") is True:
            error = (words(result.get("message")) or said.text)[:1000]
            yield TranscriptEvent(who.id, ToolItem("", error=error, status="error", call_id=call_id), line)

    def _used(self, who: _Speaker, data: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        spent = fields(data.get("token_usage"))
        read = spent.get("input_cache_read")
        asked = total(spent.get("input_other"), read, spent.get("input_cache_creation"))
        call = model_call("", usage(asked, read, spent.get("output")))
        if call is not None and who.step:
            yield TranscriptEvent(who.id, SaidItem(Message("assistant"), time, call, who.step), line)

    def _child(self, data: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        assert self._main is not None
        named = (
            words(data.get("agent_id"))
            or words(data.get("parent_tool_call_id"))
            or words(data.get("task_tool_call_id"))
        )
        if is_beside(self.path.parent / "subagents" / named / "wire.jsonl"):
            return  # it tells the same in a file of its own
        if named not in self._others:
            self._others[named] = _Speaker(f"{self._main.id}-{named}")
            yield Thread(self._others[named].id, created_at=time, parent=self._main.id)
        yield from self._envelope(self._others[named], fields(data.get("event")), time, line)

    def _summary(self) -> str:
        """What the last compaction has written: the context begins with it. It stands for the earlier ones, too."""
        beside = self.path.with_name("context.jsonl")
        for record in json_lines(beside) if is_beside(beside) else ():
            if isinstance(record, Problem) or words(record[1].get("role")) in _OWN_ROLES:
                continue
            said = message("user", spoken(record[1].get("content"))[0]).text
            return said if _COMPACTED in said else ""
        return ""
