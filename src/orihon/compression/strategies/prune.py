"""``prune``: the messages worth most stay word for word, the gaps between them become notes or a notice.

What stays is chosen within the goal, in one of four ways: ``importance`` (best score first), ``window`` (the newest),
``session`` and ``topic`` (whole ones, see ``divisions``; each is folded by itself). The system prompt, pins, what was
opened again and the newest entries always stay; a tool call and its results stay or go together. Nothing is lost by
it: a gap is a fold. A gap of ``min_gap_for_summary`` messages gets notes as far as the goal leaves room, at most half
of its size (and what earlier notes in it have); a smaller one, and in an emergency every one, gets a line that says how
many messages it stands for. By ``importance`` single messages would go here and there, and nothing would be told of
them: a gap that is too small for notes takes in its neighbours, the less important one first, and earlier notes beside
it always.

Promises: the goal is reached, or all that may be folded is folded into notices; every fold is shorter than its gap,
and a gap for which not even the notice is shorter stays open, so does one that holds nothing but earlier summaries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from orihon.compression.importance import ContentScores, ScoringConfig, weigh
from orihon.compression.notes.extractor import FoldedRun
from orihon.compression.pages import NOTICE, Aim, FoldPlan, NothingToFold, Pages, WhyNot, with_pinned_lines
from orihon.compression.strategies.divisions import sessions, topics
from orihon.compression.strategies.summarize import extractive_texts
from orihon.texts import text
from orihon.values.message.message import Message
from orihon.values.records import Fold
from orihon.values.view import tool_batches

logger = logging.getLogger("orihon.compression")

PruneSelection = Literal["importance", "window", "session", "topic"]

#: A text for each run, all of them together in at most so many tokens.
Writer = Callable[[Pages, Sequence[FoldedRun], int], list[str]]

_NOTES_SHARE = 0.2  # of the room for old messages that is left to notes, if they can use it
_MOST_SHARE = 0.4  # of the goal that all notes may have together
_GAP_SHARE = 0.5  # of a gap that its notes may have
_LEAST_NOTES = 60  # tokens: with fewer, notes say no more than a notice
_MOST_NOTES = 100  # gaps with notes in one plan, the largest ones
_FIRST_STEP = 500  # the part of the room by which a choice is made smaller at first until it fits with its notices
_MOST_READ = 2_000_000  # characters; of a larger view only the beginnings of its messages are read
_READ_PER_TOKEN = 8  # characters that notes are drawn from, for each token of them


def notes(pages: Pages, runs: Sequence[FoldedRun], room: int) -> list[str]:
    """The writer that needs no model: lines of the gaps themselves."""
    return extractive_texts(_readable(pages), runs, room)


@dataclass(frozen=True, slots=True)
class Prune:
    """The strategy."""

    selection: PruneSelection = "importance"
    scoring: ScoringConfig = field(default_factory=ScoringConfig)
    min_gap_for_summary: int = 5
    window: int | None = None  # newest entries that stay at most; unset: as many as the goal allows
    session_messages: int = 5  # shorter exchanges are joined to one session
    writer: Writer | None = notes
    emergency: bool = False  # notices only
    scores: ContentScores = field(default_factory=ContentScores, compare=False, repr=False)
    name: ClassVar[str] = "prune"

    def plan(self, pages: Pages, aim: Aim) -> FoldPlan | NothingToFold:
        runs = pages.runs(aim)
        if not runs:
            return NothingToFold(self.name, WhyNot.NOTHING_OLD)
        if sum(map(pages.new_messages, runs)) < aim.min_to_compress:
            return NothingToFold(self.name, WhyNot.TOO_FEW)
        if pages.tokens <= aim.goal:
            return NothingToFold(self.name, WhyNot.GOAL_REACHED)
        pruning = _Pruning(pages, runs, aim.goal)
        choice = self._choice(pruning)
        gaps = pruning.gaps(choice)
        if most_notes := sum(self._most_notes(pruning, gaps).values()):
            gaps = pruning.gaps(choice, most_notes)
        written = self._notes(pruning, gaps)
        folds = [
            pages.fold(run, written[run], reason=self.selection)
            if run in written
            else pages.fold(run, pruning.notice(run), reason=NOTICE)
            for run in gaps
        ]
        return FoldPlan(self.name, tuple(folds)) if folds else NothingToFold(self.name, WhyNot.NO_GAIN)

    def _choice(self, pruning: _Pruning) -> _Choice:
        match self.selection:
            case "importance":
                least = 0 if self.writer is None or self.emergency else self.min_gap_for_summary
                return _Choice(self._best_first(pruning), skips=True, least_gap=least)
            case "window":
                return _Choice([[unit] for unit in reversed(pruning.units) if self._in_window(pruning, unit)])
            case "session":
                runs = sessions(pruning.pages, self.session_messages)
                return _Choice(pruning.units_in(reversed(runs)), splits=frozenset(run.start for run in runs))
            case "topic":
                found = sorted(
                    topics(_readable(pruning.pages)),
                    key=lambda topic: (topic.is_current, topic.run.start),
                    reverse=True,
                )
                runs = [topic.run for topic in found]
                return _Choice(pruning.units_in(runs), splits=frozenset(run.start for run in runs))

    def _best_first(self, pruning: _Pruning) -> list[list[FoldedRun]]:
        """A tool call with its results counts by the best of them; of equals the newer is better."""
        content_score = self.scores.scorer(self.scoring)
        entries, messages = pruning.pages.view.entries, pruning.pages.messages
        total = len(entries)

        def score(place: int) -> float:
            # A summary counts as something the assistant said.
            role = "assistant" if entries[place].is_summary else entries[place].role
            return weigh(content_score(messages[place].text), role, place, total, self.scoring)

        scored = [(max(map(score, range(unit.start, unit.end))), unit) for unit in pruning.units]
        return [[unit] for _, unit in sorted(scored, key=lambda item: (item[0], item[1].start), reverse=True)]

    def _in_window(self, pruning: _Pruning, unit: FoldedRun) -> bool:
        return self.window is None or unit.end > len(pruning.pages.messages) - self.window

    def _most_notes(self, pruning: _Pruning, gaps: Sequence[FoldedRun]) -> dict[FoldedRun, int]:
        """The gaps that notes are worth it for, largest first, and the most tokens that each may have."""
        if self.writer is None or self.emergency:
            return {}
        tokens = {
            run: pruning.pages.tokens_of(run) for run in gaps if pruning.messages(run) >= self.min_gap_for_summary
        }
        largest = sorted(tokens, key=lambda run: (-tokens[run], run.start))[:_MOST_NOTES]
        halves = {run: int((tokens[run] + pruning.noted(run)) * _GAP_SHARE) for run in largest}
        return {run: min(half, tokens[run] - 1) for run, half in halves.items()}

    def _notes(self, pruning: _Pruning, gaps: Sequence[FoldedRun]) -> dict[FoldedRun, str]:
        """What is written about gaps, as far as there is room."""
        pages = pruning.pages
        spare = pruning.goal - pruning.cost(gaps)
        most: dict[FoldedRun, int] = {}
        left = spare
        for run, tokens in self._most_notes(pruning, gaps).items():
            needed = max(0, _LEAST_NOTES - pruning.notice_tokens(run))  # earlier notes in it give way to the new ones
            if needed <= max(left, 0):
                most[run] = tokens
                left -= needed
        room = min(spare + sum(map(pruning.notice_tokens, most)), sum(most.values()), self._share(pruning, gaps))
        if room < _LEAST_NOTES:
            return {}
        written = self._written(pages, sorted(most, key=lambda run: run.start), room)
        fitting = {run: fitted for run, said in written.items() if (fitted := _fitted(pages, run, said, most[run]))}
        return _within(fitting, pruning, spare)

    def _share(self, pruning: _Pruning, gaps: Sequence[FoldedRun]) -> int:
        """The most tokens that notes may have, those that stay counted: messages need room, too."""
        return max(int(pruning.goal * _MOST_SHARE) - pruning.noted_beside(gaps), _LEAST_NOTES * len(gaps))

    def _written(self, pages: Pages, runs: Sequence[FoldedRun], room: int) -> dict[FoldedRun, str]:
        assert self.writer is not None
        try:
            texts = self.writer(pages, runs, room)
        except Exception:  # any writer may be plugged in; notices do without it
            logger.exception("the notes on %d gaps could not be written", len(runs))
            return {}
        return dict(zip(runs, texts, strict=False))


@dataclass(frozen=True, slots=True)
class _Choice:
    """Groups of units, those to keep first in front; each is kept whole or not at all."""

    groups: Sequence[Sequence[FoldedRun]]
    skips: bool = False  # whether a smaller group behind one that does not fit may still be kept
    splits: frozenset[int] = frozenset()  # places before which a gap ends
    least_gap: int = 0  # messages that a gap has, if there are so many beside it


class _Pruning:
    """A view on its way to the goal."""

    def __init__(self, pages: Pages, runs: Sequence[FoldedRun], goal: int) -> None:
        self.pages = pages
        self.runs = runs
        self.goal = goal
        self.units = list(_units(pages, runs))
        self._tokens = {unit: pages.tokens_of(unit) for unit in self.units}
        self._has_pinned_lines = any(pin.line for pin in pages.view.pins)
        self._notice_tokens: dict[FoldedRun | tuple[int, ...], int] = {}

    def units_in(self, runs: Sequence[FoldedRun] | Iterator[FoldedRun]) -> list[list[FoldedRun]]:
        """The units of each run; those that are not to be folded apart."""
        places = {unit.start: unit for unit in self.units}
        return [[places[at] for at in range(run.start, run.end) if at in places] for run in runs]

    def gaps(self, choice: _Choice, most_notes: int = 0) -> list[FoldedRun]:
        """The gaps of the largest choice that reaches the goal; everything when none does.

        Room for so many tokens of notes is left, as far as they get a share at all.
        """
        room = self.goal - self.pages.tokens + sum(self._tokens.values())
        room -= min(int(room * _NOTES_SHARE), most_notes, _MOST_READ // _READ_PER_TOKEN)
        step = room // _FIRST_STEP + 1
        while room > 0:
            kept = self._beside_large_gaps(self._kept(choice, room), choice)
            gaps = self._worth_it(self._gaps_beside(kept, choice.splits))
            over = self.cost(gaps) - self.goal
            if over <= 0:
                return gaps
            room -= max(over, step)
            step *= 2
        gaps = self._worth_it(self._gaps_beside(set(), choice.splits))
        return gaps if self.cost(gaps) <= self.goal else self._worth_it(self.runs)

    def cost(self, gaps: Sequence[FoldedRun] | dict[FoldedRun, str]) -> int:
        """What the view would cost with a notice for each gap."""
        return self.pages.tokens - sum(self.pages.tokens_of(run) - self.notice_tokens(run) for run in gaps)

    def messages(self, run: FoldedRun) -> int:
        """How many messages of the log a gap stands for."""
        entries = self.pages.view.entries
        return entries[run.end - 1].end - entries[run.start].start + 1

    def noted(self, run: FoldedRun) -> int:
        """Tokens of earlier notes in a gap."""
        return sum(entry.tokens for entry in self.pages.entries(run) if entry.is_summary)

    def noted_beside(self, gaps: Iterable[FoldedRun]) -> int:
        """Tokens of earlier notes that are in no gap with anything new."""
        noted = self.noted(FoldedRun(0, len(self.pages.messages)))
        return noted - sum(self.noted(run) for run in gaps if self.pages.new_messages(run))

    def notice(self, run: FoldedRun) -> str:
        """How many messages are left out; what an earlier fold says of them is carried on."""
        folds = (entry.fold for entry in self.pages.entries(run) if entry.is_summary)
        earlier = (_without_notice(fold) for fold in folds if fold is not None)
        where = self.pages.where(run) if self.pages.has_recall else self.pages.numbers(run)
        omitted = text("offload.omitted", count=self.messages(run), where=where)
        said = "\n\n".join([*filter(None, earlier), omitted])
        return with_pinned_lines(said, self.pages.pinned_lines(run)) if self._has_pinned_lines else said

    def notice_tokens(self, run: FoldedRun) -> int:
        has_folds = any(entry.fold is not None for entry in self.pages.entries(run))
        key = run if self._has_pinned_lines or has_folds else self._width(run)
        tokens = self._notice_tokens.get(key)
        if tokens is None:
            tokens = self._notice_tokens[key] = self.pages.summary_tokens(self.notice(run))
        return tokens

    def _width(self, run: FoldedRun) -> tuple[int, ...]:
        """How long the figures of a notice are: those of the same length cost the same."""
        entries = self.pages.view.entries
        first, last = entries[run.start].start, entries[run.end - 1].end
        return len(str(first)), len(str(last)), len(str(last - first + 1)), first == last

    def _kept(self, choice: _Choice, room: int) -> set[int]:
        """Where the units start that stay."""
        kept: set[int] = set()
        for group in choice.groups:
            tokens = sum(map(self._tokens.__getitem__, group))
            if room - tokens > 0:
                room -= tokens
                kept.update(unit.start for unit in group)
            elif not choice.skips:
                break
        return kept

    def _beside_large_gaps(self, kept: set[int], choice: _Choice) -> set[int]:
        """Where the units start that stay when each gap takes in the notes beside it and grows to so many messages.

        What stands before the last gap goes, too, when there are many notes: in one place they have room for all.
        """
        if not choice.least_gap:
            return kept
        rank = {group[0].start: at for at, group in enumerate(choice.groups)}
        stays = kept.copy()
        runs = self.units_in([run for run in self.runs if self.messages(run) >= choice.least_gap])
        for units in runs:
            self._grow(units, stays, rank, choice.least_gap)
        if self.noted_beside(self._gaps_beside(stays, choice.splits)) > self.goal * _MOST_SHARE / 2:
            for units in runs:
                new = [at for at, unit in enumerate(units) if unit.start not in stays and not self._is_summary(unit)]
                stays.difference_update(unit.start for unit in units[: max(new, default=0)])
        return stays

    def _grow(self, units: Sequence[FoldedRun], stays: set[int], rank: Mapping[int, int], least: int) -> None:
        """Take out of ``stays`` what is beside gaps that are too small, the worst first, and the notes beside any."""
        at = 0
        while at < len(units):
            first = last = at
            while units[at].start not in stays:
                beside = [place for place in (first - 1, last + 1) if 0 <= place < len(units)]
                gone = [near for near in beside if units[near].start not in stays or self._is_summary(units[near])]
                if not gone and self.messages(FoldedRun(units[first].start, units[last].end)) < least:
                    gone = sorted(beside, key=lambda place: rank[units[place].start])[-1:]
                if not gone:
                    break
                stays.difference_update(units[place].start for place in gone)
                first, last = min(first, *gone), max(last, *gone)
            at = last + 1

    def _is_summary(self, unit: FoldedRun) -> bool:
        return self.pages.view.entries[unit.start].is_summary

    def _gaps_beside(self, kept: set[int], splits: frozenset[int]) -> Iterator[FoldedRun]:
        gap: FoldedRun | None = None
        for unit in self.units:
            is_open = unit.start not in kept
            if gap is not None and is_open and gap.end == unit.start and unit.start not in splits:
                gap = FoldedRun(gap.start, unit.end)
                continue
            if gap is not None:
                yield gap
            gap = unit if is_open else None
        if gap is not None:
            yield gap

    def _worth_it(self, gaps: Sequence[FoldedRun] | Iterator[FoldedRun]) -> list[FoldedRun]:
        pages = self.pages
        return [run for run in gaps if pages.new_messages(run) and self.notice_tokens(run) < pages.tokens_of(run)]


def _units(pages: Pages, runs: Sequence[FoldedRun]) -> Iterator[FoldedRun]:
    """What stays or goes as one: single entries, and tool calls with their results."""
    ends = dict(tool_batches(pages.view))
    for run in runs:
        place = run.start
        while place < run.end:
            end = ends.get(place, place + 1)
            yield FoldedRun(place, end)
            place = end


def _fitted(pages: Pages, run: FoldedRun, said: str, most: int) -> str:
    """Notes with the run's pinned lines in so many tokens: the last lines go first, and a bare title goes too."""
    lines = said.strip().split("\n")
    pinned = pages.pinned_lines(run)
    fewest = min(len(lines), 2)
    while len(lines) >= fewest and lines != [""]:
        fitted = with_pinned_lines("\n".join(lines), pinned)
        if pages.summary_tokens(fitted) <= most:
            return fitted
        lines.pop()
        while lines and lines[-1].startswith("#"):  # a heading with nothing below it
            lines.pop()
    return ""


