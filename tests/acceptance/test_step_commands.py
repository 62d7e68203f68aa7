"""``orihon fork``, ``rewind`` and ``backup``, by the real executable, in both languages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orihon.catalogue.connect import open_catalogue
from orihon.tasks.context import TaskContextManager
from orihon.values.task import TaskStatus
from tests.acceptance.test_cli import Ended, run, run_on_terminal
from tests.acceptance.test_view_commands import records, view_bytes, working_agent
from tests.conformance.child import ROOT
from tests.damage import BACKENDS, killed_task, paused_task, settings_for, start_task

COMMANDS = ("fork", "rewind", "backup")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help_and_its_place_in_the_pages(command: str) -> None:
    english, japanese = run(command, "--help"), run(command, "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "--json" in english.out
    assert "JSON で出力します" in japanese.out
    for page in ("docs/cli.md", "docs/ja/cli.md"):
        assert f"`orihon {command} " in (ROOT / page).read_text(encoding="utf-8")


# ---- fork ------------------------------------------------------------------------------------------------------------


def test_a_fork_is_a_paused_task_of_its_own(base: Path, backend: str) -> None:
    task = start_task(base, backend, uuid="abc-1")
    then = view_bytes(task.context_dir, backend)
    at = task.message_store.count_messages()
    task.message_store.add_message("user", "a wrong turn")
    task.complete()
    forked = run("--base-dir", base, "fork", "abc", "--at", at)
    assert forked.code == 0
    new = forked.out.split()[0]
    said = "begins at step 13 of abc-1: 13 messages, 8 entries and 405 tokens in its view. It is paused."
    assert forked.out == f"{new} {said}\n"
    assert view_bytes(base / "paused" / new, backend) == then
    assert run("--base-dir", base, "resume", new).code == 0
    with TaskContextManager.resume(base, new, settings_for(backend)) as again:
        again.message_store.add_message("user", "the right turn")
    assert run("--base-dir", base, "doctor") == Ended(0, "Nothing wrong was found.\n")


def test_a_fork_in_json_and_in_japanese(base: Path, backend: str) -> None:
    uuid, _ = paused_task(base, backend)
    told = json.loads(run("--base-dir", base, "fork", uuid, "--at", 10, "--json").out)
    assert told["forked_from"] == {"uuid": uuid, "at": 10}
    assert (told["status"], told["messages"], told["entries"]) == ("paused", 10, 10)
    with open_catalogue(base, settings_for(backend)) as catalogue:
        assert catalogue.tasks.get(told["uuid"]).status is TaskStatus.PAUSED
    japanese = run("--base-dir", base, "fork", uuid, "--at", 13, language="ja")
    assert f"{uuid} のステップ 13 から始まります: メッセージ 13 件、ビューは 8 項目、405 トークン。" in japanese.out


def test_a_fork_that_would_split_a_tool_call_names_the_steps_that_would_not(base: Path) -> None:
    uuid, _ = paused_task(base, "files")
    english = "Step 9 stands between the tool calls of message 9 and their results. Take step 8 or step 10."
    assert run("--base-dir", base, "fork", uuid, "--at", 9) == Ended(2, "", f"orihon: {english}\n")
    japanese = run("--base-dir", base, "rewind", uuid, "--to", 9, language="ja")
    assert (japanese.code, japanese.out) == (2, "")
    assert "ステップ 8 またはステップ 10 を指定してください" in japanese.err
    missing = run("--base-dir", base, "fork", uuid)
    assert (missing.code, missing.err) == (2, "orihon: --at is missing. See 'orihon COMMAND --help'.\n")
    beyond = run("--base-dir", base, "fork", uuid, "--at", 99)
    assert (beyond.code, beyond.err) == (
        2,
        "orihon: There is no message 99: the log has 1 to 13. Name a number inside the log.\n",
    )


def test_a_running_task_is_forked_and_its_owner_goes_on(base: Path, backend: str) -> None:
    with working_agent(base, backend) as (uuid, agent):
        assert run("--base-dir", base, "fork", uuid, "--at", 13).code == 0
        assert agent.stdin is not None
        assert agent.stdout is not None
        agent.stdin.write("go on\n")
        agent.stdin.flush()
        assert agent.stdout.readline() == "9\n"
    assert run("--base-dir", base, "doctor").code == 0


# ---- rewind ----------------------------------------------------------------------------------------------------------


def test_rewind_and_undo_come_back_byte_identical(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    before = view_bytes(folder, backend)
    rewound = run("--base-dir", base, "rewind", uuid, "--to", 10)
    assert rewound == Ended(0, "Back at step 10: 0 % of the budget, 405 → 70 tokens, 11 entries (compression 6).\n")
    lines = view_bytes(folder, backend).splitlines()
    assert len(lines) == 11
    assert "The work was taken back to message 10" in json.loads(lines[-1])["content"]
    record = records(folder, backend)[-1]
    assert (record["kind"], record["strategy"], record["made_by"]) == ("compress", "rewind", "cli")
    assert run("--base-dir", base, "verify", uuid).code == 0
    assert "rewind" in run("--base-dir", base, "view", uuid, "--folds").out
    assert run("--base-dir", base, "undo", uuid).code == 0
    assert view_bytes(folder, backend) == before
    again = run("--base-dir", base, "redo", uuid, language="ja")
    assert again.code == 0
    assert view_bytes(folder, backend).splitlines() == lines
    assert run("--base-dir", base, "doctor").code == 0


def test_rewind_in_japanese_with_a_notice_of_ones_own(base: Path, backend: str) -> None:
    uuid, folder = paused_task(base, backend)
    ended = run("--base-dir", base, "rewind", uuid, "--to", 8, "--notice", "別の方法で", language="ja")
    assert ended.out.startswith("ステップ 8 まで戻しました: 予算の 0 %、")
    assert json.loads(view_bytes(folder, backend).splitlines()[-1])["content"].endswith("別の方法で")
    pinned = run("--base-dir", base, "rewind", uuid, "--to", 7)
    assert (pinned.code, pinned.out) == (2, "")
    assert "Message 8 is pinned" in pinned.err
    last = run("--base-dir", base, "rewind", uuid, "--to", 13)
    assert last.err == "orihon: Message 13 is the last one of the log: nothing came after it. Name an earlier step.\n"


def test_rewind_of_a_task_whose_process_is_dead(base: Path, backend: str) -> None:
    uuid = killed_task(base, backend)
    told = json.loads(run("--base-dir", base, "rewind", uuid, "--to", 10, "--json").out)
    assert (told["kind"], told["strategy"], told["visible"]) == ("compress", "rewind", [4])
    assert run("--base-dir", base, "verify", uuid).code == 0


# ---- backup ----------------------------------------------------------------------------------------------------------


def test_a_backup_is_made_listed_and_restored(base: Path, backend: str, tmp_path: Path) -> None:
    uuid, folder = paused_task(base, backend)
    vault, copy = tmp_path / "vault", tmp_path / "copy"
    assert run("--base-dir", base, "backup", vault, "--list").out == "There is no backup yet.\n"
    first = run("--base-dir", base, "backup", vault)
    assert first.code == 0
    name = first.out.split()[1].rstrip(":")
    assert f"Backup {name}: 1 tasks, " in first.out
    second = json.loads(run("--base-dir", base, "backup", vault, "--json").out)
    # Nothing but the audit's records of the first backup and the head of their chain.
    assert (second["tasks"], second["new_pieces"]) == (1, 2)
    assert second["sent"] < 1500
    listed = [line.split("\t")[0] for line in run("--base-dir", base, "backup", vault, "--list").out.splitlines()]
    assert listed == [second["run"], name]
    third = run("--base-dir", base, "backup", vault, "--keep", 1, language="ja")
    assert "タスク 1 件" in third.out
    # Two heads, and the list of settings before the language was another one.
    assert "削除: 古いバックアップ 2 個、データ 3 個。" in third.out
    known = json.loads(run("--base-dir", base, "backup", vault, "--list", "--json").out)["backups"]
    assert [info["tasks"] for info in known] == [1]
    restored = run("--base-dir", base, "backup", vault, "--restore-to", copy)
    assert restored.out.startswith(f"Backup {known[0]['run']} is restored to {copy}: 1 tasks, ")
    assert view_bytes(copy / "paused" / uuid, backend) == view_bytes(folder, backend)
    assert run("--base-dir", copy, "doctor") == Ended(0, "Nothing wrong was found.\n")
    assert run("--base-dir", copy, "verify", uuid).code == 0


def test_mistakes_with_backups_are_said(base: Path, tmp_path: Path) -> None:
    paused_task(base, "files")
    vault = tmp_path / "vault"
    empty = run("--base-dir", base, "backup", vault, "--restore-to", tmp_path / "copy")
    assert (
        empty.err
        == f"orihon: There is no backup in {vault}. Name the folder or address that was given to 'orihon backup'.\n"
    )
    assert run("--base-dir", base, "backup", vault, "--list", "--keep", 1).code == 2
    assert run("--base-dir", base, "backup", vault, "--run", "x").code == 2
    assert run("--base-dir", base, "backup", vault, "--keep", 0).code == 2
    assert run("--base-dir", base, "backup", vault).code == 0
    used = run("--base-dir", base, "backup", vault, "--restore-to", base, language="ja")
    assert used.code == 2
    assert "空のフォルダーではありません" in used.err
    piece = next(path for path in vault.rglob("pieces/*/*") if b'"seq":1' in path.read_bytes())
    piece.write_bytes(b"damaged")
    damaged = run("--base-dir", base, "backup", vault, "--restore-to", tmp_path / "copy")
    assert damaged.code == 2
    assert f"pieces/{piece.name[:2]}/{piece.name}, a piece of paused/" in damaged.err
    assert not (tmp_path / "copy").exists()
    checked = run("--base-dir", base, "backup", vault, "--check")
    assert checked.code == 1
    assert checked.out.splitlines()[-1].startswith("Damaged: 1 (backups: 1, ")
    piece.unlink()
    assert run("--base-dir", base, "backup", vault).code == 0
    clean = json.loads(run("--base-dir", base, "backup", vault, "--check", "--json").out)
    assert (clean["clean"], clean["backups"], clean["damage"]) == (True, 2, [])
    assert run("--base-dir", base, "backup", vault, "--check", language="ja").out.startswith("異常はありません")
    database = run("--base-dir", base, "backup", vault, ORIHON_DATABASE__URL="postgresql://127.0.0.1:1/none")
    assert database.code == 2
    assert "pg_dump --schema=orihon" in database.err


def test_a_backup_on_a_terminal_has_a_table(base: Path, tmp_path: Path) -> None:
    paused_task(base, "files")
    vault = tmp_path / "vault"
    assert "1 tasks" in run_on_terminal("--base-dir", base, "backup", vault).out
    listed = run_on_terminal("--base-dir", base, "backup", vault, "--list", language="ja").out
    assert "バックアップ" in listed
    assert "000001-" in listed
