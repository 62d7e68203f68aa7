"""Events of the OpenHands agent SDK (version 1 and later): each says of what ``kind`` it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from orihon.importers.base import (
    CompactionItem,
    PlanItem,
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
    fields,
    identity,
    image_block,
    items,
    message,
    model_call,
    number,
    objects,
    text_block,
    thought,
    tool_call,
    usage,
    usages,
    when,
    words,
)
from orihon.values.records import ModelCall

_BESIDE = frozenset(
    (
        *("ConversationStateUpdateEvent", "PauseEvent", "CondensationRequest", "TokenEvent", "LLMCompletionLogEvent"),
        *("HookExecutionEvent", "ConversationErrorEvent", "StreamingDeltaEvent", "CondensationSummaryEvent"),
        "InterruptEvent",
    )
)
_OTHERS = _BESIDE | {"Condensation", "UserRejectObservation"}


def is_sdk_event(value: object) -> bool:
    """Is this an event of the SDK?"""
    event = fields(value)
    kind = words(event.get("kind"))
    return "source" in event and "id" in event and (kind.endswith("Event") or kind in _OTHERS)


class SdkConversation:
    """The events of one conversation, as they come."""

    def __init__(self, thread: Thread, metrics: Mapping[str, Any]) -> None:
        self._unknown = Unknown()
        self._thread = thread
        self._usages = usages(metrics)
        self._counted: set[str] = set()  # answers whose usage has been given
        self._said = 0
        self._answer = ""
        self._places: dict[str, tuple[int, int]] = {}  # event -> messages before and after it
        self._forgotten: set[str] = set()
        self._is_begun = False

    def take(self, line: int, event: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        if not self._is_begun:
            self._is_begun = True
            yield replace(self._thread, created_at=self._thread.created_at or when(event.get("timestamp")))
        before = self._said
        yield from self._read(words(event.get("kind")), event, when(event.get("timestamp")), line)
        self._places[identity(event.get("id"))] = (min(before, self._said - 1) if self._said else 0, self._said)

    def end(self) -> Iterator[TranscriptPart]:
        yield from self._unknown.problems()

    def _read(self, kind: str, event: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        match kind:
            case "SystemPromptEvent":
                prompt, more = fields(event.get("system_prompt")), fields(event.get("dynamic_context"))
                text = "\n\n".join(filter(None, (words(prompt.get("text")), words(more.get("text")))))
                yield self._say(SaidItem(message("system", text), time), line)
            case "MessageEvent":
                yield from self._message(event, time, line)
            case "ActionEvent":
                yield from self._action(event, time, line)
            case "ObservationEvent" | "AgentErrorEvent" | "UserRejectObservation":
                yield from self._result(kind, event, time, line)
            case "Condensation":
                yield from self._condense(event, time, line)
            case "ACPToolCallEvent":
                yield from self._foreign_call(event, time, line)
            case _ if kind not in _BESIDE:
                self._unknown.add(kind or "?", line)

    def _message(self, event: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        said = fields(event.get("llm_message"))
        role = words(said.get("role"))
        blocks = [*_blocks(said.get("content")), *_blocks(event.get("extended_content"))]
        calls = [_call(call, call.get("name")) for call in objects(said.get("tool_calls"))]
        made = message(
            role if role in ("user", "assistant", "system", "tool") else "user",
            blocks or "",
            calls=calls,
            call_id=words(said.get("tool_call_id")) or None,
            reasoning=_reasoning(said),
        )
        answer = words(event.get("llm_response_id"))
        yield self._say(SaidItem(made, time, self._used(answer) if role == "assistant" else None), line)

    def _action(self, event: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        answer = words(event.get("llm_response_id"))
        call = _call(fields(event.get("tool_call")), event.get("tool_name"), event.get("tool_call_id"))
        if call.arguments == "{}" and fields(event.get("action")):
            asked = {key: value for key, value in fields(event["action"]).items() if key != "kind"}
            call = tool_call(call.id, call.name, asked)
        made = message("assistant", _blocks(event.get("thought")) or None, calls=[call], reasoning=_reasoning(event))
        if not answer or answer != self._answer:
            self._said += 1
        self._answer = answer
        yield self._event(SaidItem(made, time, self._used(answer), answer or None), line)
        tasks = fields(event.get("action")).get("task_list")
        if tasks:
            yield self._event(PlanItem("todo", tasks, time), line)

    def _result(self, kind: str, event: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        observed = fields(event.get("observation"))
        content: Any = observed.get("content", observed.get("output"))
        if kind != "ObservationEvent":
            content = words(event.get("error")) or words(event.get("rejection_reason"))
        blocks = [text_block(content)] if isinstance(content, str) else _blocks(content)
        if not blocks and observed:
            blocks = [text_block(as_json({key: value for key, value in observed.items() if key != "kind"}))]
        blocks += _blocks(event.get("extended_content"))
        call_id, name = words(event.get("tool_call_id")), words(event.get("tool_name"))
        made = message("tool", blocks or "", call_id=call_id or None, tool_name=name or None)
        yield self._say(SaidItem(made, time), line)
        if kind != "ObservationEvent" or observed.get("is_error") is True:
            yield self._event(ToolItem(name, error=made.text[:1000], status="error", call_id=call_id), line)

    def _foreign_call(self, event: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        """A tool that an agent behind this one has used; it is told again with each change of its state."""
        if event.get("status") not in ("completed", "failed", None):
            return
        name, shown = words(event.get("title")), as_json(event.get("raw_output"))[:1000]
        failed = event.get("is_error") is True or event.get("status") == "failed"
        item = ToolItem(name, event.get("raw_input"), shown, status="success", timestamp=time)
        yield self._event(replace(item, result=None, error=shown, status="error") if failed else item, line)

    def _condense(self, event: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        """Fold what is forgotten, with all that was before: only the newest summary is shown."""
        self._forgotten.update(map(identity, items(event.get("forgotten_event_ids"))))
        places = [self._places[one] for one in self._forgotten if one in self._places]
        first, last = min((one[0] for one in places), default=0), max((one[1] for one in places), default=0)
        if last > first:
            item = CompactionItem(words(event.get("summary")), self._said - last, time, covers=last - first)
            yield self._event(item, line)

    def _used(self, answer: str) -> ModelCall | None:
        spent = fields(self._usages.get(answer)) if answer not in self._counted else {}
        self._counted.add(answer)
        used = usage(spent.get("prompt_tokens"), spent.get("cache_read_tokens"), spent.get("completion_tokens"))
        return model_call(words(spent.get("model")) or self._thread.model, used, number(spent.get("cost")))

    def _say(self, item: SaidItem, line: int) -> TranscriptEvent:
        self._said += 1
        self._answer = ""
        return self._event(item, line)

    def _event(self, item: TranscriptItem, line: int) -> TranscriptEvent:
        return TranscriptEvent(self._thread.id, item, line)


def _call(call: Mapping[str, Any], name: object, call_id: object = None) -> Any:
    asked = fields(call.get("function")) or call
    return tool_call(call.get("id") or call_id, asked.get("name") or name, asked.get("arguments"))


def _blocks(content: object) -> list[Mapping[str, Any]]:
    if isinstance(content, str):
        return [text_block(content)] if content else []
    blocks: list[Mapping[str, Any]] = []
    for block in objects(content):
        if block.get("type") == "image":
            blocks += [image_block(words(url)) for url in items(block.get("image_urls")) if words(url)]
        elif isinstance(block.get("text"), str):
            blocks.append(text_block(block["text"]))
        else:
            blocks.append(block)
    return blocks


def _reasoning(said: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if blocks := list(objects(said.get("thinking_blocks"))):
        return blocks
    reasoning = words(said.get("reasoning_content"))
    return [thought(reasoning)] if reasoning else []
