"""``orihon.wrap``: the clients of the SDKs with a task under them, on all wires, streamed and not, async and not."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

import orihon
from orihon import Base, Task, aio
from orihon.adapters import common
from orihon.errors import InvalidInput
from orihon.system import jsonio
from tests.upstream import CutConnection, Reply, Step, Upstream

MODEL = "scripted"
SYSTEM = "You are careful. Never delete anything."
WINDOW = 4_000
TURNS = 8
SECRET = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5qRs8t" * 2
RUN = {"type": "object", "properties": {"command": {"type": "string"}}}
CONFIG: dict[str, Any] = {"llm": {"openai": {"context_length": WINDOW}}}
_OPEN: list[Any] = []
WIRES = ["chat", "responses", "messages"]


def output(number: int) -> str:
    """What the tool says in a turn: too long for the window after a few of them."""
    return f"line of turn {number}: the file part_{number}.py is fine\n" * 50


def script() -> list[Step]:
    turns: list[Step] = [Reply(f"turn {n}", calls=[("run", {"command": f"cat part_{n}.py"})]) for n in range(TURNS)]
    return [*turns, Reply("all done")]


@contextmanager
def open_task(folder: Path, name: str = "wrapped", **config: Any) -> Iterator[Task]:
    with Base(folder / "contexts", {**CONFIG, **config}) as base:
        task = base.task(name)
        try:
            yield task
        finally:
            if task.is_open:
                task.close()


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Clients are parts of a ring of objects: what is not closed is a socket that a sweep of garbage finds."""
    yield
    while _OPEN:
        _OPEN.pop().close()


def sdk(upstream: Upstream, wire: str, *, is_async: bool = False) -> Any:
    url = upstream.base_url if wire == "messages" else f"{upstream.base_url}/v1"
    kind: Any = {
        ("messages", False): anthropic.Anthropic,
        ("messages", True): anthropic.AsyncAnthropic,
        ("openai", False): openai.OpenAI,
        ("openai", True): openai.AsyncOpenAI,
    }["messages" if wire == "messages" else "openai", is_async]
    client = kind(base_url=url, api_key="sk-test", max_retries=0, timeout=120)
    if not is_async:
        _OPEN.append(client)
    return client


def request(wire: str, entries: list[Any], *, has_tools: bool = True) -> dict[str, Any]:
    """The arguments of a call; ``entries`` are the program's own list."""
    asked: dict[str, Any] = {"model": MODEL}
    if wire == "chat":
        tools: list[Any] = [{"type": "function", "function": {"name": "run", "parameters": RUN}}]
        asked["messages"] = [{"role": "system", "content": SYSTEM}, *entries]
    elif wire == "responses":
        tools = [{"type": "function", "name": "run", "parameters": RUN, "strict": False}]
        asked |= {"input": list(entries), "instructions": SYSTEM, "store": False}
    else:
        tools = [{"name": "run", "input_schema": RUN}]
        asked |= {"messages": list(entries), "system": SYSTEM, "max_tokens": 500}
    return asked | ({"tools": tools} if has_tools else {})


def calls_of(client: Any, wire: str) -> Any:
    return {"chat": lambda: client.chat.completions, "responses": lambda: client.responses}.get(
        wire, lambda: client.messages
    )()


def final_of(stream: Any, wire: str) -> Any:
    names = {"chat": "get_final_completion", "responses": "get_final_response", "messages": "get_final_message"}
    return getattr(stream, names[wire])()


def said_in(wire: str, answer: Any) -> tuple[list[Any], list[str], str]:
    """The entries that go back with the next request, the ids of its calls, its text."""
    if wire == "chat":
        message = answer.choices[0].message
        entry = message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})
        return [entry], [call.id for call in message.tool_calls or ()], message.content or ""
    if wire == "responses":
        items = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
        return items, [item.call_id for item in answer.output if item.type == "function_call"], answer.output_text
    blocks = [block.model_dump() for block in answer.content]
    text = "".join(block.text for block in answer.content if block.type == "text")
    return (
        [{"role": "assistant", "content": blocks}],
        [block.id for block in answer.content if block.type == "tool_use"],
        text,
    )


