"""A rule that is held against many cases names all that break it."""

from __future__ import annotations

import pytest

from tests.helpers import Rule


def test_every_case_that_breaks_a_rule_is_named() -> None:
    with pytest.raises(pytest.fail.Exception) as caught, Rule() as rule:
        for number in range(5):
            with rule.case("number", number):
                assert number % 2 == 0
        with rule.case("nothing raised"), pytest.raises(ValueError):
            pass
    told = str(caught.value).splitlines()
    assert told[0] == "3 cases break the rule"
    assert [line.partition(":")[0] for line in told[1:]] == ["number 1", "number 3", "nothing raised"]


def test_an_error_beside_the_cases_is_told_as_it_is() -> None:
    with pytest.raises(KeyError), Rule() as rule:
        with rule.case("one"):
            raise ValueError
        raise KeyError
