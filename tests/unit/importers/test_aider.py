"""aider: a conversation in markdown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.importing_agents import AIDER, make_aider, told, write

ANSWER = "There is one:\n\n```\n> quoted in a block\n#### heading in a block\n```\n\n> a quotation of the answer"


def test_a_session(tmp_path: Path) -> None:
    session = told("aider", make_aider(tmp_path))
    (thread,) = session.threads
    assert thread.id.startswith("2026-03-04-10-05-00-")
    assert (thread.created_at, thread.cwd) == ("2026-03-04T10:05:00", str(tmp_path))
    assert session.lines == [
        ("system", "Aider v0.86.0\nMain model: claude-sonnet with diff edit format"),
        ("user", "Which files?\nどのファイル?"),
        ("assistant", ANSWER),
        ("system", "Tokens: 3.7k sent, 1.2k cache hit, 52 received.\nCost: $0.02 message, $0.13 session."),
        ("system", "Applied edit to pears.txt"),
        ("user", "/exit"),
    ]
    assert session.used == [("claude-sonnet", 3700, 1200, 52, 0.02)]
    assert session.problems == []


def test_sessions_of_a_file_that_has_grown_keep_their_names(tmp_path: Path) -> None:
    path = make_aider(tmp_path)
    (before,) = told("aider", path).threads
    again = "\n# aider chat started at 2026-03-04 10:05:00\n\n#### Again  \n"
    first, second = told("aider", write(path, AIDER + again)).threads
    assert first == before
    assert second.id == f"{before.id}-2"


def test_an_editor_has_taken_the_spaces_away(tmp_path: Path) -> None:
    bare = "\n".join(line.rstrip() for line in AIDER.splitlines())
    session = told("aider", write(tmp_path / ".aider.chat.history.md", bare))
    assert [role for role, _ in session.lines][:3] == ["system", "user", "assistant"]
    assert "#### heading in a block" in session.lines[2][1]
    assert session.used[0][:4] == ("claude-sonnet", 3700, 1200, 52)


def test_bytes_that_are_no_text_are_reported_and_read_as_far_as_they_go(tmp_path: Path) -> None:
    path = make_aider(tmp_path)
    path.write_bytes(path.read_bytes().replace("どのファイル".encode(), b"\xff\xfe"))
    session = told("aider", path)
    assert [(problem.cause, problem.line) for problem in session.problems] == [("encoding", 10)]
    assert len(session.said) == 6


def test_headings_of_an_answer_are_its_own_and_a_prompt_after_two_empty_lines_is_not(tmp_path: Path) -> None:
    talk = "#### One  \n\nText.\n\n#### Heading\n\nMore.\n\n\n#### Two\n"
    written = f"# aider chat started at 2026-03-04 10:00:00\n\n{talk}"
    session = told("aider", write(tmp_path / "a.md", written))
    assert session.lines == [("user", "One"), ("assistant", "Text.\n\n#### Heading\n\nMore."), ("user", "Two")]


def test_a_session_in_which_nobody_says_anything_is_none(tmp_path: Path) -> None:
    start = "# aider chat started at 2026-03-04 10:0{}:00\n\n> Aider v0.86.0  \n\n"
    written = f"{start.format(0)}{start.format(1)}#### One  \n\n{start.format(2)}"
    session = told("aider", write(tmp_path / "a.md", written))
    assert [thread.created_at for thread in session.threads] == ["2026-03-04T10:01:00"]
    assert session.lines == [("system", "Aider v0.86.0"), ("user", "One")]


def test_what_was_read_stays_the_same_when_the_file_grows(tmp_path: Path) -> None:
    whole = told("aider", make_aider(tmp_path)).said
    lines = AIDER.splitlines(keepends=True)
    ends = [at + 1 for at, line in enumerate(lines) if line.endswith("  \n") and lines[at + 1 : at + 2] != ["\n"]]
    for end in ends:
        part = told("aider", write(tmp_path / "part" / ".aider.chat.history.md", "".join(lines[:end]))).said
        assert [item.message for item in part[:-1]] == [item.message for item in whole[: max(len(part) - 1, 0)]]


@pytest.mark.parametrize(("tokens", "cost"), [("1.2.3k", "."), ("9" * 400, "9" * 400), (",", "1.2.3")])
def test_figures_that_are_none_are_left_out(tmp_path: Path, tokens: str, cost: str) -> None:
    text = AIDER.replace("3.7k sent", f"{tokens} sent").replace("$0.02 message", f"${cost} message")
    session = told("aider", write(tmp_path / ".aider.chat.history.md", text))
    assert session.used == [("claude-sonnet", 0, 0, 52, None)]
    assert session.problems == []
