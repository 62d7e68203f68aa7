"""One task through several frameworks: what one has written, each of the others reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from orihon.adapters.langchain import OrihonChatMessageHistory
from orihon.adapters.llama_index import OrihonMemory
from orihon.adapters.pydantic_ai import OrihonMessages

Said = list[tuple[object, ...]]
#: Who, what, and the calls or the id of the call that it answers.
TALK: Said = [
    ("system", "You are careful."),
    ("user", "What is in a.py? 日本語も."),
    ("assistant", "I look.", ("c1", "look", {"path": "a.py"})),
    ("tool", "3 lines\n\tof text", "c1"),
    ("assistant", "Three lines."),
]


def _write_langchain(where: Path) -> None:
    call = {"id": "c1", "name": "look", "args": {"path": "a.py"}}
    messages: list[BaseMessage] = [
        SystemMessage("You are careful."),
        HumanMessage("What is in a.py? 日本語も."),
        AIMessage("I look.", tool_calls=[call]),
        ToolMessage("3 lines\n\tof text", tool_call_id="c1", name="look"),
        AIMessage("Three lines."),
    ]
    OrihonChatMessageHistory("s", where).add_messages(messages)


def _write_llama_index(where: Path) -> None:
    called = ChatMessage(role="assistant", content="I look.")
    called.blocks.append(ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"path": "a.py"}))
    OrihonMemory("s", where).put_messages(
        [
            ChatMessage(role="system", content="You are careful."),
            ChatMessage(role="user", content="What is in a.py? 日本語も."),
            called,
            ChatMessage(role="tool", content="3 lines\n\tof text", additional_kwargs={"tool_call_id": "c1"}),
            ChatMessage(role="assistant", content="Three lines."),
        ]
    )


def _write_pydantic_ai(where: Path) -> None:
    OrihonMessages("s", where).add(
        [
            ModelRequest([SystemPromptPart("You are careful."), UserPromptPart("What is in a.py? 日本語も.")]),
            ModelResponse([TextPart("I look."), ToolCallPart("look", {"path": "a.py"}, tool_call_id="c1")]),
            ModelRequest([ToolReturnPart("look", "3 lines\n\tof text", tool_call_id="c1")]),
            ModelResponse([TextPart("Three lines.")]),
        ]
    )


def _read_langchain(where: Path) -> Said:
    roles = {"human": "user", "ai": "assistant"}
    read: Said = []
    for message in OrihonChatMessageHistory("s", where).whole():
        more: list[object] = [message.tool_call_id] if isinstance(message, ToolMessage) else []
        if isinstance(message, AIMessage):
            more = [(call["id"], call["name"], call["args"]) for call in message.tool_calls]
        read.append((roles.get(message.type, message.type), message.text, *more))
    return read


def _read_llama_index(where: Path) -> Said:
    read: Said = []
    for message in OrihonMemory("s", where).get_all():
        calls = [block for block in message.blocks if isinstance(block, ToolCallBlock)]
        more: list[object] = [(one.tool_call_id, one.tool_name, _value(one.tool_kwargs)) for one in calls]
        for call in message.additional_kwargs.get("tool_calls") or ():  # its other way to have them
            more.append((call["id"], call["function"]["name"], _value(call["function"]["arguments"])))
        if message.role.value == "tool":
            more = [message.additional_kwargs["tool_call_id"]]
        read.append((message.role.value, message.content, *more))
    return read


def _read_pydantic_ai(where: Path) -> Said:
    read: Said = []
    for message in OrihonMessages("s", where).whole():
        if isinstance(message, ModelResponse):
            calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
            said = "".join(part.content for part in message.parts if isinstance(part, TextPart))
            read.append(("assistant", said, *((one.tool_call_id, one.tool_name, _value(one.args)) for one in calls)))
            continue
        for part in message.parts:
            if isinstance(part, ToolReturnPart):
                read.append(("tool", part.content, part.tool_call_id))
            else:
                read.append(("system" if isinstance(part, SystemPromptPart) else "user", part.content))
    return read


def _value(arguments: object) -> object:
    return json.loads(arguments) if isinstance(arguments, str) else arguments


WRITERS = {"langchain": _write_langchain, "llama_index": _write_llama_index, "pydantic_ai": _write_pydantic_ai}
READERS = {"langchain": _read_langchain, "llama_index": _read_llama_index, "pydantic_ai": _read_pydantic_ai}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_what_one_has_written_each_of_the_others_reads(writer: str, reader: str, tmp_path: Path) -> None:
    WRITERS[writer](tmp_path)
    assert READERS[reader](tmp_path) == TALK
