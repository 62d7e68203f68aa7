"""LlamaIndex over Orihon: the contract of a chat store as its base class documents it, and of a memory."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.storage.chat_store.base import BaseChatStore

from orihon import Base
from orihon.adapters.llama_index import LlamaIndexTaskRefused, OrihonChatStore, OrihonMemory
from orihon.errors import InvalidMessage

SMALL: dict[str, Any] = {"llm": {"openai": {"context_length": 2_000}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"path":"a.py"}'}}


def user(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=text)


def assistant(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.ASSISTANT, content=text)


@pytest.fixture
def store(tmp_path: Path) -> OrihonChatStore:
    return OrihonChatStore(where=str(tmp_path))


TALK = [user("hello"), assistant("hello you"), user("and now?")]


# ---- the contract of a chat store ------------------------------------------------------------------------------------


def test_it_is_a_chat_store(store: OrihonChatStore) -> None:
    assert isinstance(store, BaseChatStore)
    assert store.class_name() == "OrihonChatStore"


def test_a_key_that_was_never_written_has_no_messages(store: OrihonChatStore) -> None:
    assert store.get_messages("nobody") == []
    assert store.get_keys() == []


def test_messages_are_added_in_order(store: OrihonChatStore) -> None:
    for message in TALK:
        store.add_message("a", message)
    assert store.get_messages("a") == TALK


def test_messages_can_be_set(store: OrihonChatStore) -> None:
    store.set_messages("a", TALK)
    assert store.get_messages("a") == TALK


def test_setting_replaces_what_was_there(store: OrihonChatStore) -> None:
    store.set_messages("a", TALK)
    store.set_messages("a", [TALK[0], assistant("something else")])
    assert store.get_messages("a") == [TALK[0], assistant("something else")]
    store.set_messages("a", [])
    assert store.get_messages("a") == []


def test_keys_do_not_see_each_other(store: OrihonChatStore) -> None:
    store.add_message("a", user("one"))
    store.add_message("b", user("two"))
    assert store.get_messages("a") == [user("one")]
    assert store.get_messages("b") == [user("two")]


def test_all_keys_are_listed(store: OrihonChatStore) -> None:
    store.add_message("a", user("one"))
    store.add_message("b/c d", user("two"))
    assert sorted(store.get_keys()) == ["a", "b/c d"]


def test_all_messages_of_a_key_can_be_deleted(store: OrihonChatStore) -> None:
    store.set_messages("a", TALK)
    assert store.delete_messages("a") == TALK
    assert store.get_messages("a") == []
    assert store.get_keys() == []


def test_deleting_a_key_that_is_not_there_gives_none(store: OrihonChatStore) -> None:
    assert store.delete_messages("nobody") is None


def test_one_message_can_be_deleted(store: OrihonChatStore) -> None:
    store.set_messages("a", TALK)
    assert store.delete_message("a", 1) == TALK[1]
    assert store.get_messages("a") == [TALK[0], TALK[2]]


def test_a_place_that_is_not_there_gives_none(store: OrihonChatStore) -> None:
    store.set_messages("a", TALK)
    assert store.delete_message("a", 7) is None
    assert store.delete_message("nobody", 0) is None
    assert store.get_messages("a") == TALK


def test_the_last_message_can_be_deleted(store: OrihonChatStore) -> None:
    store.set_messages("a", TALK)
    assert store.delete_last_message("a") == TALK[-1]
    assert store.get_messages("a") == TALK[:-1]
    assert store.delete_last_message("nobody") is None


def test_the_async_methods_do_the_same(store: OrihonChatStore) -> None:
    async def main() -> None:
        await store.aset_messages("a", TALK[:2])
        await store.async_add_message("a", TALK[2])
        assert await store.aget_messages("a") == TALK
        assert await store.adelete_last_message("a") == TALK[2]
        assert await store.adelete_message("a", 0) == TALK[0]
        assert await store.aget_keys() == ["a"]
        assert await store.adelete_messages("a") == [TALK[1]]

    asyncio.run(main())


# ---- what it does not ask --------------------------------------------------------------------------------------------


KINDS = [
    ChatMessage(role=MessageRole.SYSTEM, content="You are careful."),
    ChatMessage(role=MessageRole.USER, blocks=[TextBlock(text="look"), ImageBlock(url="https://example.org/a.png")]),
    ChatMessage(role=MessageRole.ASSISTANT, content=None, additional_kwargs={"tool_calls": [CALL]}),
    ChatMessage(role=MessageRole.TOOL, content="x = 1", additional_kwargs={"tool_call_id": "c1", "name": "look"}),
    ChatMessage(
        role=MessageRole.ASSISTANT,
        blocks=[TextBlock(text="again"), ToolCallBlock(tool_call_id="c2", tool_name="look", tool_kwargs={"path": "b"})],
    ),
    ChatMessage(role=MessageRole.TOOL, content="y = 2", additional_kwargs={"tool_call_id": "c2"}),
    ChatMessage(role=MessageRole.ASSISTANT, content="done"),
]


def test_every_kind_of_message_comes_back_as_it_was(tmp_path: Path) -> None:
    memory = OrihonMemory.from_defaults("m", tmp_path)
    memory.put_messages(KINDS)
    assert memory.get() == KINDS == memory.get_all()
    roles = [stored.message.role for stored in memory.task.log()]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "assistant"]


def test_a_result_can_be_deleted_behind_its_call(store: OrihonChatStore) -> None:
    store.set_messages("a", KINDS)
    for count in range(len(KINDS) - 1, 0, -1):
        assert store.delete_last_message("a") == KINDS[count]
        assert store.get_messages("a") == KINDS[:count]
    store.add_message("a", user("and on"))
    assert store.get_messages("a") == [KINDS[0], user("and on")]


def test_a_memory_folds_what_would_not_fit(tmp_path: Path) -> None:
    with Base(tmp_path, SMALL) as base:
        memory = OrihonMemory.from_defaults("m", base)
        for number in range(40):
            memory.put_messages([user(f"question {number} " * 20), assistant(f"answer {number} " * 20)])
        assert len(memory.get()) < 80 == len(memory.get_all())
        memory.set([user("begin"), assistant("anew")])
        assert memory.get() == [user("begin"), assistant("anew")]
        memory.reset()
        assert memory.get_all() == []
        memory.task.close()


def test_what_cannot_be_kept_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    memory = OrihonMemory.from_defaults("m", tmp_path)
    bad = ChatMessage(role=MessageRole.USER, content="x", additional_kwargs={"thing": object()})
    with pytest.raises(InvalidMessage, match=r"messages\[1\]\.additional_kwargs\.thing"):
        memory.put_messages([user("fine"), bad])
    assert memory.task.log() == []


def test_a_task_of_somebody_else(tmp_path: Path) -> None:
    memory = OrihonMemory.from_defaults("m", tmp_path)
    memory.put(user("mine"))
    with Base(tmp_path) as other:
        taken = other.task(memory.task.context.uuid, take_over=True)
        with pytest.raises(LlamaIndexTaskRefused):
            memory.put(user("not mine any more"))
        taken.close()
