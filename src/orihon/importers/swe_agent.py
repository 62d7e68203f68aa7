"""Trajectories of SWE-agent (``.traj``), with and without function calling.

``history`` is what the model was shown, demonstrations and all; ``trajectory`` adds how long each action took, and is
read instead where there is no history. What the whole run used and cost stands in one place; it is counted with the
last answer. A run with several attempts keeps them all: the chosen one is the thread, the others are its children.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from orihon.errors import InvalidMessage
from orihon.importers.lines import json_document, peek
from orihon.importers.registry import (
    Importer,
    Problem,
    SaidItem,
    Thread,
    ThreadEnd,
    ToolItem,
    TranscriptEvent,
    TranscriptPart,
)
from orihon.importers.shapes import (
    as_json,
    fields,
    identity,
    items,
    message,
    model_call,
    name_for,
    number,
    objects,
    text_block,
    title,
    tool_call,
    usage,
    words,
)
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage

_ROLES = ("system", "user", "assistant", "tool", "developer")
_OWN = frozenset(("agent", "message_type"))


class SweAgent(Importer):
    """Trajectories of SWE-agent."""

    name = "swe-agent"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        first = seen.first
        if seen.is_list or not first:
            return False
        attempts = items(first.get("attempts"))
        run = fields(attempts[0]) if attempts else first
        steps = items(run.get("trajectory"))
        step = fields(steps[0] if steps else None)
        if "action" in step and ("observation" in step or "response" in step):
            return True
        said = items(run.get("history"))
        is_history = bool(said) and "role" in fields(said[0]) and bool(_OWN & fields(said[0]).keys())
        return is_history or ("trajectory" in run and "environment" in run)

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        document = json_document(path)
        if isinstance(document, Problem):
            yield document
            return
        run = fields(document)
        attempts = [one for one in objects(run.get("attempts")) if one.get("history")]
        chosen = run if run.get("history") or not attempts else attempts[0]
        main = _name(path, chosen)
        yield from _run(chosen, run, Thread(main, **_about(chosen, run)))
        for index, attempt in enumerate(attempts, start=1):
            if attempt is not chosen and attempt.get("history") != chosen.get("history"):
                child = Thread(f"{main}-attempt-{index}", parent=main, **_about(attempt, run))
                yield from _run(attempt, attempt, child)

    def ignores(self, path: Path) -> bool:
        return path.suffix in (".pred", ".patch") and path.with_suffix(".traj").is_file()


def _name(path: Path, run: Mapping[str, Any]) -> str:
    """How a run begins tells it from others on the same issue: all that was said until the first answer."""
    marks: list[str] = []
    for said in _history(run):
        marks += (as_json(said.get("content")), as_json(said.get("tool_calls")))
        if said.get("role") == "assistant" and not said.get("is_demo"):
            break
    return name_for(path, *marks)


def _config(run: Mapping[str, Any]) -> Mapping[str, Any]:
    config = run.get("replay_config")
    if isinstance(config, str):
        try:
            config = jsonio.decode(config.encode("utf-8", "surrogatepass"), odd_numbers=False)
        except ValueError:
            return {}
    return fields(config)


def _about(attempt: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any]:
    config = _config(attempt) or _config(run)
    info = fields(attempt.get("info"))
    problem = fields(config.get("problem_statement"))
    known = {
        "exit_status": info.get("exit_status"),
        "submission": info.get("submission"),
        "model_stats": info.get("model_stats"),
        "version": info.get("swe_agent_version"),
        "problem": identity(problem.get("id")),
    }
    return {
        "title": title(problem.get("id")) or title(problem.get("text")),
        "model": words(fields(fields(config.get("agent")).get("model")).get("name")),
        "about": {key: value for key, value in known.items() if value not in (None, "", {})},
    }


def _run(attempt: Mapping[str, Any], run: Mapping[str, Any], thread: Thread) -> Iterator[TranscriptPart]:
    yield thread
    history = _history(attempt)
    steps = iter(list(objects(attempt.get("trajectory"))))
    answers = {at for at, said in enumerate(history) if said.get("role") == "assistant" and not said.get("is_demo")}
    last = max(answers, default=-1)
    whole = _whole(attempt, run, thread)
    before = _counted_elsewhere(whole)
    for at, said in enumerate(history):
        call = None
        if at in answers:
            call = whole if at == last else before
        try:
            made = _message(said)
        except InvalidMessage as error:
            yield Problem("message", fields={"detail": error.cause, "number": at + 1})
            continue
        yield TranscriptEvent(thread.id, SaidItem(made, call=call))
        if made.role == "assistant" and not said.get("is_demo") and said.get("action") is not None:
            yield from _step(thread, made, next(steps, {}))
    yield ThreadEnd(thread.id)


def _history(attempt: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if history := list(objects(attempt.get("history"))):
        return history
    steps = list(objects(attempt.get("trajectory")))
    told: list[Mapping[str, Any]] = list(objects(steps[0].get("query"))) if steps else []
    for step in steps:
        told.append({"role": "assistant", "content": step.get("response"), "action": step.get("action")})
        told.append({"role": "user", "content": step.get("observation")})
    return told


def _message(said: Mapping[str, Any]) -> Message:
    role = words(said.get("role"))
    content = said.get("content")
    calls = [_call(call) for call in objects(said.get("tool_calls"))]
    answered = [words(call_id) for call_id in items(said.get("tool_call_ids"))]
    rest = {"agent": said.get("agent"), "message_type": said.get("message_type"), "is_demo": said.get("is_demo")}
    return message(
        role if role in _ROLES else "user",
        content if isinstance(content, str) else _blocks(content),
        calls=calls,
        call_id=(answered[0] if answered else words(said.get("tool_call_id"))) or None if role == "tool" else None,
        reasoning=list(objects(said.get("thinking_blocks"))),
        rest={**rest, "role": role if role not in _ROLES else None, "tool_call_ids": answered[1:]},
    )


def _blocks(content: object) -> list[Mapping[str, Any]] | None:
    blocks = [text_block(one) if isinstance(one, str) else one for one in items(content)]
    known = [_without_mark(block) for block in blocks if isinstance(block, Mapping)]
    return known or None


def _without_mark(block: Mapping[str, Any]) -> Mapping[str, Any]:
    return text_block(words(block.get("text"))) if block.get("type") == "text" else block


def _call(call: Mapping[str, Any]) -> Any:
    asked = fields(call.get("function"))
    return tool_call(call.get("id"), asked.get("name"), asked.get("arguments"))


def _step(thread: Thread, made: Message, step: Mapping[str, Any]) -> Iterator[TranscriptPart]:
    """How long the action took; without function calling that is all there is of a tool call."""
    seconds = number(step.get("execution_time"))
    took = None if seconds is None else seconds * 1000
    if made.tool_calls:
        if took is not None:
            yield TranscriptEvent(
                thread.id, ToolItem(made.tool_calls[0].name, duration_ms=took, call_id=made.tool_calls[0].id)
            )
        return
    action = words(step.get("action")).strip()
    if action:
        shown = words(step.get("observation"))[:1000]
        yield TranscriptEvent(
            thread.id, ToolItem(action.split()[0], {"command": action}, shown, duration_ms=took, status="success")
        )


def _counted_elsewhere(whole: ModelCall | None) -> ModelCall | None:
    """An answer whose part of the whole stands with the last one: nobody shall estimate it a second time."""
    if whole is None:
        return None
    return replace(whole, usage=None if whole.usage is None else Usage(), cost=None if whole.cost is None else 0.0)


def _whole(attempt: Mapping[str, Any], run: Mapping[str, Any], thread: Thread) -> ModelCall | None:
    """What the whole run used, as one call."""
    stats = fields(fields(attempt.get("info")).get("model_stats")) or fields(fields(run.get("info")).get("model_stats"))
    cost = number(stats.get("instance_cost"))
    if not any(number(stats.get(name)) for name in ("instance_cost", "tokens_sent", "tokens_received")):
        return model_call(thread.model)
    return model_call(thread.model, usage(stats.get("tokens_sent"), None, stats.get("tokens_received")), cost)
