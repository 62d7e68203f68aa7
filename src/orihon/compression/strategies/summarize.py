"""``summarize``: everything that may be folded and is old becomes notes, one fold for each run; and the last resort.

The text is drawn from the run itself; a model may be given it to write better. Promises: a fold is shorter than its run
and has its pinned lines. The last resort is for a view that still cannot be sent (the newest message may be larger than
the window): single messages keep the lines that matter most, and a notice says where the others are. System prompt and
pins are left alone, so is what somebody has opened again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from orihon.compression.notes.extractor import FoldedRun, summarize
from orihon.compression.pages import (
    MOST_LOST,
    Aim,
    FoldPlan,
    NothingToFold,
    Pages,
    WhyNot,
    fold_report,
    with_pinned_lines,
)
from orihon.texts import text
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.view import PlannedFold

_MOST_SHARE = 0.5  # of a run that its text may have
_LEAST_SHARE = 0.05
_LEAST_TOKENS = 60


@dataclass(frozen=True, slots=True)
class Summarize:
    """The strategy."""

    share: float | None = None  # of the run that its text should have; unset: what the goal leaves
    name: ClassVar[str] = "summarize"

    def plan(self, pages: Pages, aim: Aim) -> FoldPlan | NothingToFold:
        runs = pages.runs(aim)
        if not runs:
            return NothingToFold(self.name, WhyNot.NOTHING_OLD)
        if sum(map(pages.new_messages, runs)) < aim.min_to_compress:
            return NothingToFold(self.name, WhyNot.TOO_FEW)
        texts = extractive_texts(pages, runs, self._room(pages, runs, aim))
        folds = tuple(fold for run, text in zip(runs, texts, strict=True) if (fold := _shorter(pages, run, text)))
        return FoldPlan(self.name, folds) if folds else NothingToFold(self.name, WhyNot.NO_GAIN)

    def _room(self, pages: Pages, runs: Sequence[FoldedRun], aim: Aim) -> int:
        """Tokens for all the texts together."""
        folded = sum(map(pages.tokens_of, runs))
        left = aim.goal - (pages.tokens - folded)
        most = int(folded * (_MOST_SHARE if self.share is None else self.share))
        if self.share is not None and not aim.is_strict:
            return most
        least = max(int(folded * _LEAST_SHARE), _LEAST_TOKENS * len(runs))
        return max(min(left, most), least)


def extractive_texts(pages: Pages, runs: Sequence[FoldedRun], room: int) -> list[str]:
    """A text for each run, together within ``room`` tokens, out of lines that stand there."""
    extractor = pages.extractor
    places = {place for run in runs for place in range(run.start, run.end)}
    selection = extractor.selection(places, {*range(len(pages.messages))} - places)
    overhead = pages.summary_tokens("") - pages.count(SUMMARY_PREFIX)
    return extractor.fold_texts(runs, selection, room, overhead)


def _shorter(pages: Pages, run: FoldedRun, text: str) -> PlannedFold | None:
    """A fold with the run's pinned lines, if it is shorter than the run."""
    whole = with_pinned_lines(text, pages.pinned_lines(run))
    if pages.summary_tokens(whole) >= pages.tokens_of(run):
        return None
    report = fold_report(pages.extractor.report(run, text, most=MOST_LOST))
    return replace(pages.fold(run, whole, reason="extractive"), report=report)


_LEAST_SHORTENED = 40


@dataclass(frozen=True, slots=True)
class Shorten:
    """The strategy behind the ladder's end."""

    name: ClassVar[str] = "shorten"

    def plan(self, pages: Pages, aim: Aim) -> FoldPlan | NothingToFold:
        over = pages.tokens - aim.goal
        folds = []
        for place in sorted(self._candidates(pages, aim), key=lambda at: -pages.view.entries[at].tokens):
            if over <= 0:
                break
            before = pages.view.entries[place].tokens
            short = self._shortened(pages, place, max(before - over, _LEAST_SHORTENED))
            after = pages.preview_tokens(place, short)
            if after < before:
                folds.append(pages.preview(place, short, reason="shortened"))
                over -= before - after
        ordered = tuple(sorted(folds, key=lambda fold: fold.start_seq))
        return FoldPlan(self.name, ordered) if ordered else NothingToFold(self.name, WhyNot.NO_GAIN)

    def _candidates(self, pages: Pages, aim: Aim) -> list[int]:
        view = pages.view
        closed = {view.index_of(pin.seq) for pin in view.pins if not pin.line}
        for first, last in aim.hands_off:
            closed.update(range(view.index_of(first), view.index_of(last) + 1))
        is_message = (entry.fold is None or entry.fold.form == "preview" for entry in view.entries)
        return [
            place
            for place, is_own in enumerate(is_message)
            if is_own
            and place >= view.head
            and place not in closed
            and view.entries[place].tokens > _LEAST_SHORTENED
            and (pages.messages[place].text.strip() or any(pages.messages[place].images()))
        ]

    def _shortened(self, pages: Pages, place: int, tokens: int) -> str:
        """The weightiest lines of one message in about so many tokens."""
        pins = pages.pinned_lines(FoldedRun(place, place + 1))
        room = tokens - pages.preview_tokens(place, with_pinned_lines("", pins))
        notes = summarize([pages.messages[place]], room, count=pages.count, seqs=[pages.seq(place)])
        short = notes if "\n" in notes else text("notes.shortened", seq=pages.seq(place))  # a title alone says less
        return with_pinned_lines(short, pins)
