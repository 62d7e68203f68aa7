"""What a task gives to the SDKs of providers, and what it knows of calls without results."""

from __future__ import annotations

from pathlib import Path

from orihon import Base

CALLS = [{"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": "{}"}} for n in (1, 2)]


def test_a_view_as_arguments_of_each_provider(tmp_path: Path) -> None:
    with Base(tmp_path / "contexts") as base, base.task("hello") as task:
        task.add("user", "Read.")
        assert task.request() == {"messages": [{"role": "user", "content": "Read."}]}
        assert "system" not in task.request("anthropic")
    with Base(tmp_path / "contexts") as base, base.task("other") as task:
        task.add("system", "You read.")
        task.add("user", "Read.")
        asked = task.request("anthropic")
        assert [block["text"] for block in asked["system"]] == ["You read."]
        assert [message["role"] for message in asked["messages"]] == ["user"]


def test_calls_are_open_until_their_results_are_in_the_log(tmp_path: Path) -> None:
    with Base(tmp_path / "contexts") as base, base.task("hello") as task:
        task.add("user", "Read.")
        assert task.open_calls() == []
        task.append({"role": "assistant", "content": None, "tool_calls": CALLS})
        assert [call.id for call in task.open_calls()] == ["c1", "c2"]
        task.add("tool", "first", tool_call_id="c1")
        assert [call.id for call in task.open_calls()] == ["c2"]
        task.add("tool", "second", tool_call_id="c2")
        assert task.open_calls() == []
