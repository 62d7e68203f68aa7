"""Events of OpenHands up to its version 1: actions of the agent and the user, and what was observed.

An answer of the model stands in the first action that came from it, whole; the other actions of the same answer repeat
it. Older events carry no answers: then an action is a call of the tool of its name. A delegate works within the events
of the agent that started it; it becomes a thread of its own. A condensation names the events that were forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from orihon.importers.registry import (
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
    title,
    tool_call,
    usage,
    usages,
    when,
    words,
)
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage

_BESIDE_ACTIONS = frozenset(
    (
        "recall",
        "change_agent_state",
        "null",
        "start",
        "pause",
        "resume",
        "stop",
        "condensation_request",
        "push",
        "send_pr",
    )
)
_BESIDE_OBSERVATIONS = frozenset(("agent_state_changed", "null", "loop_detection", "download"))
_NOT_ASKED = frozenset(
    (
        *("thought", "hidden", "blocking", "is_static", "is_input", "confirmation_state", "security_risk"),
        *("keep_prompt", "is_confirmed", "action_risk", "kernel_init_code"),
    )
)


def is_event(value: object) -> bool:
    """Is this an event of that kind?"""
    event = fields(value)
    return "source" in event and ("action" in event or "observation" in event) and "kind" not in event


class OpenHandsConversation:
    """The events of one conversation, as they come."""

    def __init__(self, thread: Thread, metrics: Mapping[str, Any]) -> None:
        self._unknown = Unknown()
        self._thread = thread
        self._stack = [thread.id]
        self._answered: set[str] = set()  # answers of the model that have been given
        self._usages = usages(metrics)
        self._cost = 0.0
        self._said: dict[str, int] = {}  # messages so far, by thread
        self._places: dict[int, tuple[str, int, int]] = {}  # event -> its thread, messages before and after it
        self._forgotten: set[int] = set()
        self._is_begun = False
        self._flat = 0  # actions of the oldest form so far
        self._flat_source = ""

    def take(self, line: int, event: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        if not self._is_begun:
            self._is_begun = True
            yield replace(self._thread, created_at=self._thread.created_at or when(event.get("timestamp")))
        if "source" not in event:
            event = self._completed(event)
        who = self._stack[-1]
        before = self._said.get(who, 0)
        if "action" in event:
            yield from self._action(event, words(event.get("action")), line)
        elif "observation" in event:
            yield from self._observation(event, words(event.get("observation")), line)
        else:
            self._unknown.add(event.get("kind") or next(iter(event), "{}"), line)
        event_id = number(event.get("id"))
        if event_id is not None:
            self._places[int(event_id)] = (who, before, self._said.get(who, 0))

    def end(self) -> Iterator[TranscriptPart]:
        yield from self._unknown.problems()

    def _completed(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        """The oldest events say only what was done; who did it and what was observed of it follow from the order."""
        if "action" not in event:
            self._flat_source = "environment"
            return {"cause": self._flat, **event, "source": "agent"}
        self._flat += 1
        is_users = event["action"] == "message" and self._flat_source in ("", "agent")
        self._flat_source = "user" if is_users else "agent"
        args = {key: value for key, value in event.items() if key not in ("action", "timestamp")}
        return {"id": self._flat, "args": args, **event, "source": self._flat_source}

    # ---- actions -----------------------------------------------------------------------------------------------

    def _action(self, event: Mapping[str, Any], action: str, line: int) -> Iterator[TranscriptPart]:
        args, time = fields(event.get("args")), when(event.get("timestamp"))
        match action:
            case "system":
                yield self._say(SaidItem(message("system", words(args.get("content"))), time), line)
            case "condensation":
                yield from self._condense(args, time, line)
            case "message" if event.get("source") == "user":
                yield self._say(SaidItem(message("user", _content(args, "content")), time), line)
            case _ if action in _BESIDE_ACTIONS:
                pass
            case _ if event.get("source") == "user":
                ran = words(args.get("command")) or words(args.get("code")) or words(event.get("message"))
                yield self._say(SaidItem(message("user", ran, rest={"action": action}), time), line)
            case _:
                yield from self._answer(event, action, line)
                if action == "task_tracking" and args.get("task_list"):
                    yield self._event(PlanItem("todo", args["task_list"], time), line)
                if action == "delegate":
                    yield from self._delegate(event, args, time)

    def _answer(self, event: Mapping[str, Any], action: str, line: int) -> Iterator[TranscriptPart]:
        told, time = fields(event.get("tool_call_metadata")), when(event.get("timestamp"))
        response = fields(told.get("model_response"))
        choice = fields(fields(next(iter(items(response.get("choices"))), None)).get("message"))
        answer = identity(response.get("id"))
        if choice and answer:
            if answer not in self._answered:
                self._answered.add(answer)
                yield self._say(SaidItem(_chosen(choice), time, self._call(event, response)), line)
            return
        args = fields(event.get("args"))
        if action == "message":
            said = message("assistant", _content(args, "content"), reasoning=_thoughts(args))
        else:
            call_id = words(told.get("tool_call_id")) or f"event-{identity(event.get('id'))}"
            asked = {key: value for key, value in args.items() if key not in _NOT_ASKED}
            call = tool_call(call_id, words(told.get("function_name")) or action, asked)
            said = message("assistant", _spoken(args) or None, calls=[call], reasoning=_thoughts(args))
        yield self._say(SaidItem(said, time, self._call(event, response)), line)

    def _call(self, event: Mapping[str, Any], response: Mapping[str, Any]) -> ModelCall | None:
        listed = self._usages.get(identity(response.get("id")), {})
        spent = fields(response.get("usage")) or listed
        used = Usage.of(spent) if spent else None
        if used is not None and "cache_read_tokens" in spent:
            used = usage(used.input, spent["cache_read_tokens"], used.output)
        so_far = number(fields(event.get("llm_metrics")).get("accumulated_cost"))
        cost = number(listed.get("cost"))
        if so_far:
            cost = max(so_far - self._cost, 0.0) if cost is None else cost
            self._cost = so_far
        return model_call(words(response.get("model")) or self._thread.model, used, cost)

    def _delegate(
        self, event: Mapping[str, Any], args: Mapping[str, Any], time: str | None
    ) -> Iterator[TranscriptPart]:
        child = f"{self._thread.id}-{identity(event.get('id'))}"
        task = words(fields(args.get("inputs")).get("task"))
        about = {"agent": args["agent"]} if args.get("agent") else {}
        yield Thread(child, title(task), time, parent=self._stack[-1], about=about)
        self._stack.append(child)

    def _condense(self, args: Mapping[str, Any], time: str | None, line: int) -> Iterator[TranscriptPart]:
        """Fold what is forgotten, with all that was before: only the newest summary is shown."""
        named = {int(one) for one in items(args.get("forgotten_event_ids")) if number(one) is not None}
        start, end = number(args.get("forgotten_events_start_id")), number(args.get("forgotten_events_end_id"))
        if start is not None and end is not None:
            named |= {one for one in self._places if start <= one <= end}
        self._forgotten |= named
        places = [
            place for one, place in self._places.items() if one in self._forgotten and place[0] == self._stack[-1]
        ]
        if not places:
            return
        first, last = min(place[1] for place in places), max(place[2] for place in places)
        said = self._said.get(self._stack[-1], 0)
        if last > first:
            yield self._event(CompactionItem(words(args.get("summary")), said - last, time, covers=last - first), line)

    # ---- observations ------------------------------------------------------------------------------------------

    def _observation(self, event: Mapping[str, Any], observed: str, line: int) -> Iterator[TranscriptPart]:
        if observed == "delegate" and len(self._stack) > 1:
            self._stack.pop()
        if observed in _BESIDE_OBSERVATIONS:
            return
        extras, time = fields(event.get("extras")), when(event.get("timestamp"))
        if observed == "recall":
            if known := _recalled(extras):
                yield self._say(SaidItem(message("user", known), time), line)
            return
        told = fields(event.get("tool_call_metadata"))
        call_id = words(told.get("tool_call_id"))
        if not call_id and number(event.get("cause")) is not None and event.get("source") != "user":
            call_id = f"event-{identity(event.get('cause'))}"
        content = _observed(event, extras)
        if not call_id:
            yield self._say(SaidItem(message("user", content), time), line)
            return
        name = words(told.get("function_name"))
        yield self._say(SaidItem(message("tool", content, call_id=call_id, tool_name=name or None), time), line)
        if observed in ("error", "user_rejected") or event.get("success") is False:
            error = words(event.get("content"))[:1000]
            yield self._event(ToolItem(name, error=error, status="error", call_id=call_id), line)

    def _say(self, item: SaidItem, line: int) -> TranscriptEvent:
        self._said[self._stack[-1]] = self._said.get(self._stack[-1], 0) + 1
        return self._event(item, line)

    def _event(self, item: TranscriptItem, line: int) -> TranscriptEvent:
        return TranscriptEvent(self._stack[-1], item, line)


def _chosen(choice: Mapping[str, Any]) -> Message:
    content = choice.get("content")
    calls = [
        tool_call(
            call.get("id"), fields(call.get("function")).get("name"), fields(call.get("function")).get("arguments")
        )
        for call in objects(choice.get("tool_calls"))
    ]
    blocks = list(objects(choice.get("thinking_blocks")))
    return message(
        "assistant",
        content if isinstance(content, str) else [_plain(block) for block in objects(content)] or None,
        calls=calls,
        reasoning=blocks or _thoughts(choice),
    )


def _plain(block: Mapping[str, Any]) -> Mapping[str, Any]:
    return text_block(words(block.get("text"))) if block.get("type") == "text" else block


def _thoughts(said: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    reasoning = words(said.get("reasoning_content"))
    return [thought(reasoning)] if reasoning else []


def _spoken(args: Mapping[str, Any]) -> str:
    said = args.get("thought")
    return "\n".join(words(one) for one in said) if isinstance(said, list) else words(said)


def _content(args: Mapping[str, Any], name: str) -> str | list[Mapping[str, Any]]:
    said = words(args.get(name))
    images = [words(url) for url in items(args.get("image_urls") or args.get("images_urls")) if words(url)]
    return [text_block(said), *map(image_block, images)] if images else said


def _observed(event: Mapping[str, Any], extras: Mapping[str, Any]) -> str | list[Mapping[str, Any]]:
    said = words(event.get("content")) or words(event.get("message"))
    screenshot = words(extras.get("set_of_marks")) or words(extras.get("screenshot"))
    return [text_block(said), image_block(screenshot)] if screenshot.startswith("data:image/") else said


def _recalled(extras: Mapping[str, Any]) -> str:
    """What the agent was reminded of: rules of the repository, knowledge that a word has triggered."""
    knowledge = [words(one.get("content")) for one in objects(extras.get("microagent_knowledge"))]
    return "\n\n".join(filter(None, (words(extras.get("repo_instructions")), *knowledge)))
