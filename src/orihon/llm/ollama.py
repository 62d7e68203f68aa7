"""Ollama's own endpoint, ``/api/chat``.

Not its OpenAI-shaped one: only here can the window be set, and without ``num_ctx`` Ollama cuts long requests to its
default without a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from orihon.drivers.http import Response, shown_url
from orihon.errors import CutOff, NotJSON
from orihon.llm.answers import AnswerBuilder, excerpt, mapping, mappings
from orihon.llm.base import LLMClient, RequestOptions
from orihon.llm.openai import not_an_answer, piece_of
from orihon.llm.request_file import ViewLines, body, messages_of, separated
from orihon.llm.transport import endpoint, refusal_in_stream
from orihon.system import jsonio
from orihon.values.message.provider_shapes import ollama

_KINDS = ("application/x-ndjson", "application/json", "")
_USAGE = ("prompt_eval_count", "eval_count")


class OllamaClient(LLMClient):
    """Models in Ollama."""

    provider = "ollama"

    def _endpoint(self, base_url: str) -> str:
        return endpoint(base_url, "/api", "/chat", instead_of="/v1")

    def _body(self, view: ViewLines, options: RequestOptions) -> Iterator[bytes]:
        settings: dict[str, Any] = {"num_ctx": options.context_length}
        if options.max_tokens is not None:
            settings["num_predict"] = options.max_tokens
        if options.temperature is not None:
            settings["temperature"] = options.temperature
        fields = {"model": options.model, "stream": options.stream, "options": settings}
        messages = separated(jsonio.encode(ollama(message)) for message in messages_of(view))
        tools = separated(jsonio.encode(tool.as_openai()) for tool in options.tools)
        return body(fields, [("tools", tools), ("messages", messages)] if options.tools else [("messages", messages)])

    def _read(self, response: Response, builder: AnswerBuilder) -> None:
        if response.content_type not in _KINDS:
            raise not_an_answer(response, self._url)
        for line in response.lines():
            if line.strip():
                self._read_piece(piece_of(response, line, self._url), builder)
        if not builder.finish:
            raise CutOff("unfinished", url=shown_url(self._url))

    def _read_piece(self, piece: Mapping[str, Any], builder: AnswerBuilder) -> None:
        if piece.get("error"):
            raise refusal_in_stream(piece["error"], self._url, self._api_key)
        message = piece.get("message")
        if not isinstance(message, Mapping):
            raise NotJSON("shape", expected="message", excerpt=excerpt(jsonio.encode(piece)))
        builder.reasoning("thinking", message.get("thinking"))
        builder.text(message.get("content"))
        for call in mappings(message.get("tool_calls")):
            function = mapping(call.get("function"))
            key = object()  # a call comes in one piece
            builder.call(key, call_id=call.get("id"), name=function.get("name"), arguments=function.get("arguments"))
        if piece.get("done"):
            builder.finish = str(piece.get("done_reason") or "stop")
            builder.add_usage({name: piece.get(name) for name in _USAGE})
