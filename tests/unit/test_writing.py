"""A model writes the largest summary of a plan, in one call; what it forgets is added, and it may fail in any way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.pages import NOTICE, Aim, FoldPlan, Pages
from orihon.compression.planner import ModelSummarizer, written_by
from orihon.compression.strategies.prune import Prune
from orihon.compression.strategies.summarize import Summarize
from orihon.texts import set_language
from orihon.values.message.message import Message
from orihon.values.records import Fold, Pin
from orihon.values.view import PlannedFold, site
from tests.pages import message, pages_of, views_with_aims
from tests.unit.llm_models import Model, summarizer

FILLER = "The export of the monthly figures goes through several steps, one after another, every night. " * 4
DEMAND = "You must never write to orders/archive.py, it is read by the auditors."


@dataclass
class Writer:
    """A summarizer that answers by rote and remembers what it was asked: numbers, room, earlier summary."""

    answer: str | None
    asked: list[tuple[tuple[int, ...], int, str]] = field(default_factory=list)

    def summarize(
        self, messages: Sequence[Message], max_tokens: int, *, seqs: Sequence[int] | None = None, earlier: str = ""
    ) -> str | None:
        assert seqs is not None
        assert len(seqs) == len(messages)
        self.asked.append((tuple(seqs), max_tokens, earlier))
        return self.answer


def talk(count: int, **other: str) -> list[Message]:
    """Messages by turns; ``m3="…"`` begins the third with another text."""
    texts = [other.get(f"m{at}", f"step_{at} of module_{at}.") for at in range(1, count + 1)]
    return [message("user" if at % 2 else "assistant", f"{text}\n{FILLER}") for at, text in enumerate(texts, 1)]


def summarized(pages: Pages, keep: int = 4) -> tuple[PlannedFold, ...]:
    plan = Summarize().plan(pages, Aim(pages.tokens // 2, keep))
    assert isinstance(plan, FoldPlan)
    return plan.folds


def rewritten(model: ModelSummarizer, pages: Pages, spare: int = 0) -> PlannedFold:
    (fold,) = written_by(model, pages, summarized(pages), spare)
    return fold


# ---- what is always so -----------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(
    views_with_aims(),
    st.sampled_from((None, "", "Notes: all is well.", "SQLite " * 30, "too long " * 5_000)),
    st.integers(-500, 500),
)
def test_one_call_at_most_and_the_folds_stay_legal(
    given_view: tuple[Pages, Aim], answer: str | None, spare: int
) -> None:
    pages, aim = given_view
    plan = Summarize().plan(pages, aim)
    folds = plan.folds if isinstance(plan, FoldPlan) else ()
    model = Writer(answer)
    after = written_by(model, pages, folds, spare)
    assert len(model.asked) == bool(folds)
    assert [(fold.start_seq, fold.end_seq) for fold in after] == [(fold.start_seq, fold.end_seq) for fold in folds]
    changed = [(old, new) for old, new in zip(folds, after, strict=True) if old != new]
    assert len(changed) <= (1 if answer else 0), "a model that answers nothing leaves no trace"
    for old, new in changed:
        run = pages.run_of(new)
        site(pages.view, new)
        assert new.reason == "model"
        assert new.text.startswith(str(answer))
        assert pages.summary_tokens(new.text) < pages.tokens_of(run)
        assert pages.tokens_of(run) == max(pages.tokens_of(pages.run_of(fold)) for fold in folds)
        assert all(line in new.text for line in pages.pinned_lines(pages.run_of(old)))


# ---- which fold ------------------------------------------------------------------------------------------------------


def test_the_models_text_is_the_fold() -> None:
    pages = pages_of(talk(20))
    model = Writer("## Goal\n1 user: module_1 and module_6 were made")
    fold = rewritten(model, pages)
    assert fold.text.startswith("## Goal\n1 user: module_1 and module_6 were made")
    assert (fold.reason, fold.start_seq, fold.end_seq) == ("model", 1, 16)
    ((seqs, max_tokens, earlier),) = model.asked
    assert (seqs, earlier) == (tuple(range(1, 17)), "")
    assert 0 < max_tokens < pages.tokens // 2


def test_the_largest_of_several_runs_is_the_models() -> None:
    pages = pages_of(talk(30), pins=[Pin(5), Pin(20)])
    model = Writer("module_6 to module_19, in short")
    folds = written_by(model, pages, summarized(pages), 0)
    assert [(fold.start_seq, fold.end_seq) for fold in folds] == [(1, 4), (6, 19), (21, 26)]
    assert [fold.reason for fold in folds] == ["extractive", "model", "extractive"]
    assert model.asked[0][0] == tuple(range(6, 20))


def test_previews_and_notices_are_not_for_a_model() -> None:
    pages = pages_of(talk(20))
    model = Writer("module_1")
    previews = [pages.preview(place, "short") for place in range(5)]
    assert written_by(model, pages, previews, 100) == tuple(previews)
    notices = Prune(emergency=True).plan(pages, Aim(pages.tokens // 2))
    assert isinstance(notices, FoldPlan)
    assert {fold.reason for fold in notices.folds} == {NOTICE}
    assert written_by(model, pages, notices.folds, 100) == notices.folds
    assert written_by(model, pages, (), 100) == ()
    assert model.asked == []


def test_room_that_is_left_is_the_models_up_to_half_of_the_run() -> None:
    pages = pages_of(talk(20))
    rooms = []
    for spare in (-50, 0, 100, 100_000):
        model = Writer("module_1")
        rewritten(model, pages, spare)
        rooms.append(model.asked[0][1])
    assert rooms[0] == rooms[1] <= rooms[2] <= rooms[3] <= pages.tokens_of(FoldedRun(0, 16)) / 2


def test_an_earlier_summary_is_handed_over_to_be_merged() -> None:
    pages = pages_of(talk(20), folds=[Fold(0, 1, 8, "the valve of module_3 must stay shut", 0, 0)])
    model = Writer("merged: the valve of module_3, module_12")
    (fold,) = written_by(model, pages, summarized(pages, keep=2), 0)
    ((seqs, _, earlier),) = model.asked
    assert earlier == "the valve of module_3 must stay shut"
    assert seqs == tuple(range(9, 19))
    assert (fold.start_seq, fold.end_seq) == (1, 18)


# ---- what a model forgets --------------------------------------------------------------------------------------------


def test_pinned_lines_are_in_the_models_fold() -> None:
    pages = pages_of(
        talk(20, m5="Rule: no network.\n弁を閉じること"), pins=[Pin(5, "Rule: no network."), Pin(5, "弁を閉じること")]
    )
    fold = rewritten(Writer("module_2 was made"), pages)
    assert fold.text.startswith("module_2 was made")
    assert fold.text.count("Rule: no network.") == 1
    assert fold.text.count("弁を閉じること") == 1


@pytest.mark.parametrize(
    ("language", "demand"),
    [("en", DEMAND), ("ja", "orders/archive.py には絶対に書き込まないでください。監査で使われます。")],
)
def test_what_a_user_demanded_and_the_model_forgot_is_added(language: str, demand: str) -> None:
    pages = pages_of(talk(20, m3=demand))
    set_language(language)
    try:
        fold = rewritten(Writer("module_4 was made"), pages)
    finally:
        set_language(None)
    assert fold.reason == "model"
    assert fold.text.startswith("module_4 was made")
    assert demand in fold.text
    assert pages.summary_tokens(fold.text) <= pages.tokens_of(FoldedRun(0, 16)) / 2


def test_nothing_is_added_to_a_good_text_but_what_users_demanded() -> None:
    read = [
        message("assistant", f"You must never skip sed -n '{at},{at + 80}p' src/export_{at}.py\n{FILLER}")
        for at in range(20)
    ]
    pages = pages_of([*talk(4, m3=DEMAND), *read, message("user", "Go on.")])
    answer = "## Goal\n1 user: module_1 and module_3 were made"
    added = rewritten(Writer(answer), pages, spare=2_000).text.removeprefix(answer)
    assert DEMAND in added
    said_by_users = {line for one in pages.messages if one.role == "user" for line in one.text.splitlines()}
    quoted = [line.partition(": ")[2] for line in added.splitlines() if line and line[0].isdigit()]
    assert {*quoted} <= said_by_users
    assert "sed -n" not in added


def test_what_is_added_has_at_most_half_of_the_room() -> None:
    demands = "\n".join(f"You must never write to orders/archive_{n}.py at any time of the day." for n in range(80))
    pages = pages_of(talk(20, m3=demands))
    answer = "module_1 was made"
    text = rewritten(Writer(answer), pages, spare=100_000).text
    assert "archive_0.py" in text
    assert pages.count(text) <= pages.tokens_of(FoldedRun(0, 16)) / 4 + pages.count(answer) + 1


def test_what_the_model_has_is_not_added() -> None:
    pages = pages_of(talk(20, m3=DEMAND))
    assert rewritten(Writer(f"## Constraints\n{DEMAND}"), pages).text.count(DEMAND) == 1


# ---- failing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [ConnectionError("down"), TimeoutError(), "", " \n", "Error: 503 Service Unavailable", "nothing " * 9_000, None, 7],
    ids=["raises", "times out", "empty", "blank", "an error", "longer than its input", "none", "no text"],
)
def test_a_model_that_fails_leaves_the_extractive_text(answer: object) -> None:
    pages = pages_of(talk(20))
    folds = summarized(pages)
    model = Model(answer)
    assert written_by(summarizer(model, retries=0), pages, folds, 100) == folds
    assert len(model.asked) == 1


def test_a_text_that_does_not_shorten_its_run_is_not_taken() -> None:
    pages = pages_of(talk(20))
    folds = summarized(pages)
    assert written_by(Writer("module_1 " * 20_000), pages, folds, 0) == folds
