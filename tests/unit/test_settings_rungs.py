"""The settings that are tables of their own: rungs of a ladder, prices of models, roles."""

from __future__ import annotations

import dataclasses
import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.settings import Settings
from orihon.settings.rungs import EVENTS, LEVELS, PRICE_NAMES, STRATEGIES, Rung
from orihon.texts import LANGUAGES, set_language, speaking
from tests.configurations import Write, load, refused
from tests.helpers import Rule

OWN_LADDER = """
compression:
  ladder:
    - {usage: 0.6}
    - {usage: 0.8, strategies: [offload, summarize], target: 0.4, economical: true, including: true}
    - {messages: 200, strategies: [prune], model: false}
    - {event: phase_end, strategies: [sections], level: aggressive}
"""


def test_a_ladder_in_a_file(write: Write) -> None:
    assert load(write(OWN_LADDER)).compression.ladder == (
        Rung(usage=0.6),
        Rung(usage=0.8, strategies=("offload", "summarize"), target=0.4, economical=True, including=True),
        Rung(messages=200, strategies=("prune",), model=False),
        Rung(event="phase_end", strategies=("sections",), level="aggressive"),
    )


def test_text_stands_for_other_types_inside_a_rung(write: Write) -> None:
    path = write("compression: {ladder: [{usage: '${AT}', strategies: ['${BY:-Prune}'], model: 'off'}]}")
    settings = load(path, {"AT": "0.75"})
    assert settings.compression.ladder == (Rung(usage=0.75, strategies=("prune",), model=False),)


def test_tables_in_environment_variables_are_json() -> None:
    settings = load(
        environ={
            "ORIHON_COMPRESSION__LADDER": '[{"messages": 50, "strategies": ["summarize"]}]',
            "ORIHON_PRICES": '{"gpt-4.1": {"input": 2, "cached": 0.5}}',
            "ORIHON_COMPRESSION__PIN_ROLES": '["user", "Developer"]',
            "ORIHON_COMPRESSION__PIN_PATTERNS": '["^## Rules"]',
        }
    )
    assert settings.compression.ladder == (Rung(messages=50, strategies=("summarize",)),)
    assert {name: dict(row) for name, row in settings.prices.items()} == {"gpt-4.1": {"input": 2.0, "cached": 0.5}}
    assert settings.compression.pin_roles == ("user", "developer")
    assert settings.compression.pin_patterns == ("^## Rules",)


def test_a_ladder_may_be_taken_back() -> None:
    settings = load({"compression": {"ladder": [{"usage": 0.5}]}})
    assert settings.replace(**{"compression.ladder": None}).compression.ladder is None
    assert load({"compression": {"ladder": None}}) == Settings()


def test_rungs_that_a_caller_makes_are_checked_too() -> None:
    rungs = (Rung(usage=0.5, strategies=("prune",)),)
    assert Settings().replace(**{"compression.ladder": rungs}).compression.ladder == rungs
    assert refused(flags={"compression.ladder": (Rung(usage=7),)}).fields["entry"] == "[0].usage"
    assert refused(flags={"compression.ladder": (*rungs, Rung())}).fields["entry"] == "[1]"


# --- Refusals ---

