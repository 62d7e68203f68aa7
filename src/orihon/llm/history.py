"""Where a client's conversation is kept: in a task's store, or, without one, in a plain list.

Both give the view that a request is made of, take complete answers, and make room when the provider says that a
request was too long. The list is for programs that want no storage: it forgets its oldest messages, tool calls
together with their results, and never the system prompt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from orihon.compression.compressor import ContextCompressor
from orihon.compression.plain_history import system_head, tool_units
from orihon.errors import ToolCallError
from orihon.llm.answers import ModelAnswer
from orihon.llm.request_file import FileLines, ViewLines, list_lines, request_file
from orihon.store import StoredMessage, TaskMessages
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.message.parts import ToolCall
from orihon.values.records import ModelCall, Usage
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.tokens.tokens import Correction, reported_input_tokens

if TYPE_CHECKING:
    from orihon.tasks.context import TaskContextManager

_HALF = 0.5


class History(Protocol):
    """What a client needs of its conversation."""

    @property
    def tokens(self) -> int:
        """Estimated tokens of the view."""
        ...

    def add(self, role: str, text: str) -> None: ...

    def add_result(
        self,
        name: str,
        text: str,
        tool_call_id: str | None,
        *,
        is_recorded: bool = False,
        told: Mapping[str, Any] | None = None,
    ) -> None: ...

    def add_answer(self, answer: ModelAnswer, call: ModelCall) -> None: ...

    def is_used(self, call_id: str) -> bool:
        """Whether a call may have had this id before."""
        ...

    def prepare(self) -> ViewLines:
        """The view for the next request, made to fit; ``ToolCallError`` while calls wait for their results."""
        ...

    def relieve(self) -> bool:
        """Make the view much shorter; did it become so?"""
        ...

    def body(self, pieces: Iterable[bytes]) -> AbstractContextManager[Path | bytes]:
        """A request's body, for as long as the block lasts."""
        ...

    def report(self, usage: Mapping[str, Any], request_tokens: int, call: ModelCall) -> None:
        """Learn from what the provider counted of the call whose answer was added."""
        ...


class StoredHistory:
    """A conversation in a ``MessageStore``."""

    def __init__(
        self, store: TaskMessages, compressor: ContextCompressor, task_ctx: TaskContextManager | None = None
    ) -> None:
        self._store = store
        self._compressor = compressor
        self._task_ctx = task_ctx

    @property
    def tokens(self) -> int:
        return self._store.get_current_token_count()

    def add(self, role: str, text: str) -> None:
        self._store.add_message(role, text)

    def add_result(
        self,
        name: str,
        text: str,
        tool_call_id: str | None,
        *,
        is_recorded: bool = False,
        told: Mapping[str, Any] | None = None,
    ) -> None:
        call = None if is_recorded else self._call(name, tool_call_id)
        record = None if call is None else _tool_record(call, text, told or {})
        self._store.add_message("tool", text, name, tool_call_id=tool_call_id, tool_call=record)
        if record is not None and self._task_ctx is not None:
            self._task_ctx.update_statistics(tool_calls=1)

    def _call(self, name: str, tool_call_id: str | None) -> ToolCall | None:
        """The call that waits for this result; ``None``: there is none, and the store says so, or it is recorded."""
        waiting = self._store.task_store.tail.open_calls
        wanted = tool_call_id or next((call_id for call_id, tool in waiting.items() if tool == name), None)
        if wanted not in waiting:
            return None
        newest = map(self._store.get_message, range(self._store.count_messages(), 0, -1))
        asked = next(stored for stored in newest if stored.message.role == "assistant")
        call = next(call for call in asked.message.tool_calls if call.id == wanted)
        return None if self._is_recorded(asked, call.name) else call

    def _is_recorded(self, asked: StoredMessage, tool: str) -> bool:
        """Whether the program that made the call has written a record of it that belongs to no other result."""
        store, recorded = self._store.task_store, 0
        answered = [stored for stored in self._store.get_messages(asked.seq + 1) if stored.message.tool_name == tool]
        for number in range(store.count("tools"), 0, -1):
            record = next(store.read("tools", number, number))
            if record["timestamp"] < asked.timestamp:
                break
            recorded += record["tool_name"] == tool
        return recorded > len(answered)

    def add_answer(self, answer: ModelAnswer, call: ModelCall) -> None:
        # Why it ended is kept: whoever goes on after a crash must know that an answer was cut off by its length.
        fields = {"finish_reason": answer.finish, **answer.fields} if answer.finish else answer.fields
        said = Message.build("assistant", answer.text or None, tool_calls=_chat_calls(answer), extra=fields)
        self._store.append(said, call=call)

    def is_used(self, call_id: str) -> bool:
        return self._store.task_store.tail.used_calls.perhaps_has(call_id)

    def prepare(self) -> ViewLines:
        _refuse_open(self._store.task_store.tail.open_calls)
        self._compressor.compress_if_needed()
        if self._is_sealed:
            return ViewLines(self._store.task_store.view_lines)
        return FileLines(self._store.get_current_context_file())

    def relieve(self) -> bool:
        """The provider's window is smaller than we took it for, so what we take for little has to become less.

        Nor is what we have learned of its counts true any more.
        """
        if self._task_ctx is not None:
            self._task_ctx.correct(Correction())
        self._store.correction = Correction()
        usage = self._compressor.gauge.usage(self.tokens)
        rung = self._compressor.ladder.strongest()
        target = min(_HALF * usage, rung.target or self._compressor.ladder.target, 1.0)
        return self._compressor.compress(target=max(target, 1e-6)).changed

    def body(self, pieces: Iterable[bytes]) -> AbstractContextManager[Path | bytes]:
        if self._is_sealed:  # nothing plain touches the disk: the request is in memory while it is on its way
            return nullcontext(b"".join(pieces))
        return request_file(self._store.context_dir, pieces)

    @property
    def _is_sealed(self) -> bool:
        return self._store.task_store.records.is_sealed

    def report(self, usage: Mapping[str, Any], request_tokens: int, call: ModelCall) -> None:
        if self._task_ctx is not None:
            self._task_ctx.report_usage(usage, request_tokens, call=call)
        elif (reported := reported_input_tokens(usage)) is not None:
            learned = self._store.correction.observe(request_tokens, reported, tools=self._store.tool_tokens)
            self._store.correction = learned


