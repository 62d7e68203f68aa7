"""Without storage the conversation is a list, within the window, with tool pairs whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon.errors import Overflow, ToolCallError
from orihon.llm.answers import ModelAnswer
from orihon.llm.base import LLMClient
from orihon.llm.clients import CLIENTS, get_llm_client
from orihon.llm.history import MemoryHistory
from orihon.llm.scripted import Reply, ScriptedModel, ScriptedRequest, ScriptStep, overflowing
from orihon.values.records import ModelCall
from tests.helpers import refused

CALL = ModelCall("any")


def answer(*ids: str) -> ModelAnswer:
    return ModelAnswer("", tuple({"id": call_id, "name": "read", "arguments": "{}"} for call_id in ids))


@pytest.fixture
def history() -> MemoryHistory:
    made = MemoryHistory(limit=120)
    made.add("system", "prompt")
    return made


def test_the_oldest_is_forgotten_with_its_pair_and_never_the_prompt(history: MemoryHistory) -> None:
    history.add("user", "u" * 200)
    history.add_answer(answer("a", "b"), CALL)
    history.add_result("read", "r" * 100, "b")
    history.add_result("read", "r" * 100, None)
    history.add("user", "v" * 200)
    history.add_answer(ModelAnswer("w" * 200), CALL)
    history.prepare()
    assert [message["role"] for message in history.messages] == ["system", "user", "assistant"]
    assert history.messages[1]["content"] == "v" * 200
    assert history.tokens <= 120


def test_the_newest_stays_whatever_it_costs(history: MemoryHistory) -> None:
    history.add("user", "u" * 9000)
    history.prepare()
    assert len(history.messages) == 2
    assert not history.relieve()


def test_results_belong_to_calls(history: MemoryHistory) -> None:
    with refused(ToolCallError, "none_open"):
        history.add_result("read", "x", None)
    history.add_answer(answer("a", "b"), CALL)
    with refused(ToolCallError, "calls_open"):
        history.add("user", "no")
    with refused(ToolCallError, "calls_open"):
        history.prepare()
    with refused(ToolCallError, "none_open"):
        history.add_result("write", "x", None)
    history.add_result("read", "x", None)
    assert history.messages[-1]["tool_call_id"] == "a"
    with refused(ToolCallError, "none_open"):
        history.add_result("read", "x", "a")
    history.add_result("read", "y", None)
    history.prepare()


@pytest.fixture(params=sorted(CLIENTS))
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def made(provider: str, model: ScriptedModel, folder: Path, **more: Any) -> LLMClient:
    section = {"base_url": model.base_url, "context_length": 4000, "api_key": "k"}
    config = {"context_storage": {"enabled": False}, "llm": {"provider": provider, provider: section}}
    return get_llm_client(config, context_dir=folder, tools=[{"name": "read"}], **more)


def test_nothing_is_written(provider: str, tmp_path: Path) -> None:
    with ScriptedModel([Reply(calls=[("read", {"p": 1})]), Reply("done")]) as model:
        client = made(provider, model, tmp_path / "task")
        client.send_system_prompt("prompt")
        client.send_user_message("hi")
        _, (call,) = client.get_response()
        client.send_function_result("read", "1", tool_call_id=call["id"])
        assert client.get_response() == ("done", [])
        assert [message["role"] for message in client.messages] == ["system", "user", "assistant", "tool", "assistant"]
        client.close()
    assert list(tmp_path.iterdir()) == []


def test_an_overflow_forgets_half_and_asks_once_more(provider: str, tmp_path: Path) -> None:
    steps: Iterator[ScriptStep] = iter([overflowing, Reply("fits")])

    def script(_: ScriptedRequest) -> ScriptStep:
        return next(steps)

    with ScriptedModel(script) as model:
        client = made(provider, model, tmp_path)
        for number in range(20):
            client.send_user_message(f"{number} " * 40)
        assert client.get_response() == ("fits", [])
        assert model.requests[1].size < 0.7 * model.requests[0].size
        client.close()
    with ScriptedModel(overflowing) as model:
        client = made(provider, model, tmp_path)
        client.send_user_message("one")
        with refused(Overflow, "window"):
            client.get_response()
        assert len(model.requests) == 1
        client.close()
