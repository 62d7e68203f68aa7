"""The last resort: single messages that are too large for the budget, shortened in their own envelopes.

Used when everything that may be folded is folded and the view still cannot be sent: the newest message may be larger
than the window. The lines that matter most stay, and a notice says where the others are. System prompt and pins are
left alone, so is what somebody has opened again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from orihon.compression.notes.extractor import FoldedRun, summarize
from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, WhyNot
from orihon.compression.pinned_lines import with_pinned_lines
from orihon.texts import text

_LEAST_TOKENS = 40


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
            short = self._shortened(pages, place, max(before - over, _LEAST_TOKENS))
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
            and view.entries[place].tokens > _LEAST_TOKENS
            and (pages.messages[place].text.strip() or any(pages.messages[place].images()))
        ]

    def _shortened(self, pages: Pages, place: int, tokens: int) -> str:
        """The weightiest lines of one message in about so many tokens."""
        pins = pages.pinned_lines(FoldedRun(place, place + 1))
        room = tokens - pages.preview_tokens(place, with_pinned_lines("", pins))
        notes = summarize([pages.messages[place]], room, count=pages.count, seqs=[pages.seq(place)])
        short = notes if "\n" in notes else text("notes.shortened", seq=pages.seq(place))  # a title alone says less
        return with_pinned_lines(short, pins)
