"""The model's part in a compression: one call, for the fold that stands for most.

Strategies plan with texts of their own; the largest of these is given to a model to write better. What its text leaves
out of the weightiest facts and of what users demanded is added as quoted lines. A model that fails changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.pages import NOTICE, Pages
from orihon.compression.pinned_lines import with_pinned_lines
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.view import PlannedFold

_MOST_SHARE = 0.5  # of a run that its text may have
_ADDED_SHARE = 0.15  # of the text that lines may have which the model left out


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
    """The model's text for a run and what it forgot; empty when it gives none that can be used."""
    places = range(run.start, run.end)
    new = [place for place in places if not _is_summary(pages.messages[place])]
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
    added = pages.extractor.lines_for_lost(run, answer, room - pages.count(answer))
    return "\n\n".join(filter(None, (answer, added)))


def _is_summary(message: Message) -> bool:
    return message.role == "system" and message.text.startswith(SUMMARY_PREFIX)
