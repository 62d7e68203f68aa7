"""The literals without which no finder finds anything, and one search for all of them.

Every finder names its *anchors*: literals that ordinary text holds seldom (``ghp_``, ``://``, "password" in small and
capital letters), and how far from the beginning of each it wants to look. One automaton goes over the bytes of a text
once, whatever the number of literals, and says which finders have to look where. On most texts no one has to: a further
rule costs nothing there.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Final, NamedTuple, Protocol

from ahocorasick_rs import BytesAhoCorasick, Implementation

from orihon.guard.masking.long_runs import dotted_runs
from orihon.guard.masking.text_forms import SecretSpan, Views

# Expressions with more forms than that are cut: a shorter literal is only found more often.
_MOST_FORMS = 128
_PIECE = re.compile(r"\[([^\]]*)\](\{)?|\\?(.)", re.DOTALL)
_SPECIAL = frozenset("()|*+?{}^$.")
# Characters that nobody sees: zero-width ones, marks of direction, the soft hyphen.
UNSEEN = (
    *"\u00ad\u034f\u061c\u180e\ufeff",
    *map(chr, (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), *range(0xFE00, 0xFE10))),
)
# In ``Places``, where they stand.
UNSEEN_PLACES = -1

# By the number of a finder, where it has to look.
Places = dict[int, list[int]]
# The bytes of a character but for its first.
_IS_FOLLOWING = bytes(code & 0xC0 == 0x80 for code in range(256))


class Anchor(NamedTuple):
    """A literal, and how far from its beginning lies the place that a finder wants to know."""

    literal: str
    offset: int = 0


class Finder(Protocol):
    """Finds secrets of one sort, near its anchors."""

    @property
    def anchors(self) -> Sequence[Anchor]: ...

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        """The secrets between ``start`` and ``end``; ``places`` are those of the anchors there, in their order."""
        ...


class Finders:
    """Several of them, asked in their order."""

    __slots__ = ("_asked", "_automaton", "_finders")

    def __init__(self, finders: Sequence[Finder], after_dots: Finder | None = None) -> None:
        """``after_dots`` is asked before the others, and looks where long runs stand behind dots."""
        self._finders: Final = [*finders] if after_dots is None else [after_dots, *finders]
        # How far from the end of each they look: the hits come in the order of their ends.
        asked: dict[str, list[tuple[int, int]]] = {character: [(UNSEEN_PLACES, -1)] for character in UNSEEN}
        for number, finder in enumerate(self._finders):
            for literal, offset in finder.anchors:
                asked.setdefault(literal, []).append((number, offset - len(literal)))
        self._asked: Final = list(asked.values())
        # What the library takes by itself for so many literals is smaller and half as fast.
        self._automaton: Final = BytesAhoCorasick([text.encode() for text in asked], implementation=Implementation.DFA)

    def places(self, views: Views) -> Places:
        """Where the finders have to look."""
        places: Places = defaultdict(list)
        if dots := dotted_runs(views):
            places[0] = dots
        asked = self._asked
        following = b"" if views.is_ascii else views.raw.translate(_IS_FOLLOWING)
        done = shift = 0  # so many more bytes than characters
        for literal, _, end in self._automaton.find_matches_as_indexes(views.raw, overlapping=True):
            if following:
                shift += following.count(1, done, end)
                done = end
            for number, offset in asked[literal]:
                places[number].append(end - shift + offset)
        for several in places.values():
            several.sort()
        return places

    def find(self, views: Views, places: Places, start: int, end: int) -> list[SecretSpan]:
        """The secrets between ``start`` and ``end``."""
        spans: list[SecretSpan] = []
        for number in sorted(places):
            several = places[number]
            near = several[bisect_left(several, start) : bisect_left(several, end)]
            if near:
                spans += self._finders[number].find(views, near, start, end)
        return spans


def in_any_case(word: str, offset: int = 0) -> list[Anchor]:
    """A word in small letters, and in all others."""
    forms = product(*(sorted({letter, letter.upper()}) for letter in word))
    return [Anchor("".join(form), offset) for form in forms]


def literals_of(before: str, anchor: str, then: str) -> list[Anchor]:
    """What must stand around an anchor, where expressions of fixed width stand before and after it; as much of it as
    has few forms. The place is that of the anchor."""
    count = 1
    heads: list[list[str]] = []
    for choices in _leading(reversed(_pieces(before))):
        if count * len(choices) > _MOST_FORMS:
            break
        heads.insert(0, choices)
        count *= len(choices)
    tails: list[list[str]] = []
    for choices in _leading(_pieces(then)):
        if count * len(choices) > _MOST_FORMS:
            break
        tails.append(choices)
        count *= len(choices)
    forms = ["".join(form) for form in product(*heads, [anchor], *tails)]
    return [Anchor(form, len(heads)) for form in forms]


def _leading(pieces: Iterable[list[str]]) -> Iterator[list[str]]:
    """Those before the first that is no literal."""
    for choices in pieces:
        if not choices:
            return
        yield choices


def _pieces(expression: str) -> list[list[str]]:
    """The characters that may stand at each place of it; none where that is not so easily said."""
    pieces: list[list[str]] = []
    for match in _PIECE.finditer(expression):
        inside, is_repeated, single = match.groups()
        if inside is not None:
            pieces.append([] if is_repeated or inside.startswith("^") else _members(inside))
        else:
            is_plain = match[0].startswith("\\") or single not in _SPECIAL
            pieces.append([single] if is_plain else [])
    return pieces


def _members(inside: str) -> list[str]:
    """The characters of a set."""
    members: list[str] = []
    for first, last in re.findall(r"(.)(?:-(.))?", inside, re.DOTALL):
        members += map(chr, range(ord(first), ord(last or first) + 1))
    return members
