"""What a rung would do to a view: strategies in order until the goal is reached, one plan, nothing changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orihon.compression.ladder import ladder_of
from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, Strategy, WhyNot
from orihon.compression.planner import Draft, Job, draft, expected_turns, is_worth_it
from orihon.compression.strategies.toolbox import Strategies
from orihon.errors import BudgetExceeded, InvalidInput
from orihon.settings.rungs import STRATEGIES, Rung
from orihon.values.message.message import Message
from orihon.values.records import Fold, Pin
from orihon.values.tokens.prices import FREE, Prices
from orihon.values.view import PlannedFold, site
from tests.configurations import load
from tests.helpers import refused
from tests.pages import aims, message, pages_of, views, views_with_aims
from tests.unit.test_writing import Writer

SETTINGS = load({})
TOOLBOX = Strategies(SETTINGS, ladder_of(SETTINGS)).named
FILLER = "The export of the monthly figures goes through several steps, one after another, every night. " * 4
LONG = "\n".join(f"row {number} of the table sets option_{number} to {number * 7}" for number in range(120))
MOST = 10**9
SMALL = 500  # tokens: notes, a title and notices always fit in so many
ORDERS = st.lists(st.sampled_from(STRATEGIES), min_size=1, max_size=4, unique=True).map(tuple)


def job(*strategies: str, goal: int = 0, limit: int = MOST, keep: int = 4, least: int = 1) -> Job:
    return Job(Rung(usage=0.7, strategies=strategies or ("offload", "summarize")), Aim(goal, keep, least), limit)


def made(pages: Pages, wanted: Job) -> Draft:
    planned = draft(pages, wanted, TOOLBOX)
    assert isinstance(planned, Draft)
    return planned


def talk(count: int) -> list[Message]:
    return [
        message("user" if at % 2 == 0 else "assistant", f"step_{at} of module_{at}. {FILLER}") for at in range(count)
    ]


def work(count: int) -> list[Message]:
    """A system prompt, a wish, and calls with long results."""
    messages = [message("system", "You are careful."), message("user", "Repair the exporter.")]
    for at in range(count):
        rows = LONG.replace("option_", f"option_{at}_")
        messages += [message("assistant", f"look {at}", calls=[f"c{at}"]), message("tool", rows, answers=f"c{at}")]
    return messages


def spans(folds: Sequence[PlannedFold]) -> list[tuple[int, int]]:
    return [(fold.start_seq, fold.end_seq) for fold in folds]


# ---- what every draft keeps to ---------------------------------------------------------------------------------------


@settings(deadline=None)
@given(views_with_aims(), ORDERS)
def test_a_draft_is_legal_disjoint_shorter_and_the_same_again(
    given_view: tuple[Pages, Aim], strategies: tuple[str, ...]
) -> None:
    pages, aim = given_view
    before = (pages.view, tuple(pages.messages))
    wanted = Job(Rung(usage=0.7, strategies=strategies), aim, MOST)
    planned = draft(pages, wanted, TOOLBOX)
    assert (pages.view, tuple(pages.messages)) == before
    assert draft(replace(pages), wanted, TOOLBOX) == planned
    if isinstance(planned, NothingToFold):
        assert planned.strategy in strategies
        return
    folds = planned.plan.folds
    assert all(one.end_seq < other.start_seq for one, other in pairwise(folds))
    for fold in folds:
        site(pages.view, fold)
        assert fold.report is not None
        assert 0 <= fold.report.kept <= fold.report.found
        assert len(fold.report.lost) <= fold.report.found - fold.report.kept
    assert planned.before_tokens == pages.tokens
    assert planned.after_tokens == pages.tokens_after(folds) < pages.tokens
    assert planned.goal == aim.goal
    assert set(planned.plan.strategy.split("+")) <= set(strategies)


@settings(deadline=None)
@given(views(), st.data(), ORDERS, st.booleans())
def test_a_view_that_cannot_be_sent_gets_below_the_limit(
    pages: Pages, data: st.DataObject, strategies: tuple[str, ...], bends: bool
) -> None:
    aim = replace(data.draw(aims(pages)), hands_off=())
    whole = [pages.view.entries[pages.view.index_of(pin.seq)] for pin in pages.view.pins if not pin.line]
    lines = sum(pages.count(pin.line) + 20 for pin in pages.view.pins if pin.line)
    fixed = sum(entry.tokens for entry in {*pages.view.entries[: pages.view.head], *whole})
    # What is too small to be shortened by itself, and may stand between pins, stays as it is.
    small = sum(min(entry.tokens, 60) for entry in pages.view.entries)
    limit = int((fixed + small + lines + SMALL) / 0.9)
    planned = draft(pages, Job(Rung(usage=1.0, strategies=strategies), aim, limit, bends=bends), TOOLBOX)
    if pages.tokens > limit:
        assert isinstance(planned, Draft)
        assert planned.after_tokens <= limit


@settings(deadline=None)
@given(views_with_aims(), st.sampled_from((1, 20, 100)))
def test_protected_text_that_is_too_large_is_an_error_and_nothing_else(
    given_view: tuple[Pages, Aim], limit: int
) -> None:
    pages, aim = given_view
    view = pages.view
    protected = {*range(view.head), *(view.index_of(pin.seq) for pin in view.pins if not pin.line)}
    tokens = sum(view.entries[place].tokens for place in protected)
    wanted = Job(Rung(usage=1.0, strategies=("summarize",)), aim, limit)
    if tokens > limit:
        with refused(BudgetExceeded, "protected"):
            draft(pages, wanted, TOOLBOX)
    elif not any(pin.line for pin in view.pins):
        draft(pages, wanted, TOOLBOX)


@settings(deadline=None)
@given(
    views_with_aims(),
    st.sampled_from((FREE, Prices(1.0), Prices(2.0, 0.5), Prices(3.0, 0.3, 3.75), Prices(50.0, 0.1))),
)
def test_an_economical_rung_folds_exactly_when_that_is_worth_it(given_view: tuple[Pages, Aim], prices: Prices) -> None:
    pages, aim = given_view
    rung = Rung(usage=0.7, strategies=("offload", "summarize"))
    anyway = draft(pages, Job(rung, aim, MOST), TOOLBOX)
    thrifty = draft(pages, Job(replace(rung, economical=True), aim, MOST, prices=prices), TOOLBOX)
    if isinstance(anyway, NothingToFold):
        assert thrifty == anyway
        return
    after = pages.after(anyway.plan.folds)
    first = anyway.plan.folds[0].start_seq
    reread = sum(entry.tokens for entry in after.entries if entry.start >= first)
    answered = sum(entry.role == "assistant" for entry in pages.view.entries)
    hidden = sum(fold.message_count for fold in pages.view.folds if fold.form == "summary")
    if is_worth_it(anyway.saved, reread, expected_turns(answered + hidden // 2), prices):
        assert thrifty == anyway
    else:
        assert isinstance(thrifty, NothingToFold)
        assert thrifty.reason is WhyNot.NOT_WORTH_IT


# ---- strategies in order ---------------------------------------------------------------------------------------------


class Watched:
    """A toolbox that remembers which strategies planned."""

    def __init__(self) -> None:
        self.planned: list[str] = []

    def named(self, name: str, rung: Rung) -> Strategy:
        return _Watching(TOOLBOX(name, rung), self.planned)


class _Watching:
    def __init__(self, strategy: Strategy, planned: list[str]) -> None:
        self.name = strategy.name
        self._strategy, self._planned = strategy, planned

    def plan(self, pages: Pages, aim: Aim) -> FoldPlan | NothingToFold:
        self._planned.append(self.name)
        return self._strategy.plan(pages, aim)


def test_what_costs_less_comes_first_and_may_be_enough() -> None:
    pages, watched = pages_of(work(10)), Watched()
    planned = draft(pages, job(goal=int(0.6 * pages.tokens)), watched.named)
    assert isinstance(planned, Draft)
    assert watched.planned == ["offload"]
    assert planned.plan.strategy == "offload"
    assert {fold.form for fold in planned.plan.folds} == {"preview"}
    assert planned.after_tokens <= planned.goal


def test_the_next_strategy_takes_in_what_the_first_has_planned() -> None:
    pages, watched = pages_of(work(10)), Watched()
    planned = draft(pages, job(goal=int(0.15 * pages.tokens), keep=2), watched.named)
    assert isinstance(planned, Draft)
    assert watched.planned == ["offload", "summarize"]
    assert planned.plan.strategy == "offload+summarize"
    assert spans(planned.plan.folds) == [(3, 20)], "previews inside the summary are not made"
    assert planned.after_tokens <= planned.goal


def test_notes_are_drawn_from_the_whole_text_and_not_from_its_preview() -> None:
    messages = work(10)
    needle = "the cause is UnicodeDecodeError in reports/latin_exporter.py line 4711"
    rows = LONG.splitlines()
    messages[5] = replace(messages[5], content="\n".join([*rows[:60], needle, *rows[60:]]))
    pages = pages_of(messages)
    planned = made(pages, job(goal=int(0.25 * pages.tokens)))
    assert planned.plan.strategy == "offload+summarize"
    assert needle in planned.plan.folds[0].text


def test_why_nothing_is_folded_is_what_the_last_one_says() -> None:
    pages = pages_of(talk(6))
    assert draft(pages, job(keep=4, least=5), TOOLBOX) == NothingToFold("summarize", WhyNot.TOO_FEW)
    assert draft(pages, job("summarize", "offload", keep=6), TOOLBOX) == NothingToFold("offload", WhyNot.NOTHING_BULKY)
    nothing = Job(Rung(usage=0.6), Aim(0), MOST)
    assert draft(pages, nothing, TOOLBOX) == NothingToFold("", WhyNot.NO_RUNG)


def test_newest_entries_that_are_too_large_give_way_where_the_ladder_bends() -> None:
    pages = pages_of([message("system", "You are careful."), *talk(4), *work(5)[2:]])
    wanted = job("summarize", goal=int(0.3 * pages.tokens), keep=10, least=5)
    assert draft(pages, wanted, TOOLBOX) == NothingToFold("summarize", WhyNot.TOO_FEW)
    planned = made(pages, replace(wanted, bends=True))
    assert planned.after_tokens <= planned.goal
    assert spans(planned.plan.folds)[0][0] == 2
    assert spans(planned.plan.folds)[-1][1] < pages.view.last_seq, "never all of them"


# ---- a view that cannot be sent --------------------------------------------------------------------------------------


def test_one_giant_newest_message_is_shortened() -> None:
    pages = pages_of([message("system", "You are careful."), message("user", LONG * 10)])
    planned = made(pages, job(goal=800, limit=2000))
    assert planned.plan.strategy == "shorten"
    assert spans(planned.plan.folds) == [(2, 2)]
    assert planned.after_tokens <= 1800, "a view that just fits would be too large again with the next message"


def test_a_view_that_fits_is_not_shortened() -> None:
    pages = pages_of([message("user", LONG * 10)])
    assert draft(pages, job(goal=10, limit=pages.tokens), TOOLBOX) == NothingToFold("summarize", WhyNot.NOTHING_OLD)


def test_what_does_not_pay_is_folded_all_the_same_when_the_view_cannot_be_sent() -> None:
    pages = pages_of(talk(30))
    dear = Prices(1000.0, 0.0)
    rung = Rung(usage=0.7, strategies=("summarize",), economical=True)
    thrifty = Job(rung, Aim(pages.tokens // 2), MOST, prices=dear)
    assert draft(pages, thrifty, TOOLBOX) == NothingToFold("summarize", WhyNot.NOT_WORTH_IT)
    assert made(pages, replace(thrifty, limit=pages.tokens - 1)).after_tokens < pages.tokens / 1.5


def test_too_few_messages_are_enough_when_the_view_cannot_be_sent() -> None:
    pages = pages_of(talk(8))
    assert draft(pages, job("summarize", keep=4, least=5), TOOLBOX) == NothingToFold("summarize", WhyNot.TOO_FEW)
    assert made(pages, job("summarize", goal=400, keep=4, least=5, limit=600)).after_tokens <= 600


# ---- pins ------------------------------------------------------------------------------------------------------------


def test_pins_by_role_and_pattern_hold() -> None:
    messages = talk(20)
    messages[3] = message("system", "An operator says: keep to the plan.")
    messages[6] = message("user", f"RULE: tabs only.\n{FILLER}")
    pages = pages_of(messages)
    planned = made(pages, replace(job("summarize"), pin_patterns=("^RULE:",), pin_roles=("system",)))
    assert spans(planned.plan.folds) == [(1, 3), (5, 16)]
    assert "RULE: tabs only." in planned.plan.folds[1].text
    assert planned.pinned_lines == ("RULE: tabs only.",)
    assert pages.view.pins == (), "pins by rule are not recorded"


@pytest.mark.parametrize("rule", ["role", "recorded"])
def test_pins_that_do_not_fit_are_named(rule: str) -> None:
    pages = pages_of([message("user", LONG), *talk(4)], pins=[Pin(1)] if rule == "recorded" else ())
    wanted = replace(job(limit=500), pin_roles=("user",) if rule == "role" else ())
    with refused(BudgetExceeded, "protected") as caught:
        draft(pages, wanted, TOOLBOX)
    assert caught.value.fields["seqs"] == ("1" if rule == "recorded" else "1, 2, 4")
    assert caught.value.fields["budget"] == 500


@pytest.mark.parametrize("rule", ["pattern", "heading", "recorded"])
def test_pinned_lines_that_do_not_fit_are_named(rule: str) -> None:
    section = "## Decisions\n" + LONG
    line = "RULE: " + "x" * 4000
    text = {"pattern": line, "heading": section, "recorded": line}[rule]
    pages = pages_of([*talk(6), message("user", text), *talk(6)], pins=[Pin(7, line)] if rule == "recorded" else ())
    patterns = {"pattern": ("^RULE:",), "heading": (r"^#+\s*Decisions",), "recorded": ()}[rule]
    with refused(BudgetExceeded, "protected") as caught:
        draft(pages, replace(job(limit=600), pin_patterns=patterns), TOOLBOX)
    assert caught.value.fields["seqs"] == "7"


# ---- models ----------------------------------------------------------------------------------------------------------


def test_a_model_writes_when_the_plan_is_made_and_the_rung_allows_it() -> None:
    pages = pages_of(talk(24))
    for rung_allows, reason in ((True, "model"), (False, "extractive")):
        model = Writer("module_3, in short")
        wanted = replace(job("summarize", goal=pages.tokens // 2), model=model)
        planned = made(pages, replace(wanted, rung=replace(wanted.rung, model=rung_allows)))
        assert [fold.reason for fold in planned.plan.folds] == [reason]
        assert len(model.asked) == rung_allows
        assert planned.after_tokens == pages.tokens_after(planned.plan.folds) <= planned.goal


def test_no_model_is_asked_for_what_is_not_done() -> None:
    pages = pages_of(talk(24))
    model = Writer("module_3, in short")
    rung = Rung(usage=0.7, strategies=("summarize",), economical=True)
    thrifty = Job(rung, Aim(pages.tokens // 2), MOST, prices=Prices(1000.0, 0.0), model=model)
    assert draft(pages, thrifty, TOOLBOX) == NothingToFold("summarize", WhyNot.NOT_WORTH_IT)
    assert model.asked == []


def test_several_strategies_cost_one_call() -> None:
    pages, model = pages_of(work(12), pins=[Pin(9)]), Writer("look 3, in short")
    planned = made(pages, replace(job(goal=int(0.2 * pages.tokens)), model=model))
    assert len(planned.plan.folds) > 1
    assert len(model.asked) == 1


# ---- reports and other texts -----------------------------------------------------------------------------------------


def test_a_report_names_what_is_lost() -> None:
    pages = pages_of(work(12), folds=[Fold(0, 2, 4, "the exporter is in reports/latin_exporter.py", 0, 0)])
    (fold,) = made(pages, job("summarize", goal=100)).plan.folds
    report = fold.report
    assert report is not None
    assert report.found > report.kept > 0
    assert report.lost
    assert not set(re.findall(r"option_\d+_\d+", fold.text)) & set(report.lost)
    assert "reports/latin_exporter.py" in fold.text or "reports/latin_exporter.py" in report.lost


def test_a_draft_with_another_text() -> None:
    pages = pages_of(talk(30), pins=[Pin(10)])
    planned = made(pages, job("summarize", goal=pages.tokens // 2))
    first, second = planned.plan.folds
    other = planned.with_text(second.start_seq, "my own words")
    assert [fold.text for fold in other.plan.folds] == [first.text, "my own words"]
    assert other.plan.folds[0] == first
    assert other.plan.folds[1].report is None, "the report was about another text"
    assert planned.plan.folds == (first, second)
    with refused(InvalidInput, "no_planned_fold") as caught:
        planned.with_text(second.start_seq + 1, "nobody's")
    assert caught.value.fields["known"] == f"{first.start_seq}, {second.start_seq}"
