"""Pydantic AI: the messages of a session, and a history processor that folds.

>>> messages = OrihonMessages("session-1", "contexts")
>>> agent = Agent(model, capabilities=[ProcessHistory(messages.processor)])
>>> result = agent.run_sync("Hello", message_history=messages.load())
>>> messages.save(result.all_messages())
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_core import PydanticSerializationError, to_jsonable_python

from orihon.adapters.common import Where, cannot_keep, check_version, refusing_as
from orihon.adapters.history import FrameworkDialect, FrameworkEntry, SessionHistory
from orihon.system import jsonio
from orihon.tasks.task import Task
from orihon.values.message.message import Message, ToolCall

check_version("pydantic-ai-slim", "2", "3")

_UNKNOWN_TOOL = "tool"


class PydanticAITaskRefused(UserError):
    """Another process has the task, or has taken it over."""


def _said(entry: FrameworkEntry) -> Sequence[Message]:
    if entry["kind"] == "response":
        return [_answer(entry["parts"])]
    order = {"system-prompt": 0, "tool-return": 1, "retry-prompt": 1}
    parts = sorted(entry["parts"], key=lambda part: order.get(part["part_kind"], 2))
    return [_asked(part) for part in parts] or [Message("user", "")]


def _asked(part: FrameworkEntry) -> Message:
    kind, told = part["part_kind"], _text(part.get("content"))
    if kind == "system-prompt":
        return Message("system", told)
    if kind in ("tool-return", "retry-prompt") and part.get("tool_name"):
        return Message("tool", told, tool_call_id=part["tool_call_id"], tool_name=part["tool_name"])
    return Message("user", told)


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(one, str) for one in content):
        return "\n".join(content)
    return jsonio.encode(content).decode()


def _answer(parts: Sequence[FrameworkEntry]) -> Message:
    said = "".join(part["content"] for part in parts if part["part_kind"] == "text" and part.get("content"))
    calls = []
    for part in parts:
        if part["part_kind"] == "tool-call":
            arguments = part.get("args")
            written = arguments if isinstance(arguments, str) else jsonio.encode(arguments or {}).decode()
            function = {"name": part["tool_name"], "arguments": written}
            calls.append(ToolCall.from_chat({"type": "function", "id": part["tool_call_id"], "function": function}))
    return Message("assistant", said or (None if calls else ""), tool_calls=tuple(calls))


def _read(message: Message) -> FrameworkEntry:
    made: ModelMessage
    if message.role == "assistant":
        text = [TextPart(message.text)] if message.text else []
        calls = [ToolCallPart(call.name, call.arguments, tool_call_id=call.id) for call in message.tool_calls]
        made = ModelResponse([*text, *calls])
    elif message.role == "tool":
        name = message.tool_name or message.name or _UNKNOWN_TOOL
        made = ModelRequest([ToolReturnPart(name, message.text, tool_call_id=message.tool_call_id or "")])
    elif message.role in ("system", "developer"):
        made = ModelRequest([SystemPromptPart(message.text)])
    else:
        made = ModelRequest([UserPromptPart(message.text)])
    return _entries([made])[0]


DIALECT = FrameworkDialect("pydantic_ai", _said, _read)


def _entries(messages: Sequence[ModelMessage]) -> list[FrameworkEntry]:
    for number, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            try:
                to_jsonable_python(part, bytes_mode="base64")
            except (PydanticSerializationError, ValueError) as error:
                where = f"messages[{number}].parts[{place}].content"
                raise cannot_keep(where, getattr(part, "content", part)) from error
    made: list[FrameworkEntry] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return made


def _messages(entries: Sequence[FrameworkEntry]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_json(jsonio.encode(list(entries)))


class OrihonMessages:
    """The messages of a session."""

    def __init__(self, session: str | Task, where: Where = None, *, user: str = "") -> None:
        """``session``: a name, the UUID of a task, or an open task; ``where``: a place, or an open ``Base``."""
        with refusing_as(PydanticAITaskRefused):
            self.history = SessionHistory(DIALECT, session, where, user=user)

    @property
    def task(self) -> Task:
        """The task under it."""
        return self.history.task

    def load(self) -> list[ModelMessage]:
        """What the model should see, for ``message_history``: folded first where it would not fit."""
        with refusing_as(PydanticAITaskRefused):
            return _messages(self.history.view())

    def whole(self) -> list[ModelMessage]:
        """All that was ever said, folded or not."""
        with refusing_as(PydanticAITaskRefused):
            return _messages(self.history.entries())

    def add(self, messages: Sequence[ModelMessage]) -> None:
        """Store messages behind the others, as ``result.new_messages()`` gives them: all of them, or none."""
        with refusing_as(PydanticAITaskRefused):
            self.history.add(_entries(messages))

    def save(self, messages: Sequence[ModelMessage]) -> None:
        """Make the session this list, as ``result.all_messages()`` gives it; what is known is not stored twice."""
        with refusing_as(PydanticAITaskRefused):
            self.history.sync(_entries(messages))

    def clear(self) -> None:
        """Begin anew; what was said stays in its task."""
        with refusing_as(PydanticAITaskRefused):
            self.history.clear()

    async def processor(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """A history processor: keeps what goes to the model, before it goes, and folds what would not fit."""

        def kept() -> list[ModelMessage]:
            self.save(messages)
            return self.load()

        return await asyncio.to_thread(kept)


__all__ = ["OrihonMessages", "PydanticAITaskRefused"]
