"""Sessions of Claude Code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orihon.importers.claude_code import ClaudeCode
from tests.importing import CLAUDE_SESSION, claude_answer, claude_record, claude_records, make_claude_code, write_lines
from tests.importing_agents import Told, told


def read(tmp_path: Path, *records: dict[str, Any], name: str = f"{CLAUDE_SESSION}.jsonl") -> Told:
    return told("claude-code", write_lines(tmp_path / name, records))


def test_a_session(tmp_path: Path) -> None:
    session = told("claude-code", make_claude_code(tmp_path))
    (thread,) = session.threads
    assert (thread.id, thread.title, thread.cwd) == (CLAUDE_SESSION, "Counting pears", "/home/kim/shop")
    assert thread.about == {"version": "2.1.12", "branch": "main"}
    assert [item.answer for item in session.said] == [None, "msg_1", "msg_1", None, "msg_2"]
    assert session.used[1] == ("claude-sonnet-4-5", 134, 100, 20, None)
    assert session.problems == []


def test_what_the_program_notes_for_itself_is_no_conversation(tmp_path: Path) -> None:
    notes = [
        {"type": kind, "sessionId": CLAUDE_SESSION, "uuid": kind}
        for kind in ("file-history-snapshot", "queue-operation", "progress", "system", "last-prompt", "permission-mode")
    ]
    session = read(tmp_path, *claude_records(), *notes, {"type": "attachment", "attachment": {"type": "todo_reminder"}})
    assert (len(session.said), session.problems) == (5, [])


def test_a_kind_that_nobody_knows_is_told_once(tmp_path: Path) -> None:
    session = read(tmp_path, *claude_records(), {"type": "dance"}, {"type": "dance"}, {"type": ["x"]})
    assert [(problem.cause, problem.line, problem.fields) for problem in session.problems] == [
        ("unknown_kind", 7, {"kind": "dance", "count": 2}),
        ("unknown_kind", 9, {"kind": "?", "count": 1}),
    ]


def test_a_prompt_that_waited_in_the_queue_was_said(tmp_path: Path) -> None:
    attached = {"type": "queued_command", "prompt": [{"type": "text", "text": "and plums"}]}
    session = read(tmp_path, *claude_records(), {**claude_record(6, "attachment", {}), "attachment": attached})
    assert session.lines[-1] == ("user", "and plums")


def test_a_person_gives_a_title(tmp_path: Path) -> None:
    session = read(tmp_path, *claude_records(), {"type": "custom-title", "customTitle": "Pears!", "sessionId": "x"})
    assert session.threads[-1].title == "Pears!"


def test_a_name_that_is_no_session_leaves_the_id_to_the_records(tmp_path: Path) -> None:
    assert read(tmp_path, *claude_records(), name="copy.jsonl").threads[0].id == CLAUDE_SESSION
    other = "11111111-1111-4111-8111-111111111111"
    assert read(tmp_path, *claude_records(), name=f"{other}.jsonl").threads[0].id == other


def test_side_chains_are_told_apart_by_their_beginnings(tmp_path: Path) -> None:
    def side(uuid: str, parent: str | None, said: str) -> dict[str, Any]:
        record = claude_record(9, "user", {"role": "user", "content": said}, isSidechain=True)
        return {**record, "uuid": uuid, "parentUuid": parent}

    session = read(
        tmp_path, *claude_records(), side("a", None, "one"), side("b", None, "two"), side("c", "a", "more of one")
    )
    texts = {thread: [item.message.text for item in items] for thread, items in session.of.items()}
    assert texts[f"{CLAUDE_SESSION}/a"] == ["one", "more of one"]
    assert texts[f"{CLAUDE_SESSION}/b"] == ["two"]
    assert {thread.parent for thread in session.threads if thread.id != CLAUDE_SESSION} == {CLAUDE_SESSION}


def test_plans_durations_and_money(tmp_path: Path) -> None:
    todos = [{"content": "count", "status": "pending"}]
    use = {"type": "tool_use", "id": "t1", "name": "TodoWrite", "input": {"todos": todos}}
    done = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]}
    session = read(
        tmp_path,
        claude_record(1, "assistant", claude_answer("m", use), costUSD=0.25),
        claude_record(2, "user", done, toolUseResult={"durationMs": 40}),
        claude_record(3, "assistant", {**claude_answer("s"), "model": "<synthetic>"}),
    )
    assert [(plan.plan_type, plan.content) for plan in session.plans] == [("todos", todos)]
    assert [(tool.tool_name, tool.duration_ms, tool.call_id) for tool in session.tools] == [("TodoWrite", 40.0, "t1")]
    assert [call[4] for call in session.used] == [0.25]


def test_companions_are_known(tmp_path: Path) -> None:
    ignored = ["sessions-index.json", "agent-1.meta.json", "tool-results/x.txt", "memory/MEMORY.md"]
    assert all(ClaudeCode().ignores(tmp_path / name) for name in ignored)
    assert not ClaudeCode().ignores(tmp_path / "notes.txt")


@pytest.mark.parametrize("record", [{"type": "user", "message": "x"}, {"type": "summary"}, {"role": "user"}])
def test_it_does_not_take_what_is_not_its_own(record: dict[str, Any], tmp_path: Path) -> None:
    assert not ClaudeCode().recognises(json.dumps(record).encode(), tmp_path / "a.jsonl")


def test_what_a_compaction_left_alone(tmp_path: Path) -> None:
    boundary = {
        "type": "system",
        "subtype": "compact_boundary",
        "sessionId": CLAUDE_SESSION,
        "uuid": "c",
        "compactMetadata": {"trigger": "auto", "preservedSegment": {"headUuid": "uuid-2", "tailUuid": "uuid-5"}},
    }
    summary = claude_record(7, "user", {"role": "user", "content": "It was about pears."}, isCompactSummary=True)
    session = read(tmp_path, *claude_records(), boundary, summary)
    assert [(fold.text, fold.kept) for fold in session.folds] == [("It was about pears.", 3)]
    plain = read(tmp_path, *claude_records(), {**boundary, "compactMetadata": {}}, summary)
    assert [fold.kept for fold in plain.folds] == [0]
