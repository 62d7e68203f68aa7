"""Kimi: records of Kimi Code, and the wire and the context of Kimi CLI."""

from __future__ import annotations

import json
from pathlib import Path

from tests.importing_agents import (
    kimi_records,
    make_kimi,
    make_kimi_cli_context,
    make_kimi_cli_wire,
    told,
    write_json,
    write_lines,
)


def test_a_session_of_kimi_code(tmp_path: Path) -> None:
    session = told("kimi", make_kimi(tmp_path))
    (thread,) = session.threads
    assert (thread.id, thread.title, thread.cwd) == ("91f0", "Pears", "/home/kim/shop")
    assert thread.created_at == "2026-03-04T10:00:00.000Z"
    assert [line for line in session.lines if line[1]] == [
        ("system", "You are careful."),
        ("user", "Which files? どのファイル?"),
        ("assistant", "I look."),
        ("tool", "pears.txt"),
        ("assistant", "Only pears.txt."),
        ("user", "Wrong."),
    ]
    assert session.calls == [("Bash_0", "Bash", {"command": "ls"})]
    assert session.thoughts == ["List them."]
    assert session.used == [("kimi-k2", 155, 50, 20, None), ("kimi-k2", 155, 50, 7, None)]
    assert [plan.plan_type for plan in session.plans] == ["todo"]
    assert session.problems == []


def test_unknown_records_are_counted(tmp_path: Path) -> None:
    records = [*kimi_records(), {"type": "pears.counted", "time": 1}]
    (problem,) = told("kimi", write_lines(tmp_path / "wire.jsonl", records)).problems
    assert (problem.cause, problem.line) == ("unknown_kind", len(records))


def test_pieces_of_a_step_are_one_answer(tmp_path: Path) -> None:
    session = told("kimi", make_kimi(tmp_path))
    assert [item.answer for item in session.said if item.message.role == "assistant"] == ["s1"] * 4 + ["s2"] * 2


def test_a_compaction_and_what_was_taken_back(tmp_path: Path) -> None:
    compacted, undone = told("kimi", make_kimi(tmp_path)).folds
    assert (compacted.text, compacted.kept, compacted.covers) == ("There is pears.txt.", 0, None)
    assert (undone.text, undone.kept, undone.covers) == ("", 0, 1)


def test_an_older_compaction_kept_the_last_messages(tmp_path: Path) -> None:
    records = [{key: value for key, value in one.items() if key != "keptUserMessageCount"} for one in kimi_records()]
    assert told("kimi", write_lines(tmp_path / "wire.jsonl", records)).folds[0].kept == 1


def test_other_agents_of_a_session_are_its_children(tmp_path: Path) -> None:
    session = tmp_path / "session_91f0"
    write_json(session / "state.json", {"agents": {"agent-1": {"parentAgentId": "agent-0"}}})
    for name, parent in (("agent-0", "91f0"), ("agent-1", "91f0-agent-0")):
        (thread,) = told("kimi", write_lines(session / "agents" / name / "wire.jsonl", kimi_records()[:3])).threads
        assert (thread.id, thread.parent) == (f"91f0-{name}", parent)


def test_the_wire_of_kimi_cli(tmp_path: Path) -> None:
    session = told("kimi", make_kimi_cli_wire(tmp_path))
    main, child = session.threads
    assert (main.id, child.id, child.parent) == ("81aa", "81aa-c1", "81aa")
    assert [(item.message.role, item.message.text) for item in session.of["81aa"] if item.message.text] == [
        ("user", "Which files?"),
        ("tool", "pears.txt"),
        ("assistant", "Only pears.txt."),
    ]
    assert [item.message.text for item in session.of["81aa-c1"]] == ["17."]
    assert session.calls == [("c1", "Shell", {"command": "ls"})]
    assert session.used == [("", 150, 50, 20, None)]


def test_the_summary_of_a_compaction_stands_in_the_context(tmp_path: Path) -> None:
    path = make_kimi_cli_wire(tmp_path)
    written = "<system>Previous context has been compacted. Here is the compaction output:</system>"
    blocks = [{"type": "text", "text": written}, {"type": "text", "text": "There is pears.txt."}]
    write_lines(
        path.with_name("context.jsonl"), [{"role": "_checkpoint", "id": 0}, {"role": "user", "content": blocks}]
    )
    end = {"timestamp": 1772618400.5, "message": {"type": "CompactionEnd", "payload": {}}}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(end) + "\n")
    (fold,) = told("kimi", path).folds
    assert "There is pears.txt." in fold.text


def test_a_context_is_read_only_where_there_is_no_wire(tmp_path: Path) -> None:
    path = make_kimi_cli_context(tmp_path)
    session = told("kimi", path)
    assert session.threads[0].id == "82bb"
    assert [role for role, _ in session.lines] == ["system", "user", "assistant", "tool", "assistant"]
    assert session.thoughts == ["List them."]
    assert session.results == [("c1", "pears.txt")]
    path.with_name("wire.jsonl").write_text('{"type": "metadata"}\n', encoding="utf-8")
    assert told("kimi", path).threads == []


def test_a_summary_that_is_a_message(tmp_path: Path) -> None:
    summary = {"role": "user", "content": [{"type": "text", "text": "There is pears.txt."}]}
    records = [*kimi_records()[:8], {"type": "context.apply_compaction", "summary": summary, "count": 3, "time": 1}]
    assert [fold.text for fold in told("kimi", write_lines(tmp_path / "wire.jsonl", records)).folds] == [
        "There is pears.txt."
    ]
