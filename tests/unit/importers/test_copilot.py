"""Copilot CLI: events, sub-agents, what a session used."""

from __future__ import annotations

from pathlib import Path

from tests.importing_agents import copilot_event, copilot_events, make_copilot, make_copilot_document, told, write_lines

SESSION = "c0ffee00-1111-4222-8333-444444444444"


def test_a_session(tmp_path: Path) -> None:
    session = told("copilot", make_copilot(tmp_path))
    main, child = session.threads
    assert (main.id, main.cwd, main.repository, main.model) == (SESSION, "/home/kim/shop", "kim/shop", "gpt-5")
    assert (child.id, child.parent, child.title) == (f"{SESSION}-t2", SESSION, "Counts")
    assert [(item.message.role, item.message.text) for item in session.of[SESSION]] == [
        ("user", "Which files?"),
        ("assistant", "I look."),
        ("tool", "pears.txt"),
        ("tool", "late"),
        ("assistant", "Only pears.txt."),
    ]
    assert [item.message.text for item in session.of[child.id]] == ["17."]
    assert session.calls == [("t1", "bash", {"command": "ls"}), ("t2", "task", {"prompt": "count"})]
    assert session.thoughts == ["List them."]
    assert [(fold.text, fold.kept) for fold in session.folds] == [("There is pears.txt.", 0)]


def test_what_the_model_was_sent_is_kept_beside_what_was_typed(tmp_path: Path) -> None:
    asked = told("copilot", make_copilot(tmp_path)).said[0].message
    assert asked.extra["$orihon"]["fields"]["sent"] == "<now/>Which files?"


def test_durations_and_errors_of_tools(tmp_path: Path) -> None:
    first, second = told("copilot", make_copilot(tmp_path)).tools
    assert (first.call_id, first.duration_ms, first.status) == ("t1", 1000.0, "success")
    assert (second.call_id, second.error, second.status) == ("t2", "late", "error")


def test_the_use_of_the_whole_session_is_counted_once_with_its_last_answer(tmp_path: Path) -> None:
    used = told("copilot", make_copilot(tmp_path)).used
    assert used == [("gpt-5", 0, 0, 12, None), ("gpt-5", 900, 300, 5, None)]


def test_what_a_single_call_used_wins(tmp_path: Path) -> None:
    events = copilot_events()[:4]
    events.append(
        copilot_event(
            4, "assistant.usage", {"model": "gpt-5", "inputTokens": 70, "outputTokens": 12, "cacheReadTokens": 30}
        )
    )
    events.append(copilot_events()[-1])
    assert told("copilot", write_lines(tmp_path / "events.jsonl", events)).used == [("gpt-5", 70, 30, 12, None)]


def test_unknown_events_are_counted_where_they_came_first(tmp_path: Path) -> None:
    strange = [copilot_event(number, "pears.counted", {"count": 17}) for number in (14, 15)]
    (problem,) = told("copilot", write_lines(tmp_path / "events.jsonl", [*copilot_events(), *strange])).problems
    assert (problem.cause, problem.line, problem.fields) == ("unknown_kind", 14, {"kind": "pears.counted", "count": 2})


def test_messages_said_while_a_compaction_ran_are_kept(tmp_path: Path) -> None:
    events = copilot_events()
    late = copilot_event(9, "user.message", {"content": "And apples?"})
    session = told("copilot", write_lines(tmp_path / "events.jsonl", [*events[:10], late, *events[10:]]))
    assert [fold.kept for fold in session.folds] == [1]


def test_a_log_without_its_beginning_is_named_after_its_folder(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "f01de2" / "events.jsonl", copilot_events()[1:4])
    assert told("copilot", path).threads[0].id == "f01de2"


def test_an_older_session_is_one_document(tmp_path: Path) -> None:
    session = told("copilot", make_copilot_document(tmp_path))
    assert session.threads[0].id == "c0ffee01"
    assert session.lines == [("user", "Which files?"), ("assistant", "Only pears.txt.")]


def test_a_title_given_later(tmp_path: Path) -> None:
    events = [*copilot_events(), copilot_event(14, "session.title_changed", {"title": "Counting pears"})]
    assert told("copilot", write_lines(tmp_path / "events.jsonl", events)).threads[0].title == "Counting pears"


def test_a_sub_agent_goes_by_its_call_and_by_its_own_name(tmp_path: Path) -> None:
    events = [
        *copilot_events()[:4],
        copilot_event(4, "subagent.started", {"toolCallId": "t2", "agentName": "counter"}, agentId="agent-1"),
        copilot_event(5, "user.message", {"content": "Count."}, agentId="agent-1"),
        copilot_event(6, "assistant.message", {"messageId": "b1", "content": "17.", "parentToolCallId": "t2"}),
    ]
    session = told("copilot", write_lines(tmp_path / "events.jsonl", events))
    assert [item.message.text for item in session.of[f"{SESSION}-t2"]] == ["Count.", "17."]
    assert len(session.threads) == 2
