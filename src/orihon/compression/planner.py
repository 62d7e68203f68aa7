"""What a rung of the ladder would do to a view: strategies in order, until the goal is reached.

Owns the order of things: pins by rule first, then the rung's strategies, each seeing what the ones before it have
planned; for a view that cannot be sent, single messages are shortened, users' last; what does not pay is left; at last
a model, if there is one, writes the largest summary. What comes out is one plan, every fold with the report of what it
lost. Newest entries that take most of the goal leave the notes their room all the same, as far as the view can be sent.

Where the provider keeps a prompt cache, a request pays little for a beginning that was seen before. A fold changes the
request from some place on: everything behind it is read once more at the full price, and every later request is
shorter. Whether that pays depends only on the proportions between the prices, which change far less often than they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.pages import (
    MOST_LOST,
    NOTICE,
    Aim,
    FoldPlan,
    NothingToFold,
    Pages,
    Strategy,
    WhyNot,
    fold_report,
    with_pinned_lines,
)
from orihon.compression.rule_pins import rule_pins
from orihon.compression.strategies.summarize import Shorten, Summarize
from orihon.compression.trust import is_summary, shielded
from orihon.errors import BudgetExceeded, InvalidInput
from orihon.settings.rungs import Rung
from orihon.system.json_shapes import AsJson
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.prices import Prices
from orihon.values.tokens.tokens import estimate
from orihon.values.view import PlannedFold, check_protected

_NEWEST_SHARE = 0.5  # of the goal that the newest entries may take
_NOTES_SHARE = 0.25  # of the goal that notes have in any case, if the view can be sent so
_REQUEST_SHARE = 1 / 3  # of the limit that what a user said last has before anything gives way for it
_WRITERS = ("summarize", "prune")  # strategies that write notes
_SENDABLE = 0.9  # of the limit: a view that just fits would be too large again with the next message

Toolbox = Callable[[str, Rung], Strategy]


@dataclass(frozen=True, slots=True)
class Job:
    """A compression to be planned."""

    rung: Rung
    aim: Aim
    limit: int  # tokens of the largest view that can be sent
    pin_patterns: tuple[str, ...] = ()
    pin_roles: tuple[str, ...] = ()
    prices: Prices | None = None  # what the prompt cache costs, if that counts
    model: ModelSummarizer | None = None  # who may write the largest summary
    bends: bool = False  # whether the newest entries give way when they are too large for the goal
    is_firm: bool = False  # whether they do so only where the view cannot be sent otherwise: somebody has set how many
    is_least_firm: bool = False  # the same for the fewest messages worth a fold


@dataclass(frozen=True, slots=True)
class Draft(AsJson):
    """A compression that could be made: the plan, and what comes of it."""

    json_fields = "strategy=plan.strategy before_tokens after_tokens goal folds=plan.folds"

    plan: FoldPlan
    before_tokens: int
    after_tokens: int
    goal: int
    pinned_lines: tuple[str, ...] = ()  # that the folds carry on word for word
    by_hand: tuple[str, ...] = ()  # sentences on settings that cannot hold

    @property
    def saved(self) -> int:
        return self.before_tokens - self.after_tokens

    def with_text(self, start_seq: int, text: str) -> Draft:
        """The same with another text for the fold that begins at ``start_seq``."""
        known = [fold.start_seq for fold in self.plan.folds]
        if start_seq not in known:
            raise InvalidInput("no_planned_fold", start=start_seq, known=", ".join(map(str, known)))
        folds = tuple(
            replace(fold, text=text, report=None) if fold.start_seq == start_seq else fold for fold in self.plan.folds
        )
        more = sum(estimate(fold.text) for fold in folds) - sum(estimate(fold.text) for fold in self.plan.folds)
        return replace(self, plan=replace(self.plan, folds=folds), after_tokens=self.after_tokens + more)


def draft(pages: Pages, job: Job, toolbox: Toolbox) -> Draft | NothingToFold:
    """What the job's rung would do; ``BudgetExceeded`` when what may not be folded is too large by itself."""
    pins = rule_pins(pages, job.pin_patterns, job.pin_roles)
    pages = replace(pages, view=replace(pages.view, pins=(*pages.view.pins, *pins))) if pins else pages
    _check_protected(pages, job.limit)
    is_over = pages.tokens > job.limit
    aim = _bent(pages, job) if (job.bends or is_over) and not job.is_firm else job.aim
    strategies = [toolbox(name, job.rung) for name in job.rung.strategies]
    answers = _forced(pages, aim, strategies, job) if is_over else _climb(pages, aim, strategies, _most(job))
    plans = [answer for answer in answers if isinstance(answer, FoldPlan)]
    if not plans:
        return _why_not(answers)
    folds = _merged(plans)
    after = pages.tokens_after(folds)
    if after >= pages.tokens:
        return NothingToFold(plans[-1].strategy, WhyNot.NO_GAIN)
    is_thrifty = job.rung.economical and not is_over  # what cannot be sent is folded at any price
    if is_thrifty and job.prices is not None and not _pays(pages, folds, after, job.prices):
        return NothingToFold(plans[-1].strategy, WhyNot.NOT_WORTH_IT)
    if job.model is not None and job.rung.model:
        folds = written_by(job.model, pages, folds, aim.goal - after)
    folds = tuple(shielded(pages, fold, job.pin_patterns) for fold in folds)
    strategy = "+".join(dict.fromkeys(plan.strategy for plan in plans))
    reported = tuple(_with_report(pages, fold) for fold in folds)
    after = pages.tokens_after(folds)
    return Draft(FoldPlan(strategy, reported), pages.tokens, after, aim.goal, _pinned_lines(pages, folds))


