"""``orihon demo --phases`` through the real command: explore, approve, fold, reject, open again, archive, restore."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orihon import partial_restore

ORIHON = Path(sys.executable).with_name("orihon")
PATIENCE = 240.0


def run(*words: str, language: str = "en", **more: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "ORIHON_LANG": language, "NO_COLOR": "1", "COLUMNS": "200", **more}
    return subprocess.run(
        [ORIHON, *words], capture_output=True, text=True, env=variables, check=False, timeout=PATIENCE
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def report(place: Path) -> dict[str, Any]:
    done = run("demo", "--phases", "--folder", str(place), "--json", CONTEXT_STORAGE_BACKEND="files")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def task(place: Path, report: dict[str, Any]) -> Path:
    return place / "contexts" / "completed" / str(report["uuid"])


def test_an_approval_folds_the_comparison_to_what_it_found(report: dict[str, Any]) -> None:
    assert report["after"] == (
        "## Investigation phase\n\n### Choice of the game engine\n"
        "- **Decision**: Unity\n"
        "- **Reasons**: experience of the developers; rich resources; room to grow\n"
        "- **Rejected**: Godot (few resources); Phaser (performance concerns)\n"
        "- **Details**: archives/phase1_exploration.md\n"
    )
    assert len(report["before"].splitlines()) > 1000
    first = report["answers"][0]
    assert (first["checkpoint"], first["decision"]) == ("concept", "approve")
    assert first["after_tokens"] < 500 < 10_000 < first["before_tokens"]


def test_a_rejection_opens_it_again_word_for_word(report: dict[str, Any], task: Path) -> None:
    assert report["reopened"] == report["before"]
    assert [(one["checkpoint"], one["decision"]) for one in report["answers"]] == [
        ("concept", "approve"),
        ("plan", "reject"),
        ("plan", "approve"),
    ]
    second = report["answers"][1]
    assert second["before_tokens"] < 500 < 10_000 < second["after_tokens"]
    records = [json.loads(line) for line in (task / "checkpoints.jsonl").read_bytes().splitlines()]
    answers = [record for record in records if record["kind"] == "answer"]
    assert [record["comment"] for record in answers] == [one["comment"] for one in report["answers"]]
    assert [record["name"] for record in records if record["kind"] == "phase"] == ["exploration", "design"]


def test_the_last_approval_folds_it_once_more(report: dict[str, Any]) -> None:
    last = report["answers"][2]
    assert last["after_tokens"] < 1000 < 10_000 < last["before_tokens"]
    assert report["view_tokens"] < 1000


def test_the_files_and_figures_are_what_lies_on_disk(report: dict[str, Any], task: Path) -> None:
    assert report["files"] == sorted(f"archives/{path.name}" for path in (task / "archives").iterdir())
    log = json.loads((task / "archives" / "compression_log.json").read_text(encoding="utf-8"))["compressions"]
    assert [(one["trigger"], one["checkpoint"], one["level"], one["archived_to"]) for one in log] == [
        ("approval", "concept", "standard", "phase1_exploration.md"),
        ("approval", "plan", "standard", "phase1_exploration.md"),  # what the rejection had opened
    ]
    assert report["messages"] == len((task / "messages.jsonl").read_bytes().splitlines())
    assert report["before"] in (task / "archives" / "phase1_exploration.md").read_text(encoding="utf-8")
    assert 0 < report["archive_bytes"] < report["archived_bytes"]
    assert not Path(report["archive"]).exists()  # it was opened again


def test_the_task_came_back_from_its_archive_with_the_section_that_was_shown(
    report: dict[str, Any], task: Path
) -> None:
    assert (report["status"], report["findings"]) == ("completed", 0)
    assert report["section"] == partial_restore(task / "archives" / "phase1_exploration.md", "Godot")
    assert report["section"].startswith("#### Godot\n")
    assert len(report["section"].splitlines()) == 302
    assert "Phaser" not in report["section"]


def test_the_story_is_told_in_japanese_and_the_commands_it_names_work(tmp_path: Path) -> None:
    words = ("demo", "--phases", "--folder", str(tmp_path))
    done = run(*words, language="ja", CONTEXT_STORAGE_BACKEND="sqlite")
    assert done.returncode == 0, done.stderr
    told = [
        *("1. 探索フェーズ", "│ #### Godot", "（concept）: Unity でよいですか？", "2. 人が承認します。"),
        *("│ - **決定**: Unity", "│ - **理由**: 開発者の経験、豊富なリソース、将来的な拡張性"),
        *("│ - **却下**: Godot（リソース不足）、Phaser（パフォーマンス懸念）", "archives/phase1_exploration.md: "),
        *("4. 人が Godot の名を挙げて", "比較がビューに戻りました:", "│ ### 結論", "7. タスクを完了し", ".tar.zst: "),
        *("8. アーカイブを開いて", "Godot、302 行:", "│ - 測定 1、", "問題なし", "次に試すコマンド:"),
    ]
    at = 0
    for part in told:  # in this order
        at = done.stdout.find(part, at)
        assert at >= 0, part
    commands = re.findall(r"^  \S*orihon (.+)$", done.stdout[at:], re.M)
    named = [command.split()[2] for command in commands]
    assert named == ["approvals", "view", "restore", "verify", "archive", "serve"]
    restored, verified = (run(*command.split(), language="ja") for command in commands[2:4])
    assert (restored.returncode, verified.returncode) == (0, 0), restored.stderr + verified.stderr
    assert restored.stdout.count("- 測定 ") == 300


def test_no_model_can_be_chosen_for_it(tmp_path: Path) -> None:
    done = run("demo", "--phases", "--model", "auto", "--folder", str(tmp_path / "new"))
    assert done.returncode == 2
    assert "--phases" in done.stderr
    assert not (tmp_path / "new").exists()
