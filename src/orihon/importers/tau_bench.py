"""Runs of tau-bench and of tau2-bench: conversations of an agent with a simulated customer.

tau-bench writes a list of trials with their messages, tau2-bench a document with its simulations, or one simulation in
a file of its own. In tau2-bench the customer has tools, too; those calls stay with what the customer said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
    numbered,
    objects,
    read_each,
    title,
    tool_call,
    usage,
    when,
    words,
)
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage

_ROLES = ("system", "user", "assistant", "tool")


class TauBench(Importer):
    """Runs of tau-bench and tau2-bench."""

    name = "tau-bench"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        first = seen.first
        if seen.is_list:
            return "task_id" in first and "traj" in first
        if "task_id" in first and "termination_reason" in first:
            return True
        info = fields(first.get("info"))
        return ("agent_info" in info or "num_trials" in info) and ("tasks" in first or "simulations" in first)

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        document = json_document(path)
        if isinstance(document, Problem):
            yield document
        elif isinstance(document, list):
            for trial in objects(document):
                yield from _trial(path, trial)
        else:
            run = fields(document)
            alone = [run] if "messages" in run or "ticks" in run else []
            for simulation in (*alone, *objects(run.get("simulations"))):
                yield from _simulation(path, simulation, fields(run.get("info")))


def _trial(path: Path, trial: Mapping[str, Any]) -> Iterator[TranscriptPart]:
    """One trial of tau-bench; its messages are those of the OpenAI API."""
    task, number = identity(trial.get("task_id")), identity(trial.get("trial"))
    info = fields(trial.get("info"))
    about = {"task": task, "trial": number, "reward": trial.get("reward"), "user_cost": info.get("user_cost")}
    instruction = fields(info.get("task")).get("instruction")
    thread = Thread(
        f"{name_for(path, *_beginning(trial.get('traj')))}-{task}-{number}",
        title(instruction) or f"task {task}",
        about={key: value for key, value in about.items() if value not in (None, "")},
    )
    yield thread

    def take(line: int, said: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        yield TranscriptEvent(thread.id, SaidItem(Message.from_chat(said)), line)

    yield from read_each(numbered(trial.get("traj")), take)
    yield ThreadEnd(thread.id)


def _beginning(said: object) -> Iterator[str]:
    """What tells a conversation from another one on the same task: how it begins, but for the rules of the agent."""
    spoken = (one for one in objects(said) if one.get("role") != "system")
    return (as_json(one.get("content")) for _, one in zip(range(3), spoken, strict=False))


def _simulation(path: Path, simulation: Mapping[str, Any], info: Mapping[str, Any]) -> Iterator[TranscriptPart]:
    """One simulation of tau2-bench."""
    agent, environment = fields(info.get("agent_info")), fields(info.get("environment_info"))
    known = ("task_id", "trial", "termination_reason", "agent_cost", "user_cost", "duration")
    about = {name: simulation[name] for name in known if simulation.get(name) is not None}
    about["reward"] = fields(simulation.get("reward_info")).get("reward")
    thread = Thread(
        identity(simulation.get("id")) or name_for(path, *_beginning(simulation.get("messages"))),
        f"{words(environment.get('domain_name'))} {identity(simulation.get('task_id'))}".strip(),
        when(simulation.get("start_time")) or when(simulation.get("timestamp")),
        model=words(agent.get("llm")),
        about={key: value for key, value in about.items() if value is not None},
    )
    yield thread

    def take(line: int, said: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        yield from _said(thread, said, line)

    yield from read_each(numbered(simulation.get("messages")), take)
    if simulation.get("ticks") and not simulation.get("messages"):
        yield Problem("unknown_kind", fields={"kind": "ticks", "count": len(items(simulation["ticks"]))})
    yield ThreadEnd(thread.id)


def _said(thread: Thread, said: Mapping[str, Any], line: int) -> Iterator[TranscriptPart]:
    role, time = words(said.get("role")), when(said.get("timestamp"))
    if "tool_messages" in said:
        for one in objects(said.get("tool_messages")):
            yield from _said(thread, one, line)
        return
    calls = [
        tool_call(call.get("id"), call.get("name"), call.get("arguments")) for call in objects(said.get("tool_calls"))
    ]
    call_id = identity(said.get("id")) if role == "tool" else ""
    made = message(
        role if role in _ROLES else "user",
        words(said.get("content")) or None,
        calls=calls,
        call_id=call_id or None,
        rest={"requestor": "user" if said.get("requestor") == "user" else None, "audio": said.get("audio_path")},
    )
    yield TranscriptEvent(thread.id, SaidItem(made, time, _call(thread, said) if role == "assistant" else None), line)
    if said.get("error") is True:
        yield TranscriptEvent(thread.id, ToolItem("", error=made.text[:1000], status="error", call_id=call_id), line)


def _call(thread: Thread, said: Mapping[str, Any]) -> ModelCall | None:
    spent = fields(said.get("usage"))
    used = Usage.of(spent) if "prompt_tokens_details" in spent else None
    if used is None and spent:
        used = usage(spent.get("prompt_tokens"), None, spent.get("completion_tokens"))
    return model_call(thread.model, used, said.get("cost"))
