"""The last resort: messages that are too large are shortened in their own envelopes."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings

from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, WhyNot
from orihon.compression.strategies.summarize import Shorten
from orihon.texts import set_language
from orihon.values.message.message import Message, Part
from orihon.values.records import Fold, Pin
from orihon.values.view import PlannedFold
from tests.pages import PICTURE, checked, message, pages_of, tokens_of, turned, views_with_aims

LEAST = 40  # tokens: nothing smaller is shortened
LONG = "\n".join(f"row {number} of the table sets option_{number} to {number * 7}" for number in range(300))


def folds_of(pages: Pages, goal: int) -> tuple[PlannedFold, ...]:
    plan = Shorten().plan(pages, Aim(goal))
    assert isinstance(plan, FoldPlan)
    return plan.folds


@settings(deadline=None)
@given(views_with_aims())
def test_any_plan_is_legal_and_reaches_the_goal_or_does_what_can_be_done(given_view: tuple[Pages, Aim]) -> None:
    pages, aim = given_view[0], replace(given_view[1], keep_recent=0)  # the newest are shortened, too
    before = (pages.view, tuple(pages.messages))
    folds = checked(Shorten(), pages, aim)
    assert (pages.view, tuple(pages.messages)) == before
    for fold in folds:
        assert (fold.form, fold.reason, fold.start_seq) == ("preview", "shortened", fold.end_seq)
        place = pages.view.index_of(fold.start_seq)
        assert pages.preview_tokens(place, fold.text) < tokens_of(pages, place)
    if pages.tokens_after(folds) > aim.goal:
        again = Shorten().plan(turned(pages, folds), aim)
        gained = 0 if isinstance(again, NothingToFold) else pages.tokens_after(again.folds)
        assert gained < 0.2 * pages.tokens or pages.tokens_after(folds) - aim.goal < 0.05 * pages.tokens


def test_one_giant_newest_message_fits_afterwards() -> None:
    pages = pages_of([message("system", "You are careful."), message("user", "short"), message("user", LONG)])
    goal = pages.tokens // 4
    (fold,) = folds_of(pages, goal)
    assert (fold.start_seq, fold.end_seq, fold.form) == (3, 3, "preview")
    assert pages.tokens_after([fold]) <= goal
    assert set(fold.text.splitlines()) & {f"3 user: {line}" for line in LONG.splitlines()} or "row " in fold.text


def test_the_largest_goes_first_and_no_more_than_needed() -> None:
    pages = pages_of([message("user", LONG[: 200 * at]) for at in (3, 9, 5)])
    assert [fold.start_seq for fold in folds_of(pages, pages.tokens - 1)] == [2]
    assert [fold.start_seq for fold in folds_of(pages, pages.tokens // 2)] == [2, 3]
    assert [fold.start_seq for fold in folds_of(pages, 100)] == [1, 2, 3]


def test_a_result_stays_the_answer_to_its_call() -> None:
    messages = [message("user", "go"), message("assistant", None, calls=["a"]), message("tool", LONG, answers="a")]
    pages = pages_of(messages)
    after = turned(pages, folds_of(pages, 300))
    assert after.tokens <= 300
    assert (after.messages[2].role, after.messages[2].answers) == ("tool", "a")
    assert after.view.entries[2].answers == "a"


def test_open_calls_may_be_shortened_but_keep_their_calls() -> None:
    pages = pages_of([message("user", "go"), message("assistant", LONG, calls=["a"])])
    after = turned(pages, folds_of(pages, 300))
    assert after.tokens <= 300
    assert after.messages[1].calls == ("a",)


def test_system_prompt_pins_summaries_and_what_was_opened_again_stay() -> None:
    messages = [message("system", LONG), *(message("user", LONG) for _ in range(5))]
    pages = pages_of(messages, pins=[Pin(3)], folds=[Fold(0, 2, 2, LONG, 0, 0)])
    plan = Shorten().plan(pages, Aim(0, hands_off=((5, 5),)))
    assert isinstance(plan, FoldPlan)
    assert [fold.start_seq for fold in plan.folds] == [4, 6]


def test_pinned_lines_stay() -> None:
    lines = LONG.splitlines()
    pages = pages_of([message("user", LONG)], pins=[Pin(1, lines[17]), Pin(1, lines[250])])
    (fold,) = folds_of(pages, 200)
    assert lines[17] in fold.text
    assert lines[250] in fold.text
    assert pages.tokens_after([fold]) <= 200


def test_a_picture_goes_with_its_message() -> None:
    pages = pages_of([Message("user", parts=(Part.of({"type": "text", "text": LONG}), PICTURE))])
    (fold,) = folds_of(pages, 100)
    assert pages.tokens_after([fold]) <= 100


@pytest.mark.parametrize("language", ["en", "ja"])
def test_where_no_line_fits_the_number_of_the_message_is_told(language: str) -> None:
    pages = pages_of([message("user", "x" * 4000)])
    set_language(language)
    try:
        (fold,) = folds_of(pages, 1)
    finally:
        set_language(None)
    assert re.search(r"\b1\b", fold.text)
    assert pages.tokens_after([fold]) < 100


@pytest.mark.parametrize("texts", [[], ["ok"] * 30, [""] * 3, ["word " * 25]])
def test_nothing_to_shorten(texts: list[str]) -> None:
    pages = pages_of([message("user", text) for text in texts])
    assert Shorten().plan(pages, Aim(0)) == NothingToFold("shorten", WhyNot.NO_GAIN)


def test_a_view_that_fits_is_left_alone() -> None:
    pages = pages_of([message("user", LONG)])
    assert Shorten().plan(pages, Aim(pages.tokens)) == NothingToFold("shorten", WhyNot.NO_GAIN)
