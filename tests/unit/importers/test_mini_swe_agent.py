"""mini-swe-agent: bare lists, documents, answers of the Responses API."""

from __future__ import annotations

from pathlib import Path

from tests.importing_agents import make_mini, make_mini_bare, told, write_json


def test_a_document(tmp_path: Path) -> None:
    run = told("mini-swe-agent", make_mini(tmp_path))
    (thread,) = run.threads
    assert (thread.title, thread.model, thread.about["exit_status"]) == ("kim__shop-1", "anthropic/claude", "Submitted")
    assert thread.created_at == "2026-03-04T10:00:00.000Z"
    assert run.lines == [
        ("system", "You use bash."),
        ("user", "Which files?"),
        ("assistant", "I look."),
        ("tool", "pears.txt"),
    ]
    assert run.calls == [("c1", "bash", {"command": "ls"})]
    assert run.used == [("claude-sonnet", 100, 50, 20, 0.01)]
    assert run.thoughts == ["List them."]
    assert [(tool.call_id, tool.status, tool.error) for tool in run.tools] == [("c1", "error", "exit code 1")]


def test_a_bare_list(tmp_path: Path) -> None:
    run = told("mini-swe-agent", make_mini_bare(tmp_path))
    assert [role for role, _ in run.lines] == ["system", "user", "assistant", "user"]


def test_answers_of_the_responses_api(tmp_path: Path) -> None:
    output = [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "List them."}]},
        {"type": "function_call", "call_id": "c1", "name": "bash", "arguments": '{"command": "ls"}'},
    ]
    used = {"input_tokens": 100, "output_tokens": 20, "input_tokens_details": {"cached_tokens": 50}}
    messages = [
        {"role": "user", "content": "Which files?"},
        {"object": "response", "model": "gpt-5", "output": output, "usage": used, "extra": {"cost": 0.02}},
        {"type": "function_call_output", "call_id": "c1", "output": "pears.txt", "extra": {"returncode": 0}},
    ]
    run = {"info": {"mini_version": "2.1"}, "messages": messages, "trajectory_format": "mini-swe-agent-1.1"}
    said = told("mini-swe-agent", write_json(tmp_path / "a.traj.json", run))
    assert [item.answer for item in said.said] == [None, "answer-1", "answer-1", None]
    assert said.used == [("gpt-5", 100, 50, 20, 0.02)]
    (result,) = said.said[-1].message.as_chat()
    assert (result.role, result.tool_call_id, result.text) == ("tool", "c1", "pears.txt")
