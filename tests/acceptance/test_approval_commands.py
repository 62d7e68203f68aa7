"""``orihon approvals``, ``approve``, ``reject``, ``revise`` and ``restore``, by the real executable."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from orihon import TaskContextManager, TaskKey, Waiting
from tests.acceptance.test_cli import Ended, environment, run, run_on_terminal
from tests.acceptance.test_view_commands import view_bytes
from tests.conformance.child import ROOT
from tests.damage import BACKENDS, settings_for

COMMANDS = ("approvals", "approve", "reject", "revise", "restore")
COMPARISON = "\n".join(f"- 項目 {number}: 一つずつ比べた詳細な結果です。" for number in range(40))
ENGINES = f"""## 調査フェーズ

### ゲームエンジンの選定

まず、2Dアクションゲームに適したゲームエンジンを調査しました。

#### Unity
Unityは最も人気のあるゲームエンジンの1つです。豊富なアセットストアがあります。
{COMPARISON}

#### Godot
Godotはオープンソースのゲームエンジンです。リソース不足が心配です。
{COMPARISON}

### 結論
検討の結果、Unityを採用することにしました。理由は以下の通りです：
1. 開発者の経験
2. 豊富なリソース
3. 将来的な拡張性
"""
TRIALS = f"""## 実装ログ

### Failed approaches

{COMPARISON}
- 1 回目: 当たり判定を毎フレーム全件比較した。遅すぎた。
{COMPARISON}

