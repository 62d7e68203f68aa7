"""``offload``: bulky tool results become a preview; the whole text stays in the log, and the preview says where.

A preview has the first and last lines of the result, its error lines as far as there is room, every pinned line, and
the number of the message that has it all. Only results of tools are touched, never those that are a preview already,
so offloading twice changes nothing. Promises: a preview costs less than half of what it stands for; no more results
are offloaded than the goal needs, and of all sets that reach it the one is taken that leaves the longest beginning of
the prompt unchanged, since the prompt cache is lost from the first change on.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.notes.facts import is_error
from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, WhyNot
from orihon.texts import text
from orihon.values.view import PlannedFold

_MOST_SHARE = 0.5  # of a result that its preview stays below
_LONGEST_LINE = 200  # characters; what is longer is cut, pinned lines apart
_OMISSION = "…"


@dataclass(frozen=True, slots=True)
class Offload:
    """The strategy. Lines of nothing but blanks count neither as head nor as tail."""

    least_tokens: int = 200  # of a result that is worth it
    head_lines: int = 4
    tail_lines: int = 4
    error_lines: int = 8  # at most; the last ones, which most often say what the others led to
    name: ClassVar[str] = "offload"

    def plan(self, pages: Pages, aim: Aim) -> FoldPlan | NothingToFold:
        places = [place for place in single_places(pages, aim) if self._is_bulky(pages, place)]
        if pages.tokens <= aim.goal:
            return NothingToFold(self.name, WhyNot.GOAL_REACHED)
        if not places:
            return NothingToFold(self.name, WhyNot.NOTHING_BULKY)
        folds = _needed(list(self._reaching(pages, places, aim.goal)), pages.tokens - aim.goal)
        return FoldPlan(self.name, folds) if folds else NothingToFold(self.name, WhyNot.NO_GAIN)

    def _is_bulky(self, pages: Pages, place: int) -> bool:
        entry = pages.view.entries[place]
        is_offloaded = entry.fold is not None and not entry.fold.reason.startswith("sections")
        return entry.role == "tool" and entry.tokens >= self.least_tokens and not is_offloaded

    def _reaching(self, pages: Pages, places: Sequence[int], goal: int) -> Iterator[tuple[int, PlannedFold]]:
        """Previews and what they save, the newest first, until the goal is reached."""
        over = pages.tokens - goal
        for place in reversed(places):
            if over <= 0:
                return
            tokens = pages.view.entries[place].tokens
            for short in self._previews(pages, place):
                saved = tokens - pages.preview_tokens(place, short)
                if tokens - saved < tokens * _MOST_SHARE:
                    over -= saved
                    yield saved, pages.preview(place, short, reason=self.name)
                    break

    def _previews(self, pages: Pages, place: int) -> Iterator[str]:
        """Previews, each shorter than the one before."""
        result = _Result(pages, place)
        yield result.preview(self.head_lines, self.tail_lines, self.error_lines)
        yield result.preview(self.head_lines, self.tail_lines, 0)
        yield result.preview(min(1, self.head_lines), min(1, self.tail_lines), 0)
        yield result.preview(0, 0, 0)


class _Result:
    """A tool's result as lines."""

    def __init__(self, pages: Pages, place: int) -> None:
        message = pages.messages[place]
        self._pages = pages
        self._seq = pages.seq(place)
        self._text = message.text
        self._images = sum(1 for _ in message.images())
        self._lines = self._text.split("\n") if self._text else []
        self._filled = [at for at, line in enumerate(self._lines) if line.strip()]
        self._pins = pages.pinned_lines(FoldedRun(place, place + 1))

    def preview(self, head: int, tail: int, errors: int) -> str:
        """So many lines of the beginning, the end and the errors, and where the others are."""
        shown = {*self._filled[:head], *self._filled[max(len(self._filled) - tail, 0) :]}
        if errors:
            shown.update([at for at in self._filled if is_error(self._lines[at][:_LONGEST_LINE])][-errors:])
        pinned = {at for at in self._filled if any(pin in self._lines[at] for pin in self._pins)}
        pieces = list(self._pieces(shown | pinned, pinned))
        body = "\n".join(pieces)
        pieces += [pin for pin in self._pins if pin not in body]  # over several lines, or not in the text any more
        return "\n".join(pieces)

    def _pieces(self, shown: Collection[int], pinned: Collection[int]) -> Iterator[str]:
        """The lines; the first gap tells where the rest is, the others are only marked."""
        lines = {at: self._lines[at] if at in pinned else _cut(self._lines[at]) for at in sorted(shown)}
        where = self._reference(len(self._lines) - len(lines), "\n".join(lines.values()))
        next_at, told = 0, False
        for at, line in lines.items():
            if any(self._lines[skipped].strip() for skipped in range(next_at, at)):
                yield _OMISSION if told else where
                told = True
            yield line
            next_at = at + 1
        if not told:
            yield where

    def _reference(self, lines: int, shown: str) -> str:
        tokens = max(self._pages.count(self._text) - self._pages.count(shown), 0)
        if not self._images:
            return text("offload.left_out", lines=lines, tokens=tokens, seq=self._seq)
        return text("offload.left_out_images", lines=lines, tokens=tokens, images=self._images, seq=self._seq)


def single_places(pages: Pages, aim: Aim) -> list[int]:
    """Places whose message may be shortened in its own envelope, oldest first.

    A preview leaves a tool call and its result a pair, so batches need not be whole here.
    """
    view = pages.view
    closed = {view.index_of(pin.seq) for pin in view.pins if not pin.line}
    for first, last in aim.hands_off:
        closed.update(range(view.index_of(first), view.index_of(last) + 1))
    return [
        place
        for place in range(view.head, len(view.entries) - aim.keep_recent)
        if place not in closed and _is_message(pages, place)
    ]


def _is_message(pages: Pages, place: int) -> bool:
    fold = pages.view.entries[place].fold
    return fold is None or fold.form == "preview"


def _needed(found: Sequence[tuple[int, PlannedFold]], over: int) -> tuple[PlannedFold, ...]:
    """Those without which the goal is missed, oldest first; where there is a choice, the newest stay as they are."""
    spare = sum(saved for saved, _ in found) - over
    needed: list[PlannedFold] = []
    for saved, fold in found:
        if saved <= spare:
            spare -= saved
        else:
            needed.append(fold)
    return tuple(reversed(needed))


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST_LINE else line[: _LONGEST_LINE - 1].rstrip() + _OMISSION
