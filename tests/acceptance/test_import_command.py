"""``orihon import`` by the real executable."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.acceptance.test_cli import run, run_on_terminal
from tests.conformance.child import ROOT
from tests.importing import make_chat_lines, make_claude_code, make_codex


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "files"
    make_claude_code(path)
    make_codex(path)
    return path


def test_help_in_both_languages_and_a_place_in_the_pages() -> None:
    english, japanese = run("import", "--help"), run("import", "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "claude-code" in english.out
    assert "--again" in english.out
    assert "ほかのエージェントの記録" in japanese.out
    for page in ("docs/cli.md", "docs/ja/cli.md"):
        assert "`orihon import " in (ROOT / page).read_text(encoding="utf-8")


def test_a_folder_once_and_again(base: Path, folder: Path) -> None:
    first = run("--base-dir", base, "import", folder)
    assert (first.code, first.err) == (0, "")
    assert first.out == (
        "2 files looked at: 2 imported, 0 without news, 0 skipped. 2 new tasks, 0 that have grown; "
        "8 messages, 0 folds, 2 tool calls, 0 plans.\n"
    )
    again = run("--base-dir", base, "import", folder, language="ja")
    assert again.code == 0
    assert "2 個のファイルを確認: インポート 0、新しい内容なし 2、スキップ 0。" in again.out
    listed = run("--base-dir", base, "list")
    assert "claude-code:shop#" in listed.out
    assert "codex:kim/shop#" in listed.out


def test_what_cannot_be_read_is_named(base: Path, folder: Path) -> None:
    chat = make_chat_lines(folder)
    with chat.open("ab") as file:
        file.write(b"rubbish\x1b[31m\n" + b'{"role": "user"')
    os.utime(chat, (0, 1_700_000_000))
    (folder / "settings\x1b[2J.json").write_text("{}")
    os.mkfifo(folder / "pipe\x1b[2J.jsonl")
    found = run("--base-dir", base, "import", folder)
    assert found.code == 1
    assert f"{chat}:6: This is not JSON: " in found.err
    assert f"{chat}:7: The file ends in the middle of this line." in found.err
    assert "pipe\\x1b[2J.jsonl: It is not a regular file." in found.err
    assert "\x1b" not in found.err + found.out
    assert "3 imported, 0 without news, 2 skipped" in found.out
    assert "Of the skipped files, 1 are no transcripts: settings\\x1b[2J.json" in found.out
    japanese = run("--base-dir", base, "import", folder, language="ja")
    assert japanese.code == 1
    assert "ファイルがこの行の途中で終わっています。" in japanese.err
    os.utime(chat)  # as if somebody was writing it
    assert "1 個のファイルは書き込み中です。" in run("--base-dir", base, "import", chat, language="ja").out


def test_json_and_a_dry_run(base: Path, folder: Path) -> None:
    dry = json.loads(run("--base-dir", base, "import", folder, "--dry-run", "--json").out)
    assert (dry["dry_run"], dry["clean"], dry["new_tasks"], dry["messages"]) == (True, True, 2, 8)
    assert not base.exists()
    told = run("--base-dir", base, "import", folder, "--dry-run")
    assert "2 would be imported" in told.out
    real = json.loads(run("--base-dir", base, "import", folder, "--json", "--user", "kim").out)
    assert real["formats"] == {"claude-code": 1, "codex": 1}
    assert {task["format"] for task in real["tasks"]} == {"claude-code", "codex"}
    assert [task["is_new"] for task in real["tasks"]] == [True, True]


def test_on_a_terminal(base: Path, folder: Path) -> None:
    shown = run_on_terminal("--base-dir", base, "import", folder)
    assert shown.code == 0
    assert "2 new tasks" in shown.out


def test_wrong_command_lines(base: Path, folder: Path) -> None:
    unknown = run("--base-dir", base, "import", folder, "--format", "papyrus")
    assert unknown.code == 2
    assert unknown.err.startswith(
        "orihon: There is no format papyrus to import. Take one of these, or leave --format out"
    )
    assert run("--base-dir", base, "import").code == 2
    missing = run("--base-dir", base, "import", folder / "nowhere")
    assert missing.code == 1
    assert "It cannot be read: No such file or directory." in missing.err


def test_what_was_exported_comes_back(base: Path, folder: Path, tmp_path: Path) -> None:
    run("--base-dir", base, "import", folder)
    out = tmp_path / "all.jsonl"
    assert run("--base-dir", base, "export", "--all", "-o", out).code == 0
    there = tmp_path / "there"
    assert run("--base-dir", there, "import", out).code == 0
    again = tmp_path / "again.jsonl"
    assert run("--base-dir", there, "export", "--all", "-o", again).code == 0

    def records(path: Path) -> list[bytes]:
        return sorted(line for line in path.read_bytes().splitlines() if line.startswith(b'{"stream"'))

    assert records(again) == records(out)
    assert run("--base-dir", there, "doctor").out == "Nothing wrong was found.\n"
