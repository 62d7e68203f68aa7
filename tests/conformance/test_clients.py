"""Every client behaves as a client must, in the dialect of its provider."""

from __future__ import annotations

import json
from typing import Any

from orihon.llm.anthropic import AnthropicClient
from orihon.llm.ollama import OllamaClient
from orihon.llm.openai import LMStudioClient, OpenAIClient
from tests.conformance.client_behaviour import TOOL
from tests.conformance.clients import ClientConformance


class TestOpenAI(ClientConformance):
    client_type = OpenAIClient


class TestLMStudio(ClientConformance):
    client_type = LMStudioClient

    def check_roles(self, roles: list[str]) -> None:
        assert roles == ["system", "user", "user", "user"]  # its templates take one system message


class TestOllama(ClientConformance):
    client_type = OllamaClient
    sends_ids = False
    reports_cached = False
    names_errors = False

    def stream_type(self) -> str:
        return "application/x-ndjson"

    def unfinished(self) -> str:
        return '{"message":{"role":"assistant","content":"half"},"done":false}\n'

    def stream_error(self, said: str, kind: str = "") -> str:
        return json.dumps({"error": said}) + "\n"


class TestAnthropic(ClientConformance):
    client_type = AnthropicClient

    def check_round(self, body: dict[str, Any], calls: list[dict[str, str]]) -> None:
        *_, called, results = body["messages"]
        assert called["role"] == "assistant"
        assert [block["type"] for block in called["content"]] == ["text", "tool_use", "tool_use"]
        assert [block["input"] for block in called["content"][1:]] == [
            {"path": "設定.py"},
            {"path": "b.py", "lines": [1, 2]},
        ]
        assert results["role"] == "user"
        assert [block["tool_use_id"] for block in results["content"]] == [call["id"] for call in calls]
        assert results["content"][0]["content"] == [{"type": "text", "text": '{"lines":["あ"]}'}]

    def check_tools(self, tools: list[dict[str, Any]]) -> None:
        function = TOOL["function"]
        assert isinstance(function, dict)
        schema = function["parameters"]
        assert tools == [{"name": "read_file", "description": "Read.", "input_schema": schema}]

    def check_roles(self, roles: list[str]) -> None:
        assert roles == ["user"]  # neighbours are one message; the prompt stands apart

    def sent_texts(self, request: Any) -> list[str]:
        blocks = [block for message in request.body["messages"] for block in message["content"]]
        return [block["text"] for block in (*request.body.get("system", []), *blocks)]

    def unfinished(self) -> str:
        delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half"}}
        return f"event: content_block_delta\ndata: {json.dumps(delta)}\n\n"

    def stream_error(self, said: str, kind: str = "invalid_request_error") -> str:
        error = {"type": "error", "error": {"type": kind, "message": said}}
        return f"event: error\ndata: {json.dumps(error)}\n\n"

    def length_word(self) -> str:
        return "max_tokens"
