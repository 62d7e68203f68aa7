"""The wire of OpenAI Chat Completions, and of the many servers that speak alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from orihon.llm.answers import mapping, mappings
from orihon.proxy.wire import Answer, AnswerReader, Element, Wire, WireEntry, call_said, texts
from orihon.values.message.message import Message

_REASONING = ("reasoning_content", "reasoning")


class ChatWire(Wire):
    """``/v1/chat/completions``."""

    name = "chat"
    path = "/v1/chat/completions"
    array = "messages"
    provider = "openai"

    def _said(self, entry: WireEntry) -> Any:
        calls = [
            call_said(call.get("id"), function.get("name"), function.get("arguments"))
            for call in mappings(entry.get("tool_calls"))
            for function in (mapping(call.get("function") or call.get("custom")),)
        ]
        if isinstance(old := entry.get("function_call"), Mapping):
            calls.append(call_said(None, old.get("name"), old.get("arguments")))
        return [entry.get("role"), texts(entry.get("content")), calls, entry.get("tool_call_id")]

    def _messages(self, element: Element) -> list[Message]:
        return [*Message.from_chat(element.main).as_chat()]

    def note_entry(self, text: str) -> WireEntry:
        return {"role": "user", "content": text}

    def partly(self, element: Element, states: Sequence[str | bool | None]) -> list[WireEntry]:
        (state,) = states
        return [{**element.main, "content": state}] if isinstance(state, str) else []

    def called(self, entry: WireEntry) -> Iterable[str]:
        return (str(call.get("id")) for call in mappings(entry.get("tool_calls")))

    def answered(self, entry: WireEntry) -> Iterable[str]:
        return (str(entry["tool_call_id"]),) if entry.get("role") == "tool" and "tool_call_id" in entry else ()

    def without(self, entry: WireEntry, ids: set[str]) -> WireEntry | None:
        if entry.get("role") == "tool":
            return None
        kept = [call for call in mappings(entry.get("tool_calls")) if str(call.get("id")) not in ids]
        rest = {key: value for key, value in entry.items() if key != "tool_calls"}
        if kept:
            return {**rest, "tool_calls": kept}
        return rest if texts(entry.get("content")) else None

    def reader(self) -> AnswerReader:
        return _ChatReader()

    def whole(self, body: Mapping[str, Any]) -> Answer:
        choices = mappings(body.get("choices"))
        message = mapping(choices[0].get("message")) if choices else {}
        return Answer(
            elements=[Element(({"role": "assistant", **message},))] if message else [],
            usage=dict(mapping(body.get("usage"))),
            model=str(body.get("model") or ""),
            id=str(body.get("id") or ""),
            is_complete=bool(message),
        )

    def error(self, status: int, kind: str, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


class _ChatReader(AnswerReader):
    """``chat.completion.chunk`` after chunk; only the first choice is the conversation's."""

    def __init__(self) -> None:
        super().__init__()
        self._text: list[str] = []
        self._reasoning: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._has_begun = False

    def event(self, data: Mapping[str, Any]) -> None:
        self.answer.model = str(data.get("model") or self.answer.model)
        self.answer.id = str(data.get("id") or self.answer.id)
        self.answer.usage.update(mapping(data.get("usage")))
        for choice in mappings(data.get("choices")):
            if choice.get("index", 0) == 0:
                self._delta(mapping(choice.get("delta")))
                self.answer.is_complete = self.answer.is_complete or choice.get("finish_reason") is not None

    def _delta(self, delta: Mapping[str, Any]) -> None:
        self._has_begun = self._has_begun or bool(delta)
        if isinstance(delta.get("content"), str):
            self._text.append(delta["content"])
        for name in _REASONING:
            if isinstance(delta.get(name), str):
                self._reasoning.setdefault(name, []).append(delta[name])
        for place, piece in enumerate(mappings(delta.get("tool_calls"))):
            number = piece.get("index")
            known = self._calls.setdefault(
                number if isinstance(number, int) else place, {"id": "", "name": "", "arguments": []}
            )
            function = mapping(piece.get("function"))
            known["id"] = known["id"] or str(piece.get("id") or "")
            known["name"] = known["name"] or str(function.get("name") or "")
            if isinstance(function.get("arguments"), str):
                known["arguments"].append(function["arguments"])

    def built(self) -> Answer:
        if self._has_begun:
            message: dict[str, Any] = {"role": "assistant", "content": "".join(self._text) or None}
            message |= {name: "".join(pieces) for name, pieces in self._reasoning.items()}
            if self._calls:
                message["tool_calls"] = [_call(self._calls[number]) for number in sorted(self._calls)]
            self.answer.elements = [Element((message,))]
        return self.answer


def _call(known: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": known["name"], "arguments": "".join(known["arguments"])}
    return {"id": known["id"], "type": "function", "function": function}
