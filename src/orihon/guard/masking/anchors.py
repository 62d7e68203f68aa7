"""The literals without which no finder finds anything, and one search for all of them.

Every finder names its *anchors*: literals that ordinary text holds seldom (``ghp_``, ``://``, "password" in small and
capital letters), and how far from the beginning of each it wants to look. One automaton goes over the bytes of a text
once, whatever the number of literals, and says which finders have to look where. On most texts no one has to: a further
rule costs nothing there.

One text as the finders want to see it, and where in it a secret was found.

Long runs of letters and digits: base64 that hides a secret, and keys that nothing but a dot and a long run tells.

Every character of a run becomes a byte 1, all others 0, so that a long run is a literal that is found at nearly the
speed of memory. Words and paths are too short to be looked at; a run of base64 that is found is read on over its "/"
and "+", which are rare where the encoded text is ASCII.
"""

from __future__ import annotations

import re
import string
from base64 import b64decode
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, product
from operator import itemgetter
from typing import Final, NamedTuple, Protocol

from ahocorasick_rs import BytesAhoCorasick, Implementation

from orihon.system.patterns import lazy_re

# Expressions with more forms than that are cut: a shorter literal is only found more often.
_MOST_FORMS = 128
_PIECE = lazy_re(r"\[([^\]]*)\](\{)?|\\?(.)", re.DOTALL)
_SPECIAL = frozenset("()|*+?{}^$.")
# Characters that nobody sees: zero-width ones, marks of direction, the soft hyphen.
UNSEEN = (
    *"\u00ad\u034f\u061c\u180e\ufeff",
    *map(chr, (*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x206A), *range(0xFE00, 0xFE10))),
)
# Letters of other scripts, and wide ones, that look like those of ASCII. Where one stands beside those, or several wide
# ones together, somebody hides something or has the wrong keyboard.
_CYRILLIC = dict(zip("аеорсухіѕјһԁԛԝкгтвмнАВЕКМНОРСТХІЅЈҺ", "aeopcyxisjhdqwkrtbmhABEKMHOPCTXISJH", strict=True))
_GREEK = dict(zip("αορνικυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "aopvikuABEZHIKMNOPTYX", strict=True))
_WIDE = {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)}
SEEN_LIKE: Final = {**_CYRILLIC, **_GREEK, **_WIDE, **dict.fromkeys(UNSEEN, "")}
SEEN_AS: Final = str.maketrans(SEEN_LIKE)
_LIKE = "".join((*_CYRILLIC, *_GREEK, *"ａ-ｚＡ-Ｚ０-９＿－"))
_ODD = lazy_re(f"(?<=[A-Za-z0-9_-])[{_LIKE}]|[{_LIKE}](?=[A-Za-z0-9_-])|[ａ-ｚＡ-Ｚ](?=[ａ-ｚＡ-Ｚ０-９＿－]{{3}})")
_ODD_REACH = 5
# The bytes of a text by sorts: of a word in ASCII, first of such scripts, and those of a character but for its first.
_FURTHER = 3
_SORTS = bytes(
    1 if re.match(rb"[A-Za-z0-9_-]", bytes((code,))) else 2 if code in b"\xce\xcf\xd0\xd1\xd2\xd4" else
    _FURTHER if code & 0xC0 == 0x80 else 0
    for code in range(256)
)  # fmt: skip
_ODD_SORTS = (b"\1\2", b"\2\3\1")
# In ``Places``, where they stand, and where wide letters do.
UNSEEN_PLACES = -1
WIDE_PLACES = -2

# By the number of a finder, where it has to look.
Places = dict[int, list[int]]


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


# The number of a finder, and how far from the end of a literal it looks.
_Asking = list[tuple[int, int]]


class _Literals:
    """Some literals, and who asks for them."""

    def __init__(self, asked: dict[str, _Asking]) -> None:
        self._literals: Final = [*asked]
        self.asking: Final = [*asked.values()]

    @cached_property
    def _automaton(self) -> BytesAhoCorasick:
        # What the library takes by itself for so many literals is smaller and half as fast.
        return BytesAhoCorasick([text.encode() for text in self._literals], implementation=Implementation.DFA)

    def hits(self, text: bytes) -> list[tuple[int, int, int]]:
        """The number, beginning and end of each that is found, in the order of their ends."""
        return self._automaton.find_matches_as_indexes(text, overlapping=True)


class Finders:
    """Several of them, asked in their order."""

    __slots__ = ("_all", "_ascii", "_finders", "_forms")

    def __init__(self, finders: Sequence[Finder], after_dots: Finder | None = None, forms: int = 0) -> None:
        """``after_dots`` is asked before the others, and looks where long runs stand behind dots. It and the first
        ``forms`` others find what has a form of its own."""
        self._forms: Final = forms + 1
        self._finders: Final = [*finders] if after_dots is None else [after_dots, *finders]
        asked: dict[str, _Asking] = {character: [(UNSEEN_PLACES, -1)] for character in UNSEEN}
        asked |= {character: [(WIDE_PLACES, -1)] for character in _WIDE if _WIDE[character].isalpha()}
        for number, finder in enumerate(self._finders):
            for literal, offset in finder.anchors:
                asked.setdefault(literal, []).append((number, offset - len(literal)))
        self._all: Final = _Literals(asked)
        # In most texts there are no others: a smaller automaton is faster.
        self._ascii: Final = _Literals({literal: asking for literal, asking in asked.items() if literal.isascii()})

    def places(self, views: Views) -> Places:
        """Where the finders have to look."""
        literals = self._ascii if views.is_ascii else self._all
        asking = literals.asking
        hits = literals.hits(views.raw)
        dots = dotted_runs(views)
        if not hits and not dots:
            return {}  # as in most texts
        places: Places = defaultdict(list)
        if dots:
            places[0] = dots
        ends: dict[int, list[int]] = defaultdict(list)
        if views.is_ascii:
            for literal, _, end in hits:
                ends[literal].append(end)
        else:
            count = views.sorts.count
            done = place = 0
            for literal, _, end in hits:
                if end != done:
                    place += end - done - count(_FURTHER, done, end)
                    done = end
                ends[literal].append(place)
        for literal, found in ends.items():
            for number, offset in asking[literal]:
                places[number] += [end + offset for end in found]
        for several in places.values():
            several.sort()
        return places

    def by_form(self, places: Places) -> Places:
        """Those where keys are looked for that have a form of their own."""
        return {number: several for number, several in places.items() if number < self._forms}

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


# Start, end and kind of one secret in a text.
SecretSpan = tuple[int, int, str]

# How much of a value is a secret, by what was asked.
Judged = dict[object, int]

# A first letter may belong to an escape: a newline and ``pm_`` are written \npm_ in JSON.
ESCAPE_LETTERS = "abefnrtuvx"


class Views:
    """A text, and copies of it. But for ``raw``, every character has the same place in all of them."""

    __slots__ = ("_lower", "_sorts", "flat", "is_ascii", "judged", "narrow", "raw", "text")

    def __init__(self, text: str, judged: Judged | None = None) -> None:
        """``judged`` is shared by the texts that are looked at for the same purpose."""
        self.judged: Judged = {} if judged is None else judged
        self.text = text
        self.is_ascii = text.isascii()
        self.raw = text.encode("utf-8", "surrogatepass")
        # With "?" for every character outside ASCII.
        self.narrow = self.raw if self.is_ascii else text.encode("ascii", "replace")
        # The same as a text: one of narrow characters is searched much faster.
        self.flat = text if self.is_ascii else self.narrow.decode("ascii")
        self._lower: str | None = None
        self._sorts: bytes | None = None

    @property
    def sorts(self) -> bytes:
        """What each byte of ``raw`` belongs to."""
        if self._sorts is None:
            self._sorts = self.raw.translate(_SORTS)
        return self._sorts

    @property
    def lower(self) -> str:
        """``flat`` in small letters, made when a finder wants it: most texts have no anchor."""
        if self._lower is None:
            self._lower = self.flat.lower()
        return self._lower


def odd_places(views: Views, wide: list[int]) -> list[int]:
    """Where letters stand that look like others; ``wide`` ones are known."""
    places = [place for place in wide if _ODD.match(views.text, place)]
    sorts = views.sorts
    if 2 not in sorts:
        return places
    found: list[int] = []
    for wanted in _ODD_SORTS:
        place = sorts.find(wanted)
        while place >= 0:
            found.append(place)
            place = sorts.find(wanted, place + len(wanted))
    done = shift = 0
    for place in sorted(found):
        shift += sorts.count(_FURTHER, done, place)
        done = place
        odd = _ODD.search(views.text, place - shift, place - shift + _ODD_REACH)
        if odd is not None:
            places.append(odd.start())
    return places


# First and last place of each.
Runs = list[tuple[int, int]]

_ending = itemgetter(1)
_LEAST = 20
_LETTERS = (string.ascii_letters + string.digits).encode()
_ALPHABET = _LETTERS + b"+/"
_TABLE = bytes(code in _LETTERS for code in range(256))
# So many without a "/" or "+" has every longer one somewhere, but for the strangest.
_LITERAL = b"\x01" * 16
_RUN = re.compile(b"[A-Za-z0-9+/]*+")
_LONGEST_DECODED = 65536
# A path has more of them.
_MOST_SLASHES = 4
# Nothing that gives a secret away reaches over that.
_BETWEEN = "\n\0\n"
# So many times a text may be encoded.
DEEPEST = 2

# No key of ``AFTER_DOT`` has a shorter rest.
_DOTTED = re.compile(r"\.[A-Za-z0-9_-]{27}")


def long_runs(views: Views) -> Runs:
    """Those of the text."""
    text = views.narrow
    runs: Runs = []
    if len(text) < _LEAST:
        return runs
    ones = text.translate(_TABLE)
    inside = ones.find(_LITERAL)
    done = 0
    while inside >= 0:
        first = done + len(text[done:inside].rstrip(_ALPHABET))
        run = _RUN.match(text, inside)
        done = inside if run is None else run.end()
        if done - first >= _LEAST:
            runs.append((first, done))
        inside = ones.find(_LITERAL, done)
    return runs


def dotted_runs(views: Views) -> list[int]:
    """Where dots stand before long runs that may also have dashes and underscores."""
    first = _DOTTED.search(views.flat)
    return [] if first is None else [dotted.start() for dotted in _DOTTED.finditer(views.flat, first.start())]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Base64 that decodes to a text with a secret: it goes whole."""

    find_in: Callable[[str, Judged], list[SecretSpan]]  # the secrets of a text that was decoded

    def find(self, views: Views, runs: Runs, start: int, end: int) -> list[SecretSpan]:
        """The long runs of the text, as far as they lie between ``start`` and ``end``, that hide something."""
        found: list[tuple[SecretSpan, str]] = []
        text = views.narrow
        for first, last in runs[bisect_left(runs, start, key=_ending) :]:
            if first >= end:
                break
            first, last = max(first, start), min(last, end)
            if last - first < _LEAST:
                continue
            # Half of an escape before the run belongs to that.
            if text[first - 1 : first] == b"\\":
                first += 5 if text[first : first + 1] == b"u" else 1
            hidden = _decoded(text[first:last])
            if hidden is not None:
                padded = last + len(text[last : last + 2]) - len(text[last : last + 2].lstrip(b"="))
                found.append(((first, min(padded, end), "BASE64_SECRET"), hidden))
        return self._hiding(found, views.judged)

    def _hiding(self, found: list[tuple[SecretSpan, str]], judged: Judged) -> list[SecretSpan]:
        """Those with a secret. All are looked at together, which is much faster than one by one."""
        if not found:
            return []
        spans: list[SecretSpan] = []
        starts = [0, *accumulate(len(hidden) + len(_BETWEEN) for _, hidden in found)]
        secrets = sorted(self.find_in(_BETWEEN.join(hidden for _, hidden in found), judged))
        taken = -1
        for first, last, _ in secrets:
            number = max(bisect_right(starts, first) - 1, taken + 1)
            while number < len(found) and starts[number] < last:
                span, hidden = found[number]
                # What goes over several of them is a secret of one of them only if that has it alone.
                is_inside = starts[number] <= first and last <= starts[number] + len(hidden)
                if is_inside or self.find_in(hidden, judged):
                    spans.append(span)
                taken = number
                number += 1
        return spans


def _decoded(run: bytes) -> str | None:
    """The text that a run of base64 stands for, if it is one."""
    if run.islower() or run.isupper() or run.count(b"/") > _MOST_SLASHES:
        return None
    whole = run[: min(len(run), _LONGEST_DECODED) // 4 * 4]
    rest = run[len(whole) : len(whole) + 3]
    try:
        raw = b64decode(whole)
        if len(rest) > 1:
            raw += b64decode(rest + b"=" * (4 - len(rest)))
        text = raw.decode("utf-8")
    except ValueError:
        return None
    return text if text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable() else None
