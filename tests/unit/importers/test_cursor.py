"""Cursor: transcripts with calls that have no ids, and chats in SQLite."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from tests.importing_agents import cursor_records, make_cursor, make_cursor_store, told, write_lines

NAME = "d15c0de0-0000-4000-8000-000000000001"


def test_a_transcript(tmp_path: Path) -> None:
    session = told("cursor", make_cursor(tmp_path))
    assert [(thread.id, thread.parent, thread.about) for thread in session.threads] == [
        (NAME, None, {"project": "shop"})
    ]
    assert session.lines == [
        ("user", "<user_query>\nWhich files?\n</user_query>"),
        ("assistant", "I look."),
        ("tool", "pears.txt"),
        ("assistant", "Only pears.txt."),
    ]
    assert session.thoughts == ["List them."]
    assert session.problems == []


def test_a_call_without_an_id_gets_one_and_so_does_its_result(tmp_path: Path) -> None:
    session = told("cursor", make_cursor(tmp_path))
    assert session.calls == [("call_1", "Shell", {"command": "ls"})]
    assert session.results == [("call_1", "pears.txt")]
    assert session.said[2].message.extra["$orihon"]["fields"] == {"tool_use_id": "t1"}


def test_what_was_read_stays_the_same_when_the_transcript_grows(tmp_path: Path) -> None:
    for length in range(1, 5):
        path = write_lines(tmp_path / "a.jsonl", cursor_records()[:length])
        whole = told("cursor", write_lines(tmp_path / "b.jsonl", cursor_records()))
        assert told("cursor", path).said == whole.said[:length]


def test_a_sub_agent_is_a_child_of_the_session_above(tmp_path: Path) -> None:
    path = tmp_path / "agent-transcripts" / NAME / "subagents" / "kid.jsonl"
    (thread,) = told("cursor", write_lines(path, cursor_records()[:1])).threads
    assert (thread.id, thread.parent) == ("kid", NAME)


def test_a_chat_in_sqlite(tmp_path: Path) -> None:
    session = told("cursor", make_cursor_store(tmp_path))
    (thread,) = session.threads
    assert (thread.id, thread.title, thread.model) == ("d15c-store", "Pears", "gpt-5")
    assert thread.created_at == "2026-03-04T10:00:00.000Z"
    assert session.lines == [
        ("system", "You help."),
        ("user", "Which files?"),
        ("assistant", ""),
        ("tool", "pears.txt"),
        ("assistant", "Only pears.txt."),
    ]
    assert session.calls == [("k1", "Shell", {"command": "ls"})]
    assert session.thoughts == ["List them."]


def test_a_damaged_chat_is_reported(tmp_path: Path) -> None:
    path = make_cursor_store(tmp_path)
    path.write_bytes(path.read_bytes()[:5000])
    session = told("cursor", path)
    assert [problem.cause for problem in session.problems] == ["unreadable"]


def test_a_message_that_is_missing_in_a_chat_is_reported(tmp_path: Path) -> None:
    path = make_cursor_store(tmp_path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("DELETE FROM blobs WHERE CAST(data AS TEXT) LIKE '%Which files%'")
    connection.close()
    session = told("cursor", path)
    assert len(session.said) == 4
    assert [problem.fields["kind"] for problem in session.problems] == ["missing blob"]