def results(wire: str, calls: list[str], number: int) -> list[Any]:
    if wire == "chat":
        return [{"role": "tool", "tool_call_id": call, "content": output(number)} for call in calls]
    if wire == "responses":
        return [{"type": "function_call_output", "call_id": call, "output": output(number)} for call in calls]
    return [
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call, "content": output(number)} for call in calls],
        }
    ]


def work(client: Any, wire: str, *, streamed: bool) -> list[Any]:
    """A program as they all are: it keeps a list and sends it whole."""
    entries: list[Any] = [{"role": "user", "content": "Look at all parts. The budget is 4711 yen."}]
    for number in range(TURNS + 1):
        if streamed:
            with calls_of(client, wire).stream(**request(wire, entries)) as stream:
                answer = final_of(stream, wire)
        else:
            answer = calls_of(client, wire).create(**request(wire, entries))
        more, calls, _ = said_in(wire, answer)
        entries += [*more, *results(wire, calls, number)] if calls else more
    return entries


async def async_work(client: Any, wire: str, *, streamed: bool) -> list[Any]:
    entries: list[Any] = [{"role": "user", "content": "Look at all parts. The budget is 4711 yen."}]
    for number in range(TURNS + 1):
        if streamed:
            async with calls_of(client, wire).stream(**request(wire, entries)) as stream:
                answer = await final_of(stream, wire)
        else:
            answer = await calls_of(client, wire).create(**request(wire, entries))
        more, calls, _ = said_in(wire, answer)
        entries += [*more, *results(wire, calls, number)] if calls else more
    return entries


def check_kept(task: Task, upstream: Upstream) -> None:
    """All of it is in the log, once; what went out fitted; the provider had nothing against it."""
    assert upstream.flaws == []
    log = [stored.message for stored in task.log()]
    assert [message.text for message in log if message.role == "tool"] == [output(n) for n in range(TURNS)]
    assert [message.text for message in log if message.role == "assistant" and message.text] == [
        *(f"turn {n}" for n in range(TURNS)),
        "all done",
    ]
    assert [message.text for message in log if message.role == "system"] == [SYSTEM]
    assert [compression.kind for compression in task.compressions()].count("compress") > 0
    last = upstream.turns[-1].raw
    assert b"4711" in last
    assert len(last) < len(jsonio.encode([output(n) for n in range(TURNS)]))
    assert task.row.model == MODEL


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_long_piece_of_work(wire: str, streamed: bool, tmp_path: Path) -> None:
    with Upstream(script()) as upstream, open_task(tmp_path) as task:
        client = orihon.wrap(sdk(upstream, wire), task)
        entries = work(client, wire, streamed=streamed)
        assert said_text(wire, entries[-1]) == "all done"
        check_kept(task, upstream)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("wire", WIRES)
def test_the_same_in_an_async_program(wire: str, streamed: bool, tmp_path: Path) -> None:
    async def main(upstream: Upstream) -> None:
        async with aio.Base(tmp_path / "contexts", CONFIG) as base:
            task = await base.task("wrapped")
            async with orihon.wrap(sdk(upstream, wire, is_async=True), task) as client:
                entries = await async_work(client, wire, streamed=streamed)
            assert said_text(wire, entries[-1]) == "all done"
            check_kept(task._of, upstream)
            await task.close()

    with Upstream(script()) as upstream:
        asyncio.run(main(upstream))


