"""Clients made by their constructors: what a configuration says is obeyed, however it is written, or refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from orihon import LLMClient, LLMResponseCache, LMStudioClient, OllamaClient, OpenAIClient, ToolStore, get_llm_client
from orihon.errors import InvalidSettings, LLMError
from orihon.llm.scripted import Fault, Reply, ScriptedModel, ScriptedRequest, ScriptStep, overflowing
from orihon.values.tokens.tokens import Correction
from tests.helpers import refused


@pytest.mark.parametrize("kind", [OpenAIClient, OllamaClient, LMStudioClient])
def test_the_flat_form_of_the_first_design_is_read(kind: type[LLMClient]) -> None:
    client = kind({"model": "my-local", "base_url": "http://127.0.0.1:9/v1", "context_length": 9999, "max_token": 77})
    assert (client.model, client.context_length, client.max_token) == ("my-local", 9999, 77)
    assert "127.0.0.1:9" in client._url
    assert not client.use_file_storage
    assert client.compressor is None
    client.close()


def test_all_that_the_first_design_hands_over_flat_has_an_effect(tmp_path: Path) -> None:
    flat = {
        "model": "my-local",
        "base_url": "http://127.0.0.1:9/v1",
        "context_length": 9999,
        "max_memory_messages": 7,
        "compression_threshold": 0.5,
        "min_messages_to_summarize": 3,
        "context_dir": tmp_path / "task",
    }
    client = OpenAIClient(flat)
    settings = client.settings
    assert settings.context_storage.max_memory_messages == 7
    assert settings.compression.threshold == 0.5
    assert settings.compression.min_to_compress == 3
    assert client.message_store is not None
    assert client.message_store.context_dir == tmp_path / "task"
    assert client.use_file_storage
    assert client.compressor is not None
    client.message_store.close()


@pytest.mark.parametrize(
    ("flat", "reason"),
    [
        ({"model": "m", "contextlength": 5}, "unknown_key"),
        ({"model": "m", "llm": {"openai": {"model": "another"}}}, "conflict"),
    ],
)
def test_what_is_not_understood_in_it_is_refused(flat: dict[str, Any], reason: str) -> None:
    with refused(InvalidSettings, reason):
        OpenAIClient(flat)


def test_sections_of_others_are_left_alone() -> None:
    client = OpenAIClient({"github": {"owner": "me"}, "llm": {"openai": {"base_url": "http://127.0.0.1:9/v1"}}})
    assert "127.0.0.1:9" in client._url


def test_a_constructor_obeys_the_settings_of_calls(tmp_path: Path) -> None:
    failing = [Fault(503)] * 3
    with ScriptedModel([*failing, Reply("at last"), Reply("not asked for")]) as model:
        llm = {"openai": {"base_url": model.base_url}, "retries": 3, "retry_delay": 0.01, "stream": False}
        config = {"context_storage": {"base_dir": tmp_path / "base"}, "llm": {**llm, "cache": True}}
        for client in (OpenAIClient(config), get_llm_client(config)):
            assert not client.stream
            client.send_user_message("hello")
            assert client.get_response()[0] == "at last"
            client.close()
        assert len(model.requests) == 4, "the second answer was kept"
        assert not any(request.body.get("stream") for request in model.requests)
    with ScriptedModel([Fault(503)] * 3) as model:
        config = {"llm": {**llm, "openai": {"base_url": model.base_url}, "retries": 1}}
        client = OpenAIClient(config)
        client.send_user_message("hello")
        with pytest.raises(LLMError):
            client.get_response()
        assert len(model.requests) == 2


def test_requests_per_minute_hold_without_a_task_too() -> None:
    with ScriptedModel([Reply("one"), Reply("two")]) as model:
        config = {"llm": {"lmstudio": {"base_url": model.base_url}, "requests_per_minute": 600}}
        client = LMStudioClient(config)
        began = time.monotonic()
        for _ in range(2):
            client.send_user_message("hello")
            client.get_response()
        assert time.monotonic() - began >= 0.1
        client.close()


def test_a_result_that_is_sent_is_recorded_as_a_tool_call(tmp_path: Path) -> None:
    """000 §4.4."""
    calls = [Reply(calls=[("read_file", {"path": "a.py"}), ("run", "no json")]), Reply("done")]
    with ScriptedModel(calls) as model:
        client = OpenAIClient({"base_url": model.base_url, "model": "m"}, context_dir=tmp_path / "task")
        client.send_user_message("read it")
        client.get_response()
        client.send_function_result("read_file", {"text": "x = 1"})
        client.send_function_result("run", "failed")
        client.get_response()
        recorded = ToolStore(tmp_path / "task").get_tool_calls()
        assert [(call["tool_name"], call["result"], call["status"]) for call in recorded] == [
            ("read_file", '{"text":"x = 1"}', "success"),
            ("run", "failed", "success"),
        ]
        assert recorded[0]["arguments"] == {"path": "a.py"}
        client.close()


ASKED = [{"role": "user", "content": "how many?"}]


class _Backend:
    """As Redis or Memcached are wrapped in the document."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, int]] = {}

    def get(self, key: str) -> str | None:
        return self.kept[key][0] if key in self.kept else None

    def set(self, key: str, value: str, ttl: int) -> None:
        self.kept[key] = value, ttl


