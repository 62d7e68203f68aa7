"""``orihon archive`` and ``unarchive``, by the real executable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orihon.settings import load_settings
from orihon.upkeep.retention.vacuum import only_one
from orihon.values.task import TaskKey
from tests.acceptance.test_cli import UNHURRIED, run, run_on_terminal
from tests.conformance.child import ROOT
from tests.damage import start_task
from tests.integration.object_server import CREDENTIALS
from tests.services import Database


def finished(base: Path, number: int) -> str:
    task = start_task(base, "files", key=TaskKey("cli", "", "", "task", str(number)))
    task.complete()
    return task.uuid


@pytest.mark.parametrize("command", ["archive", "unarchive", "keep", "cleanup", "vacuum", "maintain"])
def test_every_command_has_its_help_and_its_place_in_the_pages(command: str) -> None:
    english, japanese = run(command, "--help"), run(command, "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "--json" in english.out
    assert english.out != japanese.out
    for page in ("docs/cli.md", "docs/ja/cli.md"):
        assert f"`orihon {command}" in (ROOT / page).read_text(encoding="utf-8")


def test_tasks_go_into_the_archive_and_come_back(base: Path) -> None:
    one, two = finished(base, 1), finished(base, 2)
    ended = run("--base-dir", base, "archive", one[:12])
    assert ended.code == 0
    assert ended.out.startswith(f"{one} is archived: archive/{one}.tar.zst in {base} (")
    assert not (base / "completed" / one).exists()
    checked = run("--base-dir", base, "verify", one)
    assert (checked.code, checked.out.startswith(f"{one}: archived as archive/{one}.tar.zst in {base}. ")) == (0, True)
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
    ended = run("--base-dir", base, "unarchive", spoilt)
    assert (ended.code, ended.out) == (2, ""), "it was never archived"
    assert f"The task {spoilt} is completed and not archived." in ended.err
    with (base / "config.yaml").open("w") as file:
        file.write("archive: {url: 's3://bucket', endpoint: 'http://127.0.0.1:9'}\n")
    ended = run("--base-dir", base, "--config", base / "config.yaml", "unarchive", sound, language="ja")
    assert ended.code == 2
    assert "s3://bucket が" in ended.err


def test_a_task_in_the_database_is_archived_and_comes_back(base: Path, tmp_path: Path, postgres: Database) -> None:
    archive = {"url": f"file://{tmp_path}/shelf"}
    settings = {"database": postgres.settings, "context_storage": {"backend": "postgres"}, "archive": archive}
    (tmp_path / "config.yaml").write_text(json.dumps(settings))
    options = ("--base-dir", base, "--config", tmp_path / "config.yaml")
    task = start_task(base, load_settings(settings))
    task.complete()
    view = run(*options, "view", task.uuid).out
    ended = run(*options, "unarchive", task.uuid)
    assert (ended.code, ended.out) == (2, "")
    assert f"The task {task.uuid} is completed and not archived." in ended.err
    assert run(*options, "archive", task.uuid).code == 0
    found = json.loads(run(*options, "verify", task.uuid, "--json").out)
    assert (found["clean"], found["records"]) == (True, "archived")
    assert found["archive"] == {"place": f"{tmp_path}/shelf", "key": f"archive/{task.uuid}.tar.zst"}
    listed = json.loads(run(*options, "list", "--json").out)["tasks"]
    assert [(one["uuid"], one["status"]) for one in listed] == [(task.uuid, "archived")]
    back = run(*options, "unarchive", task.uuid, language="ja")
    assert (back.code, back.out) == (0, f"{task.uuid} をデータベースに戻しました。\n")
    run(*options, "archive", task.uuid)
    assert json.loads(run(*options, "unarchive", task.uuid, "--json").out)["folder"] is None
    assert run(*options, "view", task.uuid).out == view
    assert run(*options, "verify", task.uuid).code == 0
    assert run(*options, "doctor").code == 0


def test_old_tasks_are_removed_and_stay_in_the_list(base: Path) -> None:
    kept, one, two = (finished(base, number) for number in range(3))
    assert run("--base-dir", base, "keep", kept[:12]).out.startswith(f"{kept} is kept")
    run("--base-dir", base, "archive", two)
    dry = run("--base-dir", base, "cleanup", "--days", "0", "--dry-run")
    assert (dry.code, len(dry.out.splitlines())) == (0, 3)
    assert f"would remove {one} (" in dry.out
    assert run("--base-dir", base, "cleanup").out.startswith("Cleanup: 0 tasks removed"), "none is thirty days old"
    ended = run("--base-dir", base, "cleanup", "--days", "0")
    assert ended.code == 0
    assert ended.out.startswith("Cleanup: 2 tasks removed, ")
    assert ended.out.endswith("Tasks before: archived 1, completed 2. After: archived 2, completed 1.\n")
    statuses = [line.split("\t")[:2] for line in run("--base-dir", base, "list", language="ja").out.splitlines()]
    assert statuses == [[two, "削除済み"], [one, "削除済み"], [kept, "completed"]]
    rows = {row["uuid"]: row for row in json.loads(run("--base-dir", base, "list", "--json").out)["tasks"]}
    assert rows[one]["metadata"]["cleaned"]["final_summary"]
    assert rows[one]["total_messages"] == rows[kept]["total_messages"]
    refused = run("--base-dir", base, "unarchive", one, language="ja")
    assert (refused.code, "削除されました" in refused.err) == (2, True)
    checked = run("--base-dir", base, "verify", one)
    assert (checked.code, "its records were removed at" in checked.out) == (0, True)
    assert run("--base-dir", base, "doctor").code == 0
    assert run("--base-dir", base, "keep", kept, "--off", language="ja").out == f"{kept} の保持の印を外しました。\n"


def test_maintain_does_everything_and_never_twice_at_once(base: Path) -> None:
    old = finished(base, 1)
    found = json.loads(run("--base-dir", base, "maintain", "--dry-run", "--archive-days", "0", "--json").out)
    assert [task["uuid"] for task in found["archive"]["tasks"]] == [old]
    assert (found["cleanup"]["tasks"], found["vacuum"]["dry_run"]) == ([], True)
    with only_one(base, load_settings({})):
        ended = run("--base-dir", base, "maintain", "--days", "0")
        assert (ended.code, "Somebody else is maintaining" in ended.err) == (2, True)
        assert run("--base-dir", base, "maintain", language="ja").err.startswith(f"orihon: {base} では今、別の")
    ended = run("--base-dir", base, "maintain", "--archive-days", "0", language="ja")
    assert ended.code == 0
    kinds = [line.split(":")[0] for line in ended.out.splitlines()]
    assert kinds == ["クリーンアップ", "アーカイブ", "実行前のタスク", "最適化", "送信した通知"]
    vacuumed = json.loads(run("--base-dir", base, "vacuum", "--json").out)
    assert vacuumed["bytes_before"] >= vacuumed["bytes_after"] > 0
    assert run("--base-dir", base, "unarchive", old).code == 0
    assert run("--base-dir", base, "verify", old).code == 0


def test_a_terminal_shows_no_bar_for_what_is_done_at_once(base: Path) -> None:
    finished(base, 1)
    ended = run_on_terminal("--base-dir", base, "cleanup", "--days", "0", program=UNHURRIED, NO_COLOR="1")
    assert ended.code == 0
    assert ended.out.startswith("Cleanup: 1 tasks removed")
