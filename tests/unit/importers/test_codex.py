"""Rollouts of Codex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.importing import CODEX_SESSION, codex_record, codex_records, codex_usage, make_codex, write_lines
from tests.importing_agents import Told, told


def read(tmp_path: Path, *records: dict[str, Any]) -> Told:
    return told("codex", write_lines(tmp_path / "rollout.jsonl", records))


def item(number: int, kind: str, **fields: Any) -> dict[str, Any]:
    return codex_record(number, "response_item", {"type": kind, **fields})


def used(total: int, last: int) -> dict[str, Any]:
    return codex_record(9, "event_msg", codex_usage(total, last))


HEAD = codex_records()[0]
TURN = codex_record(1, "turn_context", {"model": "gpt-5-codex"})


def spoken(number: int, text: str) -> dict[str, Any]:
    return item(number, "message", role="assistant", content=[{"type": "output_text", "text": text}])


def test_a_rollout(tmp_path: Path) -> None:
    session = told("codex", make_codex(tmp_path))
    assert (session.threads[0].id, session.threads[0].repository) == (CODEX_SESSION, "kim/shop")
    assert session.threads[-1].title == "Which files are here? どのファイル?"
    assert [line[0] for line in session.lines] == [
        "user",
        "assistant",
        "assistant",
        "assistant",
        "tool",
        *["assistant"] * 2,
    ]
    assert [item.answer for item in session.said] == [None, *["answer-1"] * 3, None, *["answer-2"] * 2]
    assert session.calls == [("call_1", "shell", {"command": ["ls"]})]
    assert session.problems == []


def test_usage_that_is_told_before_its_answer(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        *(HEAD, TURN, used(100, 100), spoken(2, "one"), used(100, 100)),
        *(used(220, 120), item(3, "message", role="user", content="go"), spoken(4, "two")),
    )
    assert [(one[1], one[2]) for one in session.used] == [(100, 50), (120, 60)]
    assert [item.answer for item in session.said if item.call and item.call.usage] == ["answer-1", "answer-2"]


def test_usage_of_a_call_beside_the_conversation_is_not_lost(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        *(HEAD, TURN, spoken(2, "one"), used(100, 100), used(150, 50)),
        *(codex_record(3, "compacted", {"message": "all of it"}), used(180, 30), spoken(4, "two")),
        used(190, 10),
    )
    last = {item.answer: item.call.usage.input for item in session.said if item.call and item.call.usage}
    assert last == {"answer-1": 150, "answer-2": 40}


def test_a_compaction_shows_what_the_model_was_shown(tmp_path: Path) -> None:
    kept = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "count pears"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Summary: 17 pears"}]},
    ]
    session = read(
        tmp_path,
        *(
            HEAD,
            spoken(1, "a"),
            codex_record(2, "compacted", {"message": "Summary: 17 pears", "replacement_history": kept}),
        ),
        codex_record(3, "compacted", {"message": "short"}),
        codex_record(4, "compacted", {"message": "", "replacement_history": [{"type": "compaction"}]}),
    )
    assert [fold.text for fold in session.folds] == ["[user]\ncount pears\n\n[user]\nSummary: 17 pears", "short"]
    assert [(problem.cause, problem.line) for problem in session.problems] == [("unread_summary", 5)]


def test_tools_of_every_kind(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        HEAD,
        item(1, "custom_tool_call", call_id="a", name="apply_patch", input="*** Begin"),
        item(2, "custom_tool_call_output", call_id="a", output='{"output":"x","metadata":{"exit_code":2}}'),
        item(3, "local_shell_call", call_id="b", status="completed", action={"type": "exec", "command": ["ls"]}),
        item(4, "function_call_output", call_id="b", output={"type": "input_text", "text": "y"}),
        item(5, "tool_search_call", call_id="c", arguments={"query": "q"}),
        item(6, "tool_search_output", call_id="c", tools=[{"name": "t"}]),
        item(7, "web_search_call", status="completed", action={"type": "search", "query": "pears"}),
        item(8, "function_call", call_id="d", name="update_plan", arguments='{"plan": [{"step": "count"}]}'),
        item(9, "ghost_snapshot", ghost_commit={"id": "x"}),
    )
    assert session.problems == []
    assert [call.name for one in session.said for call in one.message.as_chat()[0].tool_calls] == [
        *("apply_patch", "local_shell", "tool_search", "update_plan")
    ]
    assert [one.message.as_chat()[0].tool_call_id for one in session.said if one.message.role == "tool"] == [
        "a",
        "b",
        "c",
    ]
    assert [(tool.tool_name, tool.status, tool.error) for tool in session.tools] == [
        ("apply_patch", "error", "exit code 2")
    ]
    assert [plan.content for plan in session.plans] == [{"plan": [{"step": "count"}]}]


def test_the_oldest_files_have_no_envelopes(tmp_path: Path) -> None:
    session = read(
        tmp_path,
        {"id": "old-1", "timestamp": "2025-05-01T10:00:00Z", "instructions": "be brief", "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
    )
    assert session.threads[0].id == "old-1"
    assert session.lines == [("system", "be brief"), ("user", "hi"), ("assistant", "hello")]
    assert session.problems == []


def test_sub_agents_and_forks_name_where_they_come_from(tmp_path: Path) -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "p1", "depth": 1, "agent_nickname": "Ada"}}}
    child = codex_record(0, "session_meta", {"id": "c1", "source": spawned})
    session = read(tmp_path, child, HEAD, item(1, "message", role="user", content="look"))
    assert (session.threads[0].id, session.threads[0].parent) == ("c1", "p1")
    assert session.threads[0].about["nickname"] == "Ada"
    assert len({thread.id for thread in session.threads}) == 1


def test_a_file_without_its_head(tmp_path: Path) -> None:
    session = read(tmp_path, *codex_records()[1:], codex_record(9, "mystery", {"a": 1}))
    assert session.threads[0].id == "rollout"
    assert len(session.said) == 7
    assert [problem.fields for problem in session.problems] == [{"kind": "mystery", "count": 1}]


def test_turns_that_were_gone_back_from_leave_the_view(tmp_path: Path) -> None:
    def asked(text: str) -> dict[str, Any]:
        return item(1, "message", role="user", content=[{"type": "input_text", "text": text}])

    back = codex_record(9, "event_msg", {"type": "thread_rolled_back", "num_turns": 1})
    session = read(
        tmp_path, HEAD, asked("a"), spoken(2, "one"), asked("b"), spoken(3, "two"), back, asked("c"), back, back
    )
    assert [(fold.text, fold.covers) for fold in session.folds] == [("", 2), ("", 1), ("", 5)]


def test_a_picture_that_was_made_is_a_picture(tmp_path: Path) -> None:
    made = item(1, "image_generation_call", id="ig", status="completed", revised_prompt="a pear", result="iVBORw0KGgo=")
    (said,) = read(tmp_path, made).said
    assert said.message.text == "a pear"
    url = "data:image/png;base64,iVBORw0KGgo="
    assert said.message.as_chat()[0].to_chat()["content"][1] == {"type": "image_url", "image_url": {"url": url}}
