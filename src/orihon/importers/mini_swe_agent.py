"""Trajectories of mini-swe-agent (``.traj.json``): the bare list of messages of its first version, and documents since.

Documents keep with each answer what the provider sent, what it cost and when. Where the Responses API was asked, an
answer is a list of items. The role ``exit`` says how a run ended; that is kept with the thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from orihon.importers.lines import json_document, peek
from orihon.importers.registry import Importer, Problem, SaidItem, Thread, ToolItem, TranscriptEvent, TranscriptPart
from orihon.importers.shapes import (
    as_json,
    fields,
    items,
    message,
    model_call,
    name_for,
    number,
    numbered,
    objects,
    read_each,
    title,
    tool_call,
    when,
    words,
)
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage

_MARKS = ("mswea_bash_command", "<returncode>", "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
_ROLES = ("system", "user", "assistant", "tool", "developer")


class MiniSweAgent(Importer):
    """Trajectories of mini-swe-agent."""

    name = "mini-swe-agent"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        if not seen.is_list:
            first = seen.first
            is_marked = words(first.get("trajectory_format")).startswith("mini-swe-agent")
            info = fields(first.get("info"))
            return is_marked or "mini_version" in info or _agent_of(info).startswith("minisweagent.")
        said = [one for one in seen.found if "role" in one and "content" in one]
        is_bare = bool(said) and len(said) == len(seen.found)
        return is_bare and (path.name.endswith(".traj.json") or any(map(_is_marked, said)))

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        document = json_document(path)
        if isinstance(document, Problem):
            yield document
            return
        run = {"messages": document} if isinstance(document, list) else fields(document)
        messages = list(objects(run.get("messages")))
        thread = _thread(path, run, messages)
        yield thread
        trajectory = _Trajectory(thread)
        yield from read_each(numbered(messages), trajectory.take)


def _agent_of(info: Mapping[str, Any]) -> str:
    return words(fields(info.get("config")).get("agent_type"))


def _is_marked(said: Mapping[str, Any]) -> bool:
    return isinstance(said["content"], str) and any(mark in said["content"] for mark in _MARKS)


def _thread(path: Path, run: Mapping[str, Any], messages: list[Mapping[str, Any]]) -> Thread:
    info = fields(run.get("info"))
    ending = next((fields(one.get("extra")) for one in reversed(messages) if one.get("role") == "exit"), {})
    about = {
        "version": info.get("mini_version"),
        "exit_status": info.get("exit_status") or ending.get("exit_status"),
        "submission": info.get("submission") or ending.get("submission"),
        "model_stats": info.get("model_stats"),
        "instance": run.get("instance_id"),
    }
    asked = next((one.get("content") for one in messages if one.get("role") == "user"), "")
    answer = next((at for at, one in enumerate(messages) if one.get("role") == "assistant" or "output" in one), 0)
    marks = (as_json(one.get("content", one.get("output"))) for one in messages[: answer + 1])
    times = (when(fields(one.get("extra")).get("timestamp")) for one in messages)
    model = fields(fields(info.get("config")).get("model")).get("model_name")
    return Thread(
        name_for(path, words(run.get("instance_id")), *marks),
        title(run.get("instance_id")) or title(asked),
        next((time for time in times if time), None),
        model=words(model),
        about={key: value for key, value in about.items() if value not in (None, "", {})},
    )


class _Trajectory:
    def __init__(self, thread: Thread) -> None:
        self._thread = thread
        self._answers = 0

    def take(self, line: int, said: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        extra = fields(said.get("extra"))
        time = when(extra.get("timestamp"))
        if "output" in said and "role" not in said and said.get("type") is None:
            yield from self._items(said, extra, time)
        elif said.get("type") == "function_call_output":
            yield self._event(SaidItem(Message.from_responses(_without(said, "extra")), time))
            yield from self._ran(words(said.get("call_id")), extra)
        elif said.get("role") == "exit":
            return
        elif said.get("role") == "assistant":
            yield self._event(SaidItem(_answer(said, extra), time, self._call(extra)))
        else:
            yield self._event(SaidItem(_message(said), time))
            yield from self._ran(words(said.get("tool_call_id")), extra)

    def _items(self, said: Mapping[str, Any], extra: Mapping[str, Any], time: str | None) -> Iterator[TranscriptPart]:
        """An answer of the Responses API: one or more items."""
        self._answers += 1
        call = self._call({"response": said, **extra})
        for item in objects(said.get("output")):
            yield self._event(SaidItem(Message.from_responses(item), time, call, f"answer-{self._answers}"))
            call = None

    def _ran(self, call_id: str, extra: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        code = number(extra.get("returncode"))
        if call_id and code:
            error = words(extra.get("exception_info")) or f"exit code {int(code)}"
            yield TranscriptEvent(self._thread.id, ToolItem("", error=error, status="error", call_id=call_id))

    def _call(self, extra: Mapping[str, Any]) -> ModelCall | None:
        response = fields(extra.get("response"))
        spent = fields(response.get("usage"))
        used = Usage.of(spent) if spent else None
        return model_call(words(response.get("model")) or self._thread.model, used, extra.get("cost"))

    def _event(self, item: SaidItem) -> TranscriptEvent:
        return TranscriptEvent(self._thread.id, item)


def _answer(said: Mapping[str, Any], extra: Mapping[str, Any]) -> Message:
    calls = []
    for call in objects(said.get("tool_calls")):
        asked = fields(call.get("function"))
        calls.append(tool_call(call.get("id"), asked.get("name"), asked.get("arguments")))
    reasoning = list(objects(said.get("thinking_blocks")))
    thoughts = words(said.get("reasoning_content"))
    if thoughts and not reasoning:
        reasoning = [{"type": "thinking", "thinking": thoughts}]
    actions = [action for action in objects(extra.get("actions")) if not calls]
    return message("assistant", _content(said), calls=calls, reasoning=reasoning, rest={"actions": actions})


def _message(said: Mapping[str, Any]) -> Message:
    role = words(said.get("role"))
    call_id = words(said.get("tool_call_id")) or None
    return message(role if role in _ROLES else "user", _content(said), call_id=call_id if role == "tool" else None)


def _content(said: Mapping[str, Any]) -> str | list[Mapping[str, Any]] | None:
    content = said.get("content")
    if isinstance(content, str):
        return content
    return [block for block in items(content) if isinstance(block, Mapping)] or None


def _without(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != name}
