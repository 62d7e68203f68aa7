"""What a rung of the ladder would do to a view: strategies in order, until the goal is reached.

Owns the order of things: pins by rule first, then the rung's strategies, each seeing what the ones before it have
planned; for a view that cannot be sent, single messages are shortened; what does not pay is left; at last a model, if
there is one, writes the largest summary. What comes out is one plan, every fold with the report of what it lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from orihon.compression.economics import expected_turns, is_worth_it
from orihon.compression.model_writer import ModelSummarizer, written_by
from orihon.compression.pages import MOST_LOST, Aim, FoldPlan, NothingToFold, Pages, Strategy, WhyNot, fold_report
from orihon.compression.rule_pins import rule_pins
from orihon.compression.strategies.shorten import Shorten
from orihon.compression.strategies.summarize import Summarize
from orihon.compression.trust import shielded
from orihon.errors import BudgetExceeded, InvalidInput
from orihon.settings.rungs import Rung
from orihon.system.json_shapes import AsJson
from orihon.values.tokens.prices import Prices
from orihon.values.tokens.tokens import estimate
from orihon.values.view import PlannedFold, check_protected

_NEWEST_SHARE = 0.5  # of the goal that the newest entries may take
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


@dataclass(frozen=True, slots=True)
class Draft(AsJson):
    """A compression that could be made: the plan, and what comes of it."""

    json_fields = "strategy=plan.strategy before_tokens after_tokens goal folds=plan.folds"

    plan: FoldPlan
    before_tokens: int
    after_tokens: int
    goal: int
    pinned_lines: tuple[str, ...] = ()  # that the folds carry on word for word

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
    aim = _bent(pages, job) if job.bends or is_over else job.aim
    strategies = [toolbox(name, job.rung) for name in job.rung.strategies]
    answers = _forced(pages, aim, strategies, job.limit) if is_over else _climb(pages, aim, strategies)
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


def _climb(pages: Pages, aim: Aim, strategies: Iterable[Strategy]) -> list[FoldPlan | NothingToFold]:
    """The strategies' answers, until the goal is reached."""
    answers: list[FoldPlan | NothingToFold] = []
    for strategy in strategies:
        answer = strategy.plan(pages, aim)
        answers.append(answer)
        if isinstance(answer, FoldPlan):
            pages = pages.turned(answer.folds)
            if pages.tokens <= aim.goal:
                break
    return answers


def _forced(pages: Pages, aim: Aim, strategies: Sequence[Strategy], limit: int) -> list[FoldPlan | NothingToFold]:
    """The answers for a view that cannot be sent: what stays too large is shortened, or folded however new it is.

    At last everything is summarized, whatever the rung's strategies are.
    """
    answers: list[FoldPlan | NothingToFold] = []
    for keep, chosen in ((aim.keep_recent, strategies), (0, strategies), (0, [Summarize()])):
        forced = replace(aim, keep_recent=keep, min_to_compress=1, is_strict=True)
        answers = _finish(pages, _climb(pages, forced, chosen), replace(forced, goal=int(limit * _SENDABLE)))
        plans = [answer for answer in answers if isinstance(answer, FoldPlan)]
        if plans and pages.tokens_after(_merged(plans)) <= limit:
            break
    return answers


def _finish(pages: Pages, answers: list[FoldPlan | NothingToFold], aim: Aim) -> list[FoldPlan | NothingToFold]:
    """What stays too large for the goal is shortened."""
    for answer in answers:
        if isinstance(answer, FoldPlan):
            pages = pages.turned(answer.folds)
    return answers if pages.tokens <= aim.goal else [*answers, Shorten().plan(pages, aim)]


def _bent(pages: Pages, job: Job) -> Aim:
    """Fewer of the newest entries stay when all of them would take most of the goal; never none."""
    view, aim = pages.view, job.aim
    room = (aim.goal - sum(entry.tokens for entry in view.entries[: view.head])) * _NEWEST_SHARE
    keep = used = 0
    for entry in reversed(view.entries[view.head :]):
        used += entry.tokens
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
    return replace(aim, keep_recent=min(keep, aim.keep_recent), min_to_compress=1 if is_full else aim.min_to_compress)


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
