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
    ignored = ["sessions-index.json", "agent-1.meta.json", "tool-results/x.txt", "memory/M.md", ".claude/history.jsonl"]
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


def prompt(number: int, parent: str | None, said: str, **more: Any) -> dict[str, Any]:
    return {**claude_record(number, "user", {"role": "user", "content": said}, **more), "parentUuid": parent}


def answer(number: int, parent: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {**claude_record(number, "assistant", claude_answer(f"msg_{number}", *blocks)), "parentUuid": parent}


def covered(session: Told) -> list[tuple[str, int | None]]:
    return [(fold.text, fold.covers) for fold in session.folds]


def test_a_branch_that_was_left_is_taken_back(tmp_path: Path) -> None:
    """Going back writes a second prompt after the same record; notes of the program between them do not matter."""
    text = {"type": "text", "text": "ok"}
    start = [prompt(1, None, "one"), answer(2, "uuid-1", text), prompt(3, "uuid-2", "two"), answer(4, "uuid-3", text)]
    note = {"type": "progress", "uuid": "note", "parentUuid": "uuid-2", "sessionId": CLAUDE_SESSION}
    assert covered(read(tmp_path, *start, note, prompt(5, "note", "three"))) == [("", 2)]
    assert covered(read(tmp_path, *start, prompt(5, None, "from the beginning"))) == [("", 4)]
    assert covered(read(tmp_path, *start, prompt(5, "uuid-4", "on"), prompt(6, "uuid-2", "back"))) == [("", 3)]
    twice = [prompt(5, "uuid-2", "three"), answer(6, "uuid-5", text), prompt(7, "uuid-2", "four")]
    assert covered(read(tmp_path, *start, *twice)) == [("", 2), ("", 4)]
    assert covered(read(tmp_path, *start, prompt(5, "uuid-2", "a note", isMeta=True))) == []
    assert covered(read(tmp_path, *start, prompt(5, "uuid-9", "of another file"))) == []


def test_results_of_parallel_calls_are_no_branches(tmp_path: Path) -> None:
    def use(call: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": call, "name": "Bash", "input": {}}

    def result(number: int, parent: str, call: str) -> dict[str, Any]:
        content = [{"type": "tool_result", "tool_use_id": call, "content": "done"}]
        record = claude_record(number, "user", {"role": "user", "content": content})
        return {**record, "parentUuid": parent}

    session = read(
        tmp_path,
        prompt(1, None, "both"),
        answer(2, "uuid-1", use("a")),
        {**claude_record(3, "assistant", claude_answer("msg_2", use("b"))), "parentUuid": "uuid-2"},
        result(4, "uuid-2", "a"),
        result(5, "uuid-3", "b"),
        prompt(6, "uuid-4", "and now"),
    )
    assert (covered(session), len(session.said)) == ([], 6)


def test_a_record_that_stands_there_twice_was_said_once(tmp_path: Path) -> None:
    records = claude_records()
    assert len(read(tmp_path, *records, *records[1:]).said) == len(read(tmp_path, *records).said)


def test_what_waited_in_the_queue_counts_among_what_a_compaction_left(tmp_path: Path) -> None:
    queued = {**claude_record(6, "attachment", {}), "attachment": {"type": "queued_command", "prompt": "and plums"}}
    boundary = {"type": "system", "subtype": "compact_boundary", "sessionId": CLAUDE_SESSION, "uuid": "c"}
    kept = {"compactMetadata": {"preservedSegment": {"headUuid": "uuid-5"}}}
    summary = claude_record(8, "user", {"role": "user", "content": "Pears."}, isCompactSummary=True)
    session = read(tmp_path, *claude_records(), queued, {**boundary, **kept}, summary)
    assert [fold.kept for fold in session.folds] == [2]