def _check_protected(pages: Pages, limit: int) -> None:
    """Pinned lines count, too, once the view is too large: no fold can leave them out."""
    whole = check_protected(pages.view, limit)
    if pages.tokens <= limit:
        return
    counted = ""
    for pin in sorted(pages.view.pins, key=lambda pin: -len(pin.line)):
        counted += f"{pin.line}\n" if pin.line not in counted else ""
    lines = pages.count(counted)
    if whole + lines > limit:
        system = sum(entry.tokens for entry in pages.view.entries[: pages.view.head])
        seqs = sorted({pin.seq for pin in pages.view.pins})
        pinned = {"pinned": whole - system + lines, "seqs": ", ".join(map(str, seqs))}
        raise BudgetExceeded("protected", system=system, budget=limit, **pinned)


def _why_not(answers: Sequence[FoldPlan | NothingToFold]) -> NothingToFold:
    """The last strategy's reason: the ones before it were only tried because they cost less."""
    refused = [answer for answer in answers if isinstance(answer, NothingToFold)]
    return refused[-1] if refused else NothingToFold("", WhyNot.NO_RUNG)


def _most(job: Job) -> int:
    """Tokens that a view may have so that its notes have room."""
    return job.aim.goal if job.aim.is_strict else int(job.limit * _SENDABLE)


def _climb(pages: Pages, aim: Aim, strategies: Iterable[Strategy], most: int) -> list[FoldPlan | NothingToFold]:
    """The strategies' answers, until the goal is reached."""
    whole, answers = pages, list[FoldPlan | NothingToFold]()
    for strategy in strategies:
        seen = _as_summarized(whole, aim, answers) if strategy.name == "summarize" else pages
        answer = strategy.plan(seen, _with_room(seen, aim, most) if strategy.name in _WRITERS else aim)
        answers.append(answer)
        if isinstance(answer, FoldPlan):
            pages = pages.turned(answer.folds)
            if pages.tokens <= aim.goal:
                break
    return answers


def _as_summarized(pages: Pages, aim: Aim, answers: Iterable[FoldPlan | NothingToFold]) -> Pages:
    """What was planned so far, but for what a summary will stand for: how long it may be goes by the messages."""
    runs = [pages.fold(run, "") for run in pages.runs(aim)]
    folds = [fold for answer in answers for fold in answer.folds if not any(_covers(run, fold) for run in runs)]
    return pages.turned(folds) if folds else pages


def _with_room(pages: Pages, aim: Aim, most: int) -> Aim:
    """The aim with a larger goal where what stays would leave no room for notes."""
    stays = pages.tokens - sum(map(pages.tokens_of, pages.runs(aim)))
    return replace(aim, goal=max(aim.goal, min(stays + int(aim.goal * _NOTES_SHARE), most)))


