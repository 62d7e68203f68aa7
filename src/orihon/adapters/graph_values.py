"""Values of a graph's state as plain data: messages stand in the log, once, and are pointed at.

A list of messages is the runs of their numbers in the log; plain data stands as it is, masked; everything else is what
the serializer of the saver makes of it. A message that was given or read before is known by its object, so that a
state with many messages costs what is new in it.
"""

from __future__ import annotations

import base64
import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage, RemoveMessage, messages_from_dict
from langgraph.checkpoint.serde.base import SerializerProtocol

from orihon.adapters.common import cannot_keep
from orihon.adapters.graph_records import runs_of
from orihon.adapters.items import ItemLog, ItemSaid
from orihon.errors import InvalidMessage
from orihon.guard import Redactor
from orihon.store.reader import TaskReader
from orihon.store.record_codec import StoredMessage
from orihon.system import jsonio
from orihon.values.message.message import Message

_LOG = ItemLog("langchain", join=False)
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_PLAIN = frozenset((str, int, bool, type(None)))
_UNSAID: Mapping[str, Any] = {"status": "success", "example": False}
_DEEPEST = 64
_CLOSELY = 256  # so many of the newest messages of a list are looked at closely


class _Known(NamedTuple):
    held: weakref.ref[Any]
    log: str
    seq: int
    content: Any
    name: str | None
    details: int


class KnownMessages:
    """Which objects are which messages of which logs, as long as somebody has them."""

    def __init__(self) -> None:
        self._by_id: dict[int, _Known] = {}

    def learn(self, message: BaseMessage, uuid: str, seq: int) -> None:
        name = id(message)
        gone = weakref.ref(message, lambda _: self._by_id.pop(name, None))
        self._by_id[name] = _Known(gone, uuid, seq, message.content, message.id, _details(message))

    def seq(self, message: BaseMessage, uuid: str, *, closely: bool) -> int | None:
        """Its number in this log, if it is there as it is now; ``closely``: programs change messages in place."""
        known = self._by_id.get(id(message))
        same: Any = None if known is None else known.held()
        if known is None or same is not message or (known.log, known.name) != (uuid, message.id):
            return None
        if known.content is not message.content or (closely and known.details != _details(message)):
            return None
        return known.seq


def _details(message: BaseMessage) -> int:
    """Everything but a text, which is another object when it is another text."""
    said = {name: one for name, one in message.__dict__.items() if name != "content" or not isinstance(one, str)}
    return hash(repr(said))


class Packing:
    """Values on their way into one section of a task: new messages first, then the record that points at them."""

    def __init__(self, serde: SerializerProtocol, redactor: Redactor, known: KnownMessages, uuid: str, *, log: bool):
        self._serde = serde
        self._redactor = redactor
        self._known = known
        self._uuid = uuid
        self._logs = log
        self._new: dict[int, tuple[BaseMessage, ItemSaid]] = {}
        self._numbers: dict[int, int] = {}

    def look_at(self, value: Any, field: str, *, to_log: bool = True) -> Callable[[], Any]:
        """Take a value in; what the record gets of it is known once the messages are written.

        Without ``to_log`` the record itself has its messages: the state that comes next has them in their order.
        """
        messages = _messages_in(value) if self._logs else None
        if messages is not None and not to_log:
            items = [item for one in messages for item in _said(one, self._serde, field)[0]]
            said = {"said": self._redactor.clean(items), "alone": not isinstance(value, list)}
            return lambda: said
        if messages is not None:
            for message, seq in zip(messages, self._known_numbers(messages), strict=True):
                if seq is None:
                    self._new.setdefault(id(message), (message, _said(message, self._serde, field)))
            return lambda: self._pointed(value, messages)
        kept = self.plain_or_packed(value, field)
        return lambda: kept

    def plain_or_packed(self, value: Any, field: str, *, mask: bool = True) -> dict[str, Any]:
        if self._logs and is_plain(value):
            return {"json": self._redactor.clean(value) if mask else value}
        return _packed(value, self._serde, field)

    @property
    def entries(self) -> list[ItemSaid]:
        """What is new for the log."""
        return [entry for _, entry in self._new.values()]

    def numbered(self, numbers: Sequence[int]) -> None:
        """The log has them under these numbers."""
        self._numbers = dict(zip(self._new, numbers, strict=True))

    def learn(self) -> None:
        """Everything is written."""
        for name, (message, _) in self._new.items():
            self._known.learn(message, self._uuid, self._numbers[name])

    def _known_numbers(self, messages: Sequence[BaseMessage]) -> list[int | None]:
        close = len(messages) - _CLOSELY
        return [self._known.seq(one, self._uuid, closely=at >= close) for at, one in enumerate(messages)]

    def _pointed(self, value: Any, messages: Sequence[BaseMessage]) -> dict[str, Any]:
        known = self._known_numbers(messages)
        numbers = [self._numbers.get(id(one)) or seq or 0 for one, seq in zip(messages, known, strict=True)]
        return {"messages": runs_of(numbers)} if isinstance(value, list) else {"message": numbers[0]}


