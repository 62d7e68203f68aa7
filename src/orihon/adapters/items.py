"""Entries of a framework in the log: legal messages that say the same, each with what the framework needs besides.

The log has every text once. What the framework's entry has beyond that lies in ``extra`` of its message, under the name
of the framework: the entry itself with its texts pointed at instead of repeated. What comes back is the entry as it
was, with secrets masked where the log has masked them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orihon.proxy.scribe import Scribe, ScribeLine
from orihon.store.tail import Tail
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.values.message.message import Message

#: Entries of a framework that belong together, as plain data, and the chat messages that say the same.
ItemSaid = tuple[Sequence[Mapping[str, Any]], Sequence[Message]]

#: Points at a text of the message, or at what one of its texts says as JSON, by number among ``_texts``.
_FROM, _JSON, _WHOLE = "$from", "$json", "$whole"
_SHORTEST = 32  # a pointer is no shorter


class ItemLog:
    """How the entries of one framework stand in a log."""

    def __init__(self, framework: str, *, join: bool = True) -> None:
        """``join``: answers that follow one another are one answer, as ``Scribe`` has it."""
        self.framework = framework
        self._join = join

    def written(self, entries: Sequence[ItemSaid], tail: Tail) -> list[Message]:
        """The messages for the log, behind what is there."""
        scribe = Scribe(list(tail.open_calls), tail.used_calls.perhaps_has, tail.seq + 1, join=self._join)
        for items, messages in entries:
            scribe.take(messages, *items)
        return [self._noted(line) for line in scribe.lines]

    def write(self, store: TaskStore, entries: Sequence[ItemSaid], tail: Tail) -> list[int]:
        """Write them inside ``TaskStore.change``; gives the number of the message that each begins with."""
        numbers: list[int] = []
        for message in self.written(entries, tail):
            seq = store.append_inside(message, tail)
            numbers += [seq] * len(message.extra[self.framework])
        return numbers

    def _noted(self, line: ScribeLine) -> Message:
        own = [outline(item, line.message) for item in line.marks]
        extra = {**line.message.extra, self.framework: own}
        return replace(line.message, extra=extra, unsent=(*line.message.unsent, self.framework))

    def items(self, message: Message) -> list[Any] | None:
        """The entries that begin with a message of the log; ``None`` when somebody else has written it."""
        own = message.extra.get(self.framework)
        return [restored(one, message) for one in own] if isinstance(own, list) else None


def outline(item: Mapping[str, Any], message: Message) -> Any:
    """The entry with the texts that the message has pointed at."""
    if _has_pointers(item):
        return {_WHOLE: item}
    places: dict[str, int] = {}
    for number, said in enumerate(_texts(message)):
        if len(said) >= _SHORTEST:
            places.setdefault(said, number)
    return _pointed(item, places) if places else item


def restored(kept: Any, message: Message) -> Any:
    """The entry again."""
    if isinstance(kept, Mapping) and _WHOLE in kept:
        return kept[_WHOLE]
    return _filled(kept, list(_texts(message)))


def _texts(message: Message) -> Iterator[str]:
    """Texts of a message in an order that stays as it is."""
    if message.content is not None:
        yield message.content
    for part in message.parts or ():
        yield part.text or ""
    for call in message.tool_calls:
        yield call.arguments


def _has_pointers(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(key in (_FROM, _JSON, _WHOLE) or _has_pointers(inner) for key, inner in value.items())
    return isinstance(value, list | tuple) and any(map(_has_pointers, value))


def _pointed(value: Any, places: Mapping[str, int]) -> Any:
    if isinstance(value, str):
        return {_FROM: places[value]} if value in places else value
    if isinstance(value, Mapping):
        if value and (place := _json_place(value, places)) is not None:
            return {_JSON: place}
        return {key: _pointed(inner, places) for key, inner in value.items()}
    return [_pointed(inner, places) for inner in value] if isinstance(value, list | tuple) else value


def _json_place(value: Mapping[str, Any], places: Mapping[str, int]) -> int | None:
    """Where a text says just this, such as the arguments of a call."""
    if not any(text.startswith("{") for text in places):
        return None
    return places.get(jsonio.encode(value).decode())


def _filled(kept: Any, texts: Sequence[str]) -> Any:
    if isinstance(kept, Mapping):
        if len(kept) == 1:
            if (place := kept.get(_FROM)) is not None:
                return texts[place]
            if (place := kept.get(_JSON)) is not None:
                return jsonio.decode(texts[place])
        return {key: _filled(inner, texts) for key, inner in kept.items()}
    return [_filled(inner, texts) for inner in kept] if isinstance(kept, list) else kept