def _forced(pages: Pages, aim: Aim, strategies: Sequence[Strategy], job: Job) -> list[FoldPlan | NothingToFold]:
    """The answers for a view that cannot be sent: what stays too large is shortened, or folded however new it is.

    At last everything is summarized, whatever the rung's strategies are.
    """
    answers: list[FoldPlan | NothingToFold] = []
    keeps = dict.fromkeys((aim.keep_recent, _bent(pages, job).keep_recent, 0))
    goal = min(aim.goal, int(job.limit * _SENDABLE))
    for keep, chosen in (*((keep, strategies) for keep in keeps), (0, [Summarize()])):
        forced = replace(aim, goal=goal, keep_recent=keep, min_to_compress=1, is_strict=True)
        answers = _finish(pages, _climb(pages, forced, chosen, _most(job)), forced, job.limit)
        plans = [answer for answer in answers if isinstance(answer, FoldPlan)]
        if plans and pages.tokens_after(_merged(plans)) <= job.limit:
            break
    return answers


def _finish(
    pages: Pages, answers: list[FoldPlan | NothingToFold], aim: Aim, limit: int
) -> list[FoldPlan | NothingToFold]:
    """What stays too large to be sent is shortened: a request beyond its share, then results, users' words at last."""
    for answer in answers:
        if isinstance(answer, FoldPlan):
            pages = pages.turned(answer.folds)
    if pages.tokens <= limit:
        return answers
    entries, asked = pages.view.entries, pages.view.last_user
    excess = 0 if asked is None else entries[asked].tokens - int(limit * _REQUEST_SHARE)
    users = [place for place, entry in enumerate(entries) if entry.role == "user"]
    others = [place for place in range(len(entries)) if place != asked]
    finished = list(answers)
    for spared, most in ((others, excess), (users, pages.tokens), ([], pages.tokens)):
        over = min(pages.tokens - int(limit * _SENDABLE), most)
        if over > 0:
            hands_off = (*aim.hands_off, *map(pages.span_of, spared))
            answer = Shorten().plan(pages, replace(aim, goal=pages.tokens - over, hands_off=hands_off))
            pages = pages.turned(answer.folds)
            finished.append(answer)
    return finished


def _bent(pages: Pages, job: Job) -> Aim:
    """Fewer of the newest entries stay when all of them would take most of the goal; never none."""
    view, aim = pages.view, job.aim
    stays = {*range(view.head), *(() if view.last_user is None else (view.last_user,))}
    room = (aim.goal - sum(view.entries[place].tokens for place in stays)) * _NEWEST_SHARE
    keep = used = 0
    for place in range(len(view.entries) - 1, view.head - 1, -1):
        used += 0 if place in stays else view.entries[place].tokens
        if keep >= aim.keep_recent or (keep and used > room):
            break
        keep += 1
    if keep >= aim.keep_recent:
        return aim
    for start, end in view.batches_at(len(view.entries) - keep - 1, len(view.entries) - keep + 1):
        if start < len(view.entries) - keep < end:  # a call and its results stay together
            keep = len(view.entries) - start
    # Few messages that are so large are worth a fold, unless there is plenty of room.
    is_full = pages.tokens > job.limit // 2
    least = 1 if is_full and not job.is_least_firm else aim.min_to_compress
    return replace(aim, keep_recent=min(keep, aim.keep_recent), min_to_compress=least)


def _merged(plans: Sequence[FoldPlan]) -> tuple[PlannedFold, ...]:
    """All folds; one that a later plan covers is not made."""
    result: list[PlannedFold] = []
    for plan in plans:
        result = [fold for fold in result if not any(_covers(other, fold) for other in plan.folds)]
        result += plan.folds
    return tuple(sorted(result, key=lambda fold: fold.start_seq))


def _covers(outer: PlannedFold, inner: PlannedFold) -> bool:
    return outer.start_seq <= inner.start_seq and inner.end_seq <= outer.end_seq


def _pinned_lines(pages: Pages, folds: Sequence[PlannedFold]) -> tuple[str, ...]:
    lines = (pin for pin in pages.view.pins if pin.line)
    return tuple(pin.line for pin in lines if any(fold.start_seq <= pin.seq <= fold.end_seq for fold in folds))


