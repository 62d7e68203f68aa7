"""The SDKs of the providers through the proxy, at a piece of work that does not fit the window, streamed and not."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from orihon.system import jsonio
from tests.agents.doors import Door, kept_in, opened
from tests.agents.job import DONE, NOTES, WANTED, Hands, check_job, make_job, script
from tests.upstream import CutConnection, Fault, Reply, Step, overflowing
from tests.upstream.wires import limited

PATIENCE = 120
MODEL = "scripted"
WINDOW = 12_000  # tokens; the work takes more
RUN = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
HANDS = Hands(
    shell=lambda command, said: Reply(said, calls=[("run", {"command": command})]),
    edit=lambda path, old, new: Reply("", calls=[("run", {"command": f"sed -i 's/{old}/{new}/' {path.name}"})]),
)
LEAST_TURNS = NOTES + 3


def run(command: str, folder: Path) -> str:
    """The one tool."""
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, timeout=PATIENCE).stdout


def openai_client(door: Door, retries: int = 0) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{door.url}/v1", api_key="sk-test", max_retries=retries, timeout=PATIENCE)


def anthropic_client(door: Door, retries: int = 0) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=door.url, api_key="sk-ant-test", max_retries=retries, timeout=PATIENCE)


def chat_loop(door: Door, folder: Path, *, streamed: bool) -> str:
    tools: Any = [{"type": "function", "function": {"name": "run", "parameters": RUN}}]
    history: list[Any] = [{"role": "user", "content": WANTED}]
    with openai_client(door) as client:
        while True:
            asked: Any = {"model": MODEL, "messages": history, "tools": tools}
            if streamed:
                with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
                    answer: Any = stream.get_final_completion()
            else:
                answer = client.chat.completions.create(**asked)
            assert answer.usage is not None
            message = answer.choices[0].message
            history.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
            if not message.tool_calls:
                return str(message.content)
            for call in message.tool_calls:
                said = run(jsonio.decode(call.function.arguments)["command"], folder)
                history.append({"role": "tool", "tool_call_id": call.id, "content": said})


def responses_loop(door: Door, folder: Path, *, streamed: bool, chained: bool = False) -> str:
    """``chained``: the provider remembers, and only what is new is sent."""
    tools: Any = [{"type": "function", "name": "run", "parameters": RUN, "strict": False}]
    history: list[Any] = [{"role": "user", "content": WANTED}]
    before: str | None = None
    with openai_client(door) as client:
        while True:
            asked: Any = {"model": MODEL, "input": history, "tools": tools, "store": chained}
            asked |= {"previous_response_id": before} if before else {}
            if streamed:
                with client.responses.stream(**asked) as stream:
                    answer: Any = stream.get_final_response()
            else:
                answer = client.responses.create(**asked)
            calls = [item for item in answer.output if item.type == "function_call"]
            if not calls:
                return str(answer.output_text)
            said = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
            history = [] if chained else [*history, *said]
            before = answer.id if chained else None
            for call in calls:
                output = run(jsonio.decode(call.arguments)["command"], folder)
                history.append({"type": "function_call_output", "call_id": call.call_id, "output": output})


def messages_loop(door: Door, folder: Path, *, streamed: bool) -> str:
    tools: Any = [{"name": "run", "input_schema": RUN}]
    history: list[Any] = [{"role": "user", "content": WANTED}]
    with anthropic_client(door) as client:
        while True:
            asked: Any = {"model": MODEL, "max_tokens": 1000, "messages": history, "tools": tools}
            counted = client.messages.count_tokens(model=MODEL, messages=history, tools=tools)
            assert counted.input_tokens > 0
            if streamed:
                with client.messages.stream(**asked) as stream:
                    answer: Any = stream.get_final_message()
            else:
                answer = client.messages.create(**asked)
            history.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
            calls = [block for block in answer.content if block.type == "tool_use"]
            if not calls:
                return str(answer.content[0].text)
            results = [
                {"type": "tool_result", "tool_use_id": call.id, "content": run(call.input["command"], folder)}
                for call in calls
            ]
            history.append({"role": "user", "content": results})


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("loop", [chat_loop, responses_loop, messages_loop])
def test_a_piece_of_work(loop: Callable[..., str], streamed: bool, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    make_job(folder)
    with opened(script(HANDS, folder), tmp_path, window=WINDOW) as door:
        assert loop(door, folder, streamed=streamed) == DONE
        door.check(least_turns=LEAST_TURNS)
        door.check_prefix()
    check_job(folder)
    kept_in(door.base).check()


def test_a_piece_of_work_that_the_provider_remembers(tmp_path: Path) -> None:
    """What is not sent again cannot be folded for the provider; it is kept all the same."""
    folder = tmp_path / "work"
    make_job(folder)
    with opened(script(HANDS, folder), tmp_path) as door:
        assert responses_loop(door, folder, streamed=True, chained=True) == DONE
        door.check(least_turns=LEAST_TURNS)
    check_job(folder)
    kept_in(door.base, is_folded=False).check()


def test_errors_are_those_of_the_provider(tmp_path: Path) -> None:
    ask: Any = [{"role": "user", "content": "hello"}]
    steps: list[Step] = [limited, Fault(500), Reply("late"), overflowing, overflowing, CutConnection(200)]
    with opened([*steps, Reply("after all")], tmp_path) as door:
        with openai_client(door, retries=3) as client:
            assert client.chat.completions.create(model=MODEL, messages=ask).choices[0].message.content == "late"
            with pytest.raises(openai.BadRequestError) as refused:
                client.responses.create(model=MODEL, input="hello")
            assert refused.value.code == "context_length_exceeded"
        with anthropic_client(door) as other:
            with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
                other.messages.create(model=MODEL, max_tokens=9, messages=ask)
            with pytest.raises(Exception, match=r"peer closed|incomplete"):
                list(other.messages.create(model=MODEL, max_tokens=9, messages=ask, stream=True))
            answer = other.messages.create(model=MODEL, max_tokens=9, messages=ask)
        assert answer.content[0].type == "text"
        assert answer.content[0].text == "after all"
        assert door.upstream.is_over


def test_models_are_listed(tmp_path: Path) -> None:
    with opened([], tmp_path) as door, openai_client(door) as one, anthropic_client(door) as other:
        assert [model.id for model in one.models.list()] == ["scripted"]
        assert [model.id for model in other.models.list()] == ["scripted"]
