"""Conversations of OpenHands, in the forms that its versions have written them.

    *.json                          a list of events (a saved or downloaded trajectory)
    output.jsonl                    results of evaluations and of the resolver of issues, one a line, with the events or
                                    pairs of them in ``history``
    <session>/events/<n>.json       one event a file
    <session>/events/event-*.json   the same of the newer agent SDK, with ``base_state.json`` beside the folder

A folder of events is read when its last file is; the others give nothing, so that it is read once and again when it has
grown. What events of the
versions before the SDK mean is known to ``openhands_events``; those of the SDK say of what ``kind`` they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from orihon.importers.lines import is_beside, json_document, json_lines, peek
from orihon.importers.openhands_events import OpenHandsConversation, is_event
from orihon.importers.registry import (
    CompactionItem,
    Importer,
    PlanItem,
    Problem,
    SaidItem,
    Thread,
    ThreadEnd,
    ToolItem,
    TranscriptEvent,
    TranscriptItem,
    TranscriptPart,
)
from orihon.importers.shapes import (
    RecordOrProblem,
    Unknown,
    as_json,
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
    usage,
    usages,
    when,
    words,
)
from orihon.values.records import ModelCall

_FILE = re.compile(r"^(?:event[-_])?(\d+)(?:[-_][\w-]+)?\.json$")
_BESIDE = frozenset(("base_state.json", "metadata.json", "agent_state.pkl", "conversation_stats.pkl"))


class OpenHands(Importer):
    """Trajectories, sessions and evaluation results of OpenHands."""

    name = "openhands"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        first = seen.first
        if _is_result(first):
            return not seen.is_list
        wrapped = items(first.get("trajectory"))
        return any(is_event(one) or is_sdk_event(one) for one in (first, fields(wrapped[0] if wrapped else None)))

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        if path.suffix == ".jsonl":
            yield from _lines(path)
        elif (path.parent.name == "events" or path.name.startswith("event")) and _FILE.match(path.name):
            if path.name == _last_file(path.parent, path.parent.stat().st_mtime_ns):
                yield from _folder(path.parent)
        else:
            yield from _document(path)

    def ignores(self, path: Path) -> bool:
        return path.parent.name == "event_cache" or (path.name in _BESIDE and (path.parent / "events").is_dir())


def _is_result(record: Mapping[str, Any]) -> bool:
    """Is this what came of an instance of an evaluation, or of an issue that was worked on?"""
    if "instance_id" in record:
        return "history" in record or "test_result" in record
    return isinstance(record.get("issue"), Mapping) and ("history" in record or "instruction" in record)


def _document(path: Path) -> Iterator[TranscriptPart]:
    document = json_document(path)
    if isinstance(document, Problem):
        yield document
        return
    known = fields(document)
    if _is_result(known):
        yield from _instance(path, known)
        return
    events = list(objects(known.get("trajectory") if "trajectory" in known else document))
    if not events and known:
        events = [known]
    first = [as_json(one.get("id")) + words(one.get("timestamp")) for one in events[:2]]
    yield from _events(Thread(name_for(path, *first)), [(0, event) for event in events])


def _lines(path: Path) -> Iterator[TranscriptPart]:
    """Results of an evaluation, or one event a line."""
    events: list[RecordOrProblem] = []
    for record in json_lines(path):
        if isinstance(record, Problem):
            yield record
        elif _is_result(record[1]):
            yield from _instance(path, record[1], record[0])
        else:
            events.append(record)
    if events:
        first = events[0]
        mark = "" if isinstance(first, Problem) else as_json(first[1].get("id"))
        yield from _events(Thread(name_for(path, mark)), events)


def _instance(path: Path, result: Mapping[str, Any], line: int = 0) -> Iterator[TranscriptPart]:
    """One instance of an evaluation."""
    issue = fields(result.get("issue"))
    repository = "/".join(filter(None, (words(issue.get("owner")), words(issue.get("repo")))))
    named = identity(result.get("instance_id")) or f"{repository}-{identity(issue.get('number'))}".strip("-")
    history = items(result.get("history"))
    events = [event for one in history for event in (one if isinstance(one, list) else [one])]
    metrics, instance = fields(result.get("metrics")), fields(result.get("instance"))
    about = {
        "instance": named,
        "error": result.get("error"),
        "cost": metrics.get("accumulated_cost"),
        "usage": metrics.get("accumulated_token_usage"),
        "patch": fields(result.get("test_result")).get("git_patch") or result.get("git_patch"),
    }
    times = "".join(words(event.get("timestamp")) for event in list(objects(events))[:2])
    thread = Thread(
        name_for(Path(named or path.name), times or str(line)),
        title(issue.get("title")) or title(named),
        repository=words(instance.get("repo")) or repository,
        model=words(fields(fields(result.get("metadata")).get("llm_config")).get("model")),
        about={key: value for key, value in about.items() if value},
    )
    yield from _events(thread, [(line, event) for event in objects(events)], metrics)


def _events(
    thread: Thread, events: list[RecordOrProblem], metrics: Mapping[str, Any] | None = None
) -> Iterator[TranscriptPart]:
    firsts = (one[1] for one in events if not isinstance(one, Problem))
    is_new = is_sdk_event(next(firsts, {}))
    conversation = SdkConversation(thread, metrics or {}) if is_new else OpenHandsConversation(thread, metrics or {})
    yield from read_each(events, conversation.take)
    yield from conversation.end()
    yield ThreadEnd(thread.id)


def _folder(folder: Path) -> Iterator[TranscriptPart]:
    session = folder.parent if folder.name == "events" else folder
    state = fields(_quietly(session / "base_state.json")) or fields(_quietly(session / "metadata.json"))
    named = identity(state.get("id")) or identity(state.get("conversation_id")) or session.name
    model = words(fields(fields(state.get("agent")).get("llm")).get("model")) or words(state.get("llm_model"))
    thread = Thread(
        named,
        title(state.get("title")),
        cwd=words(fields(state.get("workspace")).get("working_dir")),
        repository=words(state.get("selected_repository")),
        model=model,
    )
    stats = fields(fields(fields(state.get("stats")).get("usage_to_metrics")).get("agent"))
    yield from _events(thread, list(_in_order(folder)), stats)


def _in_order(folder: Path) -> Iterator[RecordOrProblem]:
    for name in _files(folder):
        event = json_document(folder / name)
        if isinstance(event, Problem):
            yield Problem("event_file", fields={"name": name})
        else:
            yield 0, fields(event)


def _files(folder: Path) -> list[str]:
    """The names of the event files, in their order."""
    found = ((_FILE.match(one.name), one) for one in folder.iterdir() if is_beside(one))
    named = [(int(number.group(1)), one.name) for number, one in found if number]
    return [name for _, name in sorted(named)]


@lru_cache(maxsize=4)  # each of its files asks for it
def _last_file(folder: Path, _changed: int) -> str:
    return next(reversed(_files(folder)), "")


def _quietly(path: Path) -> object:
    found = json_document(path) if is_beside(path) else None
    return None if isinstance(found, Problem) else found


_BESIDE_EVENTS = frozenset(
    (
        *("ConversationStateUpdateEvent", "PauseEvent", "CondensationRequest", "TokenEvent", "LLMCompletionLogEvent"),
        *("HookExecutionEvent", "ConversationErrorEvent", "StreamingDeltaEvent", "CondensationSummaryEvent"),
        "InterruptEvent",
    )
)
_OTHERS = _BESIDE_EVENTS | {"Condensation", "UserRejectObservation"}


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
            case _ if kind not in _BESIDE_EVENTS:
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