def _pays(pages: Pages, folds: Sequence[PlannedFold], after: int, prices: Prices) -> bool:
    """Whether what is saved in the turns to come outweighs reading the rest of the view anew."""
    first = pages.view.index_of(folds[0].start_seq)
    unchanged = sum(entry.tokens for entry in pages.view.entries[:first])
    said = sum(entry.role == "assistant" for entry in pages.view.entries)
    folded_away = sum(fold.message_count for fold in pages.view.folds if fold.form == "summary")
    turns = expected_turns(said + folded_away // 2)
    return is_worth_it(pages.tokens - after, after - unchanged, turns, prices)


def _with_report(pages: Pages, fold: PlannedFold) -> PlannedFold:
    """The fold with the facts that its text lost."""
    if fold.report is not None:
        return fold
    return replace(fold, report=fold_report(pages.extractor.report(pages.run_of(fold), fold.text, most=MOST_LOST)))


def is_worth_it(saved: int, reread: int, turns: float, prices: Prices) -> bool:
    """Do ``turns`` further requests cost less with a fold than without it?

    ``saved`` is by how many tokens the view gets smaller. ``reread`` are the tokens of the new view from the first
    changed place to its end: the next request pays them as new input and no longer as cached. Where the cache brings
    no discount (or nothing costs anything) there is nothing to break, and every saving is worth it.
    """
    if saved <= 0:
        return False
    if prices.written <= prices.cached:
        return True
    return saved * prices.cached * turns > reread * (prices.written - prices.cached)


_FEWEST_TURNS = 4
_MOST_TURNS = 200


def expected_turns(turns_so_far: int) -> float:
    """How many more requests a task will make: as many as it has made, at least 4, at most 200.

    Nothing is known of a task but its age. The lengths of tasks spread over several orders of magnitude, and for
    such things the best guess is that half of them is over (Lindy's law). A task that has only begun says little, and
    hardly any ends at once, hence the least. The most keeps a long task from folding far forward on the strength of
    hundreds of turns that may not come: by then the gain from any fold that pays at all is clear.
    """
    return float(min(max(turns_so_far, _FEWEST_TURNS), _MOST_TURNS))


_MOST_SHARE = 0.5  # of a run that its text may have
_ADDED_SHARE = 0.15  # of the room that is kept for users' rules which the model leaves out
_MOST_ADDED = 0.5  # of the room that they may have when the model needs little


class ModelSummarizer(Protocol):
    """Writes a summary, or answers ``None`` when it cannot."""

    def summarize(
        self, messages: Sequence[Message], max_tokens: int, *, seqs: Sequence[int] | None = None, earlier: str = ""
    ) -> str | None: ...


def written_by(
    model: ModelSummarizer, pages: Pages, folds: Sequence[PlannedFold], spare: int
) -> tuple[PlannedFold, ...]:
    """The folds, the largest summary among them in the model's words; ``spare`` tokens may be added to its text."""
    summaries = [fold for fold in folds if fold.form == "summary" and fold.reason != NOTICE]
    if not summaries:
        return tuple(folds)
    largest = max(summaries, key=lambda fold: pages.tokens_of(pages.run_of(fold)))
    run = pages.run_of(largest)
    room = min(pages.count(largest.text) + max(spare, 0), int(pages.tokens_of(run) * _MOST_SHARE))
    said = _said(model, pages, run, room)
    if not said:
        return tuple(folds)
    new = replace(largest, text=with_pinned_lines(said, pages.pinned_lines(run)), reason="model", report=None)
    if pages.summary_tokens(new.text) >= pages.tokens_of(run):
        return tuple(folds)
    return tuple(new if fold is largest else fold for fold in folds)


def _said(model: ModelSummarizer, pages: Pages, run: FoldedRun, room: int) -> str:
    """The model's text for a run and the users' rules that it forgot; empty when it gives none that can be used."""
    places = range(run.start, run.end)
    new = [place for place in places if not is_summary(pages.messages[place])]
    summaries = sorted({*places}.difference(new))
    earlier = (pages.messages[place].text.removeprefix(SUMMARY_PREFIX) for place in summaries)
    answer = model.summarize(
        [pages.messages[place] for place in new],
        int(room * (1 - _ADDED_SHARE)),
        seqs=[pages.seq(place) for place in new],
        earlier="\n\n".join(earlier),
    )
    if answer is None or not answer.strip():
        return ""
    added = pages.extractor.rules_for_lost(run, answer, min(int(room * _MOST_ADDED), room - pages.count(answer)))
    return "\n\n".join(filter(None, (answer, added)))
