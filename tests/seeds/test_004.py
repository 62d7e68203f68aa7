"""Document 004, compression: levels, what stays, triggers, notices, approvals, archives, restoring, as written.

Its sections have no numbers: they are counted here, 概要 being 1. Where SPEC §9 or a promise of ours decides otherwise,
the test quotes it.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import orihon
from orihon import (
    Approval,
    ApprovalHandler,
    AutoCompressionManager,
    Base,
    Checkpoint,
    CompressionLevel,
    CompressionNotification,
    CompressionResult,
    ContextCompressor,
    Notifier,
    TaskContextManager,
    TaskKey,
    Waiting,
    load_settings,
    partial_restore,
    restore_context,
)
from orihon.tasks.approvals.phase_restore import read_phase, restore_phase
from orihon.texts import set_language
from tests.seeds import copies
from tests.serving import Client, serving

block = partial(copies.block, "004")

LEVELS = {"LIGHT": orihon.compress_level1, "STANDARD": orihon.compress_level2, "AGGRESSIVE": orihon.compress_level3}
KEY = TaskKey("cli", "", "", "task", "game", "me")


@pytest.fixture(autouse=True)
def japanese() -> Iterator[None]:
    """The document's language."""
    set_language("ja")
    yield
    set_language(None)


def defined(name: str, **names: Any) -> dict[str, Any]:
    """What a program of the document defines."""
    exec(compile(block(name), name, "exec"), names)
    return names


def rows(name: str) -> list[list[str]]:
    """A table of the document, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in block(name).splitlines()[2:]]


def before(*, rejections: bool = False) -> str:
    """§5.1's example, with lines where it says how many there are; and why the others were rejected, if wanted."""
    reasons = {300: "リソース不足のため不採用とした。", 200: "Phaserはパフォーマンス懸念のため見送った。"}

    def lines(found: re.Match[str]) -> str:
        count = int(found[1])
        compared = "\n".join(f"- 比較 {number}: 細かい点を一つずつ調べた。" for number in range(count))
        return compared + ("\n\n" + reasons[count] if rejections and count in reasons else "")

    return re.sub(r"（以下、(\d+)行の詳細な比較...）", lines, block("5.1-before.markdown"))


def task(base: Path, **compression: Any) -> TaskContextManager:
    """A task with the settings of §8.2, on the ladder that is this document's."""
    config = yaml.safe_load(block("8.2-config.yaml"))
    config["compression"] |= {"preset": "phases", **compression}
    config["llm"] = {"openai": {"context_length": 60_000}}
    ctx = TaskContextManager(base, KEY, config)
    ctx.message_store.add_message("system", "ゲームを計画してください。")
    return ctx


def ask(ctx: TaskContextManager, name: str) -> None:
    with suppress(Waiting):
        ctx.checkpoint(name, "これでよいですか？")


def logged(ctx: TaskContextManager) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder(ctx) / "archives/compression_log.json").read_bytes())[
        "compressions"
    ]
    return found


def folder(ctx: TaskContextManager) -> Path:
    (found,) = ctx.base.path.glob(f"*/{ctx.uuid}")
    return found


def shown(ctx: TaskContextManager) -> str:
    lines = (folder(ctx) / "current.jsonl").read_text(encoding="utf-8").splitlines()
    return "\n".join(str(json.loads(line)["content"]) for line in lines)


# ---- 圧縮のタイミング ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", range(4))
def test_each_trigger_compresses(base: Path, row: int) -> None:
    """§2."""
    when, _, trigger = rows("2-timing.md")[row]
    assert len(rows("2-timing.md")) == 4
    ctx = task(base, keep_recent=0, min_to_compress=1)
    ctx.phase("調査")
    ctx.message_store.add_message("assistant", before())
    ctx.message_store.add_message("user", "続けてください。")
    tokens = ctx.message_store.get_current_token_count()
    wanted = {
        "Human承認": "approval",
        "Phase遷移": "phase_end",
        "イテレーション遷移": "iteration_end",
        "使用率80%超": "usage",
    }[trigger]
    if wanted == "approval":
        ask(ctx, "concept")
        with Base(base, ctx.settings) as opened:
            opened.approve(ctx.uuid, by="ann")
        ctx = TaskContextManager.resume(base, ctx.uuid, ctx.settings)
    elif wanted == "phase_end":
        ctx.phase("実装")
    elif wanted == "iteration_end":
        ctx.end_iteration()
    else:
        budget = ctx.compressor.gauge.budget.tokens
        assert not ctx.compress_if_needed()
        while ctx.message_store.get_current_token_count() <= 0.8 * budget:
            ctx.message_store.add_message("assistant", f"{before()}\n## 引用\n\n" + "> 長い引用が続く。\n" * 900)
        assert ctx.compressor.should_compress()
        tokens = ctx.message_store.get_current_token_count()
        assert ctx.compress_if_needed()
    assert logged(ctx)[-1]["trigger"] == wanted, when
    assert ctx.message_store.get_current_token_count() < tokens
    ctx.close()


