"""Every command there is: its JSON against the schema, its texts in both languages, on a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from orihon.cli.commands import COMMANDS
from orihon.cli.main import main
from orihon.texts import set_language
from scripts.json_forms import LINES, SCHEMAS, document, form_schema
from tests.acceptance.test_cli import COLOUR, environment
from tests.command_walk import Run, copied, prepare, runs
from tests.walk_process import BEGIN, END

ROOT = Path(__file__).parents[2]
#: Forms that a test of their own looks at: they take long, need a server, or do not end.
ELSEWHERE = {
    ("demo", ""),
    ("demo", "--phases"),
    ("notifications", "--follow"),
    ("notifications", "--deliver"),
    ("monitor", "--every"),
    ("serve", ""),
    ("proxy", ""),
    ("wrap", ""),
    ("mcp serve", ""),
}
_PAGE = re.compile(rf"^{BEGIN} (?P<name>[^\n]*)\n(?P<said>.*?)^{END} (?P<code>\d+)$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prepared") / "walk"
    prepare(folder)
    return folder


@pytest.fixture(autouse=True)
def _as_before(own_logging: None) -> Iterator[None]:
    yield
    set_language(None)


def test_every_command_has_a_schema_and_is_walked_in_every_form() -> None:
    assert list(SCHEMAS) == list(COMMANDS)
    walked = {(run.command, run.variant) for run in runs()}
    promised = {(command, form) for command, forms in SCHEMAS.items() for form in forms}
    assert walked == promised - ELSEWHERE
    Draft202012Validator.check_schema(document())


@pytest.mark.parametrize("run", list(runs()), ids=lambda run: run.name)
def test_json_is_what_the_schema_promises(
    run: Run,
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = copied(prepared, tmp_path / "walk")
    monkeypatch.chdir(ROOT if run.dear else folder)
    code = main([*run.command_line(folder), "--json"])
    printed, problems = capsys.readouterr()
    assert code in run.codes, problems
    checker = Draft202012Validator(form_schema(run.command, run.variant))
    is_lines = (run.command, run.variant) in LINES
    found = [json.loads(line) for line in printed.splitlines()] if is_lines else [json.loads(printed)]
    assert found
    for one in found:
        assert [f"{error.json_path}: {error.message}" for error in checker.iter_errors(one)] == []


@pytest.mark.parametrize("language", ["en", "ja"])
def test_piped_output_has_no_colours_and_nothing_breaks(language: str, prepared: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.walk_process", str(prepared), str(tmp_path)]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(language),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-2000:]
    assert "\x1b" not in ended.stdout
    check_pages(ended.stdout, language)


@pytest.mark.parametrize(("language", "columns", "plain"), [("en", 80, True), ("ja", 40, False)])
def test_a_terminal_of_any_width_shows_everything(
    language: str, columns: int, plain: bool, prepared: Path, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tests.walk_process", str(prepared), str(tmp_path)]
    more = {"COLUMNS": str(columns), "LINES": "24", **({"NO_COLOR": "1"} if plain else {})}
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(language, **more), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    shown = bytearray()
    try:
        while chunk := os.read(ours, 1 << 16):
            shown += chunk
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    assert process.wait(300) == 0, shown[-2000:].decode()
    text = shown.decode().replace("\r\n", "\n")
    assert bool(COLOUR.search(text)) is not plain
    check_pages(text, language)


def check_pages(text: str, language: str) -> None:
    """Every command has said something, ended as it should, and never excused itself for a mistake of its own."""
    pages = {found["name"]: (found["said"], int(found["code"])) for found in _PAGE.finditer(text)}
    walked = [run for run in runs() if not run.dear]
    helped = dict.fromkeys(run.command for run in runs())
    assert len(pages) == len(walked) + len(helped)
    for run in walked:
        said, code = pages[run.name]
        assert code in run.codes, (run.name, said)
        assert "Traceback" not in said
        assert said.strip() or run.silent, run.name
    for command in helped:
        said, code = pages[f"{command} --help"]
        assert code == 0
        assert f"orihon {command}" in said
        assert ("使い方" if language == "ja" else "Usage") in said
