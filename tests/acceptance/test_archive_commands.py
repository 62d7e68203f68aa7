"""``orihon archive`` and ``unarchive``, by the real executable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orihon.task import TaskKey
from tests.acceptance.test_cli import run
from tests.conformance.child import ROOT
from tests.damage import start_task
from tests.integration.object_server import CREDENTIALS


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "contexts"


def finished(base: Path, number: int) -> str:
    task = start_task(base, "files", key=TaskKey("cli", "", "", "task", str(number)))
    task.complete()
    return task.uuid


@pytest.mark.parametrize("command", ["archive", "unarchive"])
def test_every_command_has_its_help_and_its_place_in_the_pages(command: str) -> None:
    english, japanese = run(command, "--help"), run(command, "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "--json" in english.out
    assert english.out != japanese.out
    for page in ("docs/cli.md", "docs/ja/cli.md"):
        assert f"`orihon {command} " in (ROOT / page).read_text(encoding="utf-8")


def test_tasks_go_into_the_archive_and_come_back(base: Path) -> None:
    one, two = finished(base, 1), finished(base, 2)
    ended = run("--base-dir", base, "archive", one[:12])
    assert ended.code == 0
    assert ended.out.startswith(f"{one} is archived: archive/{one}.tar.zst in {base} (")
    assert not (base / "completed" / one).exists()
    listed = json.loads(run("--base-dir", base, "list", "--json").out)["tasks"]
    assert {task["uuid"]: task["status"] for task in listed} == {one: "archived", two: "completed"}
    assert run("--base-dir", base, "archive").out == "No task is old enough.\n"
    found = json.loads(run("--base-dir", base, "archive", "--days", "0", "--json").out)
    assert [task["uuid"] for task in found["archived"]] == [two]
    assert found["left"] == []
    back = run("--base-dir", base, "unarchive", one)
    assert (back.code, back.out) == (0, f"{one} is back in {base}/completed/{one}.\n")
    assert run("--base-dir", base, "verify", one).code == 0
    folder = json.loads(run("--base-dir", base, "unarchive", two, "--json").out)["folder"]
    assert folder == f"{base}/completed/{two}"
    assert run("--base-dir", base, "doctor").code == 0


def test_what_cannot_be_archived_is_said(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    spoilt, sound = finished(base, 1), finished(base, 2)
    (base / "completed" / spoilt / "link").symlink_to("/etc/passwd")
    assert run("--base-dir", base, "archive", sound, "--days", "3").code == 2
    ended = run("--base-dir", base, "-q", "archive", "--days", "0")
    assert ended.code == 1
    assert ended.out.startswith(f"{sound} is archived")
    assert f"{spoilt} stays where it is: " in ended.err
    running = start_task(base, "files", key=TaskKey("cli", "", "", "task", "3"))
    ended = run("--base-dir", base, "archive", running.uuid)
    assert ended.code == 2
    assert "Traceback" not in ended.err
    running.close()
    assert run("--base-dir", base, "unarchive", spoilt).code == 0, "its folder stands"
    with (base / "config.yaml").open("w") as file:
        file.write("archive: {url: 's3://bucket', endpoint: 'http://127.0.0.1:9'}\n")
    ended = run("--base-dir", base, "--config", base / "config.yaml", "unarchive", sound, language="ja")
    assert ended.code == 2
    assert "s3://bucket が" in ended.err
