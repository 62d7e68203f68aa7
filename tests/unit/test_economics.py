"""When a fold pays: the break-even point, how many turns are still to be expected."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from orihon.compression.planner import expected_turns, is_worth_it
from orihon.values.tokens.prices import FREE, PRICES, Prices

TOKENS = st.integers(0, 2_000_000)
TURNS = st.integers(0, 500)
# Quarters of a cent: sums and products of them are exact in floating point.
MONEY = st.integers(0, 400).map(lambda quarters: quarters / 4)


@st.composite
def price_lists(draw: st.DrawFn) -> Prices:
    cached, discount, surcharge = draw(MONEY), draw(MONEY), draw(MONEY)
    return Prices(cached + discount, cached, cached + discount + surcharge, draw(MONEY))


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


# ---- turns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("so_far", "expected"), [(0, 4), (3, 4), (4, 4), (5, 5), (77, 77), (200, 200), (5000, 200)])
def test_as_many_turns_as_there_were_are_expected(so_far: int, expected: float) -> None:
    assert expected_turns(so_far) == expected