@pytest.mark.parametrize("kind", ["folder", "redis", "own"])
def test_answers_are_kept_for_programs_that_ask_themselves(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """000 §13.4.2."""
    backend = {
        "folder": lambda: tmp_path / "answers",
        "redis": lambda: request.getfixturevalue("redis"),
        "own": _Backend,
    }[kind]()
    cache = LLMResponseCache(backend)
    model = f"model-{time.time_ns()}"
    assert cache.get_cached_response(ASKED, model) is None
    cache.cache_response(ASKED, model, "three")
    assert LLMResponseCache(backend).get_cached_response(ASKED, model) == "three"
    assert cache.get_cached_response(ASKED, "another") is None
    assert cache.get_cached_response([*ASKED, *ASKED], model) is None
    if isinstance(backend, _Backend):
        assert [ttl for _, ttl in backend.kept.values()] == [3600]


def test_answers_in_redis_are_shared_by_clients(redis: str) -> None:
    asked = time.time_ns()
    with ScriptedModel([Reply("once")]) as model:
        llm = {"openai": {"base_url": model.base_url}, "cache": True, "cache_url": redis}
        for _ in range(2):
            client = OpenAIClient({"llm": llm})
            # Its own words: Redis outlives the test, and the next server may get the same port.
            client.send_user_message(f"hello {asked}")
            assert client.get_response()[0] == "once"
            client.close()
        assert len(model.requests) == 1


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "unix:///nowhere/redis.sock"])
def test_a_cache_that_cannot_be_reached_fails_no_call(url: str, caplog: pytest.LogCaptureFixture) -> None:
    with ScriptedModel([Reply("answered")]) as model:
        client = OpenAIClient({"llm": {"openai": {"base_url": model.base_url}, "cache": True, "cache_url": url}})
        client.send_user_message("hello")
        assert client.get_response()[0] == "answered"
        client.close()
    assert "cannot be reached" in caplog.text


TOOLS = [
    {"type": "function", "function": {"name": f"tool_{number}", "description": "does what it says " * 60}}
    for number in range(8)
]


@pytest.mark.parametrize("kind", [OpenAIClient, LMStudioClient])
def test_a_template_that_drops_tools_lets_no_view_grow_beyond_the_window(tmp_path: Path, kind: type[LLMClient]) -> None:
    window, sent = 8192, list[int]()

    def answer(request: ScriptedRequest) -> ScriptStep:
        sent.append(len(json.dumps(request.body["messages"])) // 4)
        return Reply("said " * 200, usage={"input": sent[-1], "output": 250})

    with ScriptedModel(answer) as model:
        config = {"model": "m", "base_url": model.base_url, "context_length": window}
        client = kind(config, tools=TOOLS, context_dir=tmp_path / "task")
        for turn in range(60):
            client.send_user_message(f"question {turn}: " + "about this " * 100)
            client.get_response()
        assert max(sent) <= window
        assert client.message_store is not None
        assert client.message_store.correction.factor > 0.8
        client.close()


def test_an_overflow_forgets_what_was_learned_folds_and_asks_once_more(tmp_path: Path) -> None:
    with ScriptedModel(lambda _: Reply("fits") if len(model.requests) > 1 else overflowing) as model:
        config = {"model": "m", "base_url": model.base_url, "context_length": 8192}
        client = OpenAIClient(config, context_dir=tmp_path / "task")
        assert client.message_store is not None
        for turn in range(20):
            client.message_store.add_message("user", f"question {turn}: " + "about this " * 100)
        client.message_store.correction = Correction(0.5)
        assert client.get_response()[0] == "fits"
        first, *_, last = (len(json.dumps(request.body["messages"])) for request in model.requests)
        assert last < first / 1.5
        assert client.message_store.correction.factor >= 1.0
        client.close()
