"""Every table and number of the designs about when to compress, quoted, and read by the test that holds it.

``companion``, ``phases`` and ``coding-agent`` reproduce them; the tests of ``ladder`` itself are in ``test_ladder``.
"""

from __future__ import annotations

import ast
import re
from typing import Any, NamedTuple

import pytest

from orihon.classic.documents import AdaptiveContextManager
from orihon.classic.memory.memory_manager import MemoryConfig, PruneAction
from orihon.compression.ladder import COMPLEXITY_THRESHOLDS, ladder_of, threshold_of
from orihon.settings import Settings
from orihon.settings.rungs import EVENTS, Rung
from tests.configurations import load
from tests.ladders import PRESETS, begins, full, ladder


def table_rows(table: str) -> list[list[str]]:
    """The rows of a Markdown table below its head."""
    lines = [line.strip() for line in table.strip().splitlines()]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


# ---- companion: 003 §2.2 -----------------------------------------------------------------------------------------

USAGE_TABLE = """
| トークン使用率 | アクション |
|---------------|-----------|
| 0-60% | 何もしない |
| 60-80% | 警告ログのみ |
| 80-90% | 低重要度メッセージの削除開始 |
| 90-100% | 積極的な削除 + 要約生成 |
| 100%+ | 緊急削除（要約なし） |
"""


class Step(NamedTuple):
    """What a row of the table asks for."""

    strategies: tuple[str, ...] | None  # None: not even a rung
    model: bool
    action: PruneAction


ACTIONS = {
    "何もしない": Step(None, True, PruneAction.NOTHING),
    "警告ログのみ": Step((), True, PruneAction.WARN),
    "低重要度メッセージの削除開始": Step(("prune",), False, PruneAction.PRUNE),
    "積極的な削除 + 要約生成": Step(("prune",), True, PruneAction.PRUNE_AND_SUMMARIZE),
    "緊急削除（要約なし）": Step(("prune",), False, PruneAction.EMERGENCY),
}


def usage_rows() -> list[tuple[int, int, str]]:
    """Each row: its first per cent that is its own, its last, and the action. A border belongs to the row below it."""
    rows: list[tuple[int, int, str]] = []
    for shares, action in table_rows(USAGE_TABLE):
        low, _, high = shares.strip("%+").partition("-")
        rows.append((int(low) + 1 if rows else 0, int(high or 150), action))
    return rows


@pytest.mark.parametrize(("low", "high", "action"), usage_rows())
def test_companion_follows_the_table(low: int, high: int, action: str) -> None:
    step = ACTIONS[action]
    for percent in range(low, high + 1):
        rung = ladder("companion").rung(full(percent * 10))
        assert (None if rung is None else rung.strategies) == step.strategies
        assert rung is None or not rung.strategies or rung.model == step.model
        assert MemoryConfig(max_tokens=1000).action(percent * 10) is step.action


def test_the_next_row_begins_with_the_next_token() -> None:
    made = ladder("companion")
    for _, high, _ in usage_rows()[:-1]:
        assert made.height(full(high * 10 + 1)) == made.height(full(high * 10)) + 1


def test_companion_measures_the_budget() -> None:
    assert begins(ladder("companion"), window=1000, budget=500) == 400
    assert ladder("companion").goal(Rung(usage=0.8), full(450, budget=500)) == 350


def test_without_summaries_companion_only_prunes() -> None:
    made = ladder("companion", {"enable_summarization": False})
    reached = [made.rung(full(tokens)) for tokens in (801, 901, 1000, 1001)]
    assert {(rung.strategies, rung.model) for rung in reached if rung} == {(("prune",), False)}


CONFIGURATIONS = """
# デフォルト設定（バランス型）
config = MemoryConfig(
    max_tokens=8000,
    pruning_threshold=0.8,
    target_usage=0.7
)

# 保守的設定（頻繁に整理）
conservative_config = MemoryConfig(
    max_tokens=6000,
    pruning_threshold=0.6,
    target_usage=0.5
)

# 積極的設定（ギリギリまで保持）
aggressive_config = MemoryConfig(
    max_tokens=12000,
    pruning_threshold=0.9,
    target_usage=0.8
)
"""


