"""The real ``orihon`` executable, in both languages, with and without a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

import orihon
from orihon.values.task import TaskKey
from tests import commands
from tests.damage import BACKENDS, edit_record, killed_task, paused_task, start_task, tear, with_fields

ORIHON = Path(sys.executable).with_name("orihon")
#: Shows a bar as late as can be: what a busy machine does slowly is no work that lasts a while.
UNHURRIED = ("-m", "tests.acceptance.unhurried")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7])m")
PATIENCE = 120.0


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str = ""


def environment(language: str, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    return {**kept, "ORIHON_LANG": language, "TERM": "xterm-256color", "COLUMNS": "100", "PAGER": "cat", **more}


def run(*arguments: object, language: str = "en", cwd: Path | None = None, **more: str) -> Ended:
    """The command as a program calls it: its output goes to a pipe. See ``tests.commands`` for how it is started."""
    command = [str(ORIHON), *map(str, arguments)]
    return Ended(*commands.ended(command, environment(language, **more), PATIENCE, cwd))


def run_executable(*arguments: object, language: str = "en", cwd: Path | None = None, **more: str) -> Ended:
    """The same from the very beginning, where that is the point."""
    found = subprocess.run(
        [str(ORIHON), *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment(language, **more),
        cwd=cwd,
        timeout=PATIENCE,
        check=False,
    )
    return Ended(found.returncode, found.stdout, found.stderr)


def run_on_terminal(
    *arguments: object, language: str = "en", program: Sequence[str] = (str(ORIHON),), **more: str
) -> Ended:
    """The command as a person calls it: its output goes to a terminal."""
    ours, theirs = pty.openpty()
    command = [*program, *map(str, arguments)]
    process = commands.start(command, environment(language, **more), (theirs, theirs, theirs))
    os.close(theirs)
    shown = bytearray()
    while True:
        try:
            chunk = os.read(ours, 1 << 16)
        except OSError:  # the other side is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    return Ended(process.wait(PATIENCE), shown.decode())


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# ---- help, version, mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ["Usage: orihon", "Commands", "verify", "doctor", "list", "demo", "nothing is lost"]),
        ("ja", ["使い方: orihon", "コマンド", "verify", "doctor", "list", "demo", "この説明を表示して終了します"]),
    ],
)
def test_help_in_both_languages(language: str, words: list[str]) -> None:
    page = run_executable("--help", language=language)
    assert page.code == 0
    assert [word for word in words if word not in page.out] == []
    assert run(f"--lang={language}", "--help", language="en") == page
    assert run_executable(language=language) == page, "no command: the help page"


@pytest.mark.parametrize("command", ["verify", "doctor", "list", "demo"])
def test_every_command_has_its_help_in_both_languages(command: str) -> None:
    english, japanese = run(command, "--help"), run(command, "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "--json" in english.out
    assert "Options" in english.out
    assert "オプション" in japanese.out
    assert "JSON で出力します" in japanese.out


def test_the_version() -> None:
    assert run_executable("--version") == Ended(0, f"orihon {orihon.__version__}\n")


def test_a_command_of_the_tests_is_the_executable(base: Path, tmp_path: Path) -> None:
    paused_task(base, "files", uuid="abc-1")
    (tmp_path / "config.yaml").write_text("language: ja\n")
    for arguments in (["verify", "abc"], ["list", "--json"], ["view", "nobody"], ["--lang=ja", "view", "--help"]):
        line = ("--base-dir", base, *arguments)
        assert run(*line, cwd=tmp_path) == run_executable(*line, cwd=tmp_path)


@pytest.mark.parametrize(
    ("arguments", "english", "japanese"),
    [
        (
            ["mend"],
            "There is no command mend. Use one of: list, show, view, diff, chain, ",
            "コマンド mend はありません。",
        ),
        (["verify"], "TASK is missing.", "TASK が指定されていません。"),
        (["list", "--colour"], "There is no option --colour.", "オプション --colour はありません。"),
        (["verify", "../x"], "cannot be used as an id.", "ID として使えません。"),
        (["verify", "x"], "There is no task x.", "x"),
        (["list", "-n", "9" * 20], "Invalid value for '--limit'", "--limit"),
        (["list", "--status", "asleep"], "Unknown status 'asleep'.", "asleep"),
        (["--config", "nowhere.yaml", "list"], "There is no configuration file", "nowhere.yaml"),
        (
            ["--base-dir", "nowhere", "doctor"],
            "There is no base folder nowhere.",
            "ベースフォルダー nowhere が",
        ),
    ],
)
def test_a_mistake_is_one_clear_line_and_code_2(base: Path, arguments: list[str], english: str, japanese: str) -> None:
    base.mkdir()
    given = arguments if "--base-dir" in arguments else ["--base-dir", str(base), *arguments]
    for language, words in (("en", english), ("ja", japanese)):
        ended = run(*given, language=language, cwd=base)
        assert (ended.code, ended.out) == (2, "")
        assert words in ended.err
        assert len(ended.err.splitlines()) == 1
    assert list(base.iterdir()) == [], "a mistake makes nothing"


def test_a_traceback_is_shown_when_asked_for(tmp_path: Path) -> None:
    ended = run("-vv", "--base-dir", tmp_path / "nowhere", "list")
    assert ended.code == 2
    assert "Traceback" in ended.err
    assert "There is no base folder" in ended.err.splitlines()[-1]


# ---- verify --------------------------------------------------------------------------------------------------------


def test_verify_of_a_sound_task(base: Path, backend: str) -> None:
    uuid, _ = paused_task(base, backend)
    ended = run("--base-dir", base, "verify", uuid[:6])
    assert ended.code == 0
    assert ended.out.splitlines()[0] == f"{uuid}: clean. Numbering, hashes, counters and view are what they must be."
    assert "異常なし" in run("--base-dir", base, "verify", uuid, language="ja").out
    told = json.loads(run("--base-dir", base, "verify", uuid, "--json").out)
    assert (told["attested"].pop("at") != "", told.pop("attested")) == (True, {"messages": 13, "times": 1})
    assert told == {
        "task": uuid,
        "clean": True,
        "findings": [],
        "records": "read",
        "archive": None,
        "redacted": 0,
        "redacted_secrets": 0,
        "redacted_people": 0,
        "unprotected": {},
    }


def test_verify_says_what_differs(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    edit_record(folder, "messages", 5, with_fields(content="次の手順です [red]\x1b[31m"))
    english = run("--base-dir", base, "verify", uuid)
    assert english.code == 1
    assert f"error {uuid} messages 5: The message is not what was stored" in english.out
    assert "エラー" in run("--base-dir", base, "--lang", "ja", "verify", uuid).out
    report = json.loads(run("--base-dir", base, "verify", uuid, "--json").out)
    assert not report["clean"]
    [digest] = [finding for finding in report["findings"] if finding["detail"] == "digest"]
    assert digest | {"cause": "", "remedy": ""} == {
        "task": uuid,
        "check": "log",
        "detail": "digest",
        "where": "messages 5",
        "severity": "error",
        "cause": "",
        "remedy": "",
        "repair": "none",
        "note": None,
        "fields": {},
    }


def test_a_prefix_of_two_tasks_is_not_guessed(base: Path) -> None:
    paused_task(base, "files", uuid="same-1")
    paused_task(base, "files", uuid="same-2")
    ended = run("--base-dir", base, "verify", "same")
    assert ended.code == 2
    assert "same-1, same-2" in ended.err
    assert run("--base-dir", base, "verify", "same-1").code == 0


def test_a_damaged_catalogue_does_not_hide_the_task(base: Path) -> None:
    uuid, _ = paused_task(base, "files")
    (base / "tasks.db").write_bytes(b"rubbish" * 1000)
    ended = run("--base-dir", base, "verify", uuid[:8])
    assert ended.code == 1
    assert "The catalogue is damaged." in ended.out


# ---- doctor --------------------------------------------------------------------------------------------------------


def test_doctor_finds_repairs_and_then_finds_nothing(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    (folder / "request.json").write_bytes(b"{}")
    (folder / "request.json").chmod(0o600)
    dead = killed_task(base, backend)
    looked = run("--base-dir", base, "doctor")
    assert looked.code == 1
    assert "'orihon doctor --repair' can put right: 2." in looked.out
    assert f"warning {uuid} request.json: " in looked.out
    repaired = run("--base-dir", base, "doctor", "--repair")
    assert repaired.code == 0
    assert f"repaired {dead} tasks.db: " in repaired.out
    assert repaired.out.splitlines()[-1] == "Repaired: 2. Nothing wrong is left."
    assert run("--base-dir", base, "doctor") == Ended(0, "Nothing wrong was found.\n")
    assert run("--base-dir", base, "doctor", language="ja") == Ended(0, "異常は見つかりませんでした。\n")


def test_doctor_rebuilds_a_lost_catalogue(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    for path in base.glob("tasks.db*"):
        path.unlink()
    assert run("--base-dir", base, "doctor").code == 1
    assert not (base / "tasks.db").exists()
    report = json.loads(run("--base-dir", base, "doctor", "--repair", "--json").out)
    assert (report["clean"], report["repaired"], report["base_dir"]) == (True, 2, str(base))
    assert run("--base-dir", base, "verify", uuid).code == 0
    shutil.rmtree(folder)
    assert "修復済み" in run("--base-dir", base, "doctor", "--repair", language="ja").out


def test_doctor_leaves_lost_history_to_a_person(base: Path, backend: str) -> None:
    _, folder = paused_task(base, backend)
    edit_record(folder, "messages", 5, lambda line: None)
    ended = run("--base-dir", base, "doctor", "--repair")
    assert ended.code == 1
    assert "Restore the file from a backup." in ended.out
    assert "Left for you: " in ended.out.splitlines()[-1]


# ---- list ----------------------------------------------------------------------------------------------------------


def test_list_for_programs(base: Path, backend: str) -> None:
    first, _ = paused_task(base, backend)
    second = start_task(base, backend, key=TaskKey("github", "o", "r", "issue", "1\t\x1b[31m"))
    second.complete()
    lines = [line.split("\t") for line in run("--base-dir", base, "list").out.splitlines()]
    assert [line[:4] for line in lines] == [
        [second.uuid, "completed", r"github:o/r#1\t\x1b[31m", "13"],
        [first, "paused", "github:owner/repo#27", "13"],
    ]
    tasks = json.loads(run("--base-dir", base, "list", "--json", "--status", "paused").out)["tasks"]
    assert [(task["uuid"], task["status"], task["total_messages"]) for task in tasks] == [(first, "paused", 13)]
    assert "lease_pid" not in tasks[0]
    assert run("--base-dir", base, "list", "--limit", "1").out.count("\n") == 1


def test_list_of_nothing(base: Path) -> None:
    base.mkdir()
    assert run("--base-dir", base, "list") == Ended(0, "", "No tasks.\n")
    assert json.loads(run("--base-dir", base, "list", "--json").out) == {"tasks": []}
    assert list(base.iterdir()) == [], "looking makes no catalogue"


def test_list_for_people(base: Path) -> None:
    uuid, _ = paused_task(base, "files")
    english = run_on_terminal("--base-dir", base, "list")
    assert english.code == 0
    assert uuid[:8] in english.out
    assert uuid not in english.out
    assert "messages" in english.out
    assert "メッセージ" in run_on_terminal("--base-dir", base, "list", language="ja").out


# ---- terminal, colour, logging ---------------------------------------------------------------------------------------


def test_colour_only_on_a_terminal_that_wants_it(base: Path) -> None:
    uuid, folder = paused_task(base, "files")
    tear(folder)
    coloured = run_on_terminal("--base-dir", base, "verify", uuid)
    assert coloured.code == 1
    assert COLOUR.search(coloured.out)
    assert not COLOUR.search(run_on_terminal("--base-dir", base, "verify", uuid, NO_COLOR="1").out)
    assert "\x1b" not in run("--base-dir", base, "verify", uuid).out
    assert "\x1b" not in run("--base-dir", base, "doctor").out + run("--base-dir", base, "doctor").err
    assert "\x1b" not in run("--help").out


def test_a_terminal_shows_what_the_doctor_found(base: Path) -> None:
    paused_task(base, "files")
    shown = run_on_terminal("--base-dir", base, "doctor")
    assert shown.code == 0
    assert "Nothing wrong was found." in shown.out
    assert json.loads(run_on_terminal("--base-dir", base, "doctor", "--json", NO_COLOR="1").out)["clean"]


def test_the_log_goes_where_the_settings_say(base: Path, tmp_path: Path) -> None:
    _, folder = paused_task(base, "files")
    tear(folder)
    config = tmp_path / "config.yaml"
    config.write_text(f"logging:\n  file: {tmp_path / 'agent.log'}\n  level: INFO\nlanguage: ja\n", encoding="utf-8")
    ended = run("--config", config, "--base-dir", base, "-q", "doctor", "--repair", ORIHON_LANG="")
    assert ended.code == 0
    assert ended.out.splitlines()[-1].startswith("修復: 1 件"), "the file's language holds"
    assert ended.err == ""
    log = tmp_path / "agent.log"
    assert "repaired" not in log.read_text(encoding="utf-8"), "-q is one level less in the file too"
    tear(folder)
    noisy = run("--config", config, "--base-dir", base, "-v", "doctor", "--repair")
    assert f"INFO orihon.doctor {folder.name}: repaired: " in noisy.err
    assert f"INFO orihon.doctor {folder.name}: repaired: " in log.read_text(encoding="utf-8")


# ---- interrupted -----------------------------------------------------------------------------------------------------


def test_ctrl_c_ends_with_130_and_leaves_nothing_half_done(base: Path) -> None:
    _, folder = paused_task(base, "files")
    torn = tear(folder)
    with closing(apsw.Connection(str(base / "tasks.db"))) as connection:
        connection.execute("BEGIN IMMEDIATE")  # the repair has to wait for us
        command = [str(ORIHON), "--base-dir", str(base), "doctor", "--repair"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment("en"))
        _wait_until_open(process.pid, base / "tasks.db")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        connection.execute("ROLLBACK")
    assert (process.returncode, out, err) == (130, b"", b"")
    assert (folder / "messages.jsonl").read_bytes().endswith(torn)
    assert run("--base-dir", base, "doctor", "--repair").code == 0


def _wait_until_open(pid: int, path: Path) -> None:
    give_up = time.monotonic() + PATIENCE
    while time.monotonic() < give_up:
        for opened in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                if opened.readlink() == path:
                    return
        time.sleep(0.002)
    raise AssertionError(f"{path} was not opened")
