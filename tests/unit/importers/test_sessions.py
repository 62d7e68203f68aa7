"""Files of other agents as plain conversations: each sample gives what an import would keep of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import Base
from orihon.errors import InvalidInput
from orihon.importers.sessions import read_sessions
from orihon.values.message.message import Message
from tests.importing import CHAT, SAMPLES, Sample, claude_record, claude_records, write_lines
from tests.unit.importers.test_real_agents import NATIVE
from tests.unit.test_squeeze import pairs_are_whole

REAL = sorted(path for path in NATIVE.rglob("*") if path.is_file()) if NATIVE.is_dir() else []


def requests(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [message.request() for message in messages]


def imported(path: Path, folder: Path) -> list[list[dict[str, Any]]]:
    """The logs that an import of the file makes, by their first and last words."""
    with Base(folder) as base:
        tasks = base.import_([path]).tasks
        logs = []
        for task in tasks:
            place = base.folders.find(task.uuid)
            assert place is not None
            with closing(base.read_store(place)) as store:
                logs.append([stored.message.request() for stored in store.messages()])
    return sorted(logs, key=str)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: f"{one.format}-{one.make.__name__}")
def test_a_sample_gives_what_an_import_keeps(sample: Sample, tmp_path: Path) -> None:
    path = sample.make(tmp_path / "in")
    found = read_sessions(path)
    assert found.problems.count == 0
    assert found.sessions
    assert all(pairs_are_whole(requests(session.messages)) for session in found.sessions)
    whole = [log for log in imported(path, tmp_path / "base") if log]
    assert len(found.sessions) == len(whole)
    told = sorted((requests(session.messages) for session in found.sessions), key=str)
    for ours, kept in zip(told, whole, strict=True):
        assert [one for one in kept if one in ours] == ours


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.name)
def test_a_real_file_is_read_whole(path: Path) -> None:
    found = read_sessions(path)
    assert found.problems.count == 0
    assert any(session.parent is None for session in found.sessions)
    assert all(pairs_are_whole(requests(session.messages)) for session in found.sessions)


def test_an_export_of_our_own_is_read_without_what_was_taken_back(tmp_path: Path) -> None:
    with Base(tmp_path / "base") as base:
        with base.task("pears") as task:
            for number in range(1, 7):
                task.add("user" if number % 2 else "assistant", f"line {number}")
            task.rewind(4)
        base.export("pears", out=tmp_path / "pears.jsonl")
    found = read_sessions(tmp_path / "pears.jsonl")
    assert found.problems.count == 0
    assert [one.text for one in found.chosen().messages] == ["line 1", "line 2", "line 3", "line 4"]


def test_what_an_agent_took_back_is_left_out_and_what_it_summed_up_stands(tmp_path: Path) -> None:
    def said(number: int, role: str, text: str, **more: Any) -> dict[str, Any]:
        return claude_record(number, role, {"role": role, "content": text, "id": f"m{number}"}, **more)

    lines = [
        said(1, "user", "Hello."),
        said(2, "assistant", "Hello, too."),
        said(3, "user", "Count the apples."),
        said(4, "assistant", "31 apples."),
        said(5, "user", "Count the pears.", parentUuid="uuid-2"),
        said(6, "assistant", "17 pears."),
        said(7, "user", "Fruit was counted.", isCompactSummary=True),
        said(8, "user", "Now sell them."),
    ]
    found = read_sessions(write_lines(tmp_path / "a.jsonl", lines))
    said_by_all = [one.text for one in found.chosen().messages]
    assert said_by_all == ["Hello.", "Hello, too.", "Count the pears.", "17 pears.", "Now sell them."]


def test_a_session_is_named_by_its_first_words_where_it_has_no_title(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", CHAT)
    assert read_sessions(path).chosen().title.startswith("How many pears")


def test_what_nobody_knows_is_a_problem_and_no_session(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Dear diary", encoding="utf-8")
    for where, cause in ((path, "unrecognised"), (tmp_path / "missing", "unreadable")):
        found = read_sessions(where)
        assert (found.sessions, [one.cause for one in found.problems.named()]) == ([], [cause])
        with pytest.raises(InvalidInput):
            found.chosen()


def test_a_bad_line_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", CHAT)
    path.write_text(path.read_text(encoding="utf-8") + "{broken\n" + json.dumps(CHAT[1]) + "\n", encoding="utf-8")
    found = read_sessions(path)
    assert len(found.chosen().messages) == len(CHAT) + 1
    assert [one.line for one in found.problems.named()] == [6]


def test_one_of_several_is_chosen_by_number_or_id(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a.jsonl", [{"id": f"trial-{n}", "messages": CHAT[: n + 1]} for n in (1, 2, 3)])
    found = read_sessions(path)
    assert len(found.sessions) == 3
    for number, session in enumerate(found.sessions, start=1):
        assert found.chosen(str(number)) is found.chosen(session.id) is session
    for name, reason in ((None, "several_sessions"), ("9", "no_such_session"), ("", "no_such_session")):
        with pytest.raises(InvalidInput) as refused:
            found.chosen(name)
        assert refused.value.reason == reason
        assert all(f"{number} " in str(refused.value) for number in (1, 2, 3))


def test_what_a_session_has_started_does_not_stand_in_its_way(tmp_path: Path) -> None:
    side = claude_record(9, "user", {"role": "user", "content": "Count for me."}, isSidechain=True, parentUuid=None)
    found = read_sessions(write_lines(tmp_path / "a.jsonl", [*claude_records(), side]))
    assert len(found.sessions) == 2
    assert found.chosen().messages[0].text.startswith("Which files")
    assert found.chosen("2").messages[0].text == "Count for me."
