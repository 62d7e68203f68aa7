"""Anthropic's messages: the system prompt apart, tool calls and results as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orihon.drivers.http import Response, shown_url
from orihon.errors import CutOff, NotJSON
from orihon.llm.answers import AnswerBuilder, excerpt, mapping, mappings
from orihon.llm.base import LLMClient, RequestOptions
from orihon.llm.openai import not_an_answer, piece_of
from orihon.llm.request_file import ViewLines, body, messages_of, separated
from orihon.llm.transport import endpoint, events, refusal_in_stream
from orihon.system import jsonio
from orihon.values.message.provider_shapes import anthropic_messages, anthropic_system

_VERSION = "2023-06-01"
_FINISHES = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}


class AnthropicClient(LLMClient):
    """Claude."""

    provider = "anthropic"
    key_hosts = ("api.anthropic.com",)

    def _endpoint(self, base_url: str) -> str:
        return endpoint(base_url, "/v1", "/messages")

    def _headers(self, api_key: str | None) -> dict[str, str]:
        return {"anthropic-version": _VERSION, **({"x-api-key": api_key} if api_key else {})}

    def _body(self, view: ViewLines, options: RequestOptions) -> Iterator[bytes]:
        fields: dict[str, Any] = {
            "model": options.model,
            "stream": options.stream,
            "max_tokens": options.max_tokens or self._section.output_reserve(options.context_length),
        }
        if options.temperature is not None:
            fields["temperature"] = options.temperature
        if options.tools:
            fields["tools"] = [tool.as_anthropic() for tool in options.tools]
        system, rest = anthropic_system(messages_of(view))
        lists = [("system", separated(map(jsonio.encode, system)))] if system else []
        return body(fields, [*lists, ("messages", anthropic_messages(rest))])

    def _read(self, response: Response, builder: AnswerBuilder) -> None:
        if response.content_type == "text/event-stream":
            for data in events(response.lines()):
                if self._read_event(piece_of(response, data, self._url), builder):
                    return
            raise CutOff("unfinished", url=shown_url(self._url))
        if not response.content_type.endswith("json") and response.content_type:
            raise not_an_answer(response, self._url)
        self._read_whole(piece_of(response, response.read(), self._url), builder)

    def _read_whole(self, message: Mapping[str, Any], builder: AnswerBuilder) -> None:
        if message.get("type") == "error":
            raise refusal_in_stream(message.get("error"), self._url, self._api_key)
        blocks = message.get("content")
        if not isinstance(blocks, list):
            raise NotJSON("shape", expected="content", excerpt=excerpt(jsonio.encode(message)))
        for index, block in enumerate(mappings(blocks)):
            _start(index, block, builder)
            if block.get("type") == "tool_use":
                builder.call(index, arguments=block.get("input", {}))
        builder.add_usage(message.get("usage"))
        builder.finish = _finish(message)

    def _read_event(self, event: Mapping[str, Any], builder: AnswerBuilder) -> bool:
        """Take one event; was it the last?"""
        match event.get("type"):
            case "error":
                raise refusal_in_stream(event.get("error"), self._url, self._api_key)
            case "message_start":
                builder.add_usage(mapping(event.get("message")).get("usage"))
            case "content_block_start":
                block = mapping(event.get("content_block"))
                _start(str(event.get("index")), block, builder)
                if block.get("input"):  # most send it in pieces afterwards, and an empty one here
                    builder.call(str(event.get("index")), arguments=block["input"])
            case "content_block_delta":
                _add(str(event.get("index")), mapping(event.get("delta")), builder)
            case "message_delta":
                builder.finish = _finish(mapping(event.get("delta"))) or builder.finish
                builder.add_usage(event.get("usage"))
            case "message_stop":
                return True
        return False


def _start(index: object, block: Mapping[str, Any], builder: AnswerBuilder) -> None:
    match block.get("type"):
        case "text":
            builder.text(block.get("text"))
        case "thinking":
            builder.reasoning("reasoning_content", block.get("thinking"))
        case "tool_use":
            builder.call(index, call_id=block.get("id"), name=block.get("name"))


def _add(index: object, delta: Mapping[str, Any], builder: AnswerBuilder) -> None:
    match delta.get("type"):
        case "text_delta":
            builder.text(delta.get("text"))
        case "thinking_delta":
            builder.reasoning("reasoning_content", delta.get("thinking"))
        case "input_json_delta":
            builder.call(index, arguments=delta.get("partial_json"))


def _finish(message: Mapping[str, Any]) -> str:
    reason = str(message.get("stop_reason") or "")
    return _FINISHES.get(reason, reason)
