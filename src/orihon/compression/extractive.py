"""The extractive summarizer: a fold's text without a model, out of lines that stand in the history.

It reads the whole view once, weighs what each line is about by how likely it is to be needed again, and picks lines
within a token budget (``selection``); ``notes`` puts them under headings. Promises: never more tokens than asked for;
nothing invented, lines are only trimmed; the same input gives the same text. It works for English, Japanese, Chinese
and code, because it looks at what is used again and not at what is meant.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from orihon.compression.facts import is_constraint, is_decision, is_error, is_open
from orihon.compression.notes import Note, is_notes, read_back, render
from orihon.compression.reading import Line, Reading, Statement, lines_of
from orihon.compression.selection import Candidate, Selection
from orihon.compression.worth import feature_worth
from orihon.message import Message
from orihon.records import SUMMARY_PREFIX
from orihon.tokens import DEFAULT_TOKENIZER, Counter, tokenizer

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|(?<=[。!?])(?=.)")
_TRIMMED_FROM = 60  # characters; a shorter line is not worth cutting
_KEPT_WEIGHT = 0.68  # of a line's weight that trimming must leave, so that it still says the same
_LINE_END = 3  # characters' worth of tokens that any sentence costs
_WORTHLESS = 0.0005  # of a feature: a word that stands everywhere
_QUESTION = 0.6
_BONUS = {"goal": 0.01, "constraints": 0.015, "decisions": 0.005, "open": 0.005, "problems": 0.005}
_TOKENS_PER_HINT = 250
_MOST_HINTS = 12
_FITTING_ROUNDS = 5
_CLOSE_ENOUGH = 8


@dataclass(frozen=True, slots=True)
class Run:
    """Messages ``start`` up to but without ``end`` that one fold stands for."""

    start: int
    end: int


class Extractor:
    """A history that has been read and can be summarised, run by run."""

    def __init__(self, messages: Sequence[Message], count: Counter, seqs: Sequence[int] | None = None) -> None:
        self.count = count
        self.seqs = seqs if seqs is not None else range(1, len(messages) + 1)
        self.reading = Reading()
        for place, message in enumerate(messages):
            self.reading.add(_lines(message, place, self.seqs[place]), message.role)
        self.worth = feature_worth(self.reading)
        self.statements = list(self.reading.statements())
        self._candidates: dict[int, list[Candidate]] = {}
        self._by_place: dict[int, list[Statement]] = {}
        for statement in self.statements:
            self._by_place.setdefault(statement.line.place, []).append(statement)
        self._first_user = next((at for at, message in enumerate(messages) if message.role == "user"), -1)
        self._writing = {place for place, message in enumerate(messages) if _writes(message)}

    def selection(self, places: Collection[int], shown: Collection[int]) -> Selection:
        """What may be chosen from the messages at ``places``, when those at ``shown`` are in view anyway."""
        found = [one for place in sorted(places) for one in self._candidates_at(place)]
        in_view = {feature for place in shown for feature in self.features_at(place)}
        return Selection(found, self.worth, self.count, in_view)

    def _candidates_at(self, place: int) -> list[Candidate]:
        found = self._candidates.get(place)
        if found is None:
            found = [self._candidate(statement) for statement in self._by_place.get(place, ())]
            self._candidates[place] = found
        return found

    def features_at(self, place: int) -> set[int]:
        """Everything that the lines of one message are about, those apart that stand again later."""
        return {feature for statement in self._by_place.get(place, ()) for feature in statement.features}

    def fold_texts(self, runs: Sequence[Run], selection: Selection, room: int, overhead: int = 0) -> list[str]:
        """One text for each run, together within ``room`` tokens; each costs ``overhead`` beside its text."""
        texts = self._texts(runs, selection, 0)
        left = room - self._cost(texts, overhead)
        close_enough = max(_CLOSE_ENOUGH, room // 500)
        for attempt in range(_FITTING_ROUNDS):
            hints = min(room // _TOKENS_PER_HINT, _MOST_HINTS)
            if left > close_enough:
                selection.take(left)
            texts = self._texts(runs, selection, hints)
            left = room - self._cost(texts, overhead)
            if 0 <= left <= close_enough:
                break
            if left < 0:
                exactly = attempt == _FITTING_ROUNDS - 1
                texts, left = self._shrunk(runs, selection, room, overhead, left, exactly=exactly)
        if left < 0:
            texts, left = self._shrunk(runs, selection, room, overhead, left, exactly=True)
        return texts

    def _shrunk(
        self, runs: Sequence[Run], selection: Selection, room: int, overhead: int, left: int, *, exactly: bool
    ) -> tuple[list[str], int]:
        """Statements chosen last go first; counted by themselves at first, and as a whole when it must be exact."""
        texts: list[str] = []
        while left < 0 and selection.chosen:
            left += self.count(selection.give_back().text)
            if exactly or left >= 0:
                texts = self._texts(runs, selection, 0)
                left = room - self._cost(texts, overhead)
        return texts or self._texts(runs, selection, 0), left

    def _cost(self, texts: Iterable[str], overhead: int) -> int:
        return sum(self.count(SUMMARY_PREFIX + text) + overhead for text in texts)

    def _texts(self, runs: Sequence[Run], selection: Selection, hints: int) -> list[str]:
        return [self._text(run, selection, hints // len(runs)) for run in runs]

    def _text(self, run: Run, selection: Selection, hints: int) -> str:
        notes = [self._note(one) for one in selection.chosen if run.start <= one.statement.line.place < run.end]
        return render(self.seqs[run.start], self.seqs[run.end - 1], notes, self._hints(run, selection, hints))

    def _note(self, candidate: Candidate) -> Note:
        line = candidate.statement.line
        return Note(candidate.heading, line.seq, line.speaker, candidate.text, candidate.statement.order)

    def _hints(self, run: Run, selection: Selection, most: int) -> list[tuple[int, str]]:
        """The likeliest facts that no chosen line is about, and the message where they stand."""
        reading = self.reading
        missed = (
            feature
            for feature, kind in enumerate(reading.kinds)
            if kind is not None and run.start <= reading.last[feature] < run.end and selection.is_unseen(feature)
        )
        best = heapq.nlargest(most, missed, key=lambda feature: (self.worth[feature], -feature))
        return [(self.seqs[reading.last[feature]], reading.names[feature]) for feature in best]

    def _heading(self, line: Line) -> str:
        if line.heading:
            return line.heading
        if line.role == "tool":
            return "problems" if is_error(line.text) else "notes"
        if line.role == "user" and is_constraint(line.text):
            return "constraints"
        if line.place == self._first_user:
            return "goal"
        if line.place in self._writing:
            return "changes"
        return self._said(line.text)

    def _said(self, text: str) -> str:
        for heading, applies in (("open", is_open), ("decisions", is_decision), ("problems", is_error)):
            if applies(text):
                return heading
        return "notes"

    def _candidate(self, statement: Statement) -> Candidate:
        text, features = self._trimmed(statement)
        heading = self._heading(statement.line)
        factor = _QUESTION if text.endswith(("?", "?")) else 1.0
        telling = tuple(feature for feature in features if self.worth[feature] > _WORTHLESS)
        return Candidate(statement, text, heading, telling, _BONUS.get(heading, 0.0), factor)

    def _trimmed(self, statement: Statement) -> tuple[str, tuple[int, ...]]:
        """The line without its emptiest sentences, when what stays still says most of it."""
        text = statement.line.text
        if len(text) < _TRIMMED_FROM or not _SENTENCE_END.search(text):
            return text, statement.features
        sentences = [sentence for sentence in _SENTENCE_END.split(text) if sentence]
        features = [self.reading.features_of(sentence, statement.features) for sentence in sentences]
        kept = self._weightiest(sentences, features)
        if not kept or len(kept) == len(sentences):
            return text, statement.features
        parts: list[str] = []
        for at, sentence in enumerate(sentences):
            if at in kept:
                parts.append(sentence.strip())
            elif parts and parts[-1] != "…":
                parts.append("…")
        shown = dict.fromkeys(feature for at in sorted(kept) for feature in features[at])
        return " ".join(parts).removesuffix(" …"), tuple(shown)

    def _weightiest(self, sentences: Sequence[str], features: Sequence[tuple[int, ...]]) -> set[int]:
        weights = [self._weight(of_sentence) for of_sentence in features]
        worth = [sum(self.worth[feature] for feature in of_sentence) for of_sentence in features]
        best_first = sorted(range(len(sentences)), key=lambda at: -worth[at] / (len(sentences[at]) + _LINE_END))
        kept: set[int] = set()
        weight, enough = 0.0, _KEPT_WEIGHT * sum(weights)
        for at in best_first:
            if weight >= enough:
                break
            kept.add(at)
            weight += weights[at]
        return kept

    def _weight(self, features: Iterable[int]) -> float:
        """How much is said, by the rarity of the words."""
        reading = self.reading
        words = (feature for feature in features if reading.kinds[feature] is None)
        return sum(math.log2(1 + reading.places / (1 + reading.messages[word])) for word in words)


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
    (text,) = extractor.fold_texts([Run(start, end)], selection, max_tokens)
    return text if extractor.count(SUMMARY_PREFIX + text) <= max_tokens else ""


def _lines(message: Message, place: int, seq: int) -> Iterable[Line]:
    content = message.text
    return read_back(content, place, seq) if is_notes(content) else lines_of(message, place, seq)


def _writes(message: Message) -> bool:
    """Whether a message's tool calls carry text of several lines: code or a file, not a question to the tool."""
    return any("\\n" in call.arguments for call in message.tool_calls)
