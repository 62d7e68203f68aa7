"""LangChain: a chat history, a key-value store, and a middleware for agents that folds.

>>> history = OrihonChatMessageHistory("session-1", "contexts")
>>> agent = create_agent(model, tools, middleware=[OrihonMiddleware("session-1", "contexts")])
"""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.exceptions import LangChainException
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    SystemMessage,
    convert_to_messages,
    convert_to_openai_messages,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.stores import BaseStore

from orihon.adapters.common import Where, check_kept, check_version, refusing_as
from orihon.adapters.history import FrameworkDialect, FrameworkEntry, SessionHistory, plain_message
from orihon.tasks.task import Task
from orihon.values.message.message import Message

check_version("langchain", "1.0", "2")
check_version("langchain-core", "1.0", "2")

_STORE = "langchain_store"


class LangChainTaskRefused(LangChainException):
    """Another process has the task, or has taken it over."""


def _said(entry: FrameworkEntry) -> Sequence[Message]:
    (message,) = messages_from_dict([entry])
    try:
        told = convert_to_openai_messages(message)
    except (ValueError, TypeError, KeyError):  # a kind of message that no provider knows
        return [Message("user", str(message.text))]
    told.pop("id", None)
    return [plain_message(told)]


def _read(message: Message) -> FrameworkEntry:
    (made,) = convert_to_messages([message.request()])
    return message_to_dict(made)


DIALECT = FrameworkDialect("langchain", _said, _read)


def _entries(messages: Sequence[BaseMessage]) -> list[FrameworkEntry]:
    made = []
    for message in messages:
        entry = message_to_dict(message)
        if entry["type"] == "remove":
            check_kept(message, "messages")  # a command, not a message
        made.append(entry)
    return made


