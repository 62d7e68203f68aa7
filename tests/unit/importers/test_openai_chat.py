"""OpenAI chat messages in their forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orihon.importers.registry import recognised
from orihon.importers.sessions import read_sessions
from tests.importing import CHAT, write_json, write_lines
from tests.importing_agents import Told, told

TEXTS = [(one["role"], one["content"] or "") for one in CHAT]


def read(path: Path) -> Told:
    found = recognised(path.read_bytes()[: 1 << 16], path)
    assert found is not None
    assert found.name == "openai-chat"
    return told("openai-chat", path)


@pytest.mark.parametrize(
    "value",
    [CHAT, {"messages": CHAT}, {"model": "m", "temperature": 1, "messages": CHAT}, {"body": {"messages": CHAT}}],
)
def test_documents(value: Any, tmp_path: Path) -> None:
    session = read(write_json(tmp_path / "a.json", value))
    assert (session.lines, session.problems) == (TEXTS, [])
    assert session.calls == [("call_1", "count", {"what": "pears"})]


def test_lines_that_are_messages_are_one_conversation(tmp_path: Path) -> None:
    session = read(write_lines(tmp_path / "a.jsonl", [{"kind": "header", "source": "x"}, *CHAT]))
    assert (len(session.threads), session.lines, session.problems) == (1, TEXTS, [])
    assert session.threads[0].about == {"kind": "header", "source": "x"}


@pytest.mark.parametrize("is_list", [True, False])
def test_conversations_of_their_own(tmp_path: Path, is_list: bool) -> None:
    values = [{"messages": CHAT}, {"messages": CHAT[:2], "tools": []}, {"messages": CHAT}]
    path = write_json(tmp_path / "a.json", values) if is_list else write_lines(tmp_path / "a.jsonl", values)
    session = read(path)
    assert len({thread.id for thread in session.threads}) == 3
    assert [len(items) for items in session.of.values()] == [5, 2, 5]


def test_a_request_with_its_answer(tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "17"}
    body = {"model": "gpt-x", "choices": [{"message": answer}], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    line = {"custom_id": "r1", "body": {"messages": CHAT[:2]}, "response": {"body": body}}
    session = read(write_lines(tmp_path / "a.jsonl", [line]))
    assert session.lines[-1] == ("assistant", "17")
    assert session.used == [("gpt-x", 9, 0, 2, None)]


ANTHROPIC: list[dict[str, Any]] = [
    {"role": "user", "content": "How many pears?"},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Count them.", "signature": "c2ln"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "count", "input": {"what": "pears"}},
        ],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "17"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "There are 17."}]},
]


@pytest.mark.parametrize("system", ["You are a clerk.", [{"type": "text", "text": "You are a clerk."}]])
def test_calls_and_the_system_prompt_of_anthropic_messages(system: Any, tmp_path: Path) -> None:
    path = write_json(tmp_path / "a.json", {"model": "claude", "system": system, "messages": ANTHROPIC})
    found = read_sessions(path)
    assert found.problems.count == 0
    read = found.chosen().messages
    assert [(one.role, one.text) for one in read] == [
        ("system", "You are a clerk."),
        ("user", "How many pears?"),
        ("assistant", "I look."),
        ("tool", "17"),
        ("assistant", "There are 17."),
    ]
    assert (read[2].calls, read[3].answers) == (("toolu_1",), "toolu_1")


@pytest.mark.parametrize("write", [write_json, write_lines])
def test_a_list_of_anthropic_messages(write: Callable[[Path, Any], Path], tmp_path: Path) -> None:
    found = read_sessions(write(tmp_path / "a.json", ANTHROPIC))
    assert [one.calls for one in found.chosen().messages] == [(), ("toolu_1",), (), ()]


def test_the_old_form_and_times(tmp_path: Path) -> None:
    old = [
        {"role": "user", "content": "hi", "timestamp": 1_700_000_000},
        {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
        {"role": "function", "name": "f", "content": "x"},
    ]
    session = read(write_lines(tmp_path / "a.jsonl", old))
    assert session.said[0].timestamp == "2023-11-14T22:13:20.000Z"
    assert [one.message.as_chat()[0].role for one in session.said] == ["user", "assistant", "tool"]


def test_what_is_no_message_is_told(tmp_path: Path) -> None:
    odd: list[Any] = [*CHAT, {"role": "narrator", "content": "x"}, {"type": "note"}, {"role": ["user"], "content": "x"}]
    session = read(write_lines(tmp_path / "a.jsonl", odd))
    assert session.lines == TEXTS
    assert [(problem.cause, problem.line) for problem in session.problems] == [
        ("unknown_kind", 6),
        ("unknown_kind", 7),
        ("unknown_kind", 8),
    ]


def test_an_id_stays_when_the_file_grows_and_moves(tmp_path: Path) -> None:
    one = read(write_lines(tmp_path / "a" / "chat.jsonl", CHAT[:2])).threads[0].id
    assert read(write_lines(tmp_path / "b" / "chat.jsonl", CHAT)).threads[0].id == one
    assert read(write_lines(tmp_path / "b" / "other.jsonl", CHAT)).threads[0].id != one


@pytest.mark.parametrize("is_list", [True, False])
def test_runs_with_the_same_instructions_are_told_apart(tmp_path: Path, is_list: bool) -> None:
    """``run-1/chat.json`` and ``run-2/chat.json``: only what the user asks differs."""

    def named(folder: str, said: list[dict[str, Any]]) -> str:
        path = tmp_path / folder / "chat.json"
        session = read(write_json(path, said) if is_list else write_lines(path, said))
        assert [role for role, _ in session.lines] == [one["role"] for one in said]
        return session.threads[0].id

    rules = {"role": "system", "content": "be brief"}
    first = [rules, {"role": "developer", "content": "no tools"}, {"role": "user", "content": "pears?"}]
    second = [*first[:2], {"role": "user", "content": "plums?"}]
    assert named("1", first) == named("3", [*first, {"role": "assistant", "content": "3"}])
    assert named("1", first) != named("2", second)
    assert named("4", [rules])