class MemoryHistory:
    """A conversation in a list, within a number of tokens."""

    def __init__(self, limit: int, task_ctx: TaskContextManager | None = None) -> None:
        self.messages: list[dict[str, Any]] = []
        self._limit = limit
        self._task_ctx = task_ctx

    @property
    def tokens(self) -> int:
        return sum(map(_tokens, self.messages))

    def add(self, role: str, text: str) -> None:
        self._append(Message.build(role, text))

    def add_result(
        self,
        name: str,
        text: str,
        tool_call_id: str | None,
        *,
        is_recorded: bool = False,
        told: Mapping[str, Any] | None = None,
    ) -> None:
        waiting = self._open_calls()
        wanted = tool_call_id or next((call_id for call_id, tool in waiting.items() if tool == name), None)
        if wanted not in waiting:
            raise ToolCallError("none_open", call=tool_call_id or name, open=", ".join(waiting) or "-")
        self._append(Message.build("tool", text, tool_name=name, tool_call_id=wanted))

    def add_answer(self, answer: ModelAnswer, call: ModelCall) -> None:
        self._append(
            Message.build("assistant", answer.text or None, tool_calls=_chat_calls(answer), extra=answer.fields)
        )

    def is_used(self, call_id: str) -> bool:
        return any(call["id"] == call_id for message in self.messages for call in message.get("tool_calls") or ())

    def prepare(self) -> ViewLines:
        _refuse_open(self._open_calls())
        self._trim(self._limit)
        return list_lines(self.messages)

    def relieve(self) -> bool:
        return self._trim(int(_HALF * self.tokens))

    @contextmanager
    def body(self, pieces: Iterable[bytes]) -> Iterator[Path | bytes]:
        yield b"".join(pieces)

    def report(self, usage: Mapping[str, Any], request_tokens: int, call: ModelCall) -> None:
        context = self._task_ctx
        if context is not None:
            context.update_statistics(llm_calls=1, tokens=Usage.of(usage).total)
            said = _tokens(self.messages[-1])
            context.calls.answered(call, sent=request_tokens, said=said, saved=0, epoch=context.lease.epoch)

    def _append(self, message: Message) -> None:
        waiting = self._open_calls()
        if waiting and message.role != "tool":
            raise ToolCallError("calls_open", calls=", ".join(waiting), role=message.role)
        self.messages.append(message.request())

    def _open_calls(self) -> dict[str, str]:
        waiting: dict[str, str] = {}
        for message in self.messages:
            waiting.update({call["id"]: call["function"]["name"] for call in message.get("tool_calls") or ()})
            waiting.pop(message.get("tool_call_id", ""), None)
        return waiting

    def _trim(self, limit: int) -> bool:
        """Forget the oldest runs until the rest fits; the newest, and the user's newest, stay whatever they cost."""
        head, gone = system_head(self.messages), set[int]()
        asked = max((at for at, message in enumerate(self.messages) if message["role"] == "user"), default=-1)
        units = [unit for unit in tool_units(self.messages) if unit.start >= head]
        total = self.tokens
        for unit in units[:-1]:
            if total <= limit:
                break
            if asked not in unit:
                total -= sum(_tokens(self.messages[index]) for index in unit)
                gone.update(unit)
        self.messages[:] = [message for at, message in enumerate(self.messages) if at not in gone]
        return bool(gone)


def _chat_calls(answer: ModelAnswer) -> list[dict[str, Any]] | None:
    return [
        {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": call["arguments"]}}
        for call in answer.calls
    ] or None


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        read = jsonio.decode(call.arguments or "{}")
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"unreadable": call.arguments}


def _tool_record(call: ToolCall, text: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept about a call: what its maker has ``told``, and else what is known."""
    kept = {key: told[key] for key in ("status", "duration_ms", "error_message") if key in told}
    asked = told.get("arguments")
    arguments = asked if isinstance(asked, Mapping) else _arguments(call)
    return {**kept, "arguments": arguments, "result": told.get("output", text), "tool_name": call.name}


def _refuse_open(waiting: Mapping[str, str]) -> None:
    if waiting:
        raise ToolCallError("calls_open", calls=", ".join(waiting), role="assistant")


def _tokens(message: Mapping[str, Any]) -> int:
    return estimate_message(Message.from_chat(message))
