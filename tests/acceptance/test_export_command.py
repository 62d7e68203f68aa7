"""``orihon export`` by the real executable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orihon import archive_task
from orihon.tasks.context import TaskContextManager
from tests.acceptance.test_cli import run, run_on_terminal
from tests.damage import KEY, paused_task, settings_for


@pytest.fixture
def base(tmp_path: Path) -> Path:
    base = tmp_path / "contexts"
    paused_task(base, "files", uuid="abc-1")
    return base


def test_help_in_both_languages() -> None:
    english, japanese = run("export", "--help"), run("export", "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "jsonl|markdown|html|chat" in english.out
    assert "safe HTML page" in english.out
    assert "タスクをファイルに書き出します" in japanese.out


def test_to_standard_output_and_to_files(base: Path, tmp_path: Path) -> None:
    piped = run("--base-dir", base, "export", "owner/repo#27")
    assert (piped.code, piped.err) == (0, "")
    assert json.loads(piped.out.splitlines()[0])["orihon_export"] == 1
    shown = run_on_terminal("--base-dir", base, "export", "@last", "--format", "markdown", language="ja")
    assert shown.code == 0
    assert "## 会話" in shown.out
    out = tmp_path / "page.html"
    first = run("--base-dir", base, "export", "abc", "--format", "html", "-o", out)
    assert (first.code, first.out) == (0, f"abc-1: {out} ({out.stat().st_size:,} bytes)\n")
    assert out.read_bytes().startswith(b"<!DOCTYPE html>")
    again = run("--base-dir", base, "export", "abc", "--format", "html", "-o", out)
    assert again.code == 2
    assert again.err == f"orihon: {out} is there already. Give another name, or replace it with --force (force=True).\n"
    forced = run("--base-dir", base, "export", "abc", "--format", "chat", "-o", out, "--force", "--json")
    assert json.loads(forced.out)["exported"] == [
        {"task": "abc-1", "format": "chat", "file": str(out), "bytes": out.stat().st_size}
    ]


def test_show_writes_the_same_page(base: Path, tmp_path: Path) -> None:
    run("--base-dir", base, "export", "abc", "--format", "html", "-o", tmp_path / "a.html")
    shown = run("--base-dir", base, "show", "abc", "--export-html", tmp_path / "b.html", "--json")
    assert json.loads(shown.out)["exported"][0]["file"] == str(tmp_path / "b.html")
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert run("--base-dir", base, "show", "abc", "--export-html", tmp_path / "b.html").code == 2


def test_all_tasks_and_what_is_left_out(base: Path, tmp_path: Path) -> None:
    with TaskContextManager(base, KEY, settings_for("files"), uuid="packed") as task:
        task.complete()
    archive_task(base, "packed", settings_for("files"))
    ended = run("--base-dir", base, "export", "--all", "-o", f"{tmp_path}/new/", "--format", "markdown", language="ja")
    assert ended.code == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["abc-1.md"]
    assert ended.err.startswith("packed: 書き出していません。")
    for wrong in (["export"], ["export", "abc", "--all"], ["export", "abc", "--json"]):
        assert run("--base-dir", base, *wrong).code == 2
    assert "FOLDER/" in run("--base-dir", base, "export", "abc", "packed", "--format", "html").err
