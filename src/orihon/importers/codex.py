"""Rollouts of Codex: ``~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl``.

The conversation is what went to the provider and came from it (``response_item``); the events tell the same again for a
screen, so of them only what the items do not say is taken: tokens, plans, durations. Items of one answer that follow
each other become one message. A ``compacted`` record folds what came before it. The oldest files have items without an
envelope.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orihon.errors import InvalidInput
from orihon.importers.identity import repository_in
from orihon.importers.lines import json_lines, peek
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
    data_url,
    fields,
    from_responses,
    items,
    number,
    objects,
    title,
    usage,
    when,
    words,
)
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage

_KINDS = frozenset(("session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"))
#: Records that tell nothing about the conversation.
_HOUSEKEEPING = frozenset(("world_state", "inter_agent_communication_metadata", "state"))
_NOT_SAID = frozenset(("ghost_snapshot", "other"))
_INJECTED = ("<environment_context>", "<user_instructions>", "# AGENTS.md", "<permissions", "<turn_aborted>")
_PLAN_TOOL = "update_plan"


class Codex(Importer):
    """The reader of its rollouts."""

    name = "codex"

    def recognises(self, head: bytes, path: Path) -> bool:
        seen = peek(head)
        if seen.is_list:
            return False
        if any(map(_is_enveloped, seen.found)):
            return True
        first = seen.first  # the oldest files: a head without a type, then bare items
        return "instructions" in first and "id" in first and "timestamp" in first and "messages" not in first

    def read(self, path: Path) -> Iterator[TranscriptPart]:
        rollout = _Rollout(path)
        for record in json_lines(path):
            if isinstance(record, Problem):
                yield record
            else:
                yield from rollout.take(*record)
        yield from rollout.unknown.problems()

    def ignores(self, path: Path) -> bool:
        return path.name in ("session_index.jsonl", "history.jsonl") and ".codex" in path.parts


def _is_enveloped(record: Mapping[str, Any]) -> bool:
    return words(record.get("type")) in _KINDS and isinstance(record.get("payload"), Mapping)


@dataclass(slots=True)
class _Rollout:
    """A file while it is read."""

    path: Path
    unknown: Unknown = field(default_factory=Unknown)
    _thread: Thread | None = None
    _model: str = ""
    _answers: int = 0
    _is_answering: bool = False  # the last item was the model's
    _takes_usage: bool = False  # nothing was said since the last answer but results
    _used: Usage | None = None  # by the last answer
    _waiting: Usage | None = None  # for the next answer
    _is_told_before: bool | None = None
    _total: object = None
    _calls: dict[str, str] = field(default_factory=dict)  # not answered yet -> tool
    _said: int = 0  # messages so far, an answer as one
    _turns: list[int] = field(default_factory=list)  # how many there were before each thing that a person said

    def take(self, line: int, record: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        """The next record."""
        kind, payload, moment = words(record.get("type")), record.get("payload"), when(record.get("timestamp"))
        if not isinstance(payload, dict):
            yield from self._bare(line, record, moment)
        elif kind == "session_meta":
            yield from self._meta(payload, moment)
        elif kind == "turn_context":
            self._model = words(payload.get("model")) or self._model
        elif kind == "response_item":
            yield from self._item(line, payload, moment)
        elif kind == "event_msg":
            yield from self._event(line, payload, moment)
        elif kind == "compacted":
            yield from self._compacted(line, payload, moment)
        elif kind not in _HOUSEKEEPING:
            self.unknown.add(kind or "?", line)

    def _bare(self, line: int, record: Mapping[str, Any], moment: str | None) -> Iterator[TranscriptPart]:
        """A record without an envelope: the head of an old file, or an item."""
        if words(record.get("type")) and words(record.get("type")) not in _KINDS:
            yield from self._item(line, record, moment)
        elif self._thread is None and "id" in record:
            yield from self._meta(record, moment)
        elif words(record.get("record_type")) not in _HOUSEKEEPING:
            self.unknown.add(words(record.get("type")) or "?", line)

    # ---- the thread --------------------------------------------------------------------------------------------

    def _meta(self, meta: Mapping[str, Any], moment: str | None) -> Iterator[TranscriptPart]:
        if self._thread is not None:
            return  # a fork repeats the heads of those it comes from; the first one is its own
        git = fields(meta.get("git"))
        source = fields(fields(meta.get("source")).get("subagent") or fields(meta.get("source")).get("sub_agent"))
        spawned = fields(source.get("thread_spawn"))
        self._thread = Thread(
            id=words(meta.get("id")) or self.path.stem,
            created_at=when(meta.get("timestamp")) or moment,
            cwd=words(meta.get("cwd")),
            repository=repository_in(words(git.get("repository_url"))),
            parent=words(spawned.get("parent_thread_id")) or words(meta.get("parent_thread_id")) or None,
            about={
                "version": meta.get("cli_version"),
                "branch": git.get("branch"),
                "commit": git.get("commit_hash"),
                "originator": meta.get("originator"),
                "forked_from": meta.get("forked_from_id"),
                "nickname": spawned.get("agent_nickname") or meta.get("agent_nickname"),
                "provider": meta.get("model_provider"),
            },
        )
        yield self._thread
        base = fields(meta.get("base_instructions")).get("text") or meta.get("instructions")
        if words(base):
            self._said += 1
            yield TranscriptEvent(
                self._thread.id, SaidItem(Message("system", words(base)), when(meta.get("timestamp")))
            )

    def _own(self) -> Iterator[TranscriptPart]:
        """A thread for a file that has lost its head."""
        if self._thread is None:
            self._thread = Thread(id=self.path.stem)
            yield self._thread

    @property
    def _id(self) -> str:
        assert self._thread is not None
        return self._thread.id

    # ---- items -------------------------------------------------------------------------------------------------

    def _item(self, line: int, item: Mapping[str, Any], moment: str | None) -> Iterator[TranscriptPart]:
        kind = words(item.get("type"))
        if kind in _NOT_SAID:
            return
        yield from self._own()
        if kind == "compaction" or kind == "compaction_summary":
            return  # only the provider can read it; the record after it says what it stands for
        try:
            message = from_responses(_readable(item))
        except InvalidInput as error:
            yield Problem("message", line, {"detail": error.cause})
            return
        yield from self._beside(line, item, kind, moment)
        if message.role == "assistant":
            yield from self._answer(line, message, moment)
            return
        self._is_answering = False
        self._takes_usage = self._takes_usage and message.role == "tool"
        if kind == "message" and message.role == "user":
            if not message.text.startswith(_INJECTED):
                self._turns.append(self._said)
            yield from self._entitled(message.text)
        self._said += 1
        yield TranscriptEvent(self._id, SaidItem(message, moment), line)

    def _answer(self, line: int, message: Message, moment: str | None) -> Iterator[TranscriptPart]:
        call: ModelCall | None = None
        if not self._is_answering:
            self._answers += 1
            self._said += 1
            self._is_answering = self._takes_usage = True
            self._used, self._waiting = self._waiting, None
            call = ModelCall(self._model, self._used) if self._model or self._used else None
        yield TranscriptEvent(self._id, SaidItem(message, moment, call, self._answer_id), line)

    @property
    def _answer_id(self) -> str:
        return f"answer-{self._answers}"

    def _entitled(self, said: str) -> Iterator[TranscriptPart]:
        if self._thread is not None and not self._thread.title and not said.startswith(_INJECTED):
            self._thread = replace(self._thread, title=title(said))
            yield self._thread

    def _beside(self, line: int, item: Mapping[str, Any], kind: str, moment: str | None) -> Iterator[TranscriptPart]:
        """Plans, and what an output says about its call."""
        call = words(item.get("call_id"))
        if kind.endswith("_call"):
            self._calls[call] = words(item.get("name"))
            if item.get("name") == _PLAN_TOOL and (plan := _decoded(item.get("arguments"))):
                yield TranscriptEvent(self._id, PlanItem("plan", plan, moment), line)
        elif kind.endswith("_output"):
            tool = self._calls.pop(call, None)
            told = fields(fields(_decoded(item.get("output"))).get("metadata"))
            seconds, code = number(told.get("duration_seconds")), number(told.get("exit_code"))
            if (seconds is not None or code) and tool is not None:
                known = ToolItem(
                    tool,
                    status="error" if code else None,
                    error=f"exit code {int(code)}" if code else None,
                    duration_ms=None if seconds is None else seconds * 1000.0,
                    timestamp=moment,
                    call_id=call,
                )
                yield TranscriptEvent(self._id, known, line)

    def _compacted(self, line: int, payload: Mapping[str, Any], moment: str | None) -> Iterator[TranscriptPart]:
        yield from self._own()
        self._is_answering = self._takes_usage = False
        said = _replacement(payload)
        if said:
            yield TranscriptEvent(self._id, CompactionItem(said, timestamp=moment), line)
        else:
            yield Problem("unread_summary", line)

    # ---- events ------------------------------------------------------------------------------------------------

    def _event(self, line: int, event: Mapping[str, Any], moment: str | None) -> Iterator[TranscriptPart]:
        kind = words(event.get("type"))
        if kind == "token_count":
            yield from self._tokens(line, fields(event.get("info")))
        elif kind == "thread_name_updated" and self._thread is not None and words(event.get("thread_name")):
            self._thread = replace(self._thread, title=title(event.get("thread_name")))
            yield self._thread
        elif kind == "thread_rolled_back":
            yield from self._rolled_back(line, number(event.get("num_turns")), moment)
        elif kind.endswith("_end") and (call := words(event.get("call_id"))) in self._calls:
            duration = fields(event.get("duration"))
            seconds, rest = number(duration.get("secs")), number(duration.get("nanos")) or 0
            if seconds is not None:
                spent = ToolItem(self._calls[call], duration_ms=seconds * 1000 + rest / 1e6, call_id=call)
                yield TranscriptEvent(self._id, spent, line)

    def _rolled_back(self, line: int, turns: float | None, moment: str | None) -> Iterator[TranscriptPart]:
        """A person has gone back by so many turns: they stay in the log and are taken out of the view."""
        count = min(int(turns or 0), len(self._turns))
        if count > 0 and self._thread is not None:
            before = self._turns[-count]
            del self._turns[-count:]
            self._is_answering = self._takes_usage = False
            if self._said > before:
                yield TranscriptEvent(self._id, CompactionItem("", 0, moment, covers=self._said - before), line)

    def _tokens(self, line: int, info: Mapping[str, Any]) -> Iterator[TranscriptPart]:
        """What a call has used. Older files tell it before the items of the answer, newer ones after; often again."""
        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        if not isinstance(last, Mapping) or (total is not None and total == self._total):
            return
        self._total = total
        if self._is_told_before is None:
            self._is_told_before = not self._answers
        used = _usage(last)
        if self._is_told_before or not self._takes_usage:
            self._waiting = _sum(self._waiting, used)
            return
        self._used = _sum(self._used, used)  # a call for something else than the conversation counts as well
        piece = SaidItem(Message("assistant"), None, ModelCall(self._model, self._used), self._answer_id)
        yield TranscriptEvent(self._id, piece, line)


def _sum(one: Usage | None, other: Usage | None) -> Usage | None:
    if one is None or other is None:
        return one or other
    return Usage(one.input + other.input, one.cached + other.cached, one.output + other.output)


def _usage(last: Mapping[str, Any]) -> Usage | None:
    return usage(last.get("input_tokens"), last.get("cached_input_tokens"), last.get("output_tokens"))


def _readable(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The item as the provider would have it; an output without the words of its kind gets them."""
    if item.get("type") == "tool_search_output":
        return {**item, "type": "function_call_output", "output": jsonio.encode(item.get("tools")).decode()}
    if item.get("type") == "agent_message":
        return {**item, "type": "message", "role": "user"}
    if item.get("type") == "image_generation_call" and words(item.get("result")):
        rest = {key: value for key, value in item.items() if key != "result"}
        drawn = {"type": "input_image", "image_url": data_url("image/png", item["result"])}
        asked = words(item.get("revised_prompt"))
        said = [{"type": "output_text", "text": asked}] if asked else []
        return {**rest, "type": "message", "role": "assistant", "content": [*said, drawn]}
    return item


def _replacement(payload: Mapping[str, Any]) -> str:
    """What the model was shown instead: the messages that were kept, and the summary."""
    kept = []
    for item in objects(items(payload.get("replacement_history"))):
        said = "\n".join(words(block.get("text")) for block in objects(item.get("content")) if block.get("text"))
        if said:
            kept.append(f"[{words(item.get('role')) or words(item.get('type'))}]\n{said}")
    summary = words(payload.get("message"))
    if summary and not any(summary in said for said in kept):
        kept.append(summary)
    return "\n\n".join(kept)


def _decoded(written: object) -> Any:
    if not isinstance(written, str):
        return written
    try:
        return jsonio.decode(written) if written[:1] in ("{", "[") else None
    except ValueError:
        return None