class OrihonChatMessageHistory(BaseChatMessageHistory):
    """The messages of a session. ``messages`` is what the model should see; ``whole`` is all that was ever said."""

    def __init__(self, session_id: str | Task, where: Where = None, *, user: str = "") -> None:
        """``session_id``: a name, the UUID of a task, or an open task; ``where``: a place, or an open ``Base``."""
        with refusing_as(LangChainTaskRefused):
            self.history = SessionHistory(DIALECT, session_id, where, user=user)

    @property
    def task(self) -> Task:
        """The task under it."""
        return self.history.task

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """What the model should see: folded first where it would not fit."""
        with refusing_as(LangChainTaskRefused):
            return messages_from_dict(self.history.view())

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        with refusing_as(LangChainTaskRefused):
            self.history.sync(_entries(messages))

    def whole(self) -> list[BaseMessage]:
        """All that was ever said, folded or not."""
        with refusing_as(LangChainTaskRefused):
            return messages_from_dict(self.history.entries())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store messages: all of them, or none."""
        with refusing_as(LangChainTaskRefused):
            self.history.add(_entries(messages))

    def clear(self) -> None:
        """Begin anew; what was said stays in its task."""
        with refusing_as(LangChainTaskRefused):
            self.history.clear()

    async def aget_messages(self) -> list[BaseMessage]:
        """``messages`` for async programs."""
        return await asyncio.to_thread(lambda: self.messages)


class OrihonMiddleware(AgentMiddleware[Any, Any, Any]):
    """Keeps what an agent sends to its model in a task, and folds what would not fit.

    The agent's own state stays whole; the model gets the view.
    """

    def __init__(self, session_id: str | Task, where: Where = None, *, user: str = "") -> None:
        super().__init__()
        self.history = SessionHistory(DIALECT, session_id, where, user=user)

    @property
    def task(self) -> Task:
        """The task under it."""
        return self.history.task

    def wrap_model_call(self, request: Any, handler: Callable[[Any], Any]) -> Any:
        """Before and after a call of the model."""
        folded = self._before(request)
        return self._after(folded, handler(folded))

    async def awrap_model_call(self, request: Any, handler: Callable[[Any], Awaitable[Any]]) -> Any:
        """The same in an async program."""
        folded = await asyncio.to_thread(self._before, request)
        return await asyncio.to_thread(self._after, folded, await handler(folded))

    def _before(self, request: Any) -> Any:
        lead = [] if request.system_message is None else [request.system_message]
        with refusing_as(LangChainTaskRefused):
            self.history.sync(_entries([*lead, *request.messages]))
            seen = messages_from_dict(self.history.view())
        if lead and seen and isinstance(seen[0], SystemMessage):
            return request.override(messages=seen[1:], system_message=seen[0])
        return request.override(messages=seen)

    def _after(self, request: Any, response: Any) -> Any:
        said = [response] if isinstance(response, AIMessage) else list(getattr(response, "result", ()))
        with refusing_as(LangChainTaskRefused):
            self.history.add(_entries(said))
        return response


class OrihonKeyValueStore(BaseStore[str, Any]):
    """Keys and values in a task: each change is one record of its log, so every old value is still there.

    Values are bytes or plain data. Secrets in plain data are masked as everywhere; bytes are kept as they are.
    """

    def __init__(self, name: str | Task, where: Where = None, *, user: str = "") -> None:
        with refusing_as(LangChainTaskRefused):
            self._history = SessionHistory(FrameworkDialect(_STORE, _change_said, _no_change), name, where, user=user)
        self._lock = threading.RLock()
        self._places: dict[str, int] = {}
        self._seen = ("", 0)

    @property
    def task(self) -> Task:
        """The task under it."""
        return self._history.task

    def _known(self) -> dict[str, int]:
        """Where the value of each key stands in the log."""
        store = self.task.context.message_store.task_store
        uuid, seq = self.task.context.uuid, self._seen[1]
        if self._seen[0] != uuid:
            self._places, seq = {}, 0
        for stored in store.messages(seq + 1) if store.tail.seq > seq else ():
            for change in (stored.message.extra.get(_STORE) or {}).get("entries", ()):
                if change["is_there"]:
                    self._places.pop(change["key"], None)
                    self._places[change["key"]] = stored.seq
                else:
                    self._places.pop(change["key"], None)
        self._seen = uuid, store.tail.seq
        return self._places

    def mget(self, keys: Sequence[str]) -> list[Any]:
        """Values by their keys; ``None`` for one that is not there."""
        with self._lock, refusing_as(LangChainTaskRefused):
            places = self._known()
            return [self._value(places[key]) if key in places else None for key in keys]

    def _value(self, seq: int) -> Any:
        message = self.task.context.message_store.get_message(seq).message
        change = message.extra[_STORE]["entries"][0]
        if not change["is_bytes"]:
            return change["value"]
        data = (message.parts or ())[0].data["file"]["file_data"]
        return base64.b64decode(data.partition(",")[2])

    def mset(self, key_value_pairs: Sequence[tuple[str, Any]]) -> None:
        """Set values: all of them, or none."""
        self._change([_set(key, value) for key, value in key_value_pairs])

    def mdelete(self, keys: Sequence[str]) -> None:
        """Take keys away; what they held stays in the log."""
        with self._lock:
            known = self._known()
            gone = [key for key in dict.fromkeys(keys) if key in known]
            self._change([{"key": key, "is_there": False, "is_bytes": False, "value": None} for key in gone])

    def _change(self, changes: list[FrameworkEntry]) -> None:
        with self._lock, refusing_as(LangChainTaskRefused):
            self._history.add(changes, "values")

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        """The keys, all or those that begin so."""
        with self._lock, refusing_as(LangChainTaskRefused):
            found = [key for key in self._known() if key.startswith(prefix or "")]
        yield from found

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        """The same in an async program."""
        for key in await asyncio.to_thread(lambda: list(self.yield_keys(prefix=prefix))):
            yield key


def _set(key: str, value: Any) -> FrameworkEntry:
    is_bytes = isinstance(value, bytes)
    kept = base64.b64encode(value).decode() if is_bytes else value
    return {"key": key, "is_there": True, "is_bytes": is_bytes, "value": kept}


def _change_said(change: FrameworkEntry) -> Sequence[Message]:
    told = f"{change['key']} =" if change["is_there"] else f"{change['key']} is gone"
    if not change["is_bytes"]:
        return [Message("user", f"{told} {change['value']}" if change["is_there"] else told)]
    data = "data:application/octet-stream;base64," + str(change["value"])
    change["value"] = None  # bytes lie beside the log, once
    part = {"type": "file", "file": {"filename": change["key"], "file_data": data}}
    return [Message.build("user", [part, {"type": "text", "text": told}])]


def _no_change(message: Message) -> FrameworkEntry:
    """What others have written is no value."""
    return {"key": "", "is_there": False, "is_bytes": False, "value": None}


__all__ = ["LangChainTaskRefused", "OrihonChatMessageHistory", "OrihonKeyValueStore", "OrihonMiddleware"]
