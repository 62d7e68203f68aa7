"""The extractive summarizer: a fold's text without a model, out of lines that stand in the history.

It reads the whole view once, weighs what each line is about by how likely it is to be needed again, and picks lines
within a token budget (``selection``). Promises: never more tokens than asked for; nothing invented, lines are only
trimmed; the same input gives the same text. It works for English, Japanese, Chinese and code, because it looks at what
is used again and not at what is meant.

Also tells what a text lost, whoever wrote it. Names (paths, identifiers, numbers …) are looked for word for word; a
line that reports an error or a decision stands as long as one shown line says most of it, by the rarity of its words; a
constraint only as long as it is quoted. A line that comes again after the run belongs to where it stands last.
"""

from __future__ import annotations

import heapq
import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from orihon.compression.notes.facts import Fact, FactKind, is_constraint, line_kinds
from orihon.compression.notes.reader import (
    LineStatistics,
    Note,
    SourceLine,
    call_text,
    is_notes,
    lines_of,
    read_back,
    render,
    shown_lines,
    title_of,
    title_of_added,
)
from orihon.compression.notes.selection import KEPT_WEIGHT, Pool, Selection, feature_worth, sentences_of
from orihon.values.message.message import Message
from orihon.values.records import SUMMARY_PREFIX
from orihon.values.tokens.tokens import DEFAULT_TOKENIZER, Counter, tokenizer

IMPORTANT = 0.3  # worth of a fact from which on its loss is made good: about as likely to be used again as not
_MOST_LOOKED_AT = 64  # shown lines for one lost line, so that a word in every line does not make it slow


@dataclass(frozen=True, slots=True)
class FactLoss:
    """How many facts a run has, how many of them are still shown, and those that are not, the most valuable first."""

    found: int
    kept: int
    lost: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Lost:
    """What of the lines ``lines`` is not shown."""

    features: Mapping[int, int]  # names, and the first line that has them
    lines: tuple[tuple[FactKind, int], ...]
    found: int

    def without(self, pool: Pool, shown: Collection[int]) -> Lost:
        """What is still lost when these lines are shown after all."""
        again = {feature for index in shown for feature in pool.features[index]}
        features = {feature: index for feature, index in self.features.items() if feature not in again}
        return Lost(features, tuple(one for one in self.lines if one[1] not in shown), self.found)

    def constraints(self, pool: Pool) -> list[int]:
        """Lines with a constraint of a user that is not shown."""
        return [index for kind, index in self.lines if _is_of_user(pool, kind, index)]


def find_lost(pool: Pool, reading: LineStatistics, lines: range, shown: Iterable[str]) -> Lost:
    """Compare the lines of a run with the lines that are shown."""
    kinds = reading.kinds()
    names: dict[int, int] = {}
    telling: list[tuple[FactKind, int]] = []
    for index in lines:
        for feature in pool.said[index]:
            if kinds[feature] is not None:
                names.setdefault(feature, index)
        telling += ((kind, index) for kind in line_kinds(pool.lines[index], pool.sources[index].role))
    parts = [_parts(pool, reading, kind, index) for kind, index in telling]
    view = _View(pool, reading, {part.key for of_line in parts for part in of_line}, shown)
    lost = {feature: index for feature, index in names.items() if feature not in view.features}
    lost_lines = tuple(one for one, of_line in zip(telling, parts, strict=True) if not all(map(view.says, of_line)))
    return Lost(lost, lost_lines, len(names) + len(telling))


def report(
    pool: Pool, reading: LineStatistics, worth: Sequence[float], lost: Lost, most: int | None = None
) -> FactLoss:
    """The report on what was lost; only the ``most`` valuable facts are named, if a number is given."""
    kinds, names = reading.kinds(), reading.names()
    valued: list[tuple[float, int, FactKind, str | int]] = []
    for feature, index in lost.features.items():
        if (kind := kinds[feature]) is not None:
            valued.append((-worth[feature], index, kind, feature))
    for kind, index in lost.lines:
        value = max(map(worth.__getitem__, pool.said[index]), default=0.0) + _is_of_user(pool, kind, index)
        valued.append((-value, index, kind, pool.lines[index]))
    weightiest = sorted(valued, key=_RANK) if most is None else heapq.nsmallest(most, valued, key=_RANK)
    facts = (Fact(kind, names[said] if isinstance(said, int) else said) for _, _, kind, said in weightiest)
    return FactLoss(lost.found, lost.found - len(valued), tuple(facts))


