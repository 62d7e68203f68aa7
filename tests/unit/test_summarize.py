"""Summarising a view: every old run becomes notes, shorter than it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, WhyNot
from orihon.compression.strategies.summarize import Summarize, extractive_texts
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX, Pin
from orihon.values.view import PlannedFold
from tests.pages import checked, message, pages_of, turned, views_with_aims

LEAST_ROOM = 60  # tokens that the text of a run may have in any case
FILLER = "The export of the monthly figures goes through several steps, one after another, every night. " * 4


def talk(count: int, first: int = 0) -> list[Message]:
    return [
        message("user" if at % 2 == 0 else "assistant", f"step_{at} of module_{at}. {FILLER}")
        for at in range(first, first + count)
    ]


def spans(folds: Sequence[PlannedFold]) -> list[tuple[int, int]]:
    return [(fold.start_seq, fold.end_seq) for fold in folds]


def planned(strategy: Summarize, pages: Pages, aim: Aim) -> tuple[PlannedFold, ...]:
    plan = strategy.plan(pages, aim)
    assert isinstance(plan, FoldPlan)
    return plan.folds


def without_lines(pages: Pages) -> Pages:
    """The pages without pinned lines, which take room that nobody can give."""
    pins = tuple(pin for pin in pages.view.pins if not pin.line)
    return replace(pages, view=replace(pages.view, pins=pins))


# ---- what every plan keeps to ----------------------------------------------------------------------------------------


@settings(deadline=None)
@given(views_with_aims(), st.sampled_from((None, 0.1, 0.35, 0.9)))
def test_any_plan_is_legal_disjoint_and_shorter(given_view: tuple[Pages, Aim], share: float | None) -> None:
    pages, aim = given_view
    before = (pages.view, tuple(pages.messages))
    folds = checked(Summarize(share), pages, aim)
    assert (pages.view, tuple(pages.messages)) == before
    runs = pages.runs(aim)
    for fold in folds:
        run = FoldedRun(pages.view.index_of(fold.start_seq), pages.view.index_of(fold.end_seq) + 1)
        assert run in runs, "a fold stands for a whole run"
        assert pages.summary_tokens(fold.text) < pages.tokens_of(run)
        assert (fold.form, fold.reason) == ("summary", "extractive")
        assert all(line in fold.text for line in pages.pinned_lines(run))


@settings(deadline=None)
@given(views_with_aims())
def test_the_goal_is_reached_or_the_notes_are_as_short_as_can_be(given_view: tuple[Pages, Aim]) -> None:
    pages, aim = without_lines(given_view[0]), given_view[1]
    folds = checked(Summarize(), pages, aim)
    if not folds or pages.tokens_after(folds) <= aim.goal:
        return
    runs = pages.runs(aim)
    folded = sum(map(pages.tokens_of, runs))
    assert sum(pages.summary_tokens(fold.text) for fold in folds) <= max(folded // 20, LEAST_ROOM * len(runs))


@settings(deadline=None)
@given(views_with_aims(), st.sampled_from((0.2, 0.35, 0.5)))
def test_a_share_is_kept_to(given_view: tuple[Pages, Aim], share: float) -> None:
    pages, aim = without_lines(given_view[0]), given_view[1]
    folds = checked(Summarize(share), pages, aim)
    runs = pages.runs(aim)
    room = max(share * sum(map(pages.tokens_of, runs)), LEAST_ROOM * len(runs))
    assert sum(pages.summary_tokens(fold.text) for fold in folds) <= room


# ---- which messages --------------------------------------------------------------------------------------------------


def test_everything_older_than_the_newest_becomes_one_fold() -> None:
    pages = pages_of([message("system", "You are careful."), *talk(20)])
    assert spans(planned(Summarize(), pages, Aim(pages.tokens // 2, keep_recent=6))) == [(2, 15)]


@pytest.mark.parametrize(
    ("count", "keep", "least", "reason"),
    [(6, 6, 1, WhyNot.NOTHING_OLD), (10, 6, 5, WhyNot.TOO_FEW), (0, 0, 1, WhyNot.NOTHING_OLD)],
)
def test_nothing_worth_folding(count: int, keep: int, least: int, reason: WhyNot) -> None:
    pages = pages_of(talk(count))
    assert Summarize().plan(pages, Aim(0, keep, least)) == NothingToFold("summarize", reason)


def test_what_cannot_get_shorter_stays() -> None:
    pages = pages_of([message("user", "ok") for _ in range(12)])
    assert Summarize().plan(pages, Aim(0, 2)) == NothingToFold("summarize", WhyNot.NO_GAIN)


def test_what_somebody_has_opened_again_stays() -> None:
    pages = pages_of(talk(24))
    folds = planned(Summarize(), pages, Aim(pages.tokens // 2, 4, hands_off=((5, 12),)))
    assert spans(folds) == [(1, 4), (13, 20)]


def test_an_earlier_summary_alone_is_not_folded_again_and_with_new_messages_it_is_merged() -> None:
    pages = pages_of(talk(24))
    first = planned(Summarize(), pages, Aim(pages.tokens // 2, 4))
    once = turned(pages, first)
    assert Summarize().plan(once, Aim(0, 4)) == NothingToFold("summarize", WhyNot.NOTHING_OLD)
    again, *_ = planned(Summarize(), once, Aim(once.tokens // 2, 0, 3))
    assert (again.start_seq, again.end_seq) == (1, 22), "23 is what the user said last"
    assert again.text.startswith("Notes on messages 1 to 22,")
    assert SUMMARY_PREFIX.strip() not in again.text


def test_a_goal_that_leaves_room_gives_at_most_half() -> None:
    """The view gets smaller even when it was small enough: whoever asks for a summary wants one."""
    pages = pages_of(talk(20))
    folds = planned(Summarize(), pages, Aim(10 * pages.tokens, 4))
    assert pages.summary_tokens(folds[0].text) <= 0.5 * pages.tokens_of(FoldedRun(0, 16))


@pytest.mark.parametrize("strict", [False, True])
def test_a_strict_goal_counts_more_than_the_share(strict: bool) -> None:
    pages = pages_of(talk(40))
    aim = Aim(int(0.2 * pages.tokens), 2, is_strict=strict)
    folds = planned(Summarize(0.5), pages, aim)
    assert (pages.tokens_after(folds) <= aim.goal) == strict


def test_texts_for_runs_share_their_room() -> None:
    pages = pages_of(talk(30), pins=[Pin(5), Pin(20)])
    runs = pages.runs(Aim(0, 4))
    for room in (150, 400, 1000):
        texts = extractive_texts(pages, runs, room)
        assert len(texts) == len(runs) == 3
        assert sum(map(pages.summary_tokens, texts)) <= room
        assert all(texts)
