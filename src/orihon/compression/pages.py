"""What a strategy sees and what it answers.

``Pages`` is a view together with its text: one message for each entry, in order, so that a *place* (an entry's index)
names both. ``Aim`` says how small the view should get and what is to be left alone. A ``Strategy`` is a pure planner:
it reads pages and answers with a ``FoldPlan`` (folds to be made) or with ``NothingToFold`` and why. It changes nothing,
and every fold it plans obeys the cut rules of ``view``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import Protocol

from orihon.compression.notes.extractor import Extractor, FoldedRun
from orihon.compression.notes.loss import FactLoss
from orihon.system.json_shapes import AsJson
from orihon.texts import LANGUAGES, text
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX, Fold, FoldForm, FoldReport, Pin
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.tokens.tokens import TokenCounter, estimate
from orihon.values.view import Entry, PlannedFold, SeqRange, View, foldable_runs, folded

#: Facts that a fold's report names; the others are counted.
MOST_LOST = 100

#: Reason of a fold whose text only says that something was left out.
NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Aim:
    """How small a view should get, and what stays as it is."""

    goal: int  # tokens that it should have afterwards, by the pages' own measure
    keep_recent: int = 10  # newest entries that are not folded
    min_to_compress: int = 5  # fewest messages worth a fold
    hands_off: tuple[SeqRange, ...] = ()  # runs of the log that somebody has opened again
    is_strict: bool = False  # whether the goal counts more than the share that a summary should have


class WhyNot(StrEnum):
    """Why a strategy has nothing to fold."""

    NOTHING_OLD = "nothing_old"  # all that may be folded is too new
    TOO_FEW = "too_few"  # fewer messages than are worth a fold
    NOTHING_BULKY = "nothing_bulky"  # no old result is large enough
    GOAL_REACHED = "goal_reached"  # the view is small enough
    NO_GAIN = "no_gain"  # what would stand there is not shorter
    NO_RUNG = "no_rung"  # the ladder has none for this
    NOT_WORTH_IT = "not_worth_it"  # the prompt cache that it breaks costs more


@dataclass(frozen=True, slots=True)
class NothingToFold(AsJson):
    """A strategy's other answer: nothing worth folding."""

    json_fields = "folds nothing=reason strategy"

    strategy: str
    reason: WhyNot
    by_hand: tuple[str, ...] = ()  # sentences on settings that are why

    @property
    def folds(self) -> tuple[PlannedFold, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class FoldPlan:
    """Folds that a strategy wants, oldest first."""

    strategy: str
    folds: tuple[PlannedFold, ...]


class Strategy(Protocol):
    """Decides what to fold."""

    @property
    def name(self) -> str: ...

    def plan(self, pages: Pages, aim: Aim) -> FoldPlan | NothingToFold: ...


@dataclass(frozen=True)  # no slots: what is read once is kept beside the fields
class Pages:
    """A view and its text."""

    view: View
    messages: Sequence[Message]  # one for each entry
    size: Callable[[Message], int] = estimate_message  # what the entries' tokens were counted with
    count: TokenCounter = estimate  # the same for bare text
    has_recall: bool = False  # whether whoever reads the view has a tool that reads the log

    @property
    def tokens(self) -> int:
        return self.view.tokens

    @cached_property
    def extractor(self) -> Extractor:
        """The text, read for what will be needed of it: once, for all who ask."""
        seqs = [entry.start for entry in self.view.entries]
        return Extractor(self.messages, self.count, seqs, has_recall=self.has_recall)

    def tokens_of(self, run: FoldedRun) -> int:
        return sum(entry.tokens for entry in self.entries(run))

    def entries(self, run: FoldedRun) -> tuple[Entry, ...]:
        return self.view.entries[run.start : run.end]

    def new_messages(self, run: FoldedRun) -> int:
        """How many entries of a run are not summaries already."""
        return sum(not entry.is_summary for entry in self.entries(run))

    def runs(self, aim: Aim) -> list[FoldedRun]:
        """Runs of places that may be folded and hold something new, oldest first.

        What a user said last is in none of them: it is what the work is for, and many providers refuse a request
        without it. In its own envelope it may be shortened.
        """
        up_to = len(self.view.entries) - aim.keep_recent
        asked = () if self.view.last_user is None else (self.span_of(self.view.last_user),)
        spans = foldable_runs(self.view, up_to, (*aim.hands_off, *asked))
        runs = [FoldedRun(self.view.index_of(start), self.view.index_of(end) + 1) for start, end in spans]
        return [run for run in runs if self.new_messages(run)]

    def summary_tokens(self, text: str) -> int:
        """What a summary costs as an entry."""
        return self.size(Message("system", SUMMARY_PREFIX + text))

    def preview_tokens(self, place: int, text: str) -> int:
        """What a message costs when only its text is shortened."""
        return self.size(replace(self.messages[place], content=text, parts=None))

    def pinned_lines(self, run: FoldedRun) -> list[str]:
        """Lines that whatever stands for the run must have word for word."""
        first, last = self.view.entries[run.start].start, self.view.entries[run.end - 1].end
        pins = self._line_pins
        start = bisect_left(pins, first, key=lambda pin: pin.seq)
        end = bisect_right(pins, last, key=lambda pin: pin.seq)
        return [pin.line for pin in pins[start:end]]

    @cached_property
    def _line_pins(self) -> list[Pin]:
        return sorted((pin for pin in self.view.pins if pin.line), key=lambda pin: pin.seq)

    def seq(self, place: int) -> int:
        """The number by which the text of a place is quoted."""
        return self.view.entries[place].start

    def where(self, run: FoldedRun) -> str:
        """How the messages of a run are named to who may want them back: by the tool that reads them, or by number."""
        return text("offload.tool" if self.has_recall else "offload.message", seqs=self.numbers(run))

    def numbers(self, run: FoldedRun) -> str:
        """The first and the last message of a run."""
        first, last = self.view.entries[run.start].start, self.view.entries[run.end - 1].end
        return str(first) if first == last else f"{first}-{last}"

    def span_of(self, place: int) -> SeqRange:
        """The messages of the log that a place stands for."""
        entry = self.view.entries[place]
        return entry.start, entry.end

    def fold(self, run: FoldedRun, text: str, *, form: FoldForm = "summary", reason: str = "") -> PlannedFold:
        """A plan for the run."""
        return PlannedFold(
            self.view.entries[run.start].start, self.view.entries[run.end - 1].end, text, form=form, reason=reason
        )

    def run_of(self, fold: PlannedFold) -> FoldedRun:
        """The places that a planned fold stands for."""
        return FoldedRun(self.view.index_of(fold.start_seq), self.view.index_of(fold.end_seq) + 1)

    def preview(self, place: int, text: str, *, reason: str = "") -> PlannedFold:
        """A plan to shorten one message in its own envelope."""
        return self.fold(FoldedRun(place, place + 1), text, form="preview", reason=reason)

    def after(self, folds: Iterable[PlannedFold]) -> View:
        """The view that these folds would make."""
        return folded(self.view, [self._provisional(plan) for plan in folds])

    def turned(self, folds: Sequence[PlannedFold]) -> Pages:
        """The pages with these folds made. Who plans next still reads what a preview leaves out."""
        view = self.after(folds)
        messages = [self._message_at(entry) for entry in view.entries]
        pages = replace(self, view=view, messages=messages)
        if all(fold.form == "preview" for fold in folds):
            vars(pages)["extractor"] = self.extractor  # the same text, which need not be read again
        return pages

    def _message_at(self, entry: Entry) -> Message:
        if entry.fold is not None and entry.fold.form == "summary":
            return Message("system", SUMMARY_PREFIX + entry.fold.text)
        return self.messages[self.view.index_of(entry.start)]

    def tokens_after(self, folds: Iterable[PlannedFold]) -> int:
        """What the view would cost with these folds."""
        return self.after(folds).tokens

    def _provisional(self, plan: PlannedFold) -> Fold:
        if plan.form == "preview":
            tokens = self.preview_tokens(self.view.index_of(plan.start_seq), plan.text)
        else:
            tokens = self.summary_tokens(plan.text)
        return Fold(0, plan.start_seq, plan.end_seq, plan.text, tokens, 0, plan.form, reason=plan.reason)


def fold_report(report: FactLoss) -> FoldReport:
    """A report as it is kept."""
    return FoldReport(report.found, report.kept, tuple(fact.text for fact in report.lost))


def with_pinned_lines(summary: str, lines: Iterable[str]) -> str:
    """The summary followed by the lines that it must hold word for word and does not yet.

    Several lines that are pinned together always stand there: only below the heading they are found again.
    """
    missing = [line for line in lines if "\n" in line or line not in summary]
    return "\n".join([summary, "", _heading(), *missing]) if missing else summary


@cache
def pinned_headings() -> tuple[str, ...]:
    """The heading in every language: a fold may have been made in another."""
    return tuple(_heading(lang) for lang in LANGUAGES)


def _heading(lang: str | None = None) -> str:
    return f"## {text('notes.pinned', lang=lang)}"