class Unpacking:
    """Values out of the records of one task. One who lists many checkpoints reads a message once."""

    def __init__(self, store: TaskReader, serde: SerializerProtocol, known: KnownMessages, uuid: str) -> None:
        self._store = store
        self._serde = serde
        self._known = known
        self._uuid = uuid
        self._found: dict[int, BaseMessage] = {}

    def value(self, kept: Mapping[str, Any]) -> Any:
        if "json" in kept:
            return kept["json"]
        if "said" in kept:
            found = [_message(item, self._serde) for item in kept["said"]]
            return found[0] if kept["alone"] else found
        if "messages" in kept:
            return [one for first, last in kept["messages"] for one in self._messages(first, last)]
        if "message" in kept:
            return self._messages(kept["message"], kept["message"])[0]
        return _unpacked(kept, self._serde)

    def _messages(self, first: int, last: int) -> list[BaseMessage]:
        if any(seq not in self._found for seq in range(first, last + 1)):
            for stored in self._store.messages(first, last):
                if stored.seq not in self._found:
                    message = message_of(stored, self._serde)
                    self._known.learn(message, self._uuid, stored.seq)
                    self._found[stored.seq] = message
        return [self._found[seq] for seq in range(first, last + 1)]


def write_messages(packing: Packing, store: Any, tail: Any) -> None:
    """The new messages, inside a section."""
    packing.numbered(_LOG.write(store, packing.entries, tail) if packing.entries else [])


def message_of(stored: StoredMessage, serde: SerializerProtocol) -> BaseMessage:
    """A message of the log as LangChain has it, whoever has written it."""
    own = _LOG.items(stored.message)
    return _message(own[0] if own else _from_chat(stored), serde)


def _message(item: Mapping[str, Any], serde: SerializerProtocol) -> BaseMessage:
    message = _unpacked(item, serde) if "data64" in item else messages_from_dict([item])[0]
    assert isinstance(message, BaseMessage)
    return message


def _from_chat(stored: StoredMessage) -> dict[str, Any]:
    said = stored.message
    data: dict[str, Any] = {"content": said.content or ([dict(part.data) for part in said.parts or ()] or "")}
    data["id"] = f"orihon-{stored.seq}"
    if said.role == "tool":
        return {"type": "tool", "data": {**data, "tool_call_id": said.tool_call_id or ""}}
    if said.role == "assistant":
        data["tool_calls"] = [
            {"name": call.name, "args": _arguments(call.arguments), "id": call.id} for call in said.tool_calls
        ]
        return {"type": "ai", "data": data}
    return {"type": "system" if said.role in ("system", "developer") else "human", "data": data}


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = jsonio.decode(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"input": text}


def _messages_in(value: Any) -> list[BaseMessage] | None:
    """The messages that a value consists of."""
    found = value if isinstance(value, list) else [value]
    if not found or any(not isinstance(one, BaseMessage) or isinstance(one, RemoveMessage) for one in found):
        return None
    return found


def _said(message: BaseMessage, serde: SerializerProtocol, field: str) -> ItemSaid:
    said = {name: one for name, one in message.model_dump().items() if not _is_unsaid(name, one)}
    said.pop("type", None)
    item: dict[str, Any] = {"type": message.type, "data": {"content": message.content, **said}}
    try:
        again = messages_from_dict([jsonio.decode(jsonio.encode(item))])[0]
        is_kept = type(again) is type(message) and again == message
    except (ValueError, TypeError):
        is_kept = False
    return [item if is_kept else _packed(message, serde, field)], [_chat(message)]


def _is_unsaid(name: str, value: Any) -> bool:
    """Is it what a message has anyway?"""
    return value is None or value in ([], {}) or (name in _UNSAID and value == _UNSAID[name])


def _chat(message: BaseMessage) -> Message:
    role = _ROLES.get(message.type.removesuffix("MessageChunk").lower(), "user")
    calls = [
        {"id": call.get("id") or "", "type": "function", "function": _function(call)}
        for call in getattr(message, "tool_calls", None) or ()
    ]
    content: Any = message.content
    if isinstance(content, list):
        blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
        content = [one for one in blocks if isinstance(one.get("type"), str) and one["type"] != "tool_use"]
    try:
        return Message.build(
            role,
            content,
            tool_calls=calls if role == "assistant" and calls else None,
            tool_call_id=getattr(message, "tool_call_id", None),
            name=message.name if role == "tool" else None,
        )
    except InvalidMessage:
        return Message("user" if role == "tool" else role, str(message.text))


def _function(call: Mapping[str, Any]) -> dict[str, str]:
    return {"name": str(call.get("name") or ""), "arguments": jsonio.encode(call.get("args") or {}).decode()}


def is_plain(value: Any, depth: int = 0) -> bool:
    """Is it data that JSON gives back just as it is?"""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if kind is float:
        return math.isfinite(value)
    if depth > _DEEPEST:
        return False
    if kind is list:
        return _all_plain(value, depth)
    return kind is dict and all(type(name) is str for name in value) and _all_plain(value.values(), depth)


def _all_plain(values: Iterable[Any], depth: int) -> bool:
    return all(is_plain(one, depth + 1) for one in values)


def _packed(value: Any, serde: SerializerProtocol, field: str) -> dict[str, Any]:
    try:
        kind, data = serde.dumps_typed(value)
    except Exception as error:  # whatever a serializer raises: the object cannot be kept
        raise cannot_keep(field, value) from error
    return {"type64": kind, "data64": base64.b64encode(data).decode()}


def _unpacked(kept: Mapping[str, Any], serde: SerializerProtocol) -> Any:
    return serde.loads_typed((kept["type64"], base64.b64decode(kept["data64"])))
