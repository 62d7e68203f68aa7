"""The extractive summarizer: a fold's text without a model, out of lines that stand in the history.

It reads the whole view once, weighs what each line is about by how likely it is to be needed again, and picks lines
within a token budget (``selection``); ``notes`` puts them under headings. Promises: never more tokens than asked for;
nothing invented, lines are only trimmed; the same input gives the same text. It works for English, Japanese, Chinese
and code, because it looks at what is used again and not at what is meant.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from orihon.compression.notes.loss import FactLoss, Lost, find_lost, lines_to_add, report
from orihon.compression.notes.note_text import Note, is_notes, read_back, render, title_of, title_of_added
from orihon.compression.notes.pool import Pool
from orihon.compression.notes.reader import LineStatistics, SourceLine, call_text, lines_of, shown_lines
from orihon.compression.notes.selection import Selection
from orihon.compression.notes.worth import feature_worth
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, Counter, tokenizer

_TOKENS_PER_HINT = 250
_MOST_HINTS = 12
_FITTING_ROUNDS = 5
_CLOSE_ENOUGH = 8
_LEAST_SCALE = 0.5


@dataclass(frozen=True, slots=True)
class FoldedRun:
    """Messages ``start`` up to but without ``end`` that one fold stands for."""

    start: int
    end: int


class Extractor:
    """A history that has been read and can be summarised, run by run.

    ``sizes`` are the tokens of each message, where they are known already.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        count: Counter,
        seqs: Sequence[int] | None = None,
        sizes: Sequence[int] | None = None,
    ) -> None:
        self.messages = messages
        self.count = count
        self.seqs = seqs if seqs is not None else range(1, len(messages) + 1)
        self.reading = LineStatistics()
        for place, message in enumerate(messages):
            self.reading.add(_lines(message, place, self.seqs[place]), message.role)
        self.worth = feature_worth(self.reading)
        sizes = sizes if sizes is not None else [text_tokens(message, count) for message in messages]
        self.pool = Pool(messages, sizes, count, self.reading, self.worth)
        self._kinds, self._names = self.reading.kinds(), self.reading.names()

    def selection(self, places: Collection[int], shown: Collection[int]) -> Selection:
        """What may be chosen from the messages at ``places``, when those at ``shown`` are in view anyway."""
        lines = itertools.chain.from_iterable(self.pool.between(place, place + 1) for place in sorted(places))
        in_view = set().union(*map(self.pool.features_at, shown))
        return Selection(self.pool, lines, self.worth, in_view)

    def features_at(self, place: int) -> set[int]:
        """Everything that the lines of one message are about, those apart that stand again later."""
        return self.pool.features_at(place)

    def fold_texts(self, runs: Sequence[FoldedRun], selection: Selection, room: int, overhead: int = 0) -> list[str]:
        """One text for each run, together within ``room`` tokens; each costs ``overhead`` beside its text."""
        hints = min(room // _TOKENS_PER_HINT, _MOST_HINTS)
        close_enough = max(_CLOSE_ENOUGH, room // 500)
        titles = self._cost([self._text(run, (), ()) for run in runs], overhead)
        scale = 1.0  # tokens for each that the lines have by themselves
        for _ in range(_FITTING_ROUNDS):
            self._take_or_give_back(selection, (room - titles - close_enough / 2) / scale)
            texts = self._texts(runs, selection, hints)
            left = room - self._cost(texts, overhead)
            if 0 <= left <= close_enough:
                break
            scale = max((room - left - titles) / max(selection.tokens(), 1), _LEAST_SCALE)
        while left < 0:
            texts = self._texts(runs, selection, 0)
            left = room - self._cost(texts, overhead)
            if not selection.chosen:
                break
            if left < 0:
                selection.give_back()
        return texts

    def report(self, run: FoldedRun, text: str, stays: Iterable[int] = (), most: int | None = None) -> FactLoss:
        """Which facts of a run stand neither in ``text`` nor in the messages at ``stays``; ``most`` are named."""
        return report(self.pool, self.reading, self.worth, self._lost(run, text, stays), most)

    def lines_for_lost(self, run: FoldedRun, text: str, room: int, stays: Iterable[int] = ()) -> str:
        """Quoted lines for a user's constraints and the likeliest facts that ``text`` lacks, in ``room`` tokens."""
        return self._added(run, self._lost(run, text, stays), room)[0]

    def completed(self, run: FoldedRun, text: str, room: int, most: int | None = None) -> tuple[str, FactLoss]:
        """The text with ``lines_for_lost`` after it, and the report on both together."""
        lost = self._lost(run, text, ())
        added, lines = self._added(run, lost, room)
        whole = f"{text}\n\n{added}" if added else text
        return whole, report(self.pool, self.reading, self.worth, lost.without(self.pool, lines), most)

    def _added(self, run: FoldedRun, lost: Lost, room: int) -> tuple[str, list[int]]:
        """Lines that bring lost facts back, as text and by number."""
        title = title_of_added(self.seqs[run.start], self.seqs[run.end - 1])
        quoted_whole = {*lost.constraints(self.pool)}
        left, notes = room - self.count(title), list[Note]()
        for index in lines_to_add(self.pool, self.worth, self.pool.between(run.start, run.end), lost):
            if left <= 0:
                break
            note = self._whole_note(index) if index in quoted_whole else self._note(index)
            cost = self.count(note.text) + 1
            if cost <= left:
                notes.append(note)
                left -= cost
        while notes and self.count(added := render(title, notes)) > room:
            notes.pop()
        return (added, [note.order for note in notes]) if notes else ("", [])

    def _lost(self, run: FoldedRun, text: str, stays: Iterable[int]) -> Lost:
        staying = (line[0] for place in stays for line in _lines(self.messages[place], place, self.seqs[place]))
        shown = itertools.chain(shown_lines(text), staying)
        return find_lost(self.pool, self.reading, self.pool.between(run.start, run.end), shown)

    def _whole_note(self, index: int) -> Note:
        source = self.pool.sources[index]
        return Note("constraints", source.seq, source.speaker, self.pool.lines[index], index)

    def _take_or_give_back(self, selection: Selection, wanted: float) -> None:
        missing = wanted - selection.tokens()
        if missing > 0:
            selection.take(missing)
        while missing < 0 and selection.chosen:
            missing += selection.tokens_of(selection.give_back())

    def _cost(self, texts: Iterable[str], overhead: int) -> int:
        return sum(self.count(SUMMARY_PREFIX + text) + overhead for text in texts)

    def _texts(self, runs: Sequence[FoldedRun], selection: Selection, hints: int) -> list[str]:
        chosen = sorted(selection.chosen)
        return [self._text(run, chosen, self._hints(run, selection, hints // len(runs))) for run in runs]

    def _text(self, run: FoldedRun, chosen: Sequence[int], hints: Sequence[tuple[int, str]]) -> str:
        lines = self.pool.between(run.start, run.end)
        first, last = (bisect_left(chosen, index) for index in (lines.start, lines.stop))
        notes = map(self._note, chosen[first:last])
        return render(title_of(self.seqs[run.start], self.seqs[run.end - 1]), notes, hints)

    def _note(self, index: int) -> Note:
        source = self.pool.sources[index]
        return Note(self.pool.heading(index), source.seq, source.speaker, self.pool.texts[index], index)

    def _hints(self, run: FoldedRun, selection: Selection, most: int) -> list[tuple[int, str]]:
        """The likeliest facts that no chosen line is about, and the message where they stand."""
        if not most:
            return []
        last = self.reading.last
        missed = (
            feature
            for feature, kind in enumerate(self._kinds)
            if kind is not None and run.start <= last[feature] < run.end and selection.is_unseen(feature)
        )
        best = heapq.nlargest(most, missed, key=lambda feature: (self.worth[feature], -feature))
        return [(self.seqs[last[feature]], self._names[feature]) for feature in best]


def summarize(
    messages: Sequence[Message],
    max_tokens: int,
    *,
    count: Counter | None = None,
    seqs: Sequence[int] | None = None,
    before: Sequence[Message] = (),
    after: Sequence[Message] = (),
    earlier: str = "",
) -> str:
    """Notes on a run of messages in at most ``max_tokens``; empty when not even their title fits.

    ``before`` and ``after`` are the rest of the view: what is used there tells what will be needed. ``earlier`` is a
    summary that the notes take over line by line. ``seqs`` numbers the run (from 1 without it).
    """
    merged = [Message("system", SUMMARY_PREFIX + earlier)] if earlier else []
    view = [*before, *merged, *messages, *after]
    start, end = len(before), len(view) - len(after)
    numbers = [*seqs] if seqs is not None else list(range(1, len(messages) + 1))
    if not numbers:
        return ""
    numbering = [numbers[0]] * (start + len(merged)) + numbers + [numbers[-1]] * len(after)
    extractor = Extractor(view, count or tokenizer(DEFAULT_TOKENIZER), numbering)
    outside = {*range(start), *range(end, len(view))}
    selection = extractor.selection(range(start, end), outside)
    (text,) = extractor.fold_texts([FoldedRun(start, end)], selection, max_tokens)
    return text if extractor.count(SUMMARY_PREFIX + text) <= max_tokens else ""


def text_tokens(message: Message, count: Counter) -> int:
    """Tokens of a message's text and of its calls."""
    return count("\n".join([message.text, *(call_text(call.name, call.arguments) for call in message.tool_calls)]))


def _lines(message: Message, place: int, seq: int) -> Iterable[SourceLine]:
    content = message.text
    return read_back(content, place, seq) if is_notes(message.role, content) else lines_of(message, place, seq)
