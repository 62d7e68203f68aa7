"""An answer of a model, put together from whatever pieces it comes in.

A call's arguments stay the text that the model wrote, JSON or not: whoever runs the tool decides. Nothing here touches
a store; an ``ModelAnswer`` exists only when it is complete.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orihon.errors import InvalidMessage, NotJSON
from orihon.system import jsonio
from orihon.values.message.wire import clean

OnText = Callable[[str], object]

_EXCERPT = 200
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What the model said. A call is ``{"id", "name", "arguments"}``, arguments as a text."""

    text: str = ""
    calls: tuple[dict[str, str], ...] = ()
    usage: Mapping[str, Any] = field(default_factory=dict)
    finish: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)  # reasoning, under the provider's name for it
    done: bool | None = None  # said in words, where calls are made in words
    is_kept: bool = field(default=False, compare=False)  # from an earlier request: nobody was asked

    @property
    def is_empty(self) -> bool:
        """Neither words nor calls."""
        return not self.text.strip() and not self.calls


class AnswerBuilder:
    """Collects the pieces of one answer."""

    def __init__(self, on_text: OnText | None = None) -> None:
        self._on_text = on_text
        self._text: list[str] = []
        self._calls: dict[object, dict[str, list[str]]] = {}
        self._newest: dict[object, object] = {}
        self._fields: dict[str, list[str]] = {}
        self.usage: dict[str, Any] = {}
        self.finish = ""
        self.has_begun = False  # something has been shown

    def text(self, piece: object) -> None:
        """A piece of what is said."""
        if isinstance(piece, list):  # some servers answer in blocks
            piece = "".join(str(part.get("text") or "") for part in piece if isinstance(part, Mapping))
        if isinstance(piece, str) and piece:
            self._text.append(piece)
            if self._on_text is not None:
                self.has_begun = True
                self._on_text(clean(piece))

    def reasoning(self, name: str, piece: object) -> None:
        """A piece of what the model thinks, under the provider's name for it."""
        if isinstance(piece, str) and piece:
            self._fields.setdefault(name, []).append(piece)

    def call(self, key: object, *, call_id: object = None, name: object = None, arguments: object = None) -> None:
        """A piece of the call that ``key`` stands for; arguments as a text, or as the value itself."""
        call = self._calls.setdefault(self._key(key, call_id, name), {"id": [], "name": [], "arguments": []})
        if isinstance(call_id, str) and not call["id"]:
            call["id"].append(call_id)
        if isinstance(name, str) and not call["name"]:
            call["name"].append(name)
        if isinstance(arguments, str):
            call["arguments"].append(arguments)
        elif arguments is not None:
            call["arguments"].append(written_arguments(arguments))

    def _key(self, key: object, call_id: object, name: object) -> object:
        """Some servers give every call the same number: another name and id under it begin another call."""
        known = self._calls.get(self._newest.get(key, key))
        if known is not None and known["id"] and call_id and name and call_id != known["id"][0]:
            self._newest[key] = (key, call_id)
        return self._newest.get(key, key)

    def add_usage(self, reported: object) -> None:
        """Figures; later ones replace earlier ones of the same name."""
        if isinstance(reported, Mapping):
            self.usage.update({key: value for key, value in reported.items() if value is not None})

    @property
    def has_calls(self) -> bool:
        """Whether a call has begun, be it one without a name."""
        return bool(self._calls)

    def built(self) -> ModelAnswer:
        """The whole answer."""
        calls = (
            {
                "id": clean("".join(call["id"])),
                "name": clean("".join(call["name"])),
                "arguments": clean("".join(call["arguments"])) or "{}",
            }
            for _, call in sorted(self._calls.items(), key=_number)
            if call["name"]
        )
        return ModelAnswer(
            text=clean("".join(self._text)),
            calls=tuple(calls),
            usage=self.usage,
            finish=self.finish,
            fields={name: clean("".join(pieces)) for name, pieces in self._fields.items()},
        )


def _number(item: tuple[object, object]) -> int:
    """Calls stand in the order of their numbers, as far as they have any: pieces may come in another one."""
    key = item[0][0] if isinstance(item[0], tuple) else item[0]
    return key if isinstance(key, int) else 0


def written_arguments(value: object) -> str:
    """Arguments that came as a value, as a text. Numbers beyond JSON stay in it: whoever runs the tool refuses them."""
    try:
        return jsonio.encode(value).decode()
    except InvalidMessage:
        return json.dumps(value)


def decoded(data: bytes) -> dict[str, Any]:
    """A JSON object of an answer."""
    try:
        value = jsonio.decode(data.removeprefix(_BOM))
    except ValueError as error:
        raise NotJSON("answer", excerpt=excerpt(data)) from error
    if not isinstance(value, dict):
        raise NotJSON("answer", excerpt=excerpt(data))
    return value


def mapping(value: object) -> Mapping[str, Any]:
    """A part of an answer that should be an object; an empty one if it is not."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """A part of an answer that should be a list of objects; those that are."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def excerpt(data: bytes | str) -> str:
    """The beginning of something unexpected, in one line, for an error text."""
    text = data if isinstance(data, str) else data[: 4 * _EXCERPT].decode("utf-8", "replace")
    return " ".join(clean(text).split())[:_EXCERPT]
