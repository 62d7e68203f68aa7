"""The ladder: what its rungs mean, what the settings change, and what holds for every ladder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.compression.ladder import Fullness, Ladder, fullness_of, ladder_of
from orihon.settings.rungs import EVENTS, Rung
from orihon.values.tokens.tokens import Correction, Gauge
from tests.configurations import load
from tests.ladders import PRESETS, begins, full, ladder

# ---- default -----------------------------------------------------------------------------------------------------


def test_default_folds_first_what_pays_then_what_must() -> None:
    made = ladder()
    reached = [made.rung(full(tokens)) for tokens in (700, 701, 900, 901, 1000, 1001)]
    assert reached[0] is None
    assert [rung.economical for rung in reached[1:] if rung] == [True, True, False, False, False]
    assert {rung.strategies[0] for rung in reached[1:] if rung} == {"offload"}, "what costs nothing comes first"
    assert len({rung.usage for rung in reached if rung}) == 3
    assert all(made.rung_for(event) for event in EVENTS)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_model_is_asked_before_the_budget_ends(preset: str) -> None:
    """However much of the window is kept free for the answer, the end of the budget is not the first rung."""
    made = ladder(preset)
    for budget in range(300, 1001, 50):
        below = made.rung(full(int(budget * 0.99), budget=budget))
        assert below is not None
        assert below.strategies
        assert below.model
        assert not below.economical


@pytest.mark.parametrize("preset", PRESETS)
def test_the_end_of_the_budget_always_has_a_rung(preset: str) -> None:
    made = ladder(preset)
    beyond = made.rung(full(601, budget=600))
    assert beyond is not None
    assert beyond.usage == 1.0
    assert beyond.strategies
    assert made.rung(full(600, budget=600)) != beyond


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("budget", [1000, 800, 450])
def test_marks_are_where_the_view_climbs(preset: str, budget: int) -> None:
    """What a meter draws is what the ladder goes by: at each mark something is reached, and nothing between two."""
    made = ladder(preset)
    marks = made.marks(1000, budget)
    heights = [made.height(full(tokens, budget=budget)) for tokens in range(budget + 2)]
    climbs = [tokens for tokens in range(1, budget + 2) if heights[tokens] > heights[tokens - 1]]
    assert len(climbs) == len(marks)
    assert all(abs(tokens - mark * budget) <= 1 for tokens, mark in zip(climbs, marks, strict=True))
    assert marks[-1] == 1.0


# ---- what is set wins --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("threshold", [0.3, 0.55, 0.97])
def test_a_threshold_that_is_set_wins(preset: str, threshold: float) -> None:
    made = ladder(preset, threshold=threshold)
    start = begins(made, window=1000) + (1 if preset == "phases" else 0)
    assert start == round(threshold * 1000)
    now = full(start + 1)
    rung = made.rung(now)
    assert rung is not None
    assert made.goal(rung, now) < start, "what was folded is not full again at once"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("tokens", [100, 500, 790])
def test_a_number_of_tokens_wins_over_shares(preset: str, tokens: int) -> None:
    for others in ({}, {"threshold": 0.4}, {"task_complexity": "simple"}):
        made = ladder(preset, token_threshold=tokens, **others)
        start = begins(made, window=1000, budget=800) + (1 if preset == "phases" else 0)
        assert start == tokens


def test_a_number_of_tokens_is_no_end_of_the_budget() -> None:
    made = ladder(token_threshold=1000)
    rung = made.rung(full(50_000, window=128_000, budget=124_000))
    assert rung is not None
    assert rung.model
    assert made.goal(rung, full(50_000, window=128_000, budget=124_000)) < 1000


def test_a_number_of_tokens_beyond_the_budget_leaves_the_budget() -> None:
    assert begins(ladder("coding-agent", token_threshold=900), window=1000, budget=400) == 400


@pytest.mark.parametrize("preset", PRESETS)
def test_a_target_that_is_set_wins(preset: str) -> None:
    made = ladder(preset, target=0.25)
    rung = made.rung(full(990))
    assert rung is not None
    assert made.goal(rung, full(990)) == 250


def test_shares_and_targets_of_the_presets() -> None:
    goals = {}
    for preset in PRESETS:
        made = ladder(preset)
        rung = made.rung(full(901))
        assert rung is not None
        goals[preset] = made.goal(rung, full(901))
    assert goals == {"default": ladder().target * 1000, "coding-agent": 500, "companion": 700, "phases": 500}


def test_only_phases_keeps_headings() -> None:
    assert [ladder(preset).keeps_headings for preset in PRESETS] == [False, False, False, True]


# ---- a ladder of one's own ---------------------------------------------------------------------------------------


def test_a_ladder_of_ones_own_by_usage() -> None:
    rungs = [{"usage": 0.8, "strategies": ["prune"], "target": 0.3}, {"usage": 0.5}]
    made = ladder(ladder=rungs)
    assert made.rung(full(500)) is None
    assert made.rung(full(501)) == Rung(usage=0.5)
    assert made.rung(full(800)) == Rung(usage=0.5)
    pruning = Rung(usage=0.8, strategies=("prune",), target=0.3)
    assert made.rung(full(801)) == pruning
    assert made.goal(pruning, full(801)) == 300
    assert made.rung_for("approval") is None


def test_a_ladder_of_ones_own_by_messages() -> None:
    rungs = [{"messages": 200, "strategies": ["summarize"]}, {"messages": 50, "strategies": ["offload"]}]
    made = ladder(ladder=rungs, target=0.4)
    reached = [made.rung(full(100, entries=entries)) for entries in (50, 51, 200, 201)]
    assert [rung and rung.strategies for rung in reached] == [None, ("offload",), ("offload",), ("summarize",)]
    rung = reached[-1]
    assert rung is not None
    assert made.goal(rung, full(100, entries=201)) == 40, "a share of what is there, or nothing would go"


def test_a_ladder_of_ones_own_by_event() -> None:
    made = ladder(ladder=[{"event": "phase_end", "strategies": ["prune"]}])
    assert made.rung_for("phase_end") == Rung(event="phase_end", strategies=("prune",))
    assert made.rung_for("approval") is None
    assert made.rung(full(1000, entries=10_000)) is None


@pytest.mark.parametrize(
    "rungs",
    [
        [{"usage": 0.5}],
        [{"usage": 1}],
        [{"messages": 10}],
        [{"event": "approval", "strategies": ["prune"]}],
        [{"usage": 0.4, "strategies": ["prune"]}, {"usage": 1}],
    ],
)
@pytest.mark.parametrize("preset", PRESETS)
def test_a_ladder_of_ones_own_has_an_end_too(preset: str, rungs: list[dict[str, Any]]) -> None:
    made = ladder(preset, ladder=rungs)
    beyond = made.rung(full(601, budget=600, entries=100))
    assert beyond == next(rung for rung in reversed(ladder(preset).rungs) if rung.usage == 1.0)
    assert made.strongest().strategies


def test_an_end_of_ones_own_stays() -> None:
    made = ladder(ladder=[{"usage": 1, "strategies": ["prune"]}])
    assert made.rungs == (Rung(usage=1.0, strategies=("prune",)),)
    assert begins(ladder(ladder=[{"usage": 1, "strategies": ["prune"]}], token_threshold=300), window=1000) == 300


def test_a_rung_that_only_warns_hides_none_that_folds() -> None:
    rungs = [{"usage": 0.6}, {"messages": 100, "strategies": ["summarize"]}]
    rung = ladder(ladder=rungs).rung(full(700, entries=101))
    assert rung is not None
    assert rung.strategies == ("summarize",)


@pytest.mark.parametrize(
    ("preset", "strategies"),
    [
        ("default", ("offload", "summarize")),
        ("coding-agent", ("summarize",)),
        ("companion", ("prune",)),
        ("phases", ("sections",)),
    ],
)
def test_by_hand_the_last_rung_below_the_end_is_used(preset: str, strategies: tuple[str, ...]) -> None:
    strongest = ladder(preset).strongest()
    assert strongest.strategies == strategies
    assert strongest.model
    assert not strongest.economical, "who asks for it has decided"


# ---- measures ----------------------------------------------------------------------------------------------------


def test_fullness_is_what_the_provider_counts() -> None:
    gauge = Gauge.of(load({"llm": {"openai": {"reserve_output": 200}}}), 1000, Correction(1.5))
    fullness = fullness_of(gauge, 400, 7)
    assert fullness == Fullness(tokens=600, entries=7, window=1000, budget=800)
    assert fullness.usage == 0.75


# ---- properties --------------------------------------------------------------------------------------------------

_SHARES = st.floats(0.01, 1).map(lambda share: round(share, 3))
_STRATEGIES = st.lists(st.sampled_from(["summarize", "prune", "offload", "sections"]), max_size=2)
_RUNGS = st.one_of(
    st.fixed_dictionaries({"usage": _SHARES, "strategies": _STRATEGIES, "including": st.booleans()}),
    st.fixed_dictionaries({"messages": st.integers(1, 50), "strategies": _STRATEGIES}, optional={"target": _SHARES}),
    st.fixed_dictionaries({"event": st.sampled_from(EVENTS), "strategies": _STRATEGIES}),
)
_COMPRESSION = st.fixed_dictionaries(
    {"preset": st.sampled_from(PRESETS)},
    optional={
        "threshold": _SHARES,
        "token_threshold": st.integers(1, 1500),
        "target": _SHARES,
        "task_complexity": st.sampled_from(["simple", "medium", "complex"]),
        "ladder": st.lists(_RUNGS, min_size=1, max_size=5),
    },
)
_MEMORY = st.fixed_dictionaries({}, optional={"max_tokens": st.integers(1, 1500)})
LADDERS = st.builds(
    lambda compression, memory: ladder_of(load({"compression": compression, "memory": memory})), _COMPRESSION, _MEMORY
)
VIEWS = st.builds(
    lambda window, share, tokens, entries: Fullness(tokens, entries, window, max(1, int(window * share))),
    st.integers(1, 1000),
    st.floats(0.1, 1),
    st.integers(0, 2000),
    st.integers(0, 100),
)


@given(LADDERS, VIEWS, st.integers(0, 2000), st.integers(0, 100))
def test_a_view_that_grows_never_climbs_down(made: Ladder, view: Fullness, tokens: int, entries: int) -> None:
    grown = replace(view, tokens=view.tokens + tokens, entries=view.entries + entries)
    assert made.height(grown) >= made.height(view)
    before, after = made.rung(view), made.rung(grown)
    if before is not None:
        assert after is not None
        folds_as_well = bool(after.strategies) or not before.strategies
        assert folds_as_well
        if bool(after.strategies) == bool(before.strategies):
            assert made.rungs.index(after) >= made.rungs.index(before)


@given(LADDERS, VIEWS)
def test_a_goal_is_within_the_budget(made: Ladder, view: Fullness) -> None:
    for rung in (*made.rungs, made.strongest()):
        assert 0 <= made.goal(rung, view) <= view.budget


@given(LADDERS, VIEWS)
def test_a_view_beyond_the_budget_is_always_folded(made: Ladder, view: Fullness) -> None:
    rung = made.rung(view)
    if view.tokens > view.budget:
        assert rung is not None
        assert rung.strategies