# ---- 圧縮対象と保持対象 ----------------------------------------------------------------------------------------------

#: For each row of §3.1: a text, what of it stays, and what goes.
COMPRESSED = {
    "探索過程の詳細ログ": ("## 調査ログ\n\n長い記録。\n\n### 結論\nXで十分だと分かった。\n", "Xで十分", "長い記録"),
    "却下された選択肢の詳細": ("## 候補の比較\n\n長い説明が続く。Aは遅いため却下した。\n", "A（遅い）", "長い説明"),
    "試行錯誤の履歴": (
        "## 試行の記録\n\n### 試行1\nだめだった。\n\n### 試行2\nだめだった。\n\n### 試行3\nYで成功した。\n",
        "3 回の試行 → Yで成功",
        "だめだった",
    ),
    "中間生成物": (
        "## 調査: 画面の案\n\n### 第1版\n\n- 赤い画面を描いた。\n\n### 結論\n最終版は緑の画面とする。\n",
        "最終版は緑の画面",
        "赤い画面",
    ),
    "冗長な説明": (
        "## 説明\n\n最初の文である。" + "それはそれは長い説明がどこまでも続いていく。" * 12 + "必須の手順がある。\n",
        "- 最初の文である。\n- 必須の手順がある。\n",
        "長い説明",
    ),
}


@pytest.mark.parametrize("what", COMPRESSED)
def test_what_is_compressed(what: str) -> None:
    """§3.1."""
    assert [row[0] for row in rows("3.1-compressed.md")] == list(COMPRESSED)
    text, kept, gone = COMPRESSED[what]
    after = orihon.compress_level2(text)
    assert kept in after, dict(rows("3.1-compressed.md"))[what]
    assert gone not in after


def test_what_is_kept() -> None:
    """§3.2, and §6.1's patterns. SPEC §9: preserved "heading" (004) → "the whole section under it"."""
    body = "\n\n説明。説明が長い。\n\n\n\n### 詳細\n\n- a\n- b\n\n```py\nx = 1  # one\n```\n\n"
    patterns = re.findall(r'r"## (.*)",', block("6.1-compressor.python"))
    assert len(patterns) == len(rows("3.2-kept.md")) == 5
    for title in (*patterns, *(row[0] for row in rows("3.2-kept.md"))):
        for name, level in LEVELS.items():
            section = f"## {title}{body}"
            document = f"# 記録\n\n{before()}\n{section}## 残り\n\n説明。\n"
            assert section in level(document), (title, name)
            result = ContextCompressor().compress(document, CompressionLevel[name])
            assert list(result.preserved_items) == [title]


def test_patterns_of_ones_own_are_taken_as_the_document_writes_them() -> None:
    compressor = ContextCompressor()
    assert isinstance(compressor.preserved_patterns, list)
    compressor.preserved_patterns = [*re.findall(r'r"(## .*)",', block("6.1-compressor.python")), r"## 予算"]
    section = "## 予算\n\n" + "細かい内訳がどこまでも続く。" * 20 + "\n\n"
    result = compressor.compress(
        f"{section}## 調査\n\n長い記録。\n\n### 結論\nXで十分だ。\n", CompressionLevel.AGGRESSIVE
    )
    assert section in result.text
    assert list(result.preserved_items) == ["予算"]


# ---- 圧縮レベル ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["4.1-light.python", "4.2-standard.python", "4.3-aggressive.python"])
def test_the_levels_are_functions_of_the_context(name: str) -> None:
    """§4: each is called with the argument that the document names."""
    (function,) = re.findall(r"def (\w+)\(", block(name))
    theirs = inspect.signature(defined(name)[function])
    ours = getattr(orihon, function)
    assert list(inspect.signature(ours).parameters) == list(theirs.parameters) == ["context"]
    document = f"{before()}\n\n\n\n## 引用\n\n" + "> 長い引用\n" * 30
    assert len(ours(context=document)) < len(document)


