"""How commands print: sizes, times, what texts from outside may do to a terminal, and how far a long work is."""

from __future__ import annotations

import io
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.cli import output
from orihon.cli.output import human_bytes, progress_bar, short_time, shown

PATIENCE = 60.0


class Terminal(io.StringIO):
    """Standard error that says it is a terminal, and tells when something was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self.written.set()
        return super().write(text)


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """In the test itself: pytest puts its own standard error in place before each."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    return terminal


def test_a_bar_appears_when_the_work_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(output, "_A_WHILE", 0.0)
    with progress_bar("cli.cleanup.working") as progress:
        assert progress is not None
        progress(3, 7)
        assert terminal.written.wait(PATIENCE)
        progress(4, 7)
    assert "removing" in terminal.getvalue()
    assert "/7" in terminal.getvalue()
    assert terminal.getvalue().rstrip("\r\n").endswith("\x1b[2K"), "it is gone in the end"


def test_what_is_done_at_once_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    monkeypatch.setattr(output, "_A_WHILE", 1000.0)
    with progress_bar("cli.cleanup.working") as progress:
        assert progress is not None
        progress(7, 7)
    assert "removing" not in terminal.getvalue()


def test_programs_get_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    with progress_bar("cli.cleanup.working", hidden=True) as progress:
        assert progress is None
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress_bar("cli.cleanup.working") as progress:
        assert progress is None


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KB"),
        (4_404_019, "4.2 MB"),
        (13_421_772_800, "12.5 GB"),
        (2**51, "2,048.0 TB"),
    ],
)
def test_sizes(size: int, said: str) -> None:
    assert human_bytes(size) == said


def test_times() -> None:
    assert short_time("2026-11-15T19:01:41.678602+00:00") == "2026-11-15 19:01"
    assert short_time(None) == "-"


@given(st.text())
def test_no_text_moves_the_cursor_or_turns_the_line_round(text: str) -> None:
    assert not any(
        ord(char) < 32 or 127 <= ord(char) < 160 or char in "\u2028\u2029\u202e\u2066" for char in shown(text)
    )