def _within(texts: dict[FoldedRun, str], pruning: _Pruning, spare: int) -> dict[FoldedRun, str]:
    """As many of the texts as there is room for, the longest left out first; never one shorter than its notice."""
    extra = {run: pruning.pages.summary_tokens(said) - pruning.notice_tokens(run) for run, said in texts.items()}
    total = sum(extra.values())
    for run in sorted(texts, key=lambda run: (-extra[run], run.start)):
        if total <= spare or extra[run] <= 0:
            break
        total -= extra.pop(run)
    return {run: said for run, said in texts.items() if run in extra}


def _readable(pages: Pages) -> Pages:
    """The pages, or those of a very large view without the ends of their messages: reading must not take seconds."""
    if sum(len(message.text) for message in pages.messages) <= _MOST_READ:
        return pages
    most = _MOST_READ // len(pages.messages)
    return replace(pages, messages=[_clipped(message, most) for message in pages.messages])


def _clipped(message: Message, most: int) -> Message:
    """A message without the end of its text, cut where a line ends if that is not far."""
    whole = message.text
    if len(whole) <= most:
        return message
    end = whole.rfind("\n", most // 2, most)
    return replace(message, content=whole[: end if end > 0 else most], parts=None)


def _without_notice(fold: Fold) -> str:
    """What a fold says beside how many messages it left out."""
    return fold.text.rpartition("\n\n")[0] if fold.reason == NOTICE else fold.text