def test_the_light_level_leaves_out_what_is_redundant() -> None:
    """§4.1: 「重複する説明を削除」, 「空行を削減」, 「長い引用を短縮」."""
    said = re.findall(r"# (.*)", block("4.1-light.python"))
    assert said == ["重複する説明を削除", "空行を削減", "長い引用を短縮"]
    explanation = "最初のリクエストが届いたときにキャッシュを作成し、それより前には作成しない仕組みになっている。\n"
    quotation = "".join(f"> 行 {number}\n" for number in range(30))
    light = orihon.compress_level1(f"# 甲\n\n{explanation}\n\n\n\n# 乙\n\n{explanation}\n別の文。\n\n{quotation}")
    assert light.count(explanation) == 1
    assert "\n\n\n" not in light
    assert light.count("> 行") < 10
    assert "別の文。" in light


def test_the_standard_level_says_what_was_found() -> None:
    """§4.2: a choice, what was not chosen and why, how often it was tried."""
    assert len(re.findall(r"# (.*→.*)", block("4.2-standard.python"))) == 3
    standard = orihon.compress_level2(f"{before(rejections=True)}\n{COMPRESSED['試行錯誤の履歴'][0]}")
    assert "- **決定**: Unity" in standard
    assert "- **却下**: Godot（リソース不足）、Phaser（パフォーマンス懸念）" in standard
    assert "3 回の試行 → Yで成功" in standard


def test_the_aggressive_level_keeps_decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """§4.3: 「決定事項のみ保持」, 「理由は1行に圧縮」, 「コード例は省略（参照パスのみ）」."""
    assert len(re.findall(r"# (.*)", block("4.3-aggressive.python"))) == 3
    document = f"{before(rejections=True)}\n## 実装\n\n説明。\n\n```python\n" + "x = 1\n" * 30 + "```\n"
    monkeypatch.chdir(tmp_path)
    text = ContextCompressor().compress(document, CompressionLevel.AGGRESSIVE, "archives/a.md").text
    assert "- **決定**: Unity\n- **理由**: 開発者の経験、豊富なリソース、将来的な拡張性\n" in text
    assert "却下" not in text
    assert "```" not in text
    assert "## 実装\n- **コード**: archives/a.md\n" in text


# ---- 圧縮フォーマット ------------------------------------------------------------------------------------------------


def test_an_exploration_gets_the_form_of_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """§5. What the example after knows and the one before does not say (why the others were rejected) is told first.

    Nothing is invented: headings and reasons have the words of the text.
    """
    monkeypatch.chdir(tmp_path)
    wanted = dict(re.findall(r"- \*\*(.+?)\*\*: (.+)", block("5.2-after.markdown")))
    result = ContextCompressor().compress(before(rejections=True), CompressionLevel.STANDARD, wanted["詳細"])
    found = dict(re.findall(r"- \*\*(.+?)\*\*: (.+)", result.text))
    assert list(found) == list(wanted) == ["決定", "理由", "却下", "詳細"]
    assert {**found, "理由": ""} == {**wanted, "理由": ""}
    for ours, theirs in zip(found["理由"].split("、"), wanted["理由"].split("、"), strict=True):
        assert set(theirs) <= set(ours)
    assert [line for line in result.text.splitlines() if line.startswith("#")] == [
        *("## 調査フェーズ", "### ゲームエンジンの選定")
    ]
    assert Path(wanted["詳細"]).read_text(encoding="utf-8") == before(rejections=True)
    assert result.compressed_tokens < result.original_tokens / 50


def test_the_example_itself_gets_shorter_and_invents_nothing() -> None:
    text = orihon.compress_level2(block("5.1-before.markdown"))
    assert "- **決定**: Unity" in text
    assert "却下" not in text
    assert "Godot、Phaser" in text


# ---- 実装 ------------------------------------------------------------------------------------------------------------


