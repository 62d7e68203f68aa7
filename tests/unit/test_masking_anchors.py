"""The literals that rules are looked for by: what of a rule becomes one, and that places are counted in characters."""

from __future__ import annotations

import re

import pytest

from orihon.guard.masking.anchors import Anchor, Views, in_any_case, literals_of
from orihon.guard.masking.rules import built_in_finders
from tests.masking_corpus import provider_tokens


@pytest.mark.parametrize(
    ("before", "anchor", "then", "literals"),
    [
        ("gh[psur]", "_", "", ["ghp_", "ghs_", "ghu_", "ghr_"]),
        (r"(?<!\\)npm", "_", "", ["npm_"]),
        ("[0-9]{8}:", "A", "A", [":AA"]),
        (r"[A-Za-z0-9]{14}\.atlasv1", ".", "", [".atlasv1."]),
        ("", "A", "[KSB]IA", ["AKIA", "ASIA", "ABIA"]),
        ("[sr]k", "_", "(?:live|test)_", ["sk_", "rk_"]),
        ("x[^a]", "-", "[^b]", ["-"]),
    ],
)
def test_what_is_fixed_around_an_anchor_is_looked_for(before: str, anchor: str, then: str, literals: list[str]) -> None:
    found = literals_of(before, anchor, then)
    assert [literal for literal, _ in found] == literals
    assert all(literal[offset:].startswith(anchor) for literal, offset in found)


def test_what_has_too_many_forms_is_cut() -> None:
    assert {len(literal) for literal, _ in literals_of("[0-9][0-9][0-9]", "-", "[0-9][0-9]-")} == {3}


def test_a_word_is_looked_for_in_small_and_capital_letters() -> None:
    assert set(in_any_case("a_b", 1)) == {Anchor(word, 1) for word in ("a_b", "A_b", "a_B", "A_B")}


@pytest.mark.parametrize("before", ["", "a", "é", "日本", "\U0001f600", "\ud800", "é日\U0001f600\u200b"])
def test_places_are_those_of_characters(before: str) -> None:
    text = f"{before} ghp_x パスワード {before} ghp_y"
    places = built_in_finders(email=False, ssn=False).places(Views(text))
    found = {place for number, several in places.items() if number >= 0 for place in several}
    assert found == {match.start() for match in re.finditer("(?<=ghp)_|(?<=パスワード)", text)}


def test_every_token_has_a_literal_or_a_long_run_behind_a_dot() -> None:
    finders = built_in_finders(email=False, ssn=False)
    assert [form for form, token in provider_tokens(7) if not finders.places(Views(token))] == []
