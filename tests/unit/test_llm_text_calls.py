"""Tool calls in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from orihon.llm.answers import ModelAnswer
from orihon.llm.openai import OpenAIClient
from orihon.llm.scripted import Reply, ScriptedModel
from orihon.llm.tools import read_done
from orihon.llm.tools import read_text_calls as read


def calls(text: str) -> list[tuple[str, str]]:
    return [(call["name"], call["arguments"]) for call in read(ModelAnswer(text), ["read", "write"]).calls]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("no calls here", []),
        ('{"tool": "read", "arguments": {"path": "a.py"}}', [("read", '{"path":"a.py"}')]),
        ('Let me look.\n```json\n{"tool": "read"}\n```\n', [("read", "{}")]),
        (
            '{"tool": "read", "arguments": {"t": "}{"}} and {"tool":"write","arguments":"x"}',
            [("read", '{"t":"}{"}'), ("write", "x")],
        ),
        ('{"tool": "delete", "arguments": {}}', []),
        ('an example: {"tool": "read", "arguments": {"a": }', []),
        ('{ "tool" : "read", "arguments": {"text": "two\nlines"}}', [("read", '{"text":"two\\nlines"}')]),
        ('{"outer": {"tool": "read"}}', []),
        ('{"a": ' * 3000, []),
        ('{"tool": "read", "arguments": {"n": 1e999}}', [("read", '{"n": Infinity}')]),
        ('{"tool": "read", "arguments": ' + "9" * 5000 + "}", []),
    ],
)
def test_calls_are_found_in_text(text: str, wanted: list[tuple[str, str]]) -> None:
    assert calls(text) == wanted


def test_done_is_said_in_words() -> None:
    said = 'All good. {"done": true, "comment": "Task completed"}'
    assert read(ModelAnswer(said), ["read"]).done is True
    assert read_done(said) == "Task completed"
    assert read(ModelAnswer('{"done": false}'), ["read"]).done is False
    assert read_done('{"done": "true"}') is None
    assert read(ModelAnswer('{"tool":"read"} {"done": true}'), ["read"]).done is False  # the result is to come


def test_a_client_without_function_calling(tmp_path: Path) -> None:
    first = 'I look. {"tool": "read", "arguments": {"path": "a"}}'
    last = '{"done": true, "comment": "It says 1."}'
    with ScriptedModel([Reply(first), Reply(last)]) as model:
        config = {"llm": {"function_calling": False, "openai": {"base_url": model.base_url}}}
        client = OpenAIClient(config, tools=[{"name": "read", "description": "Reads."}], context_dir=tmp_path / "t")
        client.send_system_prompt("Be careful.")
        client.send_user_message("What does a say?")
        text, (call,) = client.get_response()
        assert text == first
        assert (call["name"], call["arguments"]) == ("read", '{"path":"a"}')
        assert call["id"]
        client.send_function_result("read", {"value": 1}, tool_call_id=call["id"])
        assert client.get_response() == (last, [])
        assert client.last_answer is not None
        assert client.last_answer.done is True
        client.close()
        sent = model.requests[1].body
    assert "tools" not in sent
    system, *rest = sent["messages"]
    assert system["content"].startswith("Be careful.\n\n")
    assert '"name":"read"' in system["content"]
    assert '{"done": true, "comment":' in system["content"]
    assert [message["role"] for message in rest] == ["user", "assistant", "user"]
    assert rest[2]["content"] == '[Result of read]\n{"value":1}'
    assert client.message_store is not None
    assert client.message_store.get_message(1).message.content == "Be careful."  # the log keeps what was said
