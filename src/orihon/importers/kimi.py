"""Sessions of Kimi Code (``agents/<agent>/wire.jsonl``) and of the older Kimi CLI (``wire.jsonl``, ``context.jsonl``).

Kimi Code writes what happened as records; an answer comes as a step with parts, calls and, at its end, what it used.
Agents of one session have a file each: all but the main one are its children. The older program is read by
``kimi_cli``. Requests, permissions, counters and states of the interface are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orihon.importers.kimi_cli import is_context, is_wire, read_context, read_wire, result_message, spoken
from orihon.importers.lines import is_beside, json_document, json_lines, peek
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
    as_json,
    fields,
    message,
    model_call,
    name_for,
    number,
    objects,
    read_each,
    title,
    tool_call,
    total,
    usage,
    when,
    words,
)
from orihon.values.message.message import Message, ToolCall

_FAMILIES = ("config", "context", "turn", "tools", "llm", "usage", "permission", "profile")
_BESIDE = frozenset(
    (
        *_FAMILIES,
        *("metadata", "forked", "plan_mode", "full_compaction", "micro_compaction", "goal", "swarm_mode", "tower_mode"),
        *("plugin", "runtime", "token_counting", "mcp", "background", "cron", "skill", "session", "agent", "task"),
        *("plan", "prompt", "interaction", "interruptionReminder", "staleGuard"),
    )
)


class Kimi(Importer):
    """Sessions of Kimi Code and Kimi CLI."""

    name = "kimi"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        if seen.is_list:
            return False
        return is_context(seen.found) or is_wire(seen.found) or any(map(_is_record, seen.found[:8]))

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        found = []
        for record in json_lines(path):
            if not isinstance(record, Problem):
                found.append(record[1])
            if len(found) == 8:
                break
        if is_context(found):
            yield from read_context(path)
        elif is_wire(found):
            yield from read_wire(path)
        else:
            session = _Session(path)
            yield from read_each(json_lines(path), session.take)
            yield from session.unknown.problems()

    def ignores(self, path: Path) -> bool:
        return path.name == "state.json" and (path.parent / "agents").is_dir()


def _is_record(record: Mapping[str, Any]) -> bool:
    family, _, rest = words(record.get("type")).partition(".")
    if family == "metadata":
        return "protocol_version" in record
    return bool(rest) and family in _FAMILIES and "time" in record and "data" not in record


@dataclass(slots=True)
class _Session:
    path: Path
    unknown: Unknown = field(default_factory=Unknown)
    _id: str = ""
    _first: Mapping[str, Any] = field(default_factory=dict)
    _thread: Thread = field(default_factory=lambda: Thread(""))
    _model: str = ""
    _prompt: str = ""
    _said: int = 0
    _step: str = ""  # the last step that has said something
    _prompts: list[int] = field(default_factory=list)  # for each thing a person said, the messages before it

    def take(self, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        kind, time = words(record.get("type")), when(record.get("time"))
        if kind == "metadata":  # nothing has happened yet
            self._first = self._first or record
            return
        if not self._id:
            self._thread = self._begin(self._first or record, time)
            yield self._thread
        match kind:
            case "config.update" | "profile.bind":
                yield from self._configure(record, time, line)
            case "context.append_message":
                yield from self._message(fields(record.get("message")), time, line)
            case "context.append_loop_event":
                yield from self._loop(fields(record.get("event")), time, line)
            case "context.apply_compaction":
                yield from self._compact(record, time, line)
            case "context.undo":
                count = int(number(record.get("count")) or 0)
                back = self._prompts[-count] if 0 < count <= len(self._prompts) else 0
                del self._prompts[max(len(self._prompts) - count, 0) :]
                yield self._event(CompactionItem("", 0, time, covers=self._said - back), line)
            case "context.clear":
                yield self._event(CompactionItem("", 0, time), line)
            case "tools.update_store" if words(record.get("key")).startswith("todo"):
                yield self._event(PlanItem("todo", record.get("value"), time), line)
            case "goal.create":
                yield self._event(PlanItem("goal", words(record.get("objective")), time), line)
            case _ if kind.partition(".")[0] not in _BESIDE:
                self.unknown.add(kind, line)

    def _begin(self, record: Mapping[str, Any], time: str | None) -> Thread:
        agent = self.path.parent
        session = agent.parent.parent
        created = when(record.get("created_at")) or time
        if agent.parent.name != "agents" or self.path.name != "wire.jsonl":
            self._id = name_for(self.path, as_json(record))
            return Thread(self._id, created_at=created)
        beside = session / "state.json"
        state = json_document(beside) if is_beside(beside) else None
        known = {} if isinstance(state, Problem) else fields(state)
        main = session.name.removeprefix("session_")
        parent = None
        if agent.name != "main":
            above = words(fields(fields(known.get("agents")).get(agent.name)).get("parentAgentId"))
            parent = main if above in ("", "main") else f"{main}-{above}"
        self._id = main if parent is None else f"{main}-{agent.name}"
        named = title(known.get("title")) if parent is None else ""
        return Thread(self._id, named, created, words(known.get("workDir")), parent=parent)

    def _configure(self, record: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        self._model = words(record.get("modelAlias")) or self._model
        disclosed = fields(record.get("environmentDisclosure")).get("cwd")
        cwd = self._thread.cwd or words(record.get("cwd")) or words(disclosed)
        if (cwd, self._model) != (self._thread.cwd, self._thread.model):
            self._thread = replace(self._thread, cwd=cwd, model=self._model)
            yield self._thread
        prompt = words(record.get("systemPrompt"))
        if prompt and prompt != self._prompt:
            self._prompt = prompt
            yield self._say(SaidItem(message("system", prompt), time), line)

    def _message(self, said: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        role = words(said.get("role"))
        if role not in ("user", "assistant", "system", "tool"):
            self.unknown.add(f"role {role}", line)
            return
        origin = words(fields(said.get("origin")).get("kind"))
        if role == "user" and origin in ("", "user"):
            self._prompts.append(self._said)
        blocks, reasoning = spoken(said.get("content"))
        calls = [_call(call) for call in objects(said.get("toolCalls"))]
        call_id = words(said.get("toolCallId")) or None
        rest = {"origin": said.get("origin") if origin not in ("", "user") else None}
        made = message(role, blocks, calls=calls, call_id=call_id, reasoning=reasoning, rest=rest)
        yield self._say(SaidItem(made, time, model_call(self._model) if role == "assistant" else None), line)

    def _loop(self, event: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        step = words(event.get("stepUuid")) or words(event.get("uuid"))
        match event.get("type"):
            case "content.part":
                blocks, reasoning = spoken([event.get("part")])
                yield self._piece(message("assistant", blocks, reasoning=reasoning), step, time, line)
            case "tool.call":
                call = tool_call(event.get("toolCallId"), event.get("name"), event.get("args"))
                yield self._piece(message("assistant", calls=[call]), step, time, line)
            case "tool.result":
                result = fields(event.get("result"))
                call_id = words(event.get("toolCallId"))
                yield self._say(SaidItem(result_message(call_id, result.get("output"), result), time), line)
                if result.get("isError") is True:
                    said = as_json(result.get("output"))[:1000]
                    yield self._event(ToolItem("", error=said, status="error", call_id=call_id), line)
            case "step.end" if self._step == step:
                spent = fields(event.get("usage"))
                read = spent.get("inputCacheRead")
                asked = total(spent.get("inputOther"), read, spent.get("inputCacheCreation"))
                made = model_call(self._model, usage(asked, read, spent.get("output")))
                if made is not None:
                    yield self._event(SaidItem(Message("assistant"), time, made, step), line)
            case "step.begin" | "step.end":
                pass
            case kind:
                self.unknown.add(f"event {words(kind)}", line)

    def _piece(self, said: Message, step: str, time: str | None, line: int) -> TranscriptEvent:
        self._said += step != self._step
        self._step = step
        return self._event(SaidItem(said, time, None, step or None), line)

    def _compact(self, record: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        summary = record.get("contextSummary") or record.get("summary")
        text = words(summary) or message("user", spoken(fields(summary).get("content"))[0]).text
        count = number(record.get("compactedCount"))
        kept = 0
        if "keptUserMessageCount" not in record and count is not None:  # older ones kept the last messages as they were
            kept = max(self._said - int(count), 0)
        yield self._event(CompactionItem(text, kept, time), line)

    def _say(self, item: SaidItem, line: int) -> TranscriptEvent:
        self._said += 1
        return self._event(item, line)

    def _event(self, item: SaidItem | ToolItem | CompactionItem | PlanItem, line: int) -> TranscriptEvent:
        return TranscriptEvent(self._id, item, line)


def _call(call: Mapping[str, Any]) -> ToolCall:
    inner = fields(call.get("function")) or call
    return tool_call(call.get("id"), inner.get("name"), inner.get("arguments", inner.get("args")))