def configurations() -> dict[str, dict[str, Any]]:
    """003 §14, read as the Python that it is."""
    found = {}
    for node in ast.parse(CONFIGURATIONS).body:
        assert isinstance(node, ast.Assign)
        assert isinstance(node.targets[0], ast.Name)
        assert isinstance(node.value, ast.Call)
        found[node.targets[0].id] = {one.arg or "": ast.literal_eval(one.value) for one in node.value.keywords}
    return found


@pytest.mark.parametrize("name", ["config", "conservative_config", "aggressive_config"])
def test_the_configurations_load_and_drive_companion(name: str) -> None:
    values = configurations()[name]
    config = MemoryConfig(**values)
    settings = load({"memory": values, "compression": {"preset": "companion"}})
    assert {key: settings.get(f"memory.{key}") for key in values} == values
    made = ladder_of(settings)
    for tokens in range(0, 14_000, 50):
        now = full(tokens, window=128_000, budget=120_000)
        rung, action = made.rung(now), config.action(tokens)
        assert (rung is not None and bool(rung.strategies)) == action.prunes
        if rung is not None and action.prunes:
            assert rung.model == (action is PruneAction.PRUNE_AND_SUMMARIZE)
            assert made.goal(rung, now) == int(config.target_tokens)


def test_a_memory_larger_than_the_budget_is_as_large_as_the_budget() -> None:
    made = ladder("companion", {"max_tokens": 12_000})
    rung = made.rung(full(8_001, window=10_000, budget=8_000))
    assert rung is not None
    assert not rung.model
    assert begins(made, window=10_000, budget=8_000) == 6_400


# ---- phases: 004 -------------------------------------------------------------------------------------------------

TIMING_TABLE = """
| タイミング | 圧縮対象 | トリガー |
|-----------|---------|---------|
| 計画承認後 | 探索・調査のコンテキスト | Human承認 |
| Phase完了後 | Phase内の中間成果物詳細 | Phase遷移 |
| イテレーション完了後 | 全体の詳細情報 | イテレーション遷移 |
| コンテキスト上限接近時 | 優先度の低い情報 | 使用率80%超 |
"""
TRIGGERS = {"Human承認": "approval", "Phase遷移": "phase_end", "イテレーション遷移": "iteration_end"}

LEVEL_CODE = """
        if usage >= self.threshold:
            # 圧縮レベルを決定
            if usage >= 95:
                level = CompressionLevel.AGGRESSIVE
            elif usage >= 90:
                level = CompressionLevel.STANDARD
            else:
                level = CompressionLevel.LIGHT
"""
LEVEL_HEADINGS = """
### Level 1: 軽量圧縮（通常時）
### Level 2: 標準圧縮（承認後）
### Level 3: 強力圧縮（上限接近時）
"""


@pytest.mark.parametrize("trigger", [row[2] for row in table_rows(TIMING_TABLE)])
def test_phases_has_every_trigger(trigger: str) -> None:
    made = ladder("phases")
    if share := re.fullmatch(r"使用率(\d+)%超", trigger):
        rung = made.rung(full(int(share[1]) * 10))
        assert made.rung(full(int(share[1]) * 10 - 1)) is None
    else:
        rung = made.rung_for(TRIGGERS[trigger])
    assert rung is not None
    assert rung.strategies == ("sections",)


def test_the_triggers_are_all_events_that_there_are() -> None:
    assert set(TRIGGERS.values()) == set(EVENTS)


def test_phases_chooses_the_level_as_the_code_does() -> None:
    """The quoted code itself is run beside the ladder, with 80 as its threshold."""
    made = ladder("phases")
    lines = LEVEL_CODE.replace("self.threshold", "80").replace("CompressionLevel.", "'").splitlines()
    code = "\n".join(line[8:] + ("'" if "= '" in line else "") for line in lines)
    for percent in range(101):
        names: dict[str, Any] = {"usage": percent, "level": None}
        exec(code, names)
        rung = made.rung(full(percent * 10))
        assert (None if rung is None else rung.level.upper()) == names["level"], percent


def test_an_approval_is_worth_the_standard_level() -> None:
    number, event = re.findall(r"Level (\d): 標準圧縮（(.+)後）", LEVEL_HEADINGS)[0]
    assert (number, event) == ("2", "承認")
    rung = ladder("phases").rung_for("approval")
    assert rung is not None
    assert rung.level == "standard"


def test_an_event_asks_for_all_that_can_go() -> None:
    made = ladder("phases")
    rung = made.rung_for("phase_end")
    assert rung is not None
    assert made.goal(rung, full(300)) <= 3


