"""Sessions of GitHub Copilot CLI: event logs (``session-state/<id>/events.jsonl``) and the older single documents.

Sub-agents speak in the log of the session that started them; they become threads of their own. The input tokens of a
single call are mostly not written: what a session has used as a whole stands at its shutdown and is counted with the
last answer before. Permissions, hooks and states of the interface are no part of the conversation and are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from orihon.importers.lines import json_document, json_lines, peek
from orihon.importers.registry import (
    CompactionItem,
    Importer,
    PlanItem,
    Problem,
    SaidItem,
    Thread,
    ToolItem,
    TranscriptEvent,
    TranscriptItem,
    TranscriptPart,
)
from orihon.importers.shapes import (
    Unknown,
    as_json,
    data_url,
    fields,
    identity,
    image_block,
    message,
    model_call,
    name_for,
    number,
    numbered,
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
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage

_TALK = ("session", "user", "assistant", "tool", "system", "subagent", "hook", "abort")
# Events of these families that are not read below are known, and say nothing about the conversation.
_BESIDE = frozenset(
    (
        *_TALK,
        *("permission", "user_input", "elicitation", "sampling", "mcp", "external_tool", "command", "commands"),
        *("capabilities", "auto_mode_switch", "session_limits_exhausted", "exit_plan_mode", "pending_messages"),
        *("model", "skill", "tool_search", "factory", "ui", "result", "mcp_app"),
    )
)


class Copilot(Importer):
    """Sessions of GitHub Copilot CLI."""

    name = "copilot"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        if seen.is_list or not seen.found:
            return False
        if "chatMessages" in seen.first:
            return "sessionId" in seen.first
        return _is_event(seen.first) and sum(map(_is_event, seen.found)) * 2 > len(seen.found)

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        if path.suffix == ".json" and not isinstance(document := json_document(path), Problem):
            yield from _old(path, fields(document))
            return
        session = _Session(path)
        yield from read_each(json_lines(path), session.take)
        yield from session.end()


def _is_event(event: Mapping[str, Any]) -> bool:
    family, _, name = words(event.get("type")).partition(".")
    return isinstance(event.get("data"), Mapping) and ((family in _BESIDE and bool(name)) or family == "abort")


@dataclass(slots=True)
class _Speaker:
    """The session itself or one of its sub-agents."""

    id: str
    reasoning: str = ""
    pending: tuple[SaidItem, int] | None = None  # the last answer: what it used may come after it
    said: int = 0
    compacting_since: int = 0


@dataclass(slots=True)
class _Session:
    path: Path
    unknown: Unknown = field(default_factory=Unknown)
    model: str = ""
    _thread: Thread = field(default_factory=lambda: Thread(""))
    _main: _Speaker | None = None
    _others: dict[str, _Speaker] = field(default_factory=dict)
    _started: dict[str, str] = field(default_factory=dict)  # id of a running tool call -> when
    _asked: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # calls that a person has made
    _used: dict[str, ModelCall] = field(default_factory=dict)  # id of a call of the model -> what it used
    _told: Usage = field(default_factory=Usage)  # what the answers of this run have used, as far as they say it

    def take(self, line: int, event: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        kind, data, time = words(event.get("type")), fields(event.get("data")), when(event.get("timestamp"))
        if self._main is None:
            yield from self._begin(kind, data, time)
        yield from self._speaker(kind, event, data, time)
        who = self._of(event, data)
        match kind:
            case "user.message":
                yield from self._say(who, SaidItem(_asked(data), time), line)
            case "system.message" | "system.notification":
                role = "developer" if data.get("role") == "developer" else "system"
                yield from self._say(who, SaidItem(message(role, words(data.get("content"))), time), line)
            case "assistant.message":
                yield from self._answer(who, data, time, line)
            case "assistant.reasoning":
                who.reasoning = words(data.get("content"))
            case "assistant.usage":
                self._count(who, data)
            case "tool.execution_start":
                self._started[words(data.get("toolCallId"))] = time or ""
            case "tool.user_requested":
                self._asked[words(data.get("toolCallId"))] = data
            case "tool.execution_complete":
                yield from self._result(who, data, time, line)
            case _:
                yield from self._state(who, kind, data, time, line)

    def end(self) -> Iterator[TranscriptPart]:
        for who in filter(None, (self._main, *self._others.values())):  # of two names the second gives nothing more
            yield from self._flush(who)
        yield from self.unknown.problems()

    def _begin(self, kind: str, data: Mapping[str, Any], time: str | None) -> Iterator[TranscriptPart]:
        start = data if kind in ("session.start", "session.resume") else {}
        context = fields(start.get("context"))
        is_folder = self.path.stem == "events"
        named = identity(start.get("sessionId")) or (self.path.parent.name if is_folder else self.path.stem)
        self._main = _Speaker(named)
        self.model = words(start.get("selectedModel")) or words(start.get("model"))
        about = {"version": start.get("copilotVersion"), "branch": context.get("branch")}
        self._thread = Thread(
            named,
            created_at=when(start.get("startTime")) or time,
            cwd=words(context.get("cwd")) or words(start.get("cwd")),
            repository=words(context.get("repository")),
            model=self.model,
            about={key: value for key, value in about.items() if value},
        )
        yield self._thread

    def _speaker(
        self, kind: str, event: Mapping[str, Any], data: Mapping[str, Any], time: str | None
    ) -> Iterator[TranscriptPart]:
        """Announce a sub-agent that is heard of for the first time."""
        named = words(data.get("toolCallId")) if kind == "subagent.started" else _agent(event, data)
        also = words(event.get("agentId")) or named  # an agent is known by its call and by a name of its own
        if not named or named in self._others or self._main is None:
            return
        self._others[named] = self._others[also] = _Speaker(f"{self._main.id}-{named}")
        said = words(data.get("agentDescription")) or words(data.get("agentDisplayName"))
        yield Thread(
            self._others[named].id,
            title(said),
            time,
            parent=self._main.id,
            about={"agent": data["agentName"]} if data.get("agentName") else {},
        )

    def _of(self, event: Mapping[str, Any], data: Mapping[str, Any]) -> _Speaker:
        assert self._main is not None
        return self._others.get(_agent(event, data), self._main)

    def _answer(self, who: _Speaker, data: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        said = words(data.get("reasoningText")) or who.reasoning
        who.reasoning = ""
        hidden = data.get("reasoningOpaque") or data.get("encryptedContent")
        answer = message(
            "assistant",
            words(data.get("content")) or None,
            calls=[
                tool_call(call.get("toolCallId"), call.get("name"), call.get("arguments", call.get("input")))
                for call in objects(data.get("toolRequests"))
            ],
            reasoning=[thought(said)] if said else [],
            rest={"reasoning_opaque": hidden, "citations": data.get("citations")},
        )
        model = words(data.get("model")) or self.model
        call = self._used.pop(words(data.get("apiCallId")), None)
        if call is None:
            call = model_call(model, usage(None, None, data.get("outputTokens")))
        item = SaidItem(answer, time, call, words(data.get("messageId")) or None)
        yield from self._say(who, item, line)

    def _count(self, who: _Speaker, data: Mapping[str, Any]) -> None:
        used = usage(data.get("inputTokens"), data.get("cacheReadTokens"), data.get("outputTokens"))
        call = model_call(words(data.get("model")) or self.model, used)
        if call is None:
            return
        if who.pending is not None and (who.pending[0].call is None or not _input(who.pending[0].call)):
            who.pending = (replace(who.pending[0], call=call), who.pending[1])
        elif api_call := words(data.get("apiCallId")):
            self._used[api_call] = call

    def _result(self, who: _Speaker, data: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        call_id, result = words(data.get("toolCallId")), fields(data.get("result"))
        error = words(fields(data.get("error")).get("message")) or words(data.get("error"))
        content = _result_text(result) or error
        asked = self._asked.pop(call_id, None)
        if asked is not None or data.get("isUserRequested") is True:
            ran = as_json(fields(asked).get("arguments"))
            yield from self._say(who, SaidItem(message("user", f"{ran}\n{content}".strip()), time), line)
            return
        failed = data.get("success") is False
        yield from self._say(who, SaidItem(message("tool", content, call_id=call_id or None), time), line)
        metrics = fields(fields(data.get("toolTelemetry")).get("metrics"))
        item = ToolItem(
            "",
            error=(error or content)[:1000] if failed else None,
            status="error" if failed else "success",
            duration_ms=number(metrics.get("durationMs")) or _between(self._started.pop(call_id, ""), time),
            timestamp=time,
            call_id=call_id,
        )
        yield TranscriptEvent(who.id, item, line)

    def _state(
        self, who: _Speaker, kind: str, data: Mapping[str, Any], time: str | None, line: int
    ) -> Iterator[TranscriptPart]:
        match kind:
            case "session.title_changed" if title(data.get("title")):
                self._thread = replace(self._thread, title=title(data["title"]))
                yield self._thread
            case "session.model_change":
                self.model = words(data.get("newModel")) or self.model
            case "session.auto_mode_resolved":
                self.model = words(data.get("chosenModel")) or self.model
            case "session.compaction_start":
                who.compacting_since = who.said
            case "session.compaction_complete" if words(data.get("summaryContent")):
                kept = who.said - who.compacting_since if who.compacting_since else 0
                who.compacting_since = 0
                yield from self._put(who, CompactionItem(words(data["summaryContent"]), kept, time), line)
            case "session.context_cleared":
                yield from self._put(who, CompactionItem(words(data.get("initialMessage")), 0, time), line)
            case "exit_plan_mode.requested" if words(data.get("planContent")):
                yield from self._put(who, PlanItem("plan", words(data["planContent"]), time), line)
            case "session.shutdown":
                self._settle(who, data)
            case _ if kind.partition(".")[0] not in _BESIDE:
                self.unknown.add(kind, line)

    def _settle(self, who: _Speaker, data: Mapping[str, Any]) -> None:
        """Count what the run has used, less what its answers have told, with its last answer."""
        whole, told, self._told = _totals(data), self._told, Usage()
        if who.pending is None or whole is None or told.input:
            return
        item, line = who.pending
        call = item.call or ModelCall(self.model)
        own = call.usage or Usage()
        if own.input:
            return
        rest = Usage(whole.input, whole.cached, max(whole.output - told.output, own.output))
        who.pending = (replace(item, call=replace(call, usage=rest)), line)

    def _say(self, who: _Speaker, item: SaidItem, line: int) -> Iterator[TranscriptPart]:
        if item.answer is None or who.pending is None or who.pending[0].answer != item.answer:
            who.said += 1
        yield from self._flush(who)
        if item.message.role == "assistant":
            who.pending = (item, line)
        else:
            yield TranscriptEvent(who.id, item, line)

    def _put(self, who: _Speaker, item: TranscriptItem, line: int) -> Iterator[TranscriptPart]:
        yield from self._flush(who)
        yield TranscriptEvent(who.id, item, line)

    def _flush(self, who: _Speaker) -> Iterator[TranscriptPart]:
        if who.pending is not None:
            (item, line), who.pending = who.pending, None
            if item.call is not None and item.call.usage is not None:
                used = item.call.usage
                self._told = Usage(self._told.input + used.input, 0, self._told.output + used.output)
            yield TranscriptEvent(who.id, item, line)


def _agent(event: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    return words(data.get("parentToolCallId")) or words(event.get("agentId"))


def _input(call: ModelCall) -> int:
    return 0 if call.usage is None else call.usage.input


def _asked(data: Mapping[str, Any]) -> Message:
    """What a person said. The agent wraps that for the model; the wrapped text is kept beside."""
    said, sent = words(data.get("content")), words(data.get("transformedContent"))
    attached = list(objects(data.get("attachments")))
    images = [one for one in attached if words(one.get("mimeType")).startswith("image/") and words(one.get("data"))]
    blocks = [text_block(said), *(image_block(data_url(one["mimeType"], one["data"])) for one in images)]
    rest = {"attachments": [one for one in attached if one not in images], "sent": sent if sent != said else ""}
    return message("user", blocks if images else said, rest=rest)


def _result_text(result: Mapping[str, Any]) -> str:
    content = result.get("content")
    if isinstance(content, str):
        return content
    return "\n".join(words(block.get("text")) for block in objects(content)) or as_json(content)


def _between(start: str, end: str | None) -> float | None:
    try:
        passed = (datetime.fromisoformat(end or "") - datetime.fromisoformat(start)).total_seconds() * 1000
    except (ValueError, TypeError):
        return None
    return passed if passed >= 0 else None


def _totals(data: Mapping[str, Any]) -> Usage | None:
    """What a run of the program has used, over all its models."""
    used = [fields(fields(one).get("usage")) for one in fields(data.get("modelMetrics")).values()]
    details = {name: fields(one).get("tokenCount") for name, one in fields(data.get("tokenDetails")).items()}
    asked = total(*(one.get("inputTokens") for one in used), *([] if any(used) else [details.get("input")]))
    said = total(*(one.get("outputTokens") for one in used), *([] if any(used) else [details.get("output")]))
    cached = total(*(one.get("cacheReadTokens") for one in used), *([] if any(used) else [details.get("cache_read")]))
    return usage(asked, cached, said)


def _old(path: Path, document: Mapping[str, Any]) -> Iterator[TranscriptPart]:
    """A session as one document, with messages in the form of the OpenAI API."""
    named = identity(document.get("sessionId")) or name_for(path, as_json(document.get("startTime")))
    model = words(document.get("selectedModel"))
    yield Thread(named, created_at=when(document.get("startTime")), model=model)

    def take(line: int, said: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        call = model_call(model) if said.get("role") == "assistant" else None
        yield TranscriptEvent(named, SaidItem(Message.from_chat(said), call=call), line)

    yield from read_each(numbered(document.get("chatMessages")), take)