def said_text(wire: str, entry: Any) -> str:
    content = entry["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def test_a_new_process_goes_on_with_the_view(tmp_path: Path) -> None:
    """The list of a program begins with ``task.messages()``: nothing of it is stored twice, folds stay folds."""
    with Upstream([*script(), Reply("again"), Reply("and again")]) as upstream:
        with open_task(tmp_path) as task:
            work(orihon.wrap(sdk(upstream, "chat"), task), "chat", streamed=False)
            before = len(task.log())
        with open_task(tmp_path) as task:
            history: list[Any] = task.messages()
            assert len(history) < before
            client = orihon.wrap(sdk(upstream, "chat"), task)
            for said in ("one more", "and one"):
                history.append({"role": "user", "content": said})
                answer = client.chat.completions.create(model=MODEL, messages=history)
                history.append(answer.choices[0].message.model_dump(exclude_none=True))
            assert [stored.message.text for stored in task.log(before + 1)] == [
                "one more",
                "again",
                "and one",
                "and again",
            ]
        assert upstream.flaws == []
        assert b"4711" in upstream.turns[-1].raw


def test_what_others_have_written_is_recognised(tmp_path: Path) -> None:
    with Upstream([Reply("hello you"), Reply("yes")]) as upstream, open_task(tmp_path) as task:
        task.add("system", "Be brief.")
        task.add("user", "hello")
        client = orihon.wrap(sdk(upstream, "chat"), task)
        history: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
        client.chat.completions.create(model=MODEL, messages=history)
        task.add("user", "another program was here")
        client.chat.completions.create(model=MODEL, messages=task.messages())
        assert [stored.message.text for stored in task.log()] == [
            "Be brief.",
            "hello",
            "hello you",
            "another program was here",
            "yes",
        ]


def test_secrets_go_to_the_provider_and_not_to_the_disk(tmp_path: Path) -> None:
    ask: list[Any] = [{"role": "user", "content": f"my key is {SECRET}"}]
    with Upstream([Reply("noted"), Reply("still noted")]) as upstream:
        with open_task(tmp_path) as task:
            orihon.wrap(sdk(upstream, "chat"), task).chat.completions.create(model=MODEL, messages=ask)
        with open_task(tmp_path) as task:  # recognised although the log has it masked
            more: list[Any] = [*ask, {"role": "assistant", "content": "noted"}, {"role": "user", "content": "and now?"}]
            orihon.wrap(sdk(upstream, "chat"), task).chat.completions.create(model=MODEL, messages=more)
            assert len(task.log()) == 4
            assert SECRET not in "".join(stored.message.text for stored in task.log())
        assert all(SECRET.encode() in request.raw for request in upstream.turns)


def test_who_goes_back_gets_what_he_sent(tmp_path: Path) -> None:
    with Upstream([Reply("a"), Reply("b")]) as upstream, open_task(tmp_path) as task:
        client = orihon.wrap(sdk(upstream, "chat"), task)
        for said in ("first try", "second try"):
            client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": said}])
        assert [message["content"] for message in upstream.turns[-1].body["messages"]] == ["second try"]
        assert [stored.message.text for stored in task.log()] == ["first try", "a", "second try", "b"]
        task.undo()
        assert "first try" in str(task.messages())


def test_the_provider_remembers(tmp_path: Path) -> None:
    with Upstream([Reply("one"), Reply("two")]) as upstream, open_task(tmp_path) as task:
        client = orihon.wrap(sdk(upstream, "responses"), task)
        first = client.responses.create(model=MODEL, input="hello")
        client.responses.create(model=MODEL, input="more", previous_response_id=first.id)
        assert upstream.turns[-1].body["previous_response_id"] == first.id
        assert [stored.message.text for stored in task.log()] == ["hello", "one", "more", "two"]


def test_a_plain_stream_and_other_calls(tmp_path: Path) -> None:
    ask: list[Any] = [{"role": "user", "content": "hello"}]
    with Upstream([Reply("in pieces"), Reply("raw")]) as upstream, open_task(tmp_path) as task:
        client = orihon.wrap(sdk(upstream, "chat"), task)
        pieces = client.chat.completions.create(model=MODEL, messages=ask, stream=True)
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices) == "in pieces"
        ask += [{"role": "assistant", "content": "in pieces"}, {"role": "user", "content": "more"}]
        raw = client.with_options(timeout=60).chat.completions.with_raw_response.create(model=MODEL, messages=ask)
        assert raw.parse().choices[0].message.content == "raw"
        assert [model.id for model in client.models.list()] == [MODEL]
        assert [stored.message.text for stored in task.log()] == ["hello", "in pieces", "more", "raw"]
        other = orihon.wrap(sdk(upstream, "messages"), task)
        assert other.messages.count_tokens(model=MODEL, messages=ask).input_tokens > 0