# ---- coding-agent: 001 §7, 002 §7 --------------------------------------------------------------------------------

TRIGGER_CONDITION = "1. current.jsonlのトークン数 > `context_length * compression_threshold`"
COMPRESSION_SETTINGS = """
   - `token_threshold`: 圧縮トリガーのトークン数（デフォルト: 8000）
   - `keep_recent`: 圧縮時に保持する最近のメッセージ数（デフォルト: 10）
   - `min_to_compress`: 圧縮する最小メッセージ数（デフォルト: 5）
"""
SUMMARY_LENGTH = "元の30-40%の長さを目標としてください。"


@pytest.mark.parametrize(("context_length", "compression_threshold"), [(1000, 0.7), (8192, 0.5), (1001, 0.33)])
def test_coding_agent_begins_where_the_condition_says(context_length: int, compression_threshold: float) -> None:
    condition = re.search(r"トークン数 > `(.+)`", TRIGGER_CONDITION)
    assert condition is not None
    limit = eval(condition[1], {"context_length": context_length, "compression_threshold": compression_threshold})
    made = ladder("coding-agent", threshold=compression_threshold)
    for tokens in range(context_length):
        rung = made.rung(full(tokens, window=context_length))
        assert (rung is not None) == (tokens > limit), tokens
        assert rung is None or rung.strategies == ("summarize",)


def test_coding_agent_has_the_numbers_of_the_designs() -> None:
    wanted = {name: int(value) for name, value in re.findall(r"`(\w+)`.*デフォルト: (\d+)", COMPRESSION_SETTINGS)}
    settings = load({"compression": {"preset": "coding-agent"}})
    assert settings.compression.keep_recent == wanted["keep_recent"]
    assert settings.compression.min_to_compress == wanted["min_to_compress"]
    assert begins(ladder_of(settings), window=20_000) == 14_000, "8,000 tokens only when they are set"
    made = ladder("coding-agent", token_threshold=wanted["token_threshold"])
    assert begins(made, window=128_000) == wanted["token_threshold"]


def test_a_summary_has_the_length_that_is_asked_for() -> None:
    low, high = map(int, re.findall(r"(\d+)-(\d+)%", SUMMARY_LENGTH)[0])
    share = ladder("coding-agent").summary_share
    assert share is not None
    assert low <= share * 100 <= high
    assert ladder("coding-agent", summary_share=0.3).summary_share == 0.3
    assert {ladder(preset).summary_share for preset in PRESETS if preset != "coding-agent"} == {None}


# ---- complexity: 000 §13.1.1 -------------------------------------------------------------------------------------

THRESHOLDS = """
        thresholds = {
            "simple": 0.5,    # 早めに圧縮
            "medium": 0.7,    # 標準
            "complex": 0.85   # ギリギリまで保持
        }
        return thresholds.get(task_complexity, 0.7)
"""


def quoted_thresholds() -> dict[str, float]:
    found = re.search(r"\{.*\}", THRESHOLDS, re.DOTALL)
    assert found is not None
    thresholds: dict[str, float] = ast.literal_eval(found[0])
    return thresholds


def test_thresholds_follow_the_complexity() -> None:
    manager = AdaptiveContextManager()
    assert quoted_thresholds() == COMPLEXITY_THRESHOLDS
    for complexity, threshold in quoted_thresholds().items():
        assert manager.calculate_optimal_compression_threshold(complexity, 128_000) == threshold
        for preset in PRESETS:
            assert begins(ladder(preset, task_complexity=complexity), window=1000) in (
                round(threshold * 1000),
                round(threshold * 1000) - 1,  # ``phases`` begins at the share itself
            )
    assert manager.calculate_optimal_compression_threshold("unheard of", 128_000) == 0.7
    assert manager.calculate_optimal_compression_threshold(task_complexity="simple") == 0.5


def test_a_threshold_that_is_set_wins_over_the_complexity() -> None:
    assert threshold_of(load({"compression": {"task_complexity": "complex"}})) == 0.85
    assert threshold_of(load({"compression": {"task_complexity": "complex", "threshold": 0.7}})) == 0.7
    assert threshold_of(Settings()) == 0.7
    memory = {"pruning_threshold": 0.9}
    assert begins(ladder("companion", memory, task_complexity="simple"), window=1000) == 900
