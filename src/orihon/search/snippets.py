"""The part of a text that answers a query, and where in it the words stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from orihon.search.query import Query, TokenSpan, spans, tokens, wholes

_BEFORE = 60  # characters ahead of the first word that was found
_LONGEST = 240
#: A long text is looked through in parts of so many characters, the end of one being the beginning of the next.
_PART, _OVERLAP = 20_000, 500
#: Names in camel case are one token for whoever asks for them so; they are looked for among so many parts.
_MOST_PARTS = 8


class Cut(NamedTuple):
    """Is there more of the text?"""

    before: bool
    after: bool


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text. ``highlights`` are places in ``text``: the first character and the one behind the last."""

    text: str
    highlights: tuple[tuple[int, int], ...]
    starts_at: int  # in the whole text
    is_start: bool
    is_end: bool

    @property
    def cut(self) -> Cut:
        return Cut(not self.is_start, not self.is_end)


def make_snippet(text: str, query: Query, *, length: int = _LONGEST, worth: Sequence[float] | None = None) -> Snippet:
    """The piece with the most of what is asked for, close together. Without ``worth`` all terms are the same to us."""
    worth = worth or [1.0] * len(query.wanted)
    offset = _best_part(text, query, worth) if len(text) > _PART else 0
    part = text[offset : offset + _PART]
    marks = _marks(list(spans(part)), query)
    start, extent = _best_place(marks, length, worth)
    before = max(_BEFORE, (length - extent) // 2)
    start = _word_start(part, start - before) if start > before else 0
    end = min(len(part), start + length)
    inside = [(first, min(last, end)) for first, last, _ in marks if start <= first < end]
    highlights = tuple((first - start, last - start) for first, last in _joined(inside))
    is_start, is_end = offset + start == 0, offset + end == len(text)
    return Snippet(part[start:end], highlights, offset + start, is_start, is_end)


def _best_part(text: str, query: Query, worth: Sequence[float]) -> int:
    """Where the part of a long text begins that has the most terms; to look for the places of all would take long."""
    best, most = 0, 0.0
    for offset in range(0, len(text), _PART - _OVERLAP):
        part = text[offset : offset + _PART]
        words, whole_words = tokens(part), wholes(part)
        wanted = zip(query.wanted, worth, strict=True)
        found = sum(value for term, value in wanted if term.is_in(words, whole_words))
        if found > most:
            best, most = offset, found
        if most == sum(worth):
            break
    return best


def _marks(found: Sequence[TokenSpan], query: Query) -> list[tuple[int, int, int]]:
    """Where each term stands, in order: first character, the one behind the last, number of the term."""
    words = [span.token for span in found]
    marks: list[tuple[int, int, int]] = []
    for number, term in enumerate(query.wanted):
        places = [(found[first].start, _end(found, last - 1, term.tokens[-1])) for first, last in term.places(words)]
        if not places and len(term.tokens) == 1:
            places = list(_in_one_piece(found, term.tokens[0], is_prefix=term.is_prefix))
        marks += [(first, last, number) for first, last in places]
    return sorted(marks)


def _end(found: Sequence[TokenSpan], place: int, asked: str) -> int:
    """Where a token ends, as far as it was asked for: of a pair of characters perhaps only the first."""
    span = found[place]
    if len(asked) == 1 and len(span.token) == 2 and place + 1 < len(found) and found[place + 1].start < span.end:
        return found[place + 1].start  # each character of a run begins a token
    return span.end


def _in_one_piece(found: Sequence[TokenSpan], whole: str, *, is_prefix: bool) -> list[tuple[int, int]]:
    """Names whose parts, put together, are the word: parts that touch each other in the text."""
    places = []
    for first, span in enumerate(found):
        if not whole.startswith(span.token):
            continue
        joined, last = span.token, first
        while last + 1 < len(found) and last - first < _MOST_PARTS and found[last + 1].start == found[last].end:
            last += 1
            joined += found[last].token
            if joined == whole or (is_prefix and joined.startswith(whole)):
                places.append((span.start, found[last].end))
                break
    return places


def _best_place(marks: Sequence[tuple[int, int, int]], length: int, worth: Sequence[float]) -> tuple[int, int]:
    """Where the most of it begins, and how far it reaches; of equals the shortest."""
    best, best_worth = (0, 0), (0.0, 0)
    for place, (start, _, _) in enumerate(marks[:1000]):
        ends: dict[int, int] = {}
        for first, last, number in marks[place : place + 100]:
            if first < start + max(length - _BEFORE, 1):
                ends.setdefault(number, last)
        extent = max(ends.values()) - start
        value = round(sum(worth[number] for number in ends), 6), -extent
        if value > best_worth:
            best, best_worth = (start, extent), value
    return best


def _word_start(text: str, start: int) -> int:
    """Not in the middle of a word, if a blank is near."""
    blank = text.find(" ", start, start + _BEFORE // 2)
    return start if blank < 0 else blank + 1


def _joined(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for first, last in places:
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined
