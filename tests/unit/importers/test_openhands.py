"""OpenHands: events in lists, results of evaluations and folders, of both generations."""

from __future__ import annotations

import json
from pathlib import Path

from tests.importing_agents import (
    make_openhands,
    make_openhands_evaluation,
    make_openhands_folder,
    make_openhands_sdk_folder,
    openhands_events,
    told,
    write_json,
)


def test_a_trajectory(tmp_path: Path) -> None:
    session = told("openhands", make_openhands(tmp_path))
    main, child = session.threads
    assert [(item.message.role, item.message.text) for item in session.of[main.id]] == [
        ("system", "You are OpenHands."),
        ("user", "Which files?"),
        ("user", "Be kind."),
        ("assistant", "I look."),
        ("tool", "pears.txt"),
        ("tool", "Logged."),
        ("assistant", ""),
        ("tool", "17"),
        ("assistant", ""),
        ("assistant", "Only pears.txt."),
    ]
    assert (child.parent, child.title) == (main.id, "Count pears")
    assert [item.message.text for item in session.of[child.id]] == ["17."]
    assert session.problems == []


def test_parallel_calls_of_one_answer_are_one_message(tmp_path: Path) -> None:
    session = told("openhands", make_openhands(tmp_path))
    assert [call[0] for call in session.calls] == ["c1", "c2", "event-9", "event-12"]
    assert session.results == [("c1", "pears.txt"), ("c2", "Logged."), ("event-9", "17")]
    assert session.used == [("claude-sonnet", 100, 50, 20, 0.25)]


def test_a_condensation_covers_what_was_forgotten_and_keeps_the_rest(tmp_path: Path) -> None:
    (fold,) = told("openhands", make_openhands(tmp_path)).folds
    assert (fold.text, fold.covers, fold.kept) == ("pears.txt is there.", 3, 3)


def test_a_later_condensation_takes_the_earlier_one_in(tmp_path: Path) -> None:
    later = {"id": 15, "source": "agent", "action": "condensation"}
    args = {"forgotten_events_start_id": 9, "forgotten_events_end_id": 12, "summary": "All of it."}
    path = write_json(tmp_path / "a.json", [*openhands_events(), {**later, "args": args}])
    assert [(fold.covers, fold.kept) for fold in told("openhands", path).folds] == [(3, 3), (6, 1)]


def test_errors_plans_and_tools(tmp_path: Path) -> None:
    session = told("openhands", make_openhands(tmp_path))
    assert [(tool.call_id, tool.status) for tool in session.tools] == [("c1", "error")]
    assert [(plan.plan_type, plan.content) for plan in session.plans] == [("todo", [{"title": "count"}])]


def test_results_of_an_evaluation_are_one_thread_a_line(tmp_path: Path) -> None:
    results = told("openhands", make_openhands_evaluation(tmp_path))
    first, _, second = results.threads
    assert (first.title, first.repository, first.model) == ("kim__shop-1", "kim/shop", "openai/gpt-4o")
    assert first.about["patch"] == "diff"
    assert len(results.of[first.id]) == 10
    assert [item.message.text for item in results.of[second.id]] == [
        "You are OpenHands.",
        "Which files?",
        "Only pears.txt.",
    ]


def test_a_folder_of_events_is_read_once_with_its_last_file(tmp_path: Path) -> None:
    last = make_openhands_folder(tmp_path)
    session = told("openhands", last)
    assert session.threads[0].id == "abc"
    assert session.lines == told("openhands", make_openhands(tmp_path)).lines
    assert told("openhands", last.with_name("3.json")).threads == []


def test_an_event_file_that_is_damaged_does_not_stop_the_others(tmp_path: Path) -> None:
    last = make_openhands_folder(tmp_path)
    last.with_name("1.json").write_text("{", encoding="utf-8")
    session = told("openhands", last)
    assert [(problem.cause, problem.fields) for problem in session.problems] == [("event_file", {"name": "1.json"})]
    assert len(session.said) == 10


def test_a_conversation_of_the_sdk(tmp_path: Path) -> None:
    session = told("openhands", make_openhands_sdk_folder(tmp_path))
    (thread,) = session.threads
    assert (thread.id, thread.model, thread.cwd) == ("5f00-full", "claude", "/shop")
    assert session.lines == [
        ("system", "You are OpenHands."),
        ("user", "Which files?"),
        ("assistant", "I look."),
        ("assistant", ""),
        ("tool", "pears.txt"),
        ("tool", "refused"),
        ("assistant", "Only pears.txt."),
    ]
    assert [item.answer for item in session.said if item.message.tool_calls] == ["r1", "r1"]
    assert session.results == [("c1", "pears.txt"), ("c2", "refused")]
    assert session.used == [("claude-sonnet", 100, 50, 20, 0.5)]
    assert session.thoughts == ["List them."]
    assert [(fold.text, fold.covers, fold.kept) for fold in session.folds] == [("pears.txt.", 3, 0)]


def test_older_events_without_answers_are_calls_of_the_tool_of_their_name(tmp_path: Path) -> None:
    events = [
        {"id": 1, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "I look.", "hidden": False}},
        {"id": 2, "source": "agent", "observation": "run", "cause": 1, "content": "pears.txt", "extras": {}},
        {"id": 3, "source": "user", "action": "run", "args": {"command": "pwd"}},
    ]
    session = told("openhands", write_json(tmp_path / "a.json", events))
    assert session.calls == [("event-1", "run", {"command": "ls"})]
    assert session.lines == [("assistant", "I look."), ("tool", "pears.txt"), ("user", "pwd")]


def test_events_in_lines_are_one_conversation(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in openhands_events()), encoding="utf-8")
    assert told("openhands", path).lines == told("openhands", make_openhands(tmp_path)).lines


def test_an_issue_that_was_worked_on(tmp_path: Path) -> None:
    issue = {"owner": "kim", "repo": "shop", "number": 5, "title": "Count pears", "body": ""}
    line = {
        "issue": issue,
        "issue_type": "issue",
        "instruction": "Count",
        "history": openhands_events(),
        "git_patch": "diff",
    }
    path = tmp_path / "output.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    (thread, _) = told("openhands", path).threads
    assert (thread.title, thread.repository, thread.about["patch"]) == ("Count pears", "kim/shop", "diff")


def test_the_oldest_events_say_only_what_was_done(tmp_path: Path) -> None:
    events = [
        {"action": "message", "content": "Which files?"},
        {"action": "run", "command": "ls", "thought": "I look.", "is_confirmed": "confirmed"},
        {"observation": "run", "content": "pears.txt", "exit_code": 0},
        {"action": "message", "content": "Only pears.txt."},
        {"action": "message", "content": "Go on."},
    ]
    line = {"instance_id": "kim__shop-1", "test_result": {}, "history": events}
    path = tmp_path / "output.jsonl"
    path.write_text(json.dumps(line) + "\n", encoding="utf-8")
    session = told("openhands", path)
    assert session.lines == [
        ("user", "Which files?"),
        ("assistant", "I look."),
        ("tool", "pears.txt"),
        ("assistant", "Only pears.txt."),
        ("user", "Go on."),
    ]
    assert [call[1:] for call in session.calls] == [("run", {"command": "ls"})]
    assert session.results[0][0] == session.calls[0][0]


def test_tools_of_an_agent_behind_the_agent_are_recorded_when_they_end(tmp_path: Path) -> None:
    call = {"id": "a1", "source": "agent", "kind": "ACPToolCallEvent", "tool_call_id": "x", "title": "ls"}
    states = [{"status": "in_progress"}, {"status": "completed", "raw_output": "pears.txt"}, {"status": "failed"}]
    session = told("openhands", write_json(tmp_path / "a.json", [{**call, **state} for state in states]))
    assert [(tool.tool_name, tool.result, tool.status) for tool in session.tools] == [
        ("ls", "pears.txt", "success"),
        ("ls", None, "error"),
    ]
