"""When a fold pays: prices by model, the break-even point, how many turns are still to be expected."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orihon.compression.economics import (
    FREE,
    PRICES,
    UNKNOWN_MODEL,
    Prices,
    expected_turns,
    is_worth_it,
    prices_for,
    request_cost,
)
from orihon.errors import InvalidSettings
from orihon.texts import text

TOKENS = st.integers(0, 2_000_000)
TURNS = st.integers(0, 500)
# Quarters of a cent: sums and products of them are exact in floating point.
MONEY = st.integers(0, 400).map(lambda quarters: quarters / 4)


@st.composite
def price_lists(draw: st.DrawFn) -> Prices:
    cached, discount, surcharge = draw(MONEY), draw(MONEY), draw(MONEY)
    return Prices(cached + discount, cached, cached + discount + surcharge, draw(MONEY))


# ---- prices ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "prices"),
    [
        ("gpt-4o", Prices(2.5, 1.25, output=10)),
        ("gpt-4o-2024-11-20", Prices(2.5, 1.25, output=10)),
        ("gpt-4o-mini", Prices(0.15, 0.075, output=0.6)),
        ("gpt-4.1", Prices(2, 0.5, output=8)),
        ("gpt-4.1-mini-2025-04-14", Prices(0.4, 0.1, output=1.6)),
        ("gpt-5", Prices(1.25, 0.125, output=10)),
        ("gpt-5-mini", Prices(0.25, 0.025, output=2)),
        ("o3", Prices(2, 0.5, output=8)),
        ("claude-sonnet-4-20250514", Prices(3, 0.3, 3.75, 15)),
        ("claude-sonnet-4-5", Prices(3, 0.3, 3.75, 15)),
        ("claude-haiku-4-5", Prices(1, 0.1, 1.25, 5)),
        ("claude-opus-4-5-20251101", Prices(5, 0.5, 6.25, 25)),
        ("claude-opus-4-1", Prices(15, 1.5, 18.75, 75)),
        ("openai/gpt-4.1-mini", Prices(0.4, 0.1, output=1.6)),
        ("ft:gpt-4.1-mini:acme::7p4lURel", Prices(0.4, 0.1, output=1.6)),
        ("OpenRouter/Anthropic/Claude-Haiku-4-5", Prices(1, 0.1, 1.25, 5)),
    ],
)
def test_the_longest_prefix_of_the_bare_name_decides(model: str, prices: Prices) -> None:
    assert prices_for("openai", model) == prices


def test_what_is_not_said_costs_as_much_as_input_and_output_nothing() -> None:
    assert Prices(2.0) == Prices(input=2.0, cached=2.0, written=2.0, output=0.0)


def test_an_unknown_hosted_model_has_a_quarter_for_the_cache() -> None:
    assert prices_for("openai", "brand-new-model") == UNKNOWN_MODEL
    assert UNKNOWN_MODEL.cached == 0.25 * UNKNOWN_MODEL.input > 0


@pytest.mark.parametrize("provider", ["ollama", "lmstudio", "Ollama"])
def test_a_model_at_home_is_free(provider: str) -> None:
    assert prices_for(provider, "gpt-4o") == FREE == Prices(0, 0, 0, 0)


def test_own_prices_win_over_the_table_and_over_free() -> None:
    own = {"gpt-4": Prices(7), "gpt-4o": Prices(8), "azure/gpt-4o": Prices(9), "qwen": Prices(1)}
    assert prices_for("openai", "gpt-4o-mini", own) == Prices(8)
    assert prices_for("openai", "gpt-4.1", own) == Prices(7)
    assert prices_for("openai", "azure/gpt-4o", own) == Prices(9)
    assert prices_for("ollama", "Qwen3:8b", own) == Prices(1)
    assert prices_for("ollama", "llama3", own) == FREE
    assert prices_for("openai", "o3", own) == PRICES["o3"]


def test_own_names_may_be_written_in_any_case() -> None:
    assert prices_for("openai", "gpt-4o", {"GPT-4o": Prices(8)}) == Prices(8)


def test_the_table_is_plausible_and_can_be_found() -> None:
    for prefix, prices in PRICES.items():
        assert prices_for("openai", prefix) == prices
        assert 0 < prices.cached <= prices.input <= prices.written
        assert prices.output >= prices.input


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["input", "cached", "written", "output"])
def test_a_price_that_is_none_is_refused(name: str, wrong: float) -> None:
    with pytest.raises(InvalidSettings) as caught:
        dataclasses.replace(Prices(1.0), **{name: wrong})
    assert caught.value.fields == {"name": name, "value": wrong}
    assert name in str(caught.value)
    assert name in text("errors.InvalidSettings.price.cause", lang="ja", **caught.value.fields)


# ---- the decision ---------------------------------------------------------------------------------------------------


@given(TOKENS, TOKENS, TURNS, price_lists())
def test_the_rule(saved: int, reread: int, turns: int, prices: Prices) -> None:
    """Worth it exactly when all requests to come cost less with the fold than without it."""
    assume(saved > 0)
    assume(turns > 0)
    assume(prices.cached < prices.written)
    common = 1000
    without = turns * Fraction(common + reread + saved) * Fraction(prices.cached)
    first = common * Fraction(prices.cached) + reread * Fraction(prices.written)
    folded = first + (turns - 1) * Fraction(common + reread) * Fraction(prices.cached)
    assert is_worth_it(saved, reread, turns, prices) == (folded < without)


@given(st.integers(1, 100_000), st.integers(1, 200), price_lists())
def test_the_break_even_point_is_exact(reread: int, turns: int, prices: Prices) -> None:
    """At the point itself a fold gains nothing, so it is left; one token more and it pays."""
    assume(0 < prices.cached < prices.written)
    loss = Fraction(reread) * (Fraction(prices.written) - Fraction(prices.cached))
    point = loss / (Fraction(prices.cached) * turns)
    assert not is_worth_it(math.floor(point), reread, turns, prices)
    assert is_worth_it(math.floor(point) + 1, reread, turns, prices)


def test_the_break_even_point_by_hand() -> None:
    """Sonnet: 2,000 tokens saved over 10 turns gain as much as 1,739.13 tokens written again cost."""
    sonnet = PRICES["claude-sonnet-4"]
    assert is_worth_it(2000, 1739, 10, sonnet)
    assert not is_worth_it(2000, 1740, 10, sonnet)


@given(TOKENS, TOKENS, TURNS, price_lists(), TOKENS, TURNS)
def test_more_saved_or_more_turns_never_speak_against_a_fold(
    saved: int, reread: int, turns: int, prices: Prices, more: int, longer: int
) -> None:
    if is_worth_it(saved, reread, turns, prices):
        assert is_worth_it(saved + more, reread, turns + longer, prices)


@given(TOKENS, TOKENS, TURNS, price_lists(), TOKENS)
def test_a_fold_further_forward_is_never_worth_more(
    saved: int, reread: int, turns: int, prices: Prices, more: int
) -> None:
    if is_worth_it(saved, reread + more, turns, prices):
        assert is_worth_it(saved, reread, turns, prices)


@given(st.integers(-1000, 0), TOKENS, TURNS, price_lists() | st.just(FREE))
def test_a_fold_that_saves_nothing_is_never_worth_it(saved: int, reread: int, turns: int, prices: Prices) -> None:
    assert not is_worth_it(saved, reread, turns, prices)


@given(st.integers(1, 1000), TOKENS, TURNS, MONEY)
def test_without_a_discount_for_the_cache_every_saving_is_worth_it(
    saved: int, reread: int, turns: int, price: float
) -> None:
    assert is_worth_it(saved, reread, turns, Prices(price))
    assert is_worth_it(saved, reread, turns, FREE)


# ---- turns and costs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("so_far", "expected"), [(0, 4), (3, 4), (4, 4), (5, 5), (77, 77), (200, 200), (5000, 200)])
def test_as_many_turns_as_there_were_are_expected(so_far: int, expected: float) -> None:
    assert expected_turns(so_far) == expected


def test_a_request_costs_its_cached_beginning_and_its_new_end() -> None:
    sonnet = PRICES["claude-sonnet-4"]
    assert request_cost(0, 1_000_000, sonnet) == 3.75
    assert request_cost(1_000_000, 1_000_000, sonnet) == 0.3
    assert request_cost(900_000, 1_000_000, sonnet) == pytest.approx(0.9 * 0.3 + 0.1 * 3.75)
    assert request_cost(5, 0, sonnet) == 0


@given(TOKENS, TOKENS, TOKENS, price_lists())
def test_a_longer_common_beginning_never_costs_more(common: int, more: int, total: int, prices: Prices) -> None:
    assert request_cost(common + more, total, prices) <= request_cost(common, total, prices)