RUNG_FIELDS = "usage, messages, event, strategies, level, target, model, economical, including"
SHARE = "0 < x ≤ 1"
WRONG_RUNGS: list[tuple[object, str, str]] = [
    ("usage", "[0]", f"{{{RUNG_FIELDS}}}"),
    (None, "[0]", f"{{{RUNG_FIELDS}}}"),
    ([0.5], "[0]", f"{{{RUNG_FIELDS}}}"),
    ({}, "[0]", "usage | messages | event"),
    ({"strategies": ["prune"]}, "[0]", "usage | messages | event"),
    ({"usage": 0.5, "messages": 10}, "[0]", "usage | messages | event"),
    ({"usage": 0.5, "event": "approval"}, "[0]", "usage | messages | event"),
    ({"usge": 0.5}, "[0].usge", RUNG_FIELDS),
    ({"usage": 0.5, 1: 2}, "[0].1", RUNG_FIELDS),
    ({"usage": 0}, "[0].usage", SHARE),
    ({"usage": 1.01}, "[0].usage", SHARE),
    ({"usage": True}, "[0].usage", SHARE),
    ({"usage": "often"}, "[0].usage", SHARE),
    ({"usage": None}, "[0].usage", SHARE),
    ({"usage": float("nan")}, "[0].usage", SHARE),
    ({"usage": 10**400}, "[0].usage", SHARE),
    ({"messages": 0}, "[0].messages", "x ≥ 1"),
    ({"messages": 1.5}, "[0].messages", "x ≥ 1"),
    ({"messages": True}, "[0].messages", "x ≥ 1"),
    ({"event": "lunch"}, "[0].event", ", ".join(EVENTS)),
    ({"event": ["approval"]}, "[0].event", ", ".join(EVENTS)),
    ({"usage": 0.5, "strategies": "prune"}, "[0].strategies", f"[{', '.join(STRATEGIES)}]"),
    ({"usage": 0.5, "strategies": {"prune": 1}}, "[0].strategies", f"[{', '.join(STRATEGIES)}]"),
    ({"usage": 0.5, "strategies": ["prune", "delete"]}, "[0].strategies[1]", ", ".join(STRATEGIES)),
    ({"usage": 0.5, "strategies": [["prune"]]}, "[0].strategies[0]", ", ".join(STRATEGIES)),
    ({"usage": 0.5, "level": 3}, "[0].level", ", ".join(LEVELS)),
    ({"usage": 0.5, "target": 0}, "[0].target", SHARE),
    ({"usage": 0.5, "target": 0.5}, "[0].target", "0 < x < 0.5"),
    ({"usage": 0.5, "model": "perhaps"}, "[0].model", "true, false"),
    ({"usage": 0.5, "economical": 2}, "[0].economical", "true, false"),
    ({"usage": 0.5, "including": None}, "[0].including", "true, false"),
]
WRONG_PRICES: list[tuple[object, str, str]] = [
    ({"gpt-4o": 2.5}, "[gpt-4o]", "{input, cached, written, output}"),
    ({"gpt-4o": {}}, "[gpt-4o]", "{input: x, …}, 0 ≤ x ≤ 1e+06"),
    ({"gpt-4o": {"cached": 1}}, "[gpt-4o]", "{input: x, …}, 0 ≤ x ≤ 1e+06"),
    ({"gpt-4o": {"input": 1, "out": 1}}, "[gpt-4o].out", ", ".join(PRICE_NAMES)),
    ({"gpt-4o": {"input": -1}}, "[gpt-4o].input", "0 ≤ x ≤ 1e+06"),
    ({"gpt-4o": {"input": True}}, "[gpt-4o].input", "0 ≤ x ≤ 1e+06"),
    ({"gpt-4o": {"input": float("inf")}}, "[gpt-4o].input", "0 ≤ x ≤ 1e+06"),
    ({"gpt-4o": {"input": 10**400}}, "[gpt-4o].input", "0 ≤ x ≤ 1e+06"),
    ({"a": {"input": 1}, "b": {"input": 1, "cached": "free"}}, "[b].cached", "0 ≤ x ≤ 1e+06"),
    ({"gpt-4o": {"input": 1, "output": 1e308}}, "[gpt-4o].output", "0 ≤ x ≤ 1e+06"),
]
WRONG_ROLES: list[tuple[object, str, str]] = [
    (["user", "tool"], "[1]", "user, assistant, system, developer"),
    ([None], "[0]", "user, assistant, system, developer"),
    ([["user"]], "[0]", "user, assistant, system, developer"),
]
WRONG = [
    *(("compression.ladder", [raw], entry, allowed) for raw, entry, allowed in WRONG_RUNGS),
    *(("prices", raw, entry, allowed) for raw, entry, allowed in WRONG_PRICES),
    *(("compression.pin_roles", raw, entry, allowed) for raw, entry, allowed in WRONG_ROLES),
]


def test_a_wrong_entry_is_named_with_what_is_allowed() -> None:
    with Rule() as rule:
        for key, raw, entry, allowed in WRONG:
            with rule.case(key, raw):
                error = refused({key: raw})
                assert error.reason == "broken_entry"
                assert error.fields == {"key": key, "origin": "config", "entry": entry, "allowed": allowed}
                for language in LANGUAGES:
                    with speaking(language):
                        told = str(error)
                    assert f"{key}{entry} " in told
                    assert allowed in told
                    assert ("指定できるもの" in told) == (language == "ja")


