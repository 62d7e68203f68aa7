"""The edges of the terminal: mistakes in a command line, output that cannot be written, screens that can do little."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from orihon.cli.main import main
from orihon.texts import set_language
from tests.acceptance.test_cli import ORIHON, PATIENCE, environment, run_on_terminal
from tests.command_walk import prepare


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("edges") / "walk"
    prepare(folder)
    return folder / "contexts"


@pytest.mark.parametrize(
    ("arguments", "english", "japanese"),
    [
        (["list", "--limit", "0"], "0 is not in the range 1<=x<=1000000.", "0 は範囲 1<=x<=1000000 の外です"),
        (["list", "-n", "x"], "'--limit' / '-n': 'x' is not a number", "'x' は使える数値ではありません"),
        (["completion", "csh"], "'csh' is not one of 'bash', 'zsh', 'fish'.", "'csh' は 'bash', 'zsh', 'fish' の"),
        (["list", "more"], "one argument too many, or more: more.", "余分な引数があります: more"),
        (["list", "--limit"], "The option --limit needs a value.", "オプション --limit には値が必要です"),
        (["list", "--json=3"], "The option --json takes no value.", "オプション --json は値を取りません"),
    ],
)
def test_typers_complaints_are_in_the_readers_language(
    arguments: list[str], english: str, japanese: str, capsys: pytest.CaptureFixture[str], own_logging: None
) -> None:
    for language, words in (("en", english), ("ja", japanese)):
        assert main(["--lang", language, *arguments]) == 2
        said = capsys.readouterr().err
        assert words in said
        assert len(said.splitlines()) == 1
    set_language(None)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["config"], ["list", "--help"]])
def test_a_page_that_cannot_be_written_is_one_line(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [str(ORIHON), *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=environment("en"),
            timeout=PATIENCE,
        )
    assert ended.returncode == 2
    assert ended.stderr.startswith("orihon: Standard output cannot be written: No space left on device.")


def test_a_page_that_nobody_reads_ends_as_other_output_does() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [str(ORIHON), "--help"],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        env=environment("en"),
        timeout=PATIENCE,
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


def test_an_error_that_cannot_be_said_is_an_error_all_the_same(base: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        command = [str(ORIHON), "--base-dir", str(base), "show", "nobody"]
        ended = subprocess.run(command, stderr=full, env=environment("en"), timeout=PATIENCE)
    assert ended.returncode == 2


def test_a_terminal_that_cannot_move_its_cursor_gets_no_pager(base: Path) -> None:
    shown = run_on_terminal(
        *("--base-dir", base, "show", "paused-1", "--messages"), TERM="dumb", LINES="5", PAGER="sed s/^/PAGED/"
    )
    assert shown.code == 0
    assert "PAGED" not in shown.out
    assert "\x1b" not in shown.out


def test_a_narrow_terminal_keeps_what_was_said(base: Path) -> None:
    wide = run_on_terminal("--base-dir", base, "show", "paused-1", "--last", "1")
    narrow = run_on_terminal("--base-dir", base, "show", "paused-1", "--last", "1", COLUMNS="40")
    time = re.compile(r"\d\d:\d\d:\d\d")
    assert time.search(wide.out)
    said = wide.out.split("\x1b[0m")[-1].strip()[:8]
    assert said in narrow.out
    assert not time.search(narrow.out)


def test_figures_stand_at_the_right(base: Path) -> None:
    shown = run_on_terminal("--base-dir", base, "list", TERM="dumb", COLUMNS="160")
    head, _, *rows = [line.rstrip() for line in shown.out.splitlines() if line.strip()]
    end = head.index("messages") + len("messages")
    assert len(rows) > 1
    assert all(row[end - 1].isdigit() and row[end].isspace() for row in rows)


def test_a_newcomer_is_told_how_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], own_logging: None
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["list"]) == 0
    assert "orihon demo" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_export_into_a_folder_that_is_missing_says_which(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], own_logging: None
) -> None:
    missing = tmp_path / "missing"
    assert main(["--base-dir", str(base), "export", "paused-1", "--out", str(missing / "a.jsonl")]) == 2
    assert f"There is no folder {missing} for the file a.jsonl." in capsys.readouterr().err


def test_what_is_empty_says_so_beside_the_output(
    base: Path, capsys: pytest.CaptureFixture[str], own_logging: None
) -> None:
    for choice in (["--range", "99999-"], ["--role", "nobody"]):
        assert main(["--base-dir", str(base), "show", "paused-1", *choice]) == 0
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == ("", "Messages: there is nothing of that kind.\n")
