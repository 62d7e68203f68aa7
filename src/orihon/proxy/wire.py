"""``Wire``: one way of speaking with a model over HTTP, as far as the proxy has to understand it.

What a client sends is an array of *entries* among other fields. Entries that stand or fall together are one *element*:
a step of the conversation that is compared, kept and folded as one. Whatever is not understood passes untouched: an
element keeps its entries as they came, and only a fold or a preview ever stands in their place.

Two elements are the same step if they say the same, however they say it: a text or a list of one text, ``null`` or
``""``, with or without marks for the prompt cache, with or without the model's own thinking.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from orihon.errors import OrihonError
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX

WireEntry = Mapping[str, Any]

SYSTEM_ROLES = ("system", "developer")
#: Marks for the prompt cache: where they stand says nothing about what is said.
_CACHE_MARK = "cache_control"
#: What agents put beside the newest message and leave out of the next request.
_REMINDER = re.compile(r"\s*(?:<system-reminder>(?:(?!</system-reminder>).)*</system-reminder>\s*)+", re.DOTALL)
_FAMILY_CHARACTERS = 64


@dataclass(frozen=True, slots=True)
class Element:
    """One step as the client wrote it."""

    entries: tuple[WireEntry, ...]

    @property
    def main(self) -> WireEntry:
        """The entry that says something; what belongs to it stands before it."""
        return self.entries[-1]


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """A request taken apart: the leading entries that are the system's, then the steps."""

    system: tuple[str, ...]  # what the system says, wherever the wire has it
    head: tuple[WireEntry, ...]  # leading entries of the array that belong to it
    elements: tuple[Element, ...]

    @property
    def family(self) -> str:
        """How the longest text of the system begins: agents keep it, and write dates and folders further down."""
        longest = max(self.system, key=len, default="")
        return "".join(filter(str.isalpha, longest[: 4 * _FAMILY_CHARACTERS]))[:_FAMILY_CHARACTERS]


@dataclass(slots=True)
class Answer:
    """What came back, put together."""

    elements: list[Element] = field(default_factory=list)
    usage: dict[str, Any] = field(default_factory=dict)
    model: str = ""
    id: str = ""
    is_complete: bool = False  # the provider has said that this is all


class AnswerReader(ABC):
    """Puts an answer together from the events of a stream."""

    def __init__(self) -> None:
        self.answer = Answer()

    @abstractmethod
    def event(self, data: Mapping[str, Any]) -> None:
        """One event."""

    def built(self) -> Answer:
        """What there is by now."""
        return self.answer

    def is_last(self, data: bytes) -> bool:
        """Does this line of the stream say that it is over?"""
        return data.strip() == b"[DONE]"