_RANK = itemgetter(0, 1)


def lines_to_add(pool: Pool, worth: Sequence[float], lines: range, lost: Lost) -> Iterator[int]:
    """The lines that bring back what matters, the most needed first: constraints, then the likeliest facts.

    For each fact that is the line which says most of what is still missing for its tokens.
    """
    yield from (constraints := lost.constraints(pool))
    missing = {feature for feature in lost.features if worth[feature] >= IMPORTANT}
    where: dict[int, list[int]] = {feature: [] for feature in missing}
    for index in lines:
        for feature in missing.intersection(pool.features[index]):
            where[feature].append(index)
    for index in constraints:
        missing.difference_update(pool.said[index])
    for feature in sorted(missing, key=lambda feature: (-worth[feature], feature)):
        if feature in missing and where[feature]:
            best = max(where[feature][-_MOST_LOOKED_AT:], key=lambda at: _density(pool, worth, missing, at))
            missing.difference_update(pool.features[best])
            yield best


def _is_of_user(pool: Pool, kind: FactKind, index: int) -> bool:
    return kind is FactKind.CONSTRAINT and pool.sources[index].role == "user"


def _density(pool: Pool, worth: Sequence[float], missing: Collection[int], index: int) -> float:
    gain = sum(worth[feature] for feature in pool.features[index] if feature in missing)
    return gain * pool.factors[index] / pool.least_costs[index]


@dataclass(frozen=True, slots=True)
class _Part:
    """What must be shown of a line, in one shown line."""

    text: str
    features: frozenset[int]
    key: int | None  # its rarest feature
    must_be_quoted: bool


def _parts(pool: Pool, reading: LineStatistics, kind: FactKind, index: int) -> list[_Part]:
    text = pool.lines[index]
    if kind is not FactKind.CONSTRAINT:
        return [_part(reading, text, pool.said[index], must_be_quoted=False)]
    sentences = [sentence for sentence in sentences_of(text) if is_constraint(sentence)] or [text]
    return [_part(reading, one, reading.features_of(one), must_be_quoted=True) for one in sentences]


def _part(reading: LineStatistics, text: str, features: Collection[int], *, must_be_quoted: bool) -> _Part:
    rarest = min(features, key=lambda feature: (reading.messages[feature], feature), default=None)
    return _Part(_flat(text), frozenset(features), rarest, must_be_quoted)


class _View:
    """The shown lines: what they are about, and where the features in ``keys`` stand."""

    def __init__(self, pool: Pool, reading: LineStatistics, keys: Collection[int | None], shown: Iterable[str]) -> None:
        self.features: set[int] = set()
        self._pool = pool
        self._flat: list[str] = []
        self._where: dict[int, list[tuple[str, tuple[int, ...]]]] = {}
        for line in shown:
            features, flat = reading.features_of(line), _flat(line)
            self._flat.append(flat)
            self.features.update(features)
            for feature in features:
                if feature in keys:
                    self._where.setdefault(feature, []).append((flat, features))

    def says(self, part: _Part) -> bool:
        """Whether one shown line says this."""
        if part.key is None:
            return any(part.text in line for line in self._flat)
        needed = KEPT_WEIGHT * self._pool.weight(part.features)
        for line, features in self._where.get(part.key, ())[:_MOST_LOOKED_AT]:
            says_most = needed > 0 and self._pool.weight(part.features.intersection(features)) >= needed
            if part.text in line or (says_most and not part.must_be_quoted):
                return True
        return False


def _flat(text: str) -> str:
    return " ".join(text.split())


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

    def rules_for_lost(self, run: FoldedRun, text: str, room: int) -> str:
        """Quoted lines for what users demanded and ``text`` lacks, in ``room`` tokens; nothing that others said."""
        lost = self._lost(run, text, ())
        rules = tuple(one for one in lost.lines if _is_of_user(self.pool, *one))
        return self._added(run, Lost({}, rules, lost.found), room)[0]

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
