"""The strategies by name, and the two that make previews: messages shortened in their own envelopes.

``offload``: bulky tool results get the first and last lines, error lines as far as there is room, every pinned line,
and how to get all of it back. Promises: a preview costs less than half of what it stands for, and is not made twice; no
more results are offloaded than the goal needs, and of all sets that reach it the one is taken that leaves the longest
beginning of the prompt unchanged, since the prompt cache is lost from the first change on.

``sections``: what assistants wrote, what users pasted (texts too long to be their words), and results of tools that are
Markdown, each compressed as a document at a level, so that decisions and protected sections stay; the last line says
how to get all of it back. Messages with pictures or files are left alone, and so is one that would lose a pinned line.
Oldest first, until the goal is reached; a preview is made anew only at a stronger level.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from orihon.compression.documents.sections import PRESERVED_PATTERNS, CompressionLevel, compress_document
from orihon.compression.importance import ContentScores
from orihon.compression.ladder import Ladder
from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.notes.facts import is_error
from orihon.compression.notes.reader import each_speaker, others_words
from orihon.compression.pages import Aim, FoldPlan, NothingToFold, Pages, Strategy, WhyNot
from orihon.compression.strategies.prune import Prune, PruneSelection
from orihon.compression.strategies.summarize import Summarize
from orihon.settings import Settings
from orihon.settings.rungs import Rung
from orihon.system.patterns import lazy_re
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
        self._where = pages.where(FoldedRun(place, place + 1))
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
            return text("offload.left_out", lines=lines, tokens=tokens, where=self._where)
        return text("offload.left_out_images", lines=lines, tokens=tokens, images=self._images, where=self._where)


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
        if place not in closed and not view.entries[place].is_summary
    ]


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


_LEAST_GAIN = 0.1  # of a text that must go, or it is not touched
_SHORTEST = 160  # characters: in a shorter text there is nothing to leave out
_LONGEST_WORDS = 2000  # tokens: what a user wrote stays word for word up to this; what was said last always does
_ROLES = ("user", "assistant", "tool")
_MARKDOWN = lazy_re(r"^ {0,3}##{1,5} \S|\A\s*# \S[^\n]*\n\s*\n", re.M)
_REASON = "sections:"
_SHORTENED = lazy_re(r"\n\[…[^\n]*\]\Z")  # what a preview says of itself


@dataclass(frozen=True, slots=True)
class SectionFolds:
    """The strategy."""

    level: CompressionLevel = CompressionLevel.STANDARD
    preserved_patterns: tuple[str, ...] = PRESERVED_PATTERNS
    details: str = ""  # where the whole text lies
    name: ClassVar[str] = "sections"

    def plan(self, pages: Pages, aim: Aim) -> FoldPlan | NothingToFold:
        places = [place for place in single_places(pages, aim) if self._may_get_shorter(pages, place)]
        if not places:
            return NothingToFold(self.name, WhyNot.NOTHING_OLD)
        folds: list[PlannedFold] = []
        over = pages.tokens - aim.goal
        for place in places:
            if over <= 0:
                break
            if short := self._shortened(pages, place):
                over -= pages.view.entries[place].tokens - pages.preview_tokens(place, short)
                folds.append(pages.preview(place, short, reason=f"{_REASON}{self.level.name.lower()}"))
        return FoldPlan(self.name, tuple(folds)) if folds else NothingToFold(self.name, WhyNot.NO_GAIN)

    def _may_get_shorter(self, pages: Pages, place: int) -> bool:
        """Tells what cannot, without reading it as a document."""
        message, fold = pages.messages[place], pages.view.entries[place].fold
        if fold is None and any(part.kind != "text" for part in message.parts or ()):
            return False
        if fold is not None and not self._is_lighter(fold.reason):
            return False
        said = _said(pages, place)
        if len(said) < _SHORTEST or message.role not in _ROLES:
            return False
        if place == pages.view.last_user:
            return False
        if message.role == "user" and fold is None and pages.view.entries[place].tokens <= _LONGEST_WORDS:
            return False
        return message.role != "tool" or _MARKDOWN.search(said) is not None

    def _is_lighter(self, reason: str) -> bool:
        """Whether a preview was made here, at a lighter level than this one."""
        lighter = (level for level in CompressionLevel if level.value < self.level.value)
        return any(reason == f"{_REASON}{level.name.lower()}" for level in lighter)

    def _shortened(self, pages: Pages, place: int) -> str:
        """The compressed text; empty when too little is gained or a pinned line is lost."""
        said = _said(pages, place)
        if pages.messages[place].role == "user" and others_words(said):
            short = each_speaker(said, lambda words, is_own: self._of_speaker(pages, words, is_own))
        else:
            short = self._compressed(said)
        if not short.strip():
            return ""
        is_told = bool(self.details) and self.details in short
        if not is_told and self.level is not CompressionLevel.LIGHT:  # which leaves out little but repetitions
            mark = text("offload.shortened", where=pages.where(FoldedRun(place, place + 1)))
            short = short.rstrip("\n") + "\n" + mark
        if pages.count(short) > (1 - _LEAST_GAIN) * pages.count(said):
            return ""
        if any(line not in short for line in pages.pinned_lines(FoldedRun(place, place + 1))):
            return ""
        return short if pages.preview_tokens(place, short) < pages.view.entries[place].tokens else ""

    def _of_speaker(self, pages: Pages, said: str, is_own: bool) -> str:
        return said if is_own and pages.count(said) <= _LONGEST_WORDS else self._compressed(said)

    def _compressed(self, said: str) -> str:
        patterns = self.preserved_patterns
        return compress_document(said, self.level, preserved_patterns=patterns, details=self.details).text


def _said(pages: Pages, place: int) -> str:
    """The text as it stands in the view."""
    fold = pages.view.entries[place].fold
    return pages.messages[place].text if fold is None else _SHORTENED.sub("", fold.text)


@dataclass(frozen=True, slots=True)
class Strategies:
    """Makes strategies for the rungs of one ladder."""

    settings: Settings
    ladder: Ladder
    preserved_patterns: tuple[str, ...] = ()
    scores: ContentScores = field(default_factory=ContentScores)  # kept from one compression to the next
    details: str = ""  # where the whole text lies

    def named(self, name: str, rung: Rung) -> Strategy:
        """The strategy that a rung names."""
        if name == "summarize":
            return Summarize(self.ladder.summary_share)
        if name == "prune":
            return Prune(
                selection=cast(PruneSelection, self.settings.compression.prune_selection),
                window=self.settings.compression.prune_window,
                min_gap_for_summary=self.settings.memory.min_gap_for_summary,
                emergency=not self.settings.memory.enable_summarization,
                scores=self.scores,
            )
        if name == "sections":
            level = CompressionLevel[rung.level.upper()]
            return SectionFolds(level, preserved_patterns=self.preserved_patterns, details=self.details)
        return Offload()