@pytest.mark.parametrize("language", ["en", "ja"])
@pytest.mark.parametrize(
    ("key", "raw", "reason", "hint"),
    [
        ("compression.ladder", [], "not_ladder", "{usage: 0.8, strategies: [offload, summarize]}"),
        ("compression.ladder", {"usage": 0.5}, "not_ladder", "JSON"),
        ("compression.ladder", "0.5", "not_ladder", "'0.5'"),
        ("compression.ladder", "[{", "not_ladder", "JSON"),
        pytest.param("compression.ladder", "[" * 100_000, "not_ladder", "JSON", id="deep ladder"),
        ("prices", [], "not_prices", "gpt-4o: {input: 2.5, cached: 1.25}"),
        ("prices", None, "not_prices", "None"),
        ("prices", {" ": {"input": 1}}, "not_prices", "JSON"),
        ("prices", {4: {"input": 1}}, "not_prices", "JSON"),
        ("prices", '{"gpt-4o":', "not_prices", "JSON"),
        pytest.param("prices", '{"a":' * 100_000, "not_prices", "JSON", id="deep prices"),
        ("compression.pin_roles", "user", "not_roles", "user, assistant, system, developer"),
        ("compression.pin_roles", {"user": True}, "not_roles", "user, assistant, system, developer"),
        ("compression.pin_roles", 1, "not_roles", "JSON"),
    ],
)
def test_what_is_no_table_at_all(key: str, raw: object, reason: str, hint: str, language: str) -> None:
    error = refused({key: raw})
    assert error.reason == reason
    set_language(language)
    try:
        told = str(error)
    finally:
        set_language(None)
    assert key in told
    assert hint in told
    assert len(told) < 500


def test_errors_stay_short() -> None:
    assert len(str(refused({"compression.ladder": [{"x" * 100_000: 1}]}))) < 500
    assert len(str(refused({"prices": {"m" * 100_000: {"input": "x" * 100_000}}}))) < 500


def test_an_entry_in_a_variable_is_named_with_the_variable() -> None:
    error = refused(environ={"ORIHON_COMPRESSION__LADDER": '[{"usage": 0.5}, {"usage": 2}]'})
    assert error.fields["entry"] == "[1].usage"
    assert error.fields["origin"] == "environment ORIHON_COMPRESSION__LADDER"


def test_a_model_is_no_section_of_its_own() -> None:
    assert refused({"prices.gpt-4o": {"input": 1}}).reason == "unknown_key"


# --- Round trips ---

_SHARES = st.floats(0, 1, exclude_min=True)
_HOW: dict[str, st.SearchStrategy[Any]] = {
    "strategies": st.lists(st.sampled_from(STRATEGIES), max_size=4).map(tuple),
    "level": st.sampled_from(LEVELS),
    "model": st.booleans(),
    "economical": st.booleans(),
    "including": st.booleans(),
}
_WHEN = st.one_of(
    st.fixed_dictionaries({"usage": _SHARES}),
    st.fixed_dictionaries({"messages": st.integers(1)}, optional={"target": _SHARES}),
    st.fixed_dictionaries({"event": st.sampled_from(EVENTS)}, optional={"target": _SHARES}),
)
RUNGS = st.builds(lambda when, how: Rung(**when, **how), _WHEN, st.fixed_dictionaries({}, optional=_HOW))
_AMOUNTS = st.floats(0, 1e6)
_ROWS = st.fixed_dictionaries({"input": _AMOUNTS}, optional=dict.fromkeys(PRICE_NAMES[1:], _AMOUNTS))
_VALUES = st.fixed_dictionaries(
    {},
    optional={
        "compression.ladder": st.none() | st.lists(RUNGS, min_size=1, max_size=5).map(tuple),
        "compression.pin_roles": st.lists(st.sampled_from(["user", "assistant", "system", "developer"])),
        "prices": st.dictionaries(st.sampled_from(["gpt-4o", "claude", "a.b/c:d", "模型"]), _ROWS),
    },
)


@given(_VALUES)
def test_plain_data_come_back_as_the_same_settings(values: dict[str, Any]) -> None:
    settings = Settings().replace(**values)
    plain = json.loads(json.dumps(settings.as_dict()))
    again = load(plain)
    assert again == settings
    assert hash(again) == hash(settings)
    assert pickle.loads(pickle.dumps(settings)) == settings


@given(RUNGS)
def test_a_rung_writes_only_what_is_not_usual(rung: Rung) -> None:
    plain: dict[str, Any] = rung.as_plain()
    assert all(value != getattr(Rung(), name) for name, value in plain.items())
    assert dataclasses.replace(Rung(), **{**plain, "strategies": rung.strategies}) == rung


def test_prices_cannot_be_changed_behind_the_settings() -> None:
    row = {"input": 1.0}
    settings = load({"prices": {"m": row}})
    row["input"] = 9.0
    assert settings.prices["m"]["input"] == 1.0
    assert len({settings, load({"prices": {"m": {"input": 1}}}), load({"prices": {"m": {"input": 2}}})}) == 2