def test_the_classes_are_those_of_the_document(tmp_path: Path) -> None:
    """§6.1. SPEC §9: "`compress()` always returns a `CompressionResult`"."""
    names = defined("6.1-compressor.python")
    levels: type[Enum] = names["CompressionLevel"]
    assert {one.name: one.value for one in levels} == {one.name: one.value for one in CompressionLevel}
    wanted = [one.name for one in fields(names["CompressionResult"])]
    assert [one.name for one in fields(CompressionResult)][: len(wanted)] == wanted
    made = CompressionResult(**dict(zip(wanted, (10, 5, 0.5, ["a"], "x.md"), strict=True)))  # type: ignore[arg-type]
    assert (made.original_tokens, made.compressed_tokens, made.compression_ratio) == (10, 5, 0.5)
    theirs, ours = names["ContextCompressor"], ContextCompressor()
    inspect.signature(ContextCompressor.compress).bind(**dict.fromkeys(inspect.signature(theirs.compress).parameters))
    for level in CompressionLevel:
        archive = tmp_path / f"{level.name}.md"
        assert ours.compress(before(), level).text == LEVELS[level.name](before())
        result = ours.compress(before(), level=level, archive_path=str(archive))
        assert result.compression_ratio == result.compressed_tokens / result.original_tokens <= 1
        assert result.archived_path == archive
        assert archive.read_text(encoding="utf-8") == before()


@dataclass
class GameDevState:
    """What §6.2 is given."""

    context: str
    usage_percent: float
    session_id: str = "sess_xxx"


@pytest.mark.parametrize("usage", [0, 79, 80, 89, 90, 94, 95, 100, 130])
def test_the_usage_decides_the_level(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, usage: int) -> None:
    """§6.2 is run as it is, with our compressor; ours does the same."""
    monkeypatch.chdir(tmp_path)
    told: list[Any] = []
    given = {"ContextCompressor": ContextCompressor, "CompressionLevel": CompressionLevel}
    names = defined("6.2-automatic.python", **given, GameDevState=GameDevState, Optional=None)
    kind = names["AutoCompressionManager"]
    kind._calculate_context_usage = lambda self, state: state.usage_percent
    kind._notify_compression = lambda self, result: told.append(result)
    theirs = kind()
    ours = AutoCompressionManager(on_compression=told.append)
    assert (ours.threshold, type(ours.compressor)) == (theirs.threshold, type(theirs.compressor))
    state = GameDevState(before(), usage)
    wanted, found = theirs.check_and_compress(state), ours.check_and_compress(state)
    assert found == wanted
    assert told == ([] if usage < 80 else [wanted, found])
    if found is not None:
        assert found.archived_path is not None
        assert found.archived_path.parent == Path("sessions/sess_xxx/archives")
        assert found.archived_path.read_text(encoding="utf-8") == before()
    assert AutoCompressionManager(threshold_percent=60).check_and_compress(GameDevState(before(), 61)) is not None


def test_the_compressor_of_a_manager_can_be_told_what_to_keep(tmp_path: Path) -> None:
    manager = AutoCompressionManager(80, sessions_dir=tmp_path)
    manager.compressor.preserved_patterns.append(r"## 調査フェーズ")
    result = manager.check_and_compress(GameDevState(before(), 99))
    assert result is not None
    assert list(result.preserved_items) == ["調査フェーズ"]
    assert "#### Godot" in result.text


# ---- 圧縮通知 --------------------------------------------------------------------------------------------------------


def test_what_is_said_is_what_the_table_says() -> None:
    """§7.1."""
    told: list[CompressionNotification] = []
    notifier = Notifier("game-1", callbacks=[told.append])
    wanted = {when: said.strip("「」") for when, said in rows("7.1-notices.md")}
    notifier.usage(79, 0.79)
    assert told == []
    notifier.usage(80, 0.8)
    assert [one.message for one in told] == [wanted["コンテキスト80%到達"]]
    notifier.compressed(95, 40, 0.95, 0.4, 1, [1])
    assert told[-1].message == wanted["自動圧縮実行"].replace("XX", "95").replace("YY", "40")
    notifier.compressed(95, 91, 0.95, 0.91, 2, [2])
    assert told[-1].message == wanted["圧縮後も90%超"]
    assert [one.type for one in told] == ["warning", "success", "info", "warning"]


def interface() -> dict[str, Any]:
    """§7.2 as nested names and types."""
    text = re.sub(r"//.*", "", block("7.2-notification.ts"))
    text = re.sub(r"interface \w+", "", text)
    text = re.sub(r'"(\w+)"(?: \| )?', r"\1 ", text)
    found: dict[str, Any] = yaml.safe_load(text.replace(";", ",").replace("string[]", "strings"))
    return found