class Wire(ABC):
    """One way of speaking."""

    name: str
    path: str
    #: The field of the request that holds the entries.
    array: str
    #: The upstream that speaks it unless another one is set.
    provider: str

    def asked(self, body: Mapping[str, Any]) -> ParsedRequest | None:
        """The request taken apart; ``None`` for one that nobody could understand, which passes as it is."""
        entries = self._entries(body)
        if entries is None:
            return None
        start = 0
        while start < len(entries) and entries[start].get("role") in SYSTEM_ROLES:
            start += 1
        head = tuple(entries[:start])
        spoken = [*self._beside(body), *(_plain_text(entry.get("content")) for entry in head)]
        return ParsedRequest(tuple(said for said in spoken if said), head, tuple(self._elements(entries[start:])))

    def _entries(self, body: Mapping[str, Any]) -> list[WireEntry] | None:
        entries = body.get(self.array)
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            return None
        return entries

    def _elements(self, entries: Iterable[WireEntry]) -> Iterable[Element]:
        return (Element((entry,)) for entry in entries)

    def _beside(self, body: Mapping[str, Any]) -> Iterable[str]:
        """What the system says outside of the array."""
        return ()

    def with_entries(self, body: Mapping[str, Any], entries: Sequence[WireEntry]) -> dict[str, Any]:
        """The request with other entries."""
        return {**body, self.array: list(entries)}

    def said(self, element: Element) -> bytes:
        """What a step says, in one spelling for all the ways in which clients write it."""
        return jsonio.encode(self._said(element.main))

    @abstractmethod
    def _said(self, entry: WireEntry) -> Any: ...

    def messages(self, element: Element) -> list[Message]:
        """The step as messages of a log; one that is beyond understanding is kept as its JSON."""
        try:
            return self._messages(element)
        except (OrihonError, KeyError, TypeError, AttributeError, ValueError):
            role = "assistant" if element.main.get("role") == "assistant" else "user"
            return [Message(role, jsonio.encode(list(element.entries)).decode())]

    @abstractmethod
    def _messages(self, element: Element) -> list[Message]: ...

    def fold_entry(self, text: str) -> WireEntry:
        """An entry that stands for a run of others: in the user's place, never with the system's weight."""
        return self.note_entry(SUMMARY_PREFIX + text)

    @abstractmethod
    def note_entry(self, text: str) -> WireEntry:
        """An entry of ours, in the user's place."""

    @abstractmethod
    def partly(self, element: Element, states: Sequence[str | bool | None]) -> list[WireEntry]:
        """The entries of a step of which some messages are shown (True), some hidden (None), some shortened (text)."""

    @abstractmethod
    def called(self, entry: WireEntry) -> Iterable[str]:
        """The ids of the tool calls that an entry makes."""

    @abstractmethod
    def answered(self, entry: WireEntry) -> Iterable[str]:
        """The ids of the calls that an entry answers."""

    @abstractmethod
    def without(self, entry: WireEntry, ids: set[str]) -> WireEntry | None:
        """The entry without these calls and results; ``None`` when nothing is left of it."""

    @abstractmethod
    def reader(self) -> AnswerReader:
        """For an answer that comes in pieces."""

    @abstractmethod
    def whole(self, body: Mapping[str, Any]) -> Answer:
        """An answer that came at once."""

    @abstractmethod
    def error(self, status: int, kind: str, message: str) -> dict[str, Any]:
        """An error of ours in the shape that clients of this wire read."""

    def tools(self, body: Mapping[str, Any]) -> list[Any]:
        """Definitions of tools, wherever the client has put them."""
        given = body.get("tools")
        inside = [entry for entry in self._entries(body) or () if entry.get("type") == "additional_tools"]
        return [*(given if isinstance(given, list) else ()), *inside]

    def most_output(self, body: Mapping[str, Any]) -> int:
        """Tokens that the answer may have, as far as the request says so."""
        for name in ("max_completion_tokens", "max_output_tokens", "max_tokens"):
            value = body.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return 0


def texts(content: Any) -> list[Any]:
    """What a content says: texts trimmed, anything else as it is but for the marks of the cache."""
    if content is None:
        return []
    if isinstance(content, str):
        return [content.strip()] if content.strip() else []
    if not isinstance(content, list):
        return [content]
    return [said for said in map(_block, content) if said is not None]


def _block(block: Any) -> Any:
    if not isinstance(block, Mapping):
        return block
    text = block.get("text")
    if isinstance(text, str) and str(block.get("type", "text")).endswith("text"):
        return None if not text.strip() or _REMINDER.fullmatch(text) else text.strip()
    return {key: value for key, value in sorted(block.items()) if key != _CACHE_MARK}


def call_said(call_id: Any, name: Any, arguments: Any) -> list[Any]:
    """A call in one spelling. Its id says which one it is: agents add defaults to the arguments that they send back."""
    if call_id:
        return [call_id, name]
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = jsonio.decode(arguments or "{}")
    return ["", name, arguments]


def _plain_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block, Mapping) and "text" in block)


def first_words(asked: ParsedRequest) -> str:
    """What a person asked first: for a title. Without what agents put around it."""
    for element in asked.elements:
        if element.main.get("role") == "user":
            for said in texts(element.main.get("content")):
                if isinstance(said, str) and not said.startswith(("<", "#")):
                    return said
    return ""
