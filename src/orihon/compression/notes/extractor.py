"""The extractive summarizer: a fold's text without a model, out of lines that stand in the history.

It reads the whole view once (``history``), and picks within a token budget (``selection``): what users said, what was
done and how it ended, and lines about what is likely to be needed again. Promises: never more tokens than asked for;
nothing invented, lines are only trimmed; the same input gives the same text. What a text lost is told by ``loss``.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from orihon.compression.notes.history import NotedHistory
from orihon.compression.notes.layout import (
    Note,
    NotesFrame,
    is_notes,
    noted_lines,
    recall_of,
    render,
    title_of,
    title_of_added,
)
from orihon.compression.notes.loss import FactLoss, Lost, find_lost, report
from orihon.compression.notes.reader import LineStatistics, call_text, shown_lines
from orihon.compression.notes.selection import Pool, Selection, feature_worth
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, TokenCounter, tokenizer

_TOKENS_PER_HINT = 250
_MOST_HINTS = 12
_TOKENS_PER_FILE = 300
_MOST_FILES = 12
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

    ``sizes`` are the tokens of each message, where they are known already; ``has_recall``: the reader has the tools
    that read the log.
    """

    def __init__(
        self,
        messages: Sequence[Message],
        count: TokenCounter,
        seqs: Sequence[int] | None = None,
        sizes: Sequence[int] | None = None,
        *,
        has_recall: bool = False,
    ) -> None:
        self.messages = messages
        self.count = count
        self.seqs = seqs if seqs is not None else range(1, len(messages) + 1)
        self.reading = LineStatistics()
        self.has_recall = has_recall
        self.history = NotedHistory(messages, self.seqs)
        for place in range(len(messages)):
            self.reading.add(self.history.lines(place), self.history.role(place))
        self.worth = feature_worth(self.reading)
        sizes = sizes if sizes is not None else [text_tokens(message, count) for message in messages]
        self.pool = Pool(messages, sizes, count, self.reading, self.worth)
        self._kinds, self._names = self.reading.kinds(), self.reading.names()

    def selection(self, places: Collection[int], shown: Collection[int]) -> Selection:
        """What may be chosen from the messages at ``places``, when those at ``shown`` are in view anyway."""
        lines = itertools.chain.from_iterable(self.pool.between(place, place + 1) for place in sorted(places))
        in_view = set().union(*map(self.pool.features_at, shown))
        return Selection(self.pool, lines, self.worth, in_view, is_talk=self.history.is_talk)

    def features_at(self, place: int) -> set[int]:
        """Everything that the lines of one message are about, those apart that stand again later."""
        return self.pool.features_at(place)

    def fold_texts(self, runs: Sequence[FoldedRun], selection: Selection, room: int, overhead: int = 0) -> list[str]:
        """One text for each run, together within ``room`` tokens; each costs ``overhead`` beside its text."""
        hints = min(room // _TOKENS_PER_HINT, _MOST_HINTS)
        close_enough = max(_CLOSE_ENOUGH, room // 500)
        files = min(room // _TOKENS_PER_FILE, _MOST_FILES)
        titles = self._cost([self._text(run, (), (), 0) for run in runs], overhead)
        scale = 1.0  # tokens for each that the lines have by themselves
        for _ in range(_FITTING_ROUNDS):
            self._take_or_give_back(selection, (room - titles - close_enough / 2) / scale)
            texts = self._texts(runs, selection, hints, files)
            left = room - self._cost(texts, overhead)
            if 0 <= left <= close_enough:
                break
            scale = max((room - left - titles) / max(selection.tokens(), 1), _LEAST_SCALE)
        while left < 0:
            texts = self._texts(runs, selection, 0, 0)
            left = room - self._cost(texts, overhead)
            if not selection.chosen:
                break
            if left < 0:
                selection.give_back()
        return texts

    def report(self, run: FoldedRun, text: str, stays: Iterable[int] = (), most: int | None = None) -> FactLoss:
        """Which facts of a run stand neither in ``text`` nor in the messages at ``stays``; ``most`` are named."""
        return report(self.pool, self.reading, self.worth, self._lost(run, text, stays), most)

    def rules_for_lost(self, run: FoldedRun, text: str, room: int) -> str:
        """Quoted lines for what users demanded and ``text`` lacks, in ``room`` tokens; nothing that others said."""
        title = title_of_added(self.seqs[run.start], self.seqs[run.end - 1], self.history.language)
        left, notes = room - self.count(title), list[Note]()
        for index in self._lost(run, text, ()).demands(self.pool):
            source = self.pool.sources[index]
            note = Note("said", source.seq, source.speaker, self.pool.lines[index], index)
            cost = self.count(note.text) + 1
            if cost <= left:
                notes.append(note)
                left -= cost
        while notes and self.count(added := render(notes, NotesFrame(title, self.history.language))) > room:
            notes.pop()
        return added if notes else ""

    def _lost(self, run: FoldedRun, text: str, stays: Iterable[int]) -> Lost:
        staying = (_shown_in(self.messages[place]) for place in stays)
        shown = itertools.chain(shown_lines(text), *staying)
        return find_lost(self.pool, self.reading, self.pool.between(run.start, run.end), shown)

    def _take_or_give_back(self, selection: Selection, wanted: float) -> None:
        missing = wanted - selection.tokens()
        if missing > 0:
            selection.take(missing)
        while missing < 0 and selection.chosen:
            missing += selection.tokens_of(selection.give_back())

    def _cost(self, texts: Iterable[str], overhead: int) -> int:
        return sum(self.count(SUMMARY_PREFIX + text) + overhead for text in texts)

    def _texts(self, runs: Sequence[FoldedRun], selection: Selection, hints: int, files: int) -> list[str]:
        chosen = sorted(selection.chosen)
        each = len(runs)
        return [self._text(run, chosen, self._hints(run, selection, hints // each), files // each) for run in runs]

    def _text(self, run: FoldedRun, chosen: Sequence[int], hints: Sequence[tuple[int, str]], files: int) -> str:
        lines = self.pool.between(run.start, run.end)
        first, last = (bisect_left(chosen, index) for index in (lines.start, lines.stop))
        notes = [self._note(index) for index in self._without_repeats(chosen[first:last])]
        language = self.history.language
        first_seq, last_seq = self.seqs[run.start], self.seqs[run.end - 1]
        around = NotesFrame(
            title_of(first_seq, last_seq, language),
            language,
            recall_of(first_seq, last_seq, language) if self.has_recall else "",
            self._unsaid(run, notes),
            self._files(run, files),
            hints,
        )
        return render(notes, around)

    def _without_repeats(self, chosen: Sequence[int]) -> list[int]:
        """A call that stands there with its outcome need not stand there without: that line comes next to it."""
        told, texts = {*chosen} & self.pool.told.keys(), self.pool.texts
        return [index for index in chosen if index - 1 not in told or not texts[index - 1].startswith(texts[index])]

    def _unsaid(self, run: FoldedRun, notes: Sequence[Note]) -> list[int]:
        """Numbers of the messages in which a user said something that is not here."""
        if self.history.is_talk or not notes:
            return []
        said = {note.seq for note in notes}
        here = (self.seqs[place] for place in self.history.users if run.start <= place < run.end)
        return [seq for seq in here if seq not in said]

    def _files(self, run: FoldedRun, most: int) -> dict[str, list[int]]:
        """The files that were written, those written last and most often first."""
        found = self.history.files(run.start, run.end)
        best = sorted(found, key=lambda path: (-len(found[path]), -found[path][-1]))[:most]
        return {path: found[path] for path in sorted(best, key=lambda path: found[path][-1])}

    def _note(self, index: int) -> Note:
        source = self.pool.sources[index]
        mark = self.pool.marks[index]
        paragraph = mark.paragraph if mark is not None else 0
        return Note(self.pool.heading(index), source.seq, source.speaker, self.pool.texts[index], index, paragraph)

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
    count: TokenCounter | None = None,
    seqs: Sequence[int] | None = None,
    after: Sequence[Message] = (),
    earlier: str = "",
) -> str:
    """Notes on a run of messages in at most ``max_tokens``; empty when not even their title fits.

    ``after`` is the rest of the view: what is used there tells what will be needed. ``earlier`` is a summary that the
    notes take over line by line. ``seqs`` numbers the run (from 1 without it).
    """
    merged = [Message("system", SUMMARY_PREFIX + earlier)] if earlier else []
    view = [*merged, *messages, *after]
    end = len(view) - len(after)
    numbers = [*seqs] if seqs is not None else list(range(1, len(messages) + 1))
    if not numbers:
        return ""
    numbering = [numbers[0]] * len(merged) + numbers + [numbers[-1]] * len(after)
    extractor = Extractor(view, count or tokenizer(DEFAULT_TOKENIZER), numbering)
    selection = extractor.selection(range(end), {*range(end, len(view))})
    (text,) = extractor.fold_texts([FoldedRun(0, end)], selection, max_tokens)
    return text if extractor.count(SUMMARY_PREFIX + text) <= max_tokens else ""


def text_tokens(message: Message, count: TokenCounter) -> int:
    """Tokens of a message's text and of its calls."""
    return count("\n".join([message.text, *(call_text(call.name, call.arguments) for call in message.tool_calls)]))


def _shown_in(message: Message) -> Iterable[str]:
    """The lines of a message that stays."""
    if is_notes(message.role, message.text):
        return (line[0] for line in noted_lines(message.text, 0, 0))
    calls = (call_text(call.name, call.arguments) for call in message.tool_calls)
    return itertools.chain.from_iterable(map(shown_lines, (message.text, *calls)))
