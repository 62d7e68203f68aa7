"""Prices by model: whose count, what is not known, and what a call comes to."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import InvalidSettings
from orihon.settings.rungs import MOST_PRICE
from orihon.texts import text
from orihon.values.tokens.prices import FREE, PRICES, UNKNOWN_MODEL, PriceList, Prices, prices_of
from tests.configurations import load

TOKENS = st.integers(0, 2_000_000)


def prices_for(provider: str, model: str, own: dict[str, Prices] | None = None) -> Prices:
    settings = load({"prices": {name: dataclasses.asdict(prices) for name, prices in (own or {}).items()}})
    return PriceList(settings).of(provider, model) or UNKNOWN_MODEL


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
        ("openrouter/anthropic/claude-3.5-haiku", Prices(0.8, 0.08, 1, 4)),
        ("anthropic/claude-opus-4.5", Prices(5, 0.5, 6.25, 25)),
        ("us.anthropic.claude-3-5-haiku-20241022-v1:0", Prices(0.8, 0.08, 1, 4)),
        ("bedrock/anthropic.claude-3-haiku-20240307-v1:0", Prices(0.25, 0.03, 0.3, 1.25)),
        ("models/gemini-2.5-flash", Prices(0.3, 0.03, output=2.5)),
        ("gpt-5.1-codex", Prices(1.25, 0.125, output=10)),
        ("gpt-5.2-pro", Prices(21, output=168)),
        ("gpt-4.5-preview", Prices(75, 37.5, output=150)),
        ("o3-deep-research", Prices(10, 2.5, output=40)),
    ],
)
def test_the_longest_prefix_of_the_bare_name_decides(model: str, prices: Prices) -> None:
    assert prices_for("openai", model) == prices


@pytest.mark.parametrize("model", ["gpt-5.5", "gpt-4omni", "o30", "claudette"])
def test_the_beginning_of_another_models_name_says_nothing_about_its_price(model: str) -> None:
    assert PriceList(load({})).of("openai", model) is None


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


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf, 1e308, MOST_PRICE + 1])
@pytest.mark.parametrize("name", ["input", "cached", "written", "output"])
def test_a_price_that_is_none_is_refused(name: str, wrong: float) -> None:
    with pytest.raises(InvalidSettings) as caught:
        dataclasses.replace(Prices(1.0), **{name: wrong})
    assert caught.value.fields == {"name": name, "value": wrong, "most": MOST_PRICE}
    assert name in str(caught.value)
    assert name in text("errors.InvalidSettings.price.cause", lang="ja", **caught.value.fields)


# ---- what calls come to ---------------------------------------------------------------------------------------------


def test_a_model_that_nobody_has_named_a_price_for_has_none() -> None:
    known = PriceList(load({"prices": {"house-": {"input": 1}}}))
    assert known.of("openai", "brand-new-model") is None
    assert known.of("", "house-model") == Prices(1)
    assert known.of("", "gpt-4o") == PRICES["gpt-4o"]
    assert known.of("ollama", "brand-new-model") == FREE, "costing nothing is a price"
    assert known.of("openai", "brand-new-model") is None, "also when it is asked for again"


def test_where_proportions_are_wanted_a_guess_stands_for_an_unknown_model() -> None:
    assert prices_of(load({}), "brand-new-model") == UNKNOWN_MODEL


def test_new_input_is_written_and_old_input_is_read_from_the_cache() -> None:
    prices = Prices(input=3, cached=0.3, written=3.75, output=15)
    assert prices.of_tokens(1_000_000, 600_000, 100_000) == pytest.approx(0.6 * 0.3 + 0.4 * 3.75 + 0.1 * 15)
    assert prices.of_tokens(0, 0, 0) == 0


@given(TOKENS, TOKENS, TOKENS)
def test_a_cost_is_never_negative_whatever_a_provider_counts(read: int, cached: int, said: int) -> None:
    assert Prices(3, 0.3, 3.75, 15).of_tokens(read, cached, said) >= 0
