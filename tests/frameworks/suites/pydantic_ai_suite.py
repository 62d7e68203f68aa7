"""Pydantic AI over Orihon: every message comes back as it was; a processor keeps and folds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, BinaryImage, RequestUsage
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from orihon import Base
from orihon.adapters.pydantic_ai import OrihonMessages, PydanticAITaskRefused
from orihon.errors import InvalidMessage

SMALL: dict[str, Any] = {"llm": {"openai": {"context_length": 2_000}}}
KINDS: list[ModelMessage] = [
    ModelRequest([SystemPromptPart("You are careful."), UserPromptPart("hello")], instructions="be brief"),
    ModelResponse(
        [
            ThinkingPart("hm", signature="s1"),
            TextPart("I look"),
            ToolCallPart("look", {"path": "a.py"}, tool_call_id="c1"),
            ToolCallPart("look", '{"path": "b.py"}', tool_call_id="c2"),
        ],
        usage=RequestUsage(input_tokens=7, output_tokens=5),
        model_name="m",
    ),
    ModelRequest(
        [
            ToolReturnPart("look", {"rows": [1, 2]}, tool_call_id="c1"),
            ToolReturnPart("look", "no such file", tool_call_id="c2", outcome="failed"),
            UserPromptPart(["and this?", BinaryImage(b"\x00\x01picture", media_type="image/png")]),
        ]
    ),
    ModelResponse([TextPart("done")]),
]


def test_every_kind_of_message_comes_back_as_it_was(tmp_path: Path) -> None:
    OrihonMessages("s", tmp_path).add(KINDS)
    again = OrihonMessages("s", tmp_path)
    assert again.whole() == KINDS == again.load()
    roles = [stored.message.role for stored in again.task.log()]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user", "assistant"]
    again.save(KINDS)
    assert len(again.task.log()) == len(roles), "what is known is not stored twice"
    again.save([*KINDS[:2], ModelRequest([UserPromptPart("something else")])])
    assert len(again.whole()) == 3


def long_answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    return ModelResponse([TextPart(f"answer to {len(messages)} " * 30)])


def test_a_processor_keeps_and_folds_over_many_runs(tmp_path: Path) -> None:
    asked: list[int] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(len(messages))
        return long_answer(messages, info)

    with Base(tmp_path, SMALL) as base:
        messages = OrihonMessages("s", base)
        agent = Agent(FunctionModel(model), capabilities=[ProcessHistory(messages.processor)])
        for number in range(14):
            result = agent.run_sync(f"question {number} " * 30, message_history=messages.load())
            messages.save(result.all_messages())
        whole = messages.whole()
        assert len(whole) == 28
        assert [part.content for part in whole[0].parts if isinstance(part, UserPromptPart)] == ["question 0 " * 30]
        assert asked[-1] < 27
        assert "[Previous conversation summary]" in str(messages.load())
        messages.task.undo()
        messages.task.close()


def test_an_agent_with_a_tool(tmp_path: Path) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse([ToolCallPart("double", {"number": 4}, tool_call_id="c1")])
        return ModelResponse([TextPart("eight")])

    messages = OrihonMessages("s", tmp_path)
    agent = Agent(FunctionModel(model), capabilities=[ProcessHistory(messages.processor)])

    @agent.tool_plain
    def double(number: int) -> int:
        return 2 * number

    result = asyncio.run(agent.run("twice four?", message_history=messages.load()))
    messages.save(result.all_messages())
    assert result.output == "eight"
    assert messages.whole() == result.all_messages()
    assert [stored.message.text for stored in messages.task.log()] == ["twice four?", "", "8", "eight"]


def test_what_cannot_be_kept_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    messages = OrihonMessages("s", tmp_path)
    bad = ModelRequest([ToolReturnPart("look", object(), tool_call_id="c1")])
    with pytest.raises(InvalidMessage, match=r"messages\[1\]\.parts\[0\]\.content"):
        messages.add([ModelRequest([UserPromptPart("fine")]), bad])
    assert messages.task.log() == []


def test_a_task_of_somebody_else(tmp_path: Path) -> None:
    messages = OrihonMessages("s", tmp_path)
    messages.add(KINDS[:1])
    with Base(tmp_path) as other:
        taken = other.task(messages.task.context.uuid, take_over=True)
        with pytest.raises(PydanticAITaskRefused):
            messages.add(KINDS[:1])
        taken.close()


def test_clear_begins_anew(tmp_path: Path) -> None:
    messages = OrihonMessages("s", tmp_path)
    messages.add(KINDS)
    messages.clear()
    assert messages.load() == []
