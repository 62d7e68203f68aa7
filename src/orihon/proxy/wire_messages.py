"""The wire of Anthropic Messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orihon.llm.answers import mapping, mappings
from orihon.proxy.wire import Answer, AnswerReader, Element, Wire, WireEntry, call_said, texts
from orihon.system import jsonio
from orihon.values.message.message import Message

_THINKING = ("thinking", "redacted_thinking")


class MessagesWire(Wire):
    """``/v1/messages``."""

    name = "messages"
    path = "/v1/messages"
    array = "messages"
    provider = "anthropic"

    def _beside(self, body: Mapping[str, Any]) -> Iterable[str]:
        system = body.get("system")
        if isinstance(system, str):
            return (system,)
        return (str(block.get("text") or "") for block in mappings(system))

    def _said(self, entry: WireEntry) -> Any:
        content = entry.get("content")
        blocks = mappings(content) if isinstance(content, list) else [{"type": "text", "text": content or ""}]
        return [entry.get("role"), [said for block in blocks if (said := _block_said(block))]]

    def _messages(self, element: Element) -> list[Message]:
        return [*Message.from_anthropic(element.main).as_chat()]

    def note_entry(self, text: str) -> WireEntry:
        return {"role": "user", "content": [{"type": "text", "text": text}]}

    def partly(self, element: Element, states: Sequence[str | bool | None]) -> list[WireEntry]:
        """Results come first in the log, whatever order they have here; everything else is one message after them."""
        entry = element.main
        content = entry.get("content")
        blocks = mappings(content) if isinstance(content, list) else [{"type": "text", "text": content}]
        results = iter(states)
        shown = {
            number: next(results, True) for number, block in enumerate(blocks) if block.get("type") == "tool_result"
        }
        rest = next(results, True)
        kept: list[WireEntry] = []
        for number, block in enumerate(blocks):
            state = shown.get(number, rest)
            if state is True:
                kept.append(block)
            elif isinstance(state, str) and number in shown:
                kept.append({**block, "content": state})
            elif isinstance(state, str):
                kept.extend(_shortened(block, state, is_first=not any(map(_is_text, blocks[:number]))))
        return [{**entry, "content": kept}] if kept else []

    def called(self, entry: WireEntry) -> Iterable[str]:
        return (str(block.get("id")) for block in _blocks(entry) if block.get("type") == "tool_use")

    def answered(self, entry: WireEntry) -> Iterable[str]:
        return (str(block.get("tool_use_id")) for block in _blocks(entry) if block.get("type") == "tool_result")

    def without(self, entry: WireEntry, ids: set[str]) -> WireEntry | None:
        kept = [block for block in _blocks(entry) if not {str(block.get("id")), str(block.get("tool_use_id"))} & ids]
        return {**entry, "content": kept} if any(block.get("type") not in _THINKING for block in kept) else None

    def reader(self) -> AnswerReader:
        return _MessagesReader()

    def whole(self, body: Mapping[str, Any]) -> Answer:
        content = body.get("content")
        return Answer(
            elements=[Element(({"role": "assistant", "content": content},))] if isinstance(content, list) else [],
            usage=dict(mapping(body.get("usage"))),
            model=str(body.get("model") or ""),
            id=str(body.get("id") or ""),
            is_complete=isinstance(content, list),
        )

    def error(self, status: int, kind: str, message: str) -> dict[str, Any]:
        return {"type": "error", "error": {"type": kind, "message": message}}


class _MessagesReader(AnswerReader):
    """Blocks that begin, grow and end."""

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, dict[str, Any]] = {}
        self._inputs: dict[int, list[str]] = {}
        self._has_begun = False

    def is_last(self, data: bytes) -> bool:
        return b"message_stop" in data

    def event(self, data: Mapping[str, Any]) -> None:
        match data.get("type"):
            case "message_start":
                message = mapping(data.get("message"))
                self._has_begun = True
                self.answer.model = str(message.get("model") or "")
                self.answer.id = str(message.get("id") or "")
                self.answer.usage.update(mapping(message.get("usage")))
            case "content_block_start":
                self._blocks[_index(data)] = dict(mapping(data.get("content_block")))
            case "content_block_delta":
                self._delta(_index(data), mapping(data.get("delta")))
            case "message_delta":
                said = mapping(data.get("usage"))
                self.answer.usage.update({name: value for name, value in said.items() if value is not None})
                has_ended = mapping(data.get("delta")).get("stop_reason") is not None
                self.answer.is_complete = self.answer.is_complete or has_ended
            case "message_stop":
                self.answer.is_complete = True

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        match delta.get("type"):
            case "input_json_delta":
                self._inputs.setdefault(index, []).append(str(delta.get("partial_json") or ""))
            case "citations_delta":
                block.setdefault("citations", []).append(delta.get("citation"))
            case "text_delta" | "thinking_delta" | "signature_delta":
                name = str(delta["type"]).removesuffix("_delta")
                block[name] = str(block.get(name) or "") + str(delta.get(name) or "")

    def built(self) -> Answer:
        if self._has_begun:
            for index, pieces in self._inputs.items():
                if index in self._blocks and "".join(pieces):
                    self._blocks[index]["input"] = _input("".join(pieces))
            self._inputs.clear()
            blocks = [self._blocks[index] for index in sorted(self._blocks)]
            self.answer.elements = [Element(({"role": "assistant", "content": blocks},))] if blocks else []
        return self.answer


def _blocks(entry: WireEntry) -> list[Mapping[str, Any]]:
    return mappings(entry.get("content"))


def _block_said(block: Mapping[str, Any]) -> Any:
    kind = block.get("type")
    if kind in _THINKING:
        return None
    if kind == "tool_use":
        return ["use", *call_said(block.get("id"), block.get("name"), block.get("input"))]
    if kind == "tool_result":
        return ["result", block.get("tool_use_id"), texts(block.get("content")), bool(block.get("is_error"))]
    return texts([block])


def _shortened(block: WireEntry, text: str, *, is_first: bool) -> list[WireEntry]:
    """A block of a message whose words are shortened: the first text has the new words, later ones go."""
    if not _is_text(block):
        return [block]
    return [{"type": "text", "text": text}] if is_first else []


def _is_text(block: WireEntry) -> bool:
    return block.get("type") == "text"


def _index(data: Mapping[str, Any]) -> int:
    index = data.get("index")
    return index if isinstance(index, int) else 0


def _input(written: str) -> Any:
    """The arguments of a call; of one that was cut off, its text."""
    try:
        return jsonio.decode(written)
    except ValueError:
        return {"cut_off": written}