def test_a_notification_has_the_form_of_the_interface(base: Path) -> None:
    """§7.2, by callback and as the web page gets it: there its actions are addresses."""
    told: list[CompressionNotification] = []
    ctx = task(base)
    ctx.compressor.notifier.subscribe(told.append)
    ctx.phase("調査")
    ctx.message_store.add_message("assistant", before())
    ctx.phase("実装")
    (notice,) = told
    wanted = interface()
    types: dict[str, Any] = {"number": (int, float), "string": str, "strings": (list, tuple)}
    with serving(base, ctx.settings) as server:
        (listed,) = Client(server).as_program("GET", "/api/notices").value["notices"]
        for found in (notice.as_dict(), listed):
            assert wanted.keys() <= found.keys()
            assert found["type"] in wanted["type"].split()
            assert isinstance(found["message"], str)
            for part in ("details", "actions"):
                assert wanted[part].keys() == found[part].keys()
                assert all(isinstance(found[part][name], types[kind]) for name, kind in wanted[part].items())
        assert Client(server).log_in().ask("GET", listed["actions"]["view_archive"]).status == 200
        assert listed["actions"]["undo"] == f"/api/tasks/{ctx.uuid}/undo"
    assert notice.details.after_tokens < notice.details.before_tokens
    ctx.close()


# ---- 承認と圧縮の関係 ------------------------------------------------------------------------------------------------


def test_an_approval_is_followed_as_the_document_says() -> None:
    """§8.1 is run as it is, with our compressor; ours hands on the same."""
    steps: list[str] = []
    kind = defined("8.1-approval.python", Checkpoint=Checkpoint, Approval=Approval, CompressionLevel=CompressionLevel)[
        "ApprovalHandler"
    ]
    kind.compressor = ContextCompressor()
    kind._record_approval = lambda self, checkpoint, approval: steps.append("recorded")
    kind._log_compression = lambda self, result: steps.append(result.text)
    kind._extract_next_phase_context = lambda self, checkpoint, approval: steps[-1]
    checkpoint = Checkpoint(1, "concept", "これでよいですか？", exploration_context=before())
    approval = Approval("approve", "ann")
    assert ApprovalHandler().on_approval(checkpoint, approval) == kind().on_approval(checkpoint, approval)
    assert steps == ["recorded", orihon.compress_level2(before())]
    handler = ApprovalHandler(compressor=ContextCompressor())
    handler.compressor.preserved_patterns = [r"## 調査フェーズ"]
    assert handler.on_approval(checkpoint, approval) == before()


def test_the_settings_are_read_as_they_stand() -> None:
    """§8.2."""
    config = yaml.safe_load(block("8.2-config.yaml"))
    found = load_settings(config).compression
    assert len(config["compression"]) == 4
    for name, value in config["compression"].items():
        assert getattr(found, name) == value
        assert getattr(load_settings({}).compression, name) == value  # they are the defaults, too
    assert load_settings({"compression": {"archive_format": "json"}}).compression.archive_format == "json"


@pytest.mark.parametrize("name", ["auto_compress_on_approval", "confirm_before_compress"])
def test_the_switches_switch(base: Path, name: str) -> None:
    """§8.2: nothing is folded on approval; a person is asked before it is."""
    ctx = task(base, **{name: name == "confirm_before_compress"})
    ctx.phase("調査")
    ctx.message_store.add_message("assistant", before())
    ask(ctx, "concept")
    with Base(base, ctx.settings) as opened:
        opened.approve(ctx.uuid, by="ann")
        assert "#### Godot" in shown(ctx)
        waiting = [one.checkpoint.name for one in opened.pending()]
        assert waiting == (["compression:調査"] if name == "confirm_before_compress" else [])
        for _ in waiting:
            opened.approve(ctx.uuid, by="ann")
            assert "#### Godot" not in shown(ctx)


# ---- アーカイブ, 復元 ------------------------------------------------------------------------------------------------


TRIES = "".join(f"- {number} 回目の全件比較は遅すぎた。\n" for number in range(60))
TRIALS = f"## 実装ログ\n\n### failed approaches\n\n{TRIES}\n### 結論\n四分木を採用する。\n"


