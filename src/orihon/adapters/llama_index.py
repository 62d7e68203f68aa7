"""LlamaIndex: a chat store, and a memory whose ``get`` is what the model should see.

>>> memory = OrihonMemory.from_defaults(session_id="session-1", where="contexts")
>>> store = OrihonChatStore(where="contexts")
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory.types import BaseMemory
from llama_index.core.storage.chat_store.base import BaseChatStore

from orihon.adapters.common import Where, base_at, check_version, refusing_as, session_row
from orihon.adapters.history import FrameworkDialect, FrameworkEntry, SessionHistory, session_rows
from orihon.system import jsonio
from orihon.tasks.task import Task
from orihon.values.message.message import Message, ToolCall

check_version("llama-index-core", "0.14", "0.15")

_ROLES = {"chatbot": "assistant", "model": "assistant", "function": "tool", "developer": "system"}


class LlamaIndexTaskRefused(RuntimeError):
    """Another process has the task, or has taken it over. LlamaIndex has no error of its own for stores."""


def _said(entry: FrameworkEntry) -> Sequence[Message]:
    message = ChatMessage.model_validate(entry)
    role = _ROLES.get(message.role.value, message.role.value)
    calls = [call for call in map(_call, message.additional_kwargs.get("tool_calls") or ()) if call is not None]
    calls += [
        ToolCall.from_chat(_chat_call(block.tool_call_id, block.tool_name, block.tool_kwargs))
        for block in message.blocks
        if block.block_type == "tool_call"
    ]
    answered = message.additional_kwargs.get("tool_call_id")
    if role == "tool":
        return [Message("tool", message.content or "", tool_call_id=str(answered) if answered else None)]
    return [Message(role, message.content or ("" if not calls else None), tool_calls=tuple(calls))]


def _call(given: Any) -> ToolCall | None:
    """A call as providers have it; what is none is kept beside."""
    function = given.get("function") if isinstance(given, dict) else None
    if not isinstance(function, dict):
        return None
    return ToolCall.from_chat({"type": "function", "id": str(given.get("id") or ""), "function": function})


def _chat_call(call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    said = arguments if isinstance(arguments, str) else jsonio.encode(arguments).decode()
    return {"type": "function", "id": call_id or "", "function": {"name": name, "arguments": said}}


def _read(message: Message) -> FrameworkEntry:
    kwargs: dict[str, Any] = {}
    if message.tool_calls:
        kwargs["tool_calls"] = [call.to_chat() for call in message.tool_calls]
    if message.tool_call_id:
        kwargs["tool_call_id"] = message.tool_call_id
    made = ChatMessage(role=MessageRole(message.role), content=message.text, additional_kwargs=kwargs)
    return made.model_dump(mode="json")


DIALECT = FrameworkDialect("llama_index", _said, _read)


def _entry(message: ChatMessage) -> FrameworkEntry:
    """As plain data. ``model_dump`` writes down objects that nobody could read back: those are refused."""
    plain = message.model_dump(mode="json", exclude={"additional_kwargs"})
    return {**plain, "additional_kwargs": dict(message.additional_kwargs)}


def _messages(entries: Sequence[FrameworkEntry]) -> list[ChatMessage]:
    return [ChatMessage.model_validate(entry) for entry in entries]


class OrihonChatStore(BaseChatStore):
    """Conversations by their keys, each a task. ``get_messages`` gives all that was said; a memory folds."""

    where: Any = None
    user: str = ""
    _histories: dict[str, SessionHistory] = PrivateAttr(default_factory=dict)
    _lock: Any = PrivateAttr(default_factory=threading.RLock)

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex knows it."""
        return "OrihonChatStore"

    def history(self, key: str) -> SessionHistory:
        """The history of a key."""
        with self._lock, refusing_as(LlamaIndexTaskRefused):
            if key not in self._histories:
                self._histories[key] = SessionHistory(DIALECT, key, self.where, user=self.user)
            return self._histories[key]

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Make the conversation this list; what it leaves out stays in the log."""
        with refusing_as(LlamaIndexTaskRefused):
            if not messages:
                self.history(key).clear()
            else:
                self.history(key).sync([_entry(message) for message in messages])

    def get_messages(self, key: str) -> list[ChatMessage]:
        """All that was said under a key."""
        with refusing_as(LlamaIndexTaskRefused):
            return _messages(self.history(key).entries()) if self._is_known(key) else []

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Store a message."""
        with refusing_as(LlamaIndexTaskRefused):
            self.history(key).add([_entry(message)])

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Begin anew under a key; what was said stays in its task."""
        if not self._is_known(key):
            return None
        found = self.get_messages(key)
        with refusing_as(LlamaIndexTaskRefused):
            self.history(key).clear()
        return found

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Take one message out of the conversation. A call goes with its results, and they with it."""
        count = len(self.get_messages(key))
        if not -count <= idx < count:
            return None
        place = idx % count
        with refusing_as(LlamaIndexTaskRefused):
            return _messages(self.history(key).drop(place, place))[0]

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Take the last message out of the conversation."""
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        """The keys that have messages."""
        return [row.key.task_id for row in session_rows(base_at(self.where), self.user)]

    def _is_known(self, key: str) -> bool:
        return session_row(base_at(self.where), key, user=self.user) is not None


class OrihonMemory(BaseMemory):
    """The memory of one conversation: ``get`` is what the model should see, ``get_all`` all that was said."""

    _history: SessionHistory = PrivateAttr()

    def __init__(self, session_id: str | Task, where: Where = None, *, user: str = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with refusing_as(LlamaIndexTaskRefused):
            self._history = SessionHistory(DIALECT, session_id, where, user=user)

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex knows it."""
        return "OrihonMemory"

    @classmethod
    def from_defaults(cls, session_id: str | Task = "default", where: Where = None, **kwargs: Any) -> OrihonMemory:
        """The memory of a session."""
        return cls(session_id, where, **kwargs)

    @property
    def task(self) -> Task:
        """The task under it."""
        return self._history.task

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002 - their name
        """What the model should see: folded first where it would not fit."""
        with refusing_as(LlamaIndexTaskRefused):
            return _messages(self._history.view())

    def get_all(self) -> list[ChatMessage]:
        """All that was ever said, folded or not."""
        with refusing_as(LlamaIndexTaskRefused):
            return _messages(self._history.entries())

    def put(self, message: ChatMessage) -> None:
        """Store a message."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Store messages: all of them, or none."""
        with refusing_as(LlamaIndexTaskRefused):
            self._history.add([_entry(message) for message in messages])

    def set(self, messages: list[ChatMessage]) -> None:
        """Make the conversation this list."""
        with refusing_as(LlamaIndexTaskRefused):
            self._history.sync([_entry(message) for message in messages])

    def reset(self) -> None:
        """Begin anew; what was said stays in its task."""
        with refusing_as(LlamaIndexTaskRefused):
            self._history.clear()


__all__ = ["LlamaIndexTaskRefused", "OrihonChatStore", "OrihonMemory"]
