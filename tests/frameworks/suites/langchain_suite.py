"""LangChain over Orihon: LangChain's own standard suites, and what they do not ask."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from orihon import Base
from orihon.adapters.langchain import (
    LangChainTaskRefused,
    OrihonChatMessageHistory,
    OrihonKeyValueStore,
    OrihonMiddleware,
)
from orihon.errors import InvalidMessage

SMALL: dict[str, Any] = {"llm": {"openai": {"context_length": 2_000}}}


class TestStore(BaseStoreSyncTests[bytes]):
    @pytest.fixture
    def kv_store(self, tmp_path: Path) -> OrihonKeyValueStore:
        return OrihonKeyValueStore("values", tmp_path)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return b"foo", b"\x00\xff" * 40, b""


class TestStoreOfPlainData(BaseStoreSyncTests[Any]):
    @pytest.fixture
    def kv_store(self, tmp_path: Path) -> OrihonKeyValueStore:
        return OrihonKeyValueStore("values", tmp_path)

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return "text", {"a": [1, 2.5, None]}, 7


class TestAsyncStore(BaseStoreAsyncTests[bytes]):
    @pytest.fixture
    async def kv_store(self, tmp_path: Path) -> OrihonKeyValueStore:
        return OrihonKeyValueStore("values", tmp_path)

    @pytest.fixture
    def three_values(self) -> tuple[bytes, bytes, bytes]:
        return b"foo", b"bar", b"buzz"


CALL = {"name": "look", "args": {"path": "a.py"}, "id": "call_1", "type": "tool_call"}
KINDS = [
    SystemMessage("You are careful."),
    HumanMessage("hello", id="h1", name="Ann", additional_kwargs={"mood": "good"}),
    HumanMessage([{"type": "text", "text": "what is this?"}]),
    AIMessage("I look", tool_calls=[CALL], id="a1", response_metadata={"model": "m"}),
    ToolMessage("x = 1", tool_call_id="call_1", artifact={"rows": [1, 2]}, status="success"),
    AIMessage("done", usage_metadata={"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}),
]


def test_every_kind_of_message_comes_back_as_it_was(tmp_path: Path) -> None:
    OrihonChatMessageHistory("s", tmp_path).add_messages(KINDS)
    again = OrihonChatMessageHistory("s", tmp_path)
    assert again.messages == KINDS == again.whole()
    assert asyncio.run(again.aget_messages()) == KINDS
    assert [stored.message.role for stored in again.task.log()] == [
        "system",
        "user",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


def test_what_no_provider_would_take_is_kept_too(tmp_path: Path) -> None:
    """A result without its call, a call without its result: the log is legal, the history as it was."""
    said = [ToolMessage("lost", tool_call_id="nobody"), AIMessage("", tool_calls=[CALL]), HumanMessage("never mind")]
    history = OrihonChatMessageHistory("s", tmp_path)
    history.add_messages(said)
    history.add_messages([AIMessage("", tool_calls=[CALL]), ToolMessage("late", tool_call_id="call_1")])
    assert history.whole() == [*said, AIMessage("", tool_calls=[CALL]), ToolMessage("late", tool_call_id="call_1")]


def test_clear_begins_anew_and_loses_nothing(tmp_path: Path) -> None:
    history = OrihonChatMessageHistory("s", tmp_path)
    history.add_messages(KINDS)
    old = history.task.context.uuid
    history.clear()
    assert history.messages == []
    history.add_user_message("again")
    assert [message.content for message in history.messages] == ["again"]
    with Base(tmp_path) as base:
        assert [found.row.uuid for found in base.tasks("cancelled").tasks] == [old]
        assert len(base.recall(old, seq=f"1-{len(KINDS)}").messages) == len(KINDS)


def test_the_model_gets_a_view_that_fits(tmp_path: Path) -> None:
    with Base(tmp_path, SMALL) as base:
        history = OrihonChatMessageHistory("s", base)
        for number in range(40):
            history.add_messages([HumanMessage(f"question {number} " * 20), AIMessage(f"answer {number} " * 20)])
        seen = history.messages
        assert len(seen) < 80 == len(history.whole())
        assert "[Previous conversation summary]" in str(seen[0].content)
        history.task.undo()
        history.task.close()


def test_a_runnable_with_a_history(tmp_path: Path) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("hello Ann"), AIMessage("you are Ann")]))
    chain = RunnableWithMessageHistory(model, lambda session_id: OrihonChatMessageHistory(session_id, tmp_path))
    config: Any = {"configurable": {"session_id": "talk"}}
    chain.invoke([HumanMessage("I am Ann")], config)
    chain.invoke([HumanMessage("who am I?")], config)
    told = [message.content for message in OrihonChatMessageHistory("talk", tmp_path).messages]
    assert told == ["I am Ann", "hello Ann", "who am I?", "you are Ann"]


class Listening(GenericFakeChatModel):
    """A model that remembers what it was asked."""

    asked: Any = None

    def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        self.asked.append(messages)
        return super()._generate(messages, *args, **options)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_middleware_keeps_and_folds(tmp_path: Path, is_async: bool) -> None:
    answers = [AIMessage(f"answer {number} " * 30) for number in range(12)]
    with Base(tmp_path, SMALL) as base:
        middleware = OrihonMiddleware("agent", base)
        model = Listening(messages=iter(answers), asked=[])
        agent = create_agent(model, [], system_prompt="You are careful.", middleware=[middleware])
        state: Any = {"messages": []}
        for number in range(12):
            state["messages"] = [*state["messages"], HumanMessage(f"question {number} " * 30)]
            state = asyncio.run(agent.ainvoke(state)) if is_async else agent.invoke(state)
        assert len(state["messages"]) == 24
        kept = [stored.message.text for stored in middleware.task.log()]
        assert kept == ["You are careful.", *(str(message.content) for message in state["messages"])]
        assert len(model.asked[-1]) < 24
        assert model.asked[-1][0].content == "You are careful."
        middleware.task.close()


def test_what_cannot_be_kept_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    history = OrihonChatMessageHistory("s", tmp_path)
    with pytest.raises(InvalidMessage, match=r"messages\[1\]\.data\.artifact"):
        history.add_messages([HumanMessage("fine"), ToolMessage("x", tool_call_id="c", artifact=object())])
    with pytest.raises(InvalidMessage):
        history.add_messages([RemoveMessage(id="a1")])
    with pytest.raises(InvalidMessage, match=r"values\[0\]\.value"):
        OrihonKeyValueStore("values", tmp_path).mset([("a", object())])
    assert history.task.log() == []


def test_a_task_of_somebody_else(tmp_path: Path) -> None:
    history = OrihonChatMessageHistory("s", tmp_path)
    history.add_user_message("mine")
    with Base(tmp_path) as other:
        taken = other.task(history.task.context.uuid, take_over=True)
        with pytest.raises(LangChainTaskRefused):
            history.add_user_message("not mine any more")
        assert len(taken.log()) == 1
        taken.close()


def test_secrets_are_masked(tmp_path: Path) -> None:
    secret = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5qRs8t" * 2
    history = OrihonChatMessageHistory("s", tmp_path)
    history.add_messages([HumanMessage(f"my key is {secret}", additional_kwargs={"key": secret})])
    assert secret not in str(history.messages)
    history.messages = [HumanMessage(f"my key is {secret}", additional_kwargs={"key": secret}), AIMessage("noted")]
    assert len(history.task.log()) == 2
