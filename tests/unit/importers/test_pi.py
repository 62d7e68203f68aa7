"""pi: entries that form a tree."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.importing_agents import T0, make_pi, pi_entries, told, write_lines


def test_a_session(tmp_path: Path) -> None:
    session = told("pi", make_pi(tmp_path))
    (thread,) = session.threads
    assert (thread.id, thread.cwd, thread.created_at) == ("91ab0000", "/home/kim/shop", f"{T0}00Z")
    assert session.lines == [
        ("user", "Which files? どのファイル?"),
        ("assistant", ""),
        ("tool", "pears.txt"),
        ("assistant", "Only pears.txt."),
        ("user", "Wrong branch."),
        ("user", "And apples?"),
        ("assistant", "No apples."),
    ]
    assert session.calls == [("c1", "bash", {"command": "ls"})]
    assert session.results == [("c1", "pears.txt")]
    assert session.thoughts == ["List them."]
    assert session.used == [("claude-sonnet", 155, 50, 20, 0.003)] * 3
    assert session.problems == []


def test_unknown_entries_are_counted(tmp_path: Path) -> None:
    strange = {"type": "pears_counted", "id": "id20", "parentId": "id9"}
    (problem,) = told("pi", write_lines(tmp_path / "a.jsonl", [*pi_entries(), strange])).problems
    assert (problem.cause, problem.line) == ("unknown_kind", 11)


def test_leaving_a_branch_takes_its_messages_back(tmp_path: Path) -> None:
    left, compacted = told("pi", make_pi(tmp_path)).folds
    assert (left.text, left.covers) == ("", 1)
    assert (compacted.text, compacted.kept, compacted.covers) == ("There is pears.txt.", 1, None)


def test_going_on_from_a_branch_that_was_left_takes_back_what_stands_since_they_parted(tmp_path: Path) -> None:
    again = {"type": "message", "id": "id20", "parentId": "id6", "timestamp": f"{T0}20Z"}
    entries = [*pi_entries()[:8], {**again, "message": {"role": "user", "content": "Back again."}}]
    folds = told("pi", write_lines(tmp_path / "a.jsonl", entries)).folds
    assert [fold.covers for fold in folds] == [1, 2]


def test_the_first_version_is_a_list(tmp_path: Path) -> None:
    entries = [{key: value for key, value in one.items() if key not in ("id", "parentId")} for one in pi_entries()[1:6]]
    header = {"type": "session", "id": "old", "timestamp": f"{T0}00Z", "cwd": "/shop", "modelId": "gpt-4"}
    compaction = {"type": "compaction", "summary": "Short.", "firstKeptEntryIndex": 5, "timestamp": f"{T0}09Z"}
    session = told("pi", write_lines(tmp_path / "a.jsonl", [header, *entries, compaction]))
    assert len(session.said) == 4
    assert [(fold.text, fold.kept) for fold in session.folds] == [("Short.", 1)]


def test_what_a_person_ran_is_told_or_only_recorded(tmp_path: Path) -> None:
    ran = {"role": "bashExecution", "command": "ls", "output": "pears.txt", "exitCode": 1}
    entries = [
        pi_entries()[0],
        {"type": "message", "id": "a", "parentId": None, "message": ran},
        {"type": "message", "id": "b", "parentId": "a", "message": {**ran, "excludeFromContext": True}},
    ]
    session = told("pi", write_lines(tmp_path / "a.jsonl", entries))
    assert session.lines == [("user", "Ran `ls`\n```\npears.txt\n```")]
    assert [(tool.tool_name, tool.arguments, tool.status) for tool in session.tools] == [
        ("bash", {"command": "ls"}, "error")
    ]


def test_a_name_given_later_is_the_title(tmp_path: Path) -> None:
    named = {"type": "session_info", "id": "id20", "parentId": "id9", "name": "Counting pears"}
    (thread,) = told("pi", write_lines(tmp_path / "a.jsonl", [*pi_entries(), named])).threads
    assert (thread.title, thread.model) == ("Counting pears", "claude-sonnet")


def test_an_entry_that_follows_an_unknown_one_takes_nothing_back(tmp_path: Path) -> None:
    entries = [*pi_entries()[:6], {**pi_entries()[6], "parentId": "elsewhere"}]
    assert told("pi", write_lines(tmp_path / "a.jsonl", entries)).folds == []


@pytest.mark.parametrize("cost", [0, -3, math.nan, math.inf, "0.5", None])
def test_a_cost_that_nobody_has_counted_is_none(tmp_path: Path, cost: object) -> None:
    said = {"role": "assistant", "content": "Yes.", "model": "house", "usage": {"input": 10, "cost": {"total": cost}}}
    records = [{"type": "session", "id": "s", "cwd": "/"}, {"type": "message", "id": "1", "message": said}]
    assert told("pi", write_lines(tmp_path / "s.jsonl", records)).used == [("house", 10, 0, 0, None)]