def test_an_answer_that_is_cut_off_is_kept_beside_the_conversation(tmp_path: Path) -> None:
    ask: list[Any] = [{"role": "user", "content": "hello"}]
    with Upstream([CutConnection(400), Reply("whole")]) as upstream, open_task(tmp_path) as task:
        client = orihon.wrap(sdk(upstream, "chat"), task)
        with pytest.raises(Exception, match=r"(?i)closed|incomplete|connection"):
            list(client.chat.completions.create(model=MODEL, messages=ask, stream=True))
        assert client.chat.completions.create(model=MODEL, messages=ask).choices[0].message.content == "whole"
        assert [entry["content"] for entry in task.messages() if entry["role"] == "assistant"] == ["whole"]


def test_a_provider_that_counts_more_gets_less(tmp_path: Path) -> None:
    with Upstream(script(), window=2_000) as upstream, open_task(tmp_path) as task:
        work(orihon.wrap(sdk(upstream, "chat"), task), "chat", streamed=False)
        assert any(request.status == 400 for request in upstream.requests)
        assert [stored.message.text for stored in task.log()][-1] == "all done"


@pytest.mark.parametrize("wire", WIRES)
def test_a_task_of_somebody_else_is_refused_in_the_words_of_the_sdk(wire: str, tmp_path: Path) -> None:
    conflict = anthropic.ConflictError if wire == "messages" else openai.ConflictError
    with Upstream([Reply("never")]) as upstream, open_task(tmp_path) as task:
        client = orihon.wrap(sdk(upstream, wire), task)
        with Base(tmp_path / "contexts") as other, other.task("wrapped", take_over=True) as taken:
            with pytest.raises(conflict):
                calls_of(client, wire).create(**request(wire, [{"role": "user", "content": "hello"}]))
            assert taken.log() == []
        assert upstream.requests == []


def test_what_can_never_fit_is_refused_as_the_provider_would(tmp_path: Path) -> None:
    huge: list[Any] = [{"role": "system", "content": "a rule of many words " * 2_000}, {"role": "user", "content": "x"}]
    with Upstream([]) as upstream, open_task(tmp_path) as task:
        client = orihon.wrap(sdk(upstream, "chat"), task)
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model=MODEL, messages=huge)
        assert refused.value.type == "context_length_exceeded"
        assert upstream.requests == []


def test_connections_are_closed_with_the_client(tmp_path: Path) -> None:
    with Upstream([Reply("hello")]) as upstream, open_task(tmp_path) as task:
        client = orihon.wrap(sdk(upstream, "chat"), task)
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hello"}])
        http, transport = client._client, client._client._transport
        assert transport._pool.connections
        client.close()
        assert http.is_closed
        assert transport._pool.connections == []


def test_what_is_no_client_and_what_is_no_open_task(tmp_path: Path) -> None:
    with Upstream([]) as upstream, open_task(tmp_path) as task:
        nobody: Any = object()
        with pytest.raises(InvalidInput, match="object"):
            orihon.wrap(nobody, task)
        task.close()
        with pytest.raises(InvalidInput):
            orihon.wrap(sdk(upstream, "chat"), task)


def test_a_version_that_was_not_tested_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda package: "99.1")
    monkeypatch.setattr(common, "_warned", set())
    with Upstream([]) as upstream, open_task(tmp_path) as task:
        with pytest.warns(UserWarning, match=r"openai 99\.1.*1\.60.*4"):
            orihon.wrap(sdk(upstream, "chat"), task)
        orihon.wrap(sdk(upstream, "chat"), task)  # warnings are errors in here


def test_the_example_runs_and_leaves_its_task(tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "openai_sdk.py"
    assert len(example.read_text(encoding="utf-8").splitlines()) < 40
    (tmp_path / "notes.txt").write_text("The deadline is the 3rd of May.")
    steps = [Reply("", calls=[("read_file", {"path": "notes.txt"})]), Reply("It is the 3rd of May.")]
    with Upstream(steps) as upstream:
        told = {"OPENAI_BASE_URL": f"{upstream.base_url}/v1", "OPENAI_API_KEY": "sk-test", "MODEL": MODEL}
        done = subprocess.run(
            [sys.executable, str(example)], cwd=tmp_path, env={**os.environ, **told}, capture_output=True, text=True
        )
    assert done.stdout.strip() == "It is the 3rd of May.", done.stderr
    assert upstream.flaws == []
    with Base(tmp_path / "contexts") as base:
        assert [found.row.final_message_count for found in base.tasks("completed").tasks] == [5]
