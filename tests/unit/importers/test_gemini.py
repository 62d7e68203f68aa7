"""Gemini CLI: documents, lines that grow, checkpoints, logs."""

from __future__ import annotations

from pathlib import Path

from tests.importing_agents import (
    GEMINI_HEADER,
    T0,
    gemini_messages,
    make_gemini,
    make_gemini_checkpoint,
    make_gemini_lines,
    make_gemini_logs,
    told,
    write_json,
    write_lines,
)

CONVERSATION = [
    ("user", "Which files? どのファイル?"),
    ("assistant", "I look."),
    ("tool", "pears.txt"),
    ("assistant", "Only pears.txt."),
]
USED = [("gemini-3-pro", 100, 40, 15, None), ("gemini-3-pro", 130, 100, 6, None)]


def test_a_document(tmp_path: Path) -> None:
    session = told("gemini", make_gemini(tmp_path))
    (thread,) = session.threads
    assert (thread.id, thread.title, thread.created_at) == (GEMINI_HEADER["sessionId"], "Looking at pears", f"{T0}00Z")
    assert session.lines == CONVERSATION
    assert session.calls == [("ls-1", "list", {"path": "."})]
    assert session.results == [("ls-1", "pears.txt")]
    assert session.used == USED
    assert session.thoughts == ["Plan\nList them."]
    assert [item.timestamp for item in session.said] == [f"{T0}0{second}Z" for second in (1, 2, 3, 4)]
    assert session.problems == []


def test_lines_say_the_same_although_a_message_is_written_twice(tmp_path: Path) -> None:
    session = told("gemini", make_gemini_lines(tmp_path))
    first, second = [item for item in session.said if item.answer == "m3"]
    assert (first.message.text, first.message.calls) == ("I look.", ())
    assert (second.message.text, second.message.calls) == ("", ("ls-1",))
    assert [line for line in session.lines if line[1]] == CONVERSATION
    assert session.thoughts == ["Plan\nList them."]
    assert session.used == [USED[0], *USED]
    assert session.problems == []


def test_going_back_takes_back_what_came_after(tmp_path: Path) -> None:
    user, _, answer, last = gemini_messages()
    records = [GEMINI_HEADER, user, answer, last, {"$rewindTo": "m3"}, {**user, "id": "m5"}]
    session = told("gemini", write_lines(tmp_path / "session-1.jsonl", records))
    (fold,) = session.folds
    assert (fold.text, fold.kept, fold.covers) == ("", 0, 3)
    assert len(session.said) == 5


def test_a_new_list_of_messages_is_a_compaction(tmp_path: Path) -> None:
    user, _, answer, last = gemini_messages()
    summary = {"id": "new-1", "type": "user", "content": [{"text": "<state_snapshot>pears.txt"}]}
    thanks = {"id": "new-2", "type": "gemini", "content": [{"text": "Got it."}]}
    records = [GEMINI_HEADER, user, answer, last, {"$set": {"messages": [summary, thanks, last]}}]
    (fold,) = told("gemini", write_lines(tmp_path / "session-1.jsonl", records)).folds
    assert (fold.text, fold.kept, fold.covers) == ("<state_snapshot>pears.txt", 1, None)


def test_the_same_messages_with_other_contents_are_no_compaction(tmp_path: Path) -> None:
    user, _, answer, last = gemini_messages()
    masked = {**answer, "toolCalls": []}
    records = [GEMINI_HEADER, user, answer, last, {"$set": {"messages": [user, masked, last]}}]
    session = told("gemini", write_lines(tmp_path / "session-1.jsonl", records))
    assert session.folds == []
    assert session.lines == CONVERSATION


def test_a_sub_agent_is_a_child_of_the_session_whose_folder_it_is_in(tmp_path: Path) -> None:
    path = tmp_path / "chats" / "parent-session" / "child.jsonl"
    (thread,) = told("gemini", write_lines(path, [{**GEMINI_HEADER, "kind": "subagent"}, gemini_messages()[0]])).threads
    assert thread.parent == "parent-session"


def test_a_checkpoint_is_what_the_model_was_shown(tmp_path: Path) -> None:
    session = told("gemini", make_gemini_checkpoint(tmp_path))
    assert session.lines == [
        ("user", "Which files?"),
        ("assistant", ""),
        ("tool", "pears.txt"),
        ("assistant", "Only pears.txt."),
    ]
    assert session.thoughts == ["Hm."]
    assert [name for _, name, _ in session.calls] == ["list"]


def test_logs_are_read_for_sessions_without_a_file_only(tmp_path: Path) -> None:
    path = make_gemini_logs(tmp_path)
    assert told("gemini", path).lines == [("user", "Count the pears."), ("user", "/quit")]
    write_json(path.parent / "chats" / "session-2026-03-04T10-00-77777777.json", {})
    assert told("gemini", path).threads == []


def test_a_picture_and_a_file_are_parts(tmp_path: Path) -> None:
    parts = [
        {"text": "What is this?"},
        {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
        {"inlineData": {"mimeType": "application/pdf", "data": "BBBB"}},
    ]
    session = {**GEMINI_HEADER, "messages": [{"id": "m1", "type": "user", "content": parts}]}
    (item,) = told("gemini", write_json(tmp_path / "session-1.json", session)).said
    assert item.message.parts is not None
    assert [part.kind for part in item.message.parts] == ["text", "image", "file"]


def test_messages_without_ids_are_all_read(tmp_path: Path) -> None:
    messages = [
        {"type": "user", "text": "One"},
        {"type": "gemini", "content": "Two"},
        {"type": "user", "content": "Three"},
    ]
    session = told("gemini", write_json(tmp_path / "session-1.json", {"sessionId": "s", "messages": messages}))
    assert session.lines == [("user", "One"), ("assistant", "Two"), ("user", "Three")]
