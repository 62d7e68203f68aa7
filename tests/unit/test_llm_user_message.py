"""Every request has a user's message: servers with strict chat templates refuse one without ("No user query found")."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orihon import Base, MessageStore
from orihon.llm.answers import ModelAnswer
from orihon.llm.base import LLMClient
from orihon.llm.clients import CLIENTS, get_llm_client
from orihon.llm.history import MemoryHistory
from orihon.llm.scripted import Fault, Reply, ScriptedModel, ScriptedRequest, ScriptStep
from orihon.values.message.provider_shapes import anthropic_messages, one_system_prompt, opened_by_user, with_user
from orihon.values.records import ModelCall

PROMPT = {"role": "system", "content": "You are careful."}
FOLD = {"role": "system", "content": "[Previous conversation summary]\nMuch was done."}
ANSWER = {"role": "assistant", "content": "I looked at it."}
USER = {"role": "user", "content": "And now?"}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}

#: Views in which nobody speaks.
SILENT: dict[str, list[dict[str, Any]]] = {
    "the agent begins": [PROMPT, ANSWER],
    "no prompt either": [ANSWER, ANSWER],
    "all users folded": [PROMPT, FOLD, {"role": "assistant", "content": None, "tool_calls": [CALL]}],
    "only a prompt": [PROMPT],
}


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


def test_a_user_is_put_before_the_first_answer_where_there_is_none() -> None:
    assert [roles(with_user(view)) for view in SILENT.values()] == [
        ["system", "user", "assistant"],
        ["user", "assistant", "assistant"],
        ["system", "system", "user", "assistant"],
        ["system", "user"],
    ]
    for view in SILENT.values():
        assert [message for message in with_user(view) if message["role"] != "user"] == view


@pytest.mark.parametrize("view", [[], [USER], [PROMPT, ANSWER, USER], [PROMPT, FOLD, ANSWER, USER]])
def test_a_view_in_which_somebody_speaks_is_sent_as_it_is(view: list[dict[str, Any]]) -> None:
    assert with_user(view) == view


def test_templates_that_want_a_user_first_get_one() -> None:
    assert roles(list(opened_by_user(one_system_prompt([PROMPT, ANSWER, USER])))) == [
        *("system", "user", "assistant", "user")
    ]
    assert roles(list(opened_by_user(one_system_prompt([PROMPT, FOLD, ANSWER])))) == ["system", "user", "assistant"]
    first, *_ = json.loads(b"[" + b"".join(anthropic_messages([ANSWER, USER])) + b"]")
    assert (first["role"], first["content"][0]["text"]) == ("user", with_user([PROMPT])[-1]["content"])


def strict(request: ScriptedRequest) -> ScriptStep:
    """A server with a strict template."""
    said = request.body["messages"]
    if not any(message["role"] == "user" and message["content"] for message in said):
        return Fault(400, {"error": {"message": "No user query found in messages."}})
    wants_user_first = request.dialect == "anthropic"
    return Fault(400) if wants_user_first and said[0]["role"] != "user" else Reply("done")


def client_of(provider: str, model: ScriptedModel, **more: Any) -> LLMClient:
    section = {"base_url": model.base_url, "context_length": 4000, "api_key": "k"}
    config = {
        "context_storage": {"enabled": bool(more), "durability": "os"},
        "llm": {"provider": provider, "retries": 0, provider: section},
    }
    return get_llm_client(config, **more)


@pytest.mark.parametrize("provider", sorted(CLIENTS))
@pytest.mark.parametrize("begins", ["user", "assistant", "in memory"])
def test_a_strict_server_takes_the_request_of_every_client(provider: str, begins: str, tmp_path: Path) -> None:
    with ScriptedModel(strict) as model:
        client = client_of(provider, model, **({} if begins == "in memory" else {"context_dir": tmp_path / "task"}))
        client.send_system_prompt("You are careful.")
        if begins == "in memory":
            assert client.get_response()[0] == "done"
        else:
            store = client.message_store
            assert store is not None
            for number in range(4):
                store.add_message(begins, f"first {number}")
            store.add_message("assistant", "and then")
            store.create_summary(2, 5, "Somebody has folded by hand what was said first.")
            stored = store.get_current_context_file().read_bytes()
            assert client.get_response()[0] == "done"
            assert store.get_current_context_file().read_bytes().startswith(stored), "nothing is stored of it"
            assert store.count_messages() == 7
            assert "user" in roles(store.get_messages_for_llm())
        client.close()


@pytest.mark.parametrize("provider", sorted(CLIENTS))
def test_a_request_outside_the_conversation_has_one_too(provider: str) -> None:
    with ScriptedModel(strict) as model:
        client = client_of(provider, model)
        answer = client.create_chat_completion([{"role": "system", "content": "Summarize: …"}])
        assert answer["choices"][0]["message"]["content"] == "done"
        client.close()


def test_a_task_gives_it_to_programs_that_send_by_themselves(tmp_path: Path) -> None:
    task = Base(tmp_path).task("t/1")
    assert task.messages() == []
    task.add("system", "You are careful.")
    task.add("assistant", "Shall I begin?")
    assert roles(task.messages()) == ["system", "user", "assistant"]
    assert roles(task.request()["messages"]) == ["system", "user", "assistant"]
    assert roles(task.request("anthropic")["messages"]) == ["user", "assistant"]
    assert [stored.message.role for stored in task.log()] == ["system", "assistant"], "it is not stored"
    task.add("user", "Yes.")
    assert roles(task.messages()) == ["system", "assistant", "user"]
    task.stop()


def test_a_bare_store_gives_it(tmp_path: Path) -> None:
    with_one = MessageStore(tmp_path / "task", {})
    with_one.add_message("assistant", "hello")
    assert roles(with_one.get_messages_for_llm()) == ["user", "assistant"]
    with_one.close()


def test_without_storage_what_the_user_asked_last_is_not_forgotten() -> None:
    history = MemoryHistory(limit=120)
    history.add("system", "prompt")
    history.add("user", "an older wish " + "o" * 100)
    history.add("user", "Please find the leak.")
    for number in range(9):
        read = {"id": f"c{number}", "name": "read", "arguments": "{}"}
        history.add_answer(ModelAnswer("", (read,)), ModelCall("any"))
        history.add_result("read", "r" * 150, None)
    history.prepare()
    assert [message["content"] for message in history.messages][:2] == ["prompt", "Please find the leak."]
    assert history.tokens <= 120
    assert history.messages[-1]["tool_call_id"] == "c8"