@pytest.fixture
def game(base: Path) -> TaskContextManager:
    """The story of the document: two phases, each approved."""
    ctx = task(base)
    for phase, said, checkpoint in [("調査", before(), "concept"), ("実装", TRIALS, "build")]:
        ctx.phase(phase)
        ctx.message_store.add_message("assistant", said)
        ask(ctx, checkpoint)
        with Base(base, ctx.settings) as opened:
            opened.approve(ctx.uuid, by="ann")
        ctx = TaskContextManager.resume(base, ctx.uuid, ctx.settings)
    ctx.close()
    return ctx


def test_the_archives_are_those_of_the_listing(game: TaskContextManager) -> None:
    """§9.1: ``sessions/{session_id}`` is the folder of the task."""
    top, *lines = block("9.1-folders.txt").splitlines()
    assert top == "sessions/{session_id}/archives/"
    wanted = {line.lstrip("├└─ ") for line in lines}
    assert len(wanted) == 4
    assert wanted <= {path.name for path in (folder(game) / "archives").iterdir()}
    assert before() in (folder(game) / "archives/phase1_exploration.md").read_text(encoding="utf-8")
    assert "- **決定**: Unity" in (folder(game) / "archives/phase1_decisions.md").read_text(encoding="utf-8")


def test_the_log_has_the_fields_of_the_example(game: TaskContextManager) -> None:
    """§9.2."""
    (wanted,) = json.loads(block("9.2-log.json"))["compressions"]
    first, *_ = logged(game)
    assert wanted.keys() <= first.keys()
    same = ("trigger", "checkpoint", "level", "archived_to")
    assert {name: first[name] for name in same} == {name: wanted[name] for name in same}
    for name, value in wanted.items():
        assert type(first[name]) is type(value)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)", first["timestamp"])
    assert first["compressed_tokens"] < first["original_tokens"]


def test_a_document_is_restored_as_the_document_does_it(tmp_path: Path) -> None:
    """§10.1 is run as it is, with our ``extract_section``; ours does the same."""
    theirs = defined("10.1-restore.python", extract_section=orihon.extract_section)
    path = tmp_path / "phase1_exploration.md"
    path.write_text(before(), encoding="utf-8")
    for name, ours in (("restore_context", restore_context), ("partial_restore", partial_restore)):
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs[name]).parameters)
    assert restore_context(str(path)) == theirs["restore_context"](str(path)) == before()
    for section in ("Godot", "結論", "ゲームエンジンの選定"):
        found = partial_restore(str(path), section)
        assert found == theirs["partial_restore"](str(path), section)
        assert section in found.splitlines()[0]


def test_an_archive_of_a_task_is_restored(game: TaskContextManager) -> None:
    path = folder(game) / "archives/phase1_exploration.md"
    assert restore_context(path).strip() == before().strip()
    assert partial_restore(path, section="Godot").startswith("#### Godot\nGodotはオープンソース")


@pytest.mark.parametrize("row", range(3))
def test_each_case_can_be_restored(game: TaskContextManager, base: Path, row: int) -> None:
    """§10.2."""
    case, remedy = rows("10.2-cases.md")[row]
    with Base(base, game.settings) as opened:
        ctx = TaskContextManager.resume(base, game.uuid, game.settings)
        ctx.message_store.add_message("assistant", "できました。")
        ask(ctx, "review")
        folded = shown(ctx)
        assert "#### Godot" not in folded
        assert "41 回目の全件比較" not in folded
        if remedy == "該当セクションを復元":
            opened.revise(ctx.uuid, by="bob", instructions="Godot の比較をもう一度見せてください")
            assert "#### Godot" in shown(ctx), case
            assert "41 回目の全件比較" not in shown(ctx)
        elif remedy == "failed approachesを復元":
            assert "41 回目の全件比較" in read_phase(opened, ctx.uuid, section="failed approaches"), case
            assert shown(ctx) == folded
            restore_phase(opened, ctx.uuid, phase=2, section="failed approaches")
            assert "41 回目の全件比較" in shown(ctx)
        else:
            assert remedy == "全体を一時的に復元"
            assert read_phase(opened, ctx.uuid, phase=1).strip() == before().strip(), case
            assert shown(ctx) == folded
            assert restore_phase(opened, ctx.uuid, phase=1).folds
            assert "#### Godot" in shown(ctx)
