"""The wire of OpenAI Responses: items, each an entry of its own, with reasoning before what it led to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orihon.importers.answers import joined
from orihon.llm.answers import mapping, mappings
from orihon.proxy.wire import Answer, AnswerReader, Element, Wire, WireEntry, call_said, texts
from orihon.values.message.extra import notes_of
from orihon.values.message.message import Message

_ENDED = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
#: What a client leaves out, or writes differently, when it sends an item back.
_ENVELOPE = ("id", "status", "internal_chat_message_metadata_passthrough")


class ResponsesWire(Wire):
    """``/v1/responses``."""

    name = "responses"
    path = "/v1/responses"
    array = "input"
    provider = "openai"

    def _entries(self, body: Mapping[str, Any]) -> list[WireEntry] | None:
        given = body.get("input")
        if isinstance(given, str):
            return [{"role": "user", "content": given}]
        return super()._entries(body)

    def _elements(self, entries: Iterable[WireEntry]) -> Iterator[Element]:
        """Reasoning belongs to the item that follows it: one without the other is refused."""
        waiting: list[WireEntry] = []
        for entry in entries:
            waiting.append(entry)
            if entry.get("type") != "reasoning":
                yield Element(tuple(waiting))
                waiting = []
        if waiting:
            yield Element(tuple(waiting))

    def _beside(self, body: Mapping[str, Any]) -> Iterable[str]:
        said = body.get("instructions")
        return (said,) if isinstance(said, str) else ()

    def _said(self, entry: WireEntry) -> Any:
        kind = str(entry.get("type") or ("message" if "role" in entry else "item_reference"))
        if kind == "message":
            return [entry.get("role"), texts(entry.get("content"))]
        if kind.endswith("_call_output"):
            return ["output", entry.get("call_id"), texts(entry.get("output"))]
        if kind in ("function_call", "custom_tool_call"):
            asked = entry.get("arguments") if kind == "function_call" else entry.get("input")
            return ["call", *call_said(entry.get("call_id"), entry.get("name"), asked)]
        if kind == "reasoning":
            return ["reasoning"]
        if kind == "item_reference":
            return ["reference", entry.get("id")]
        return [kind, {key: value for key, value in sorted(entry.items()) if key not in _ENVELOPE}]

    def _messages(self, element: Element) -> list[Message]:
        pieces = [message for entry in element.entries for message in Message.from_responses(entry).as_chat()]
        return [joined(pieces)] if len(pieces) > 1 else pieces

    def note_entry(self, text: str) -> WireEntry:
        content = [{"type": "input_text", "text": text}]
        return {"type": "message", "role": "user", "content": content}

    def partly(self, element: Element, states: Sequence[str | bool | None]) -> list[WireEntry]:
        (state,) = states
        if not isinstance(state, str):
            return []
        main = element.main
        kind = str(main.get("type") or "message")
        if kind.endswith("_call_output"):
            return [*element.entries[:-1], {**main, "output": state}]
        if kind != "message":
            return [*element.entries]
        text_type = "output_text" if main.get("role") == "assistant" else "input_text"
        return [*element.entries[:-1], {**main, "content": [{"type": text_type, "text": state}]}]

    def called(self, entry: WireEntry) -> Iterable[str]:
        kind = str(entry.get("type") or "")
        return (str(entry["call_id"]),) if kind.endswith("_call") and "call_id" in entry else ()

    def answered(self, entry: WireEntry) -> Iterable[str]:
        kind = str(entry.get("type") or "")
        return (str(entry["call_id"]),) if kind.endswith("_call_output") and "call_id" in entry else ()

    def without(self, entry: WireEntry, ids: set[str]) -> WireEntry | None:
        return None

    def reader(self) -> AnswerReader:
        return _ResponsesReader(self)

    def whole(self, body: Mapping[str, Any]) -> Answer:
        output = mappings(body.get("output"))
        return Answer(
            elements=list(self._elements(output)),
            usage=dict(mapping(body.get("usage"))),
            model=str(body.get("model") or ""),
            id=str(body.get("id") or ""),
            is_complete=body.get("status") in ("completed", "incomplete", None) and bool(output),
        )

    def error(self, status: int, kind: str, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


class _ResponsesReader(AnswerReader):
    """Items as they are done; the last event has them all once more."""

    def __init__(self, wire: ResponsesWire) -> None:
        super().__init__()
        self._wire = wire
        self._done: dict[int, Mapping[str, Any]] = {}
        self._texts: dict[int, list[str]] = {}

    def is_last(self, data: bytes) -> bool:
        return any(f'"{name}"'.encode() in data for name in _ENDED)

    def event(self, data: Mapping[str, Any]) -> None:
        kind = data.get("type")
        place = data.get("output_index")
        number = place if isinstance(place, int) else len(self._done)
        if kind == "response.created":
            response = mapping(data.get("response"))
            self.answer.id = str(response.get("id") or "")
            self.answer.model = str(response.get("model") or "")
        elif kind == "response.output_item.done":
            self._done[number] = mapping(data.get("item"))
        elif kind == "response.output_text.delta":
            self._texts.setdefault(number, []).append(str(data.get("delta") or ""))
        elif kind in _ENDED:
            whole = self._wire.whole(mapping(data.get("response")))
            if whole.elements or not self._done:
                self.answer = whole
            else:  # some leave the items out of the last event
                self.answer.usage = whole.usage
            self.answer.is_complete = kind in _ENDED[:2]

    def built(self) -> Answer:
        if not self.answer.elements:
            unfinished = {
                number: {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "".join(said)}],
                }
                for number, said in self._texts.items()
            }
            items = unfinished | self._done
            self.answer.elements = list(self._wire._elements(items[number] for number in sorted(items)))
        return self.answer


def items_of(message: Message) -> list[WireEntry]:
    """A message of the log as items: for a conversation that the client only points at."""
    items: list[WireEntry] = [*notes_of(message.extra).get("reasoning", ())]
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.text}]
    if message.text:
        text_type = "output_text" if message.role == "assistant" else "input_text"
        content = [{"type": text_type, "text": message.text}]
        items.append({"type": "message", "role": message.role, "content": content})
    for call in message.tool_calls:
        items.append({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments})
    return items
