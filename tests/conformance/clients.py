"""The one class that every model client has to pass, against a real HTTP server in its provider's dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, TaskKey
from orihon.errors import (
    BudgetExceeded,
    Overflow,
    ToolCallError,
)
from orihon.llm.base import LLMClient
from orihon.llm.scripted import Fault, Reply, ScriptedModel, ScriptedRequest, ScriptStep, overflowing
from orihon.values.tokens.tokens import estimate
from tests.conformance.client_behaviour import KEY, TOOL, ClientBehaviour, verify_store
from tests.conformance.client_faults import ClientFaults
from tests.helpers import refused


class ClientTalk(ClientBehaviour):
    """The conversation, its figures, and a view that is too long."""

    # ---- what goes out -------------------------------------------------------------------------------------------

    def test_the_view_goes_out_and_the_answer_comes_back(self, tmp_path: Path, stream: bool) -> None:
        with self.talking([Reply("Hällo 日本 and more words")], tmp_path, stream=stream) as (client, model):
            assert client.get_response() == ("Hällo 日本 and more words", [])
            (request,) = model.requests
            assert self.sent_texts(request) == ["Be careful.", '日本語 "quoted" \n line']
            assert request.is_streamed is stream
            assert request.body["model"] == "tiny"
            assert int(request.headers["content-length"]) == request.size
            assert "transfer-encoding" not in request.headers
            assert KEY in " ".join(request.headers.values())
            assert client.message_store is not None
            stored = [each.message for each in client.message_store.get_messages()]
            assert [(one.role, one.content) for one in stored[-1:]] == [("assistant", "Hällo 日本 and more words")]
            assert not (client.message_store.context_dir / "request.json").exists()

    def test_the_text_is_shown_as_it_comes(self, tmp_path: Path) -> None:
        pieces: list[str] = []
        with self.talking([Reply("one two three four", piece=4)], tmp_path) as (client, _):
            text, _calls = client.get_response(on_text=pieces.append)
        assert len(pieces) == 5
        assert "".join(pieces) == text

    def test_calls_and_results_make_the_round(self, tmp_path: Path, stream: bool) -> None:
        wanted = [("read_file", {"path": "設定.py"}), ("read_file", {"path": "b.py", "lines": [1, 2]})]
        script: list[ScriptStep] = [Reply("Reading.", calls=wanted), Reply("Read.")]
        with self.talking(script, tmp_path, stream=stream) as (client, model):
            text, calls = client.get_response()
            assert text == "Reading."
            assert [call["name"] for call in calls] == ["read_file"] * 2
            assert calls[0]["arguments"] == '{"path":"設定.py"}'
            assert len({call["id"] for call in calls}) == 2
            if self.sends_ids:
                assert [call["id"] for call in calls] == ["call_1", "call_2"]
            client.send_function_result("read_file", {"lines": ["あ"]})
            client.send_function_result("read_file", "second", tool_call_id=calls[1]["id"])
            assert client.get_response() == ("Read.", [])
            self.check_round(model.requests[1].body, calls)
            assert verify_store(client) == []

    def check_round(self, body: dict[str, Any], calls: list[dict[str, str]]) -> None:
        """The calls and their results are in the request, in the provider's shape."""
        *_, called, first, second = body["messages"]
        assert [call["function"]["name"] for call in called["tool_calls"]] == ["read_file"] * 2
        assert (first["content"], second["content"]) == ('{"lines":["あ"]}', "second")

    def test_tools_go_out_in_the_providers_shape(self, tmp_path: Path) -> None:
        with self.talking([Reply("ok")], tmp_path) as (client, model):
            client.get_response()
            self.check_tools(model.requests[0].body["tools"])

    def check_tools(self, tools: list[dict[str, Any]]) -> None:
        assert tools == [TOOL]

    def test_a_later_system_message_is_accepted_by_the_provider(self, tmp_path: Path) -> None:
        """Folds are system messages in the middle of a view."""
        with self.talking([Reply("ok")], tmp_path) as (client, model):
            client.send_system_prompt("Second thoughts.")
            client.send_user_message("Go on.")
            client.get_response()
            assert self.sent_texts(model.requests[0])[-2:] == ["Second thoughts.", "Go on."]
            self.check_roles([message["role"] for message in model.requests[0].body["messages"]])

    def check_roles(self, roles: list[str]) -> None:
        assert roles == ["system", "user", "system", "user"]

    def test_results_are_required_before_the_next_question(self, tmp_path: Path) -> None:
        with self.talking([Reply(calls=[("read_file", {})])], tmp_path) as (client, model):
            client.get_response()
            with refused(ToolCallError, "calls_open"):
                client.get_response()
            assert len(model.requests) == 1

    # ---- figures -------------------------------------------------------------------------------------------------

    def test_usage_is_counted_once_with_the_cached_part(self, tmp_path: Path, stream: bool) -> None:
        usage = {"input": 420, "output": 7, "cached": 100} if self.reports_cached else {"input": 420, "output": 7}
        with ScriptedModel([Reply("ok", usage=usage)]) as model:
            config = self.config(model)
            task = TaskContextManager(tmp_path, TaskKey("local", "me", "r", "issue", "1", "me"), config)
            tool = {"name": "read", "description": "Reads a file. " * 30}
            client = self.client_type(None, None, [tool], task_ctx=task, stream=stream)
            client.send_user_message("x" * 400)
            client.get_response()
            client.close()
            assert (client.last_usage.input, client.last_usage.output) == (420, 7)
            assert client.last_usage.cached == usage.get("cached", 0)
            row = task.catalogue.tasks.get(task.uuid)
            assert (row.llm_call_count, row.total_tokens) == (1, 427)
            tools = estimate(json.dumps(client.tools[0].as_openai(), separators=(",", ":")))
            assert task.correction.factor == pytest.approx((420 - tools) / 100)  # the tools are part of the request
            task.complete()
            task.catalogue.close()

    def test_without_a_task_the_store_learns_the_correction(self, tmp_path: Path) -> None:
        with self.talking([Reply("ok", usage={"input": 1000, "output": 1})], tmp_path) as (client, _):
            client.send_user_message("x" * 2000)
            client.get_response()
            assert client.message_store is not None
            assert 1.0 < client.message_store.correction.factor < 2.0

    def test_an_answer_without_usage_changes_nothing(self, tmp_path: Path, stream: bool) -> None:
        with self.talking([Reply("ok", usage={})], tmp_path, stream=stream) as (client, _):
            client.get_response()
            assert client.message_store is not None
            assert client.message_store.correction.factor == 1.0

    def test_reasoning_is_kept_with_the_answer(self, tmp_path: Path, stream: bool) -> None:
        with self.talking([Reply("42", reasoning="six times seven")], tmp_path, stream=stream) as (client, _):
            assert client.get_response() == ("42", [])
            assert client.message_store is not None
            assert "six times seven" in client.message_store.get_message(3).message.extra.values()

    # ---- overflow ------------------------------------------------------------------------------------------------

    def fill(self, client: LLMClient, turns: int = 30) -> None:
        for turn in range(turns):
            client.send_user_message(f"Question {turn}: what does module_{turn} do? " + "Words. " * 30)

    def test_a_view_that_has_grown_too_large_is_folded_before_it_is_sent(self, tmp_path: Path) -> None:
        with self.talking(lambda _: Reply("A short answer."), tmp_path) as (client, model):
            self.fill(client, 150)
            assert client.message_store is not None
            full = client.message_store.gauge.usage(client.message_store.get_current_token_count())
            assert full > 1
            assert client.get_response() == ("A short answer.", [])
            asked = [request for request in model.requests if "tools" in request.body]
            assert len(asked) == 1
            assert asked[0].size < 4 * client.message_store.gauge.budget.tokens
            assert self.sent_texts(asked[0])[0] == "Be careful."
            assert verify_store(client) == []

    def test_too_many_tokens_a_minute_are_no_overflow(self, tmp_path: Path) -> None:
        throttled = Fault(429, {"error": {"message": "Too many tokens, please wait before trying again."}})
        with self.talking([throttled, Reply("ok")], tmp_path) as (client, _):
            assert client.get_response() == ("ok", [])
            assert client.message_store is not None
            assert client.message_store.compressions() == []

    def test_an_overflow_leads_to_one_compression_and_one_more_attempt(self, tmp_path: Path) -> None:
        def script(request: ScriptedRequest) -> ScriptStep:
            if "tools" not in request.body:
                return Reply("A short summary.")  # the compressor asks for one
            return overflowing(request) if request.number == 1 else Reply("fits")

        with self.talking(script, tmp_path) as (client, model):
            self.fill(client)
            assert client.get_response() == ("fits", [])
            asked = [request for request in model.requests if "tools" in request.body]
            assert len(asked) == 2
            assert asked[1].size < 0.7 * asked[0].size
            assert client.message_store is not None
            assert [record.kind for record in client.message_store.compressions()] == ["compress"]
            assert verify_store(client) == []

    def test_a_second_overflow_is_told(self, tmp_path: Path) -> None:
        with self.talking(lambda request: overflowing(request), tmp_path) as (client, model):
            self.fill(client)
            self.fails(client, Overflow, "window")
            assert len([request for request in model.requests if "tools" in request.body]) == 2

    def test_an_overflow_that_nothing_can_be_done_about(self, tmp_path: Path) -> None:
        with self.talking(lambda request: overflowing(request), tmp_path) as (client, model):
            with pytest.raises((Overflow, BudgetExceeded)):
                client.get_response()
            assert len(model.requests) == 1

    # ---- beside the conversation ---------------------------------------------------------------------------------

    def test_one_request_outside_the_conversation(self, tmp_path: Path) -> None:
        with self.talking([Reply("Short.", finish=self.length_word())], tmp_path) as (client, model):
            messages = [{"role": "system", "content": "Summarize."}, {"role": "user", "content": "Much."}]
            answer = client.create_chat_completion(messages, max_tokens=50, temperature=0.0)
            assert answer["choices"][0]["message"]["content"] == "Short."
            assert answer["choices"][0]["finish_reason"] == "length"
            assert "tools" not in model.requests[0].body
            assert self.sent_texts(model.requests[0]) == ["Summarize.", "Much."]
            assert client.message_store is not None
            assert client.message_store.count_messages() == 2

    def length_word(self) -> str:
        return "length"


class ClientConformance(ClientTalk, ClientFaults):
    """Every behaviour that a client promises."""