### 結論
四分木を採用する。
"""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Game:
    """The story of the first design: two phases, each approved, and a third under way."""

    def __init__(self, base: Path, backend: str) -> None:
        self.base, self.backend = base, backend
        self.settings = settings_for(backend)
        ctx = TaskContextManager(base, TaskKey("cli", "", "", "task", "game", "me"), self.settings, uuid="game-1")
        ctx.message_store.add_message("system", "You plan games.")
        self._phase(ctx, "exploration", ENGINES, "concept")

    def _phase(self, ctx: TaskContextManager, phase: str, said: str, checkpoint: str) -> None:
        ctx.phase(phase)
        ctx.message_store.add_message("assistant", said)
        with suppress(Waiting):
            ctx.checkpoint(checkpoint, f"{checkpoint}: これでよいですか？", context="see the log")

    def go_on(self, phase: str, said: str, checkpoint: str) -> None:
        self._phase(TaskContextManager.resume(self.base, "game-1", self.settings), phase, said, checkpoint)

    def view(self) -> str:
        return view_bytes(self.base / "paused" / "game-1", self.backend).decode()


@pytest.fixture
def game(base: Path, backend: str) -> Game:
    """Both phases are approved and folded; the task asks about the third."""
    made = Game(base, backend)
    for name, said, checkpoint in (("trials", TRIALS, "prototype"), ("building", "Level 1 is built.", "level")):
        assert run("--base-dir", base, "approve", "game", "--by", "ann").code == 0
        made.go_on(name, said, checkpoint)
    assert "毎フレーム" not in made.view()
    assert "リソース不足が心配" not in made.view()
    return made


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_its_help_and_its_place_in_the_pages(command: str) -> None:
    english, japanese = run(command, "--help"), run(command, "--help", language="ja")
    assert (english.code, japanese.code) == (0, 0)
    assert "--json" in english.out
    assert "JSON で出力します" in japanese.out
    for page in ("docs/cli.md", "docs/ja/cli.md"):
        assert f"`orihon {command}" in (ROOT / page).read_text(encoding="utf-8")


def test_what_waits_is_listed_and_answered(base: Path, backend: str) -> None:
    game = Game(base, backend)
    listed = run("--base-dir", base, "approvals")
    assert listed.out.split("\t")[:4] == ["game-1", "cli:task#game", "2 concept", "concept: これでよいですか？"]
    found = json.loads(run("--base-dir", base, "approvals", "--json").out)
    assert [one["checkpoint"]["context"] for one in found["pending"]] == ["see the log"]
    assert "これでよいですか" in run_on_terminal("--base-dir", base, "approvals", language="ja").out
    done = run("--base-dir", base, "approve", "game", "--by", "ann", "--reason", "go")
    assert (done.code, done.err) == (0, "")
    assert re.fullmatch(
        r"concept of game-1: approved\. The context: [\d,]+ → \d+ tokens\.\n"
        r"The task is paused: its program goes on when it opens the task again\.\n",
        done.out,
    )
    late = run("--base-dir", base, "reject", "game", "--by", "bob", "--reason", "no")
    assert (late.code, late.out) == (2, "")
    assert "concept has been answered already: approved, by ann, " in late.err
    assert run("--base-dir", base, "approvals") == Ended(0, "Nothing waits for an answer.\n")
    assert run("--base-dir", base, "approvals", language="ja").out == "回答待ちのものはありません。\n"
    # Before and after, as the first design shows them.
    assert re.search(
        r"### ゲームエンジンの選定\\n- \*\*決定\*\*: Unity\\n"
        r"- \*\*理由\*\*: 開発者の経験、豊富なリソース、将来的な拡張性\\n"
        r".*- \*\*詳細\*\*: archives/phase1_exploration\.md",
        game.view(),
    )
    log = json.loads((base / "paused" / "game-1" / "archives" / "compression_log.json").read_text())
    assert (
        log["compressions"][0].items()
        >= {
            "trigger": "approval",
            "checkpoint": "concept",
            "level": "standard",
            "archived_to": "phase1_exploration.md",
        }.items()
    )
    assert run("--base-dir", base, "doctor") == Ended(0, "Nothing wrong was found.\n")


def test_instructions_bring_back_the_section_that_they_are_about(base: Path, game: Game) -> None:
    """「Human修正指示で過去の検討が必要 → 該当セクションを復元」."""
    said = "Godot の検討に戻ってください"
    answered = run("--base-dir", base, "revise", "game", "--instructions", said, "--json", "--by", "ann")
    done = json.loads(answered.out)
    assert (done["status"], done["checkpoint"]["answer"]["decision"]) == ("paused", "revise")
    assert done["after_tokens"] > 3 * done["before_tokens"]
    assert "リソース不足が心配" in game.view()
    assert "毎フレーム" not in game.view()
    assert run("--base-dir", base, "verify", "game").code == 0


def test_failed_approaches_are_looked_at_again_for_a_fix(base: Path, game: Game, tmp_path: Path) -> None:
    """「バグ修正で過去のアプローチを確認 → failed approachesを復元」."""
    before = game.view()
    shown = run("--base-dir", base, "restore", "game", "--section", "failed approaches", "--temporary")
    assert shown.code == 0
    assert shown.out.startswith("### Failed approaches\n\n- 項目 0")
    assert "- 1 回目: 当たり判定を毎フレーム全件比較した。遅すぎた。\n" in shown.out
    assert "四分木" not in shown.out
    assert game.view() == before
    file = tmp_path / "approaches.md"
    restored = ("restore", "game", "--phase", 2, "--section", "Failed", "--to", file)
    assert run("--base-dir", base, *restored).out == f"Written: {file}\n"
    assert file.read_text(encoding="utf-8") == shown.out
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("--base-dir", base, *restored).code == 2  # nothing is overwritten
    opened = run("--base-dir", base, "restore", "game", "--phase", 2, "--section", "Failed approaches")
    assert opened.out.startswith("Opened: ")
    assert "毎フレーム" in game.view()
    assert "リソース不足が心配" not in game.view()
    assert run("--base-dir", base, "undo", "game").code == 0
    assert game.view() == before


def test_a_whole_phase_is_looked_at_for_a_review(base: Path, game: Game) -> None:
    """「全体レビューで経緯確認 → 全体を一時的に復元」."""
    before = game.view()
    shown = run("--base-dir", base, "restore", "game", "--phase", 1, "--temporary", language="ja")
    assert shown.out.rstrip("\n") == ENGINES.rstrip("\n")
    assert game.view() == before
    found = json.loads(run("--base-dir", base, "restore", "game", "--phase", 1, "--json").out)
    assert len(found["folds"]) == 1
    assert "リソース不足が心配" in game.view()


def test_mistakes_are_said_in_one_line(base: Path, backend: str, tmp_path: Path) -> None:
    Game(base, backend)
    for arguments, words in (
        (["reject", "game"], "--reason"),
        (["revise", "game", "--instructions", " "], "instructions"),
        (["approve", "game", "--checkpoint", 99], "no checkpoint 99"),
        (["approve", "nobody"], "nobody"),
        (["restore", "game", "--phase", 9], "There is no phase 9"),
        (["restore", "game", "--section", "Phaser", "--temporary"], "No section is called Phaser"),
        (["restore", "game", "--temporary", "--to", tmp_path / "x"], "cannot be used together"),
        (["restore", "game", "--to", tmp_path], "is there already"),
        (["reject", "game", "--reason", " "], "reason is empty"),
        (["reject", "game", "--reason", "no", "--section", "Phaser"], "No section is called Phaser. There are: "),
    ):
        ended = run("--base-dir", base, *arguments)
        assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), arguments
        assert words in ended.err
    assert run("--base-dir", base, "cancel", "game").code == 0
    assert "has ended (cancelled)" in run("--base-dir", base, "approve", "game").err


def test_reminders_and_time_limits_by_the_command(base: Path) -> None:
    ctx = TaskContextManager(base, TaskKey("cli", "", "", "task", "1", "me"), uuid="late-1")
    with suppress(Waiting):
        ctx.checkpoint("deploy", "Shall I?", timeout=3600, remind_every=0.001)
    assert "late-1: deploy still waits for an answer." in run("--base-dir", base, "approvals", "--remind").out
    ctx = TaskContextManager(base, TaskKey("cli", "", "", "task", "2", "me"), uuid="over-1")
    with suppress(Waiting):
        ctx.checkpoint("deploy", "Shall I?", timeout=0.001)
    swept = json.loads(run("--base-dir", base, "approvals", "--remind", "--json").out)
    assert [one["uuid"] for one in swept["expired"]] == ["over-1"]
    assert [one["uuid"] for one in swept["pending"]] == ["late-1"]
    assert swept["pending"][0]["checkpoint"]["reminders"] == 2


@pytest.mark.parametrize(("page", "section"), [("approvals.md", "### Engine"), ("ja/approvals.md", "### エンジン")])
def test_the_programs_of_the_page_run(tmp_path: Path, page: str, section: str) -> None:
    asking, answering, reading = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text("utf-8"), re.S)
    details = "\\n".join(f"- {number}: one more detail of the comparison" for number in range(40))

    def run_program(program: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env=environment("en"),
            check=True,
        )
        return ended.stdout

    assert "waits for a person's answer to concept" in run_program(asking.replace("\\n…", f"\\n{details}"))
    assert run_program(answering).startswith("game-1 concept Unity")
    assert run_program(reading).count(section) == 2
