"""What somebody asks for: words that all have to be there, ``"phrases"``, ``-without``, ``beginning*``.

Any text is a query; there is no such thing as a wrong one. A word that falls into several tokens (``get_user``,
``移行計画``) is a phrase of them, and the beginning of a hash (``9ee0e44``) finds the whole. Of a very long query the
first words count.

Texts taken apart into tokens, the same way for what is stored and for what is asked.

``tokens`` gives them in order; ``spans`` also says where in the text each one stands. A token has neither white space
nor punctuation, so that any database can keep a text as its tokens with blanks between them:

- letters are compared without case, width and accents (NFKC; ``Ａ``, ``Á`` and ``a`` are one);
- names fall into their parts (``get_user``, ``getUser``, ``pkg.get-user`` are ``get`` and ``user``), and the ``v`` of
  a version stands alone (``v1.2``); ``wholes`` gives camel case, and that ``v1``, in one piece, too;
- an emoji or a similar sign is a token of its own;
- scripts without blanks between words (Chinese, Japanese, Korean, Thai …) become pairs of characters, and at the end of
  a run its last character alone: so every character begins a token, and words of one and two characters are found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

MOST_TERMS = 32
MOST_TOKENS = 64  # of one term
_MOST_CHARACTERS = 10_000
_HASH = re.compile(r"(?=.*[0-9])(?=.*[a-f])[0-9a-f]{7,}")
_TERM = re.compile(r'(?P<minus>-(?!-))?(?:"(?P<phrase>[^"]*)(?:"|$)(?P<star>\*?)|(?P<word>[^\s"]+))')


@dataclass(frozen=True, slots=True)
class Term:
    """Tokens that stand behind each other; of the last one only the beginning where ``is_prefix``."""

    tokens: tuple[str, ...]
    is_prefix: bool = False
    is_without: bool = False
    whole: str | None = None  # the same name in one piece, which is as good

    def places(self, words: Sequence[str]) -> Iterator[tuple[int, int]]:
        """Where it stands among the tokens of a text: the first token and the one behind the last."""
        length = len(self.tokens)
        *firsts, last = self.tokens
        for start in range(len(words) - length + 1):
            found = words[start + length - 1]
            if (found == last or (self.is_prefix and found.startswith(last))) and firsts == list(
                words[start : start + length - 1]
            ):
                yield start, start + length
        if self.whole is not None:
            yield from ((place, place + 1) for place, word in enumerate(words) if word == self.whole)

    def is_in(self, words: Sequence[str], whole_words: Sequence[str]) -> bool:
        """Does a text have it? ``whole_words`` are its names in one piece."""
        if next(self.places(words), None) is not None:
            return True
        if self.whole is not None and self.whole in whole_words:
            return True
        if len(self.tokens) > 1:
            return False
        (token,) = self.tokens
        return any(word == token or (self.is_prefix and word.startswith(token)) for word in whole_words)


@dataclass(frozen=True, slots=True)
class Query:
    """What is wanted and what is not."""

    terms: tuple[Term, ...]
    any_term: bool = False  # one of the wanted terms is enough

    @property
    def wanted(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if not term.is_without)

    @property
    def unwanted(self) -> tuple[Term, ...]:
        return tuple(term for term in self.terms if term.is_without)

    def matches(self, words: Sequence[str], whole_words: Sequence[str]) -> bool:
        """Is this a text that is asked for?"""
        found = [term.is_in(words, whole_words) for term in self.wanted]
        is_wanted = any(found) if self.any_term else bool(found) and all(found)
        return is_wanted and not any(term.is_in(words, whole_words) for term in self.unwanted)


def parse_query(text: str, *, any_term: bool = False) -> Query:
    """A query as people type it."""
    found: dict[Term, None] = {}
    for match in _TERM.finditer(text[:_MOST_CHARACTERS]):
        term = _term(match)
        if term is not None:
            found[term] = None
        if len(found) == MOST_TERMS:
            break
    return Query(tuple(found), any_term)


def _term(match: re.Match[str]) -> Term | None:
    word = match["word"]
    said = match["phrase"] if word is None else word.rstrip("*")
    is_prefix = bool(match["star"]) if word is None else said != word
    parts = tokens(said)[:MOST_TOKENS]
    if not parts:
        return None
    is_prefix = is_prefix or (len(parts) == 1 and _HASH.fullmatch(parts[0]) is not None)
    run = ends_in_run(said) if len(parts) < MOST_TOKENS else 0
    if run > 1:
        parts.pop()  # the last character alone: it is in the pair before it, and the text may go on after it
    elif run == 1:
        is_prefix = True  # the text may go on after it: then there is only a pair that begins with it
    in_one = wholes(said) if word is not None and not is_prefix else []
    whole = in_one[0] if len(in_one) == 1 and in_one[0] == "".join(parts) else None
    return Term(tuple(parts), is_prefix, bool(match["minus"]), whole)


#: A token is cut here, in texts and in questions alike: nobody types more, and a database has its limits.
LONGEST = 64

#: Scripts that are written without blanks between words.
_RUN = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u3096\u3099-\u309a\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u3105-\u318f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
#: Signs that people look for: emoji and their kin (✅, ❌, 🚀), not what joins or colours them.
_SIGN = "\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff"
#: Vowel signs and accents that belong to the letter before them.
_MARK = "\u0300-\u036f\u0900-\u0963\u0966-\u0dff"
# In the order of how often they come. Capitals go with the small letters behind them, or among themselves.
_ASCII_PARTS = r"[vV](?=[0-9]+\.[0-9])|[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])[0-9]*"
_WORD = re.compile(rf"{_ASCII_PARTS}|[{_RUN}]+|[{_SIGN}]|(?:[^\W_A-Za-z0-9{_RUN}{_SIGN}][{_MARK}]*)+")
_ASCII_WORD = re.compile(_ASCII_PARTS)
_IS_RUN = re.compile(rf"[{_RUN}]")
_IN_ONE_PIECE = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:[a-z0-9]+[A-Z]|[A-Z]+[a-z0-9]+[A-Z]|[A-Z]{2,}[a-z])[A-Za-z0-9]*|[vV][0-9]+(?=\.[0-9]))"
)
#: What a terminal takes for a colour or a movement.
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[()][0-9A-Z])")
#: Where a letter may carry an accent.
_ACCENTED = re.compile(r"[\u00c0-\u052f\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u1e00-\u1fff]")
_ACCENT = re.compile(r"[\u0300-\u036f\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u064b-\u065f]")
#: Letters that have no accent to take off, and are typed without one all the same.
_PLAIN = str.maketrans(
    {"ß": "ss", "ẞ": "Ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ø": "o", "Ø": "O"}
    | {"đ": "d", "Đ": "D", "ð": "d", "Ð": "D", "ł": "l", "Ł": "L", "þ": "th", "Þ": "Th", "ı": "i", "ħ": "h", "Ħ": "H"}
)


class TokenSpan(NamedTuple):
    """One token, and the characters of the text that it stands for."""

    token: str
    start: int
    end: int


def tokens(text: str) -> list[str]:
    """The tokens of a text, in order."""
    text = _without_colours(text)
    if text.isascii():
        return [word[:LONGEST].lower() for word in _ASCII_WORD.findall(text)]
    found: list[str] = []
    for word in _WORD.findall(folded(text)):
        if _IS_RUN.match(word):
            found += _pairs(word)
        else:
            found.append(word[:LONGEST].casefold()[:LONGEST])
    return found


def wholes(text: str) -> list[str]:
    """Names in camel case as one token each (``getUser`` is asked for as ``getuser``, too), and ``v1`` of ``v1.2``."""
    return [word[:LONGEST].lower() for word in _IN_ONE_PIECE.findall(folded(_without_colours(text)))]


def spans(text: str) -> Iterator[TokenSpan]:
    """The tokens with their places. Where a place cannot be told exactly, a little more is named."""
    plain, places = _mapped(_without_colours(text))
    for match in _WORD.finditer(plain):
        word, first = match[0], match.start()
        if _IS_RUN.match(word):
            for offset, pair in enumerate(_pairs(word)):
                yield _span(pair, first + offset, first + offset + len(pair), places)
        else:
            yield _span(word[:LONGEST].casefold()[:LONGEST], first, match.end(), places)


def _without_colours(text: str) -> str:
    """Programs write colours between the words, and the last letter of a sequence would stick to the word behind it."""
    return text if "\x1b" not in text else _SEQUENCE.sub(lambda match: " " * len(match[0]), text)


def folded(text: str) -> str:
    """A text without differences of width and accents; capitals stay, for they part the words of a name."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    if _ACCENTED.search(plain):
        plain = unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", plain)))
        plain = plain.translate(_PLAIN)
    return plain


def ends_in_run(text: str) -> int:
    """How long the run of characters without blanks is that a text ends with, less what follows the last token."""
    *_, last = ("", *_WORD.findall(folded(text)))
    return len(last) if _IS_RUN.match(last) else 0


def _pairs(run: str) -> list[str]:
    return [*(run[place : place + 2] for place in range(len(run) - 1)), run[-1]]


def _span(token: str, first: int, beyond: int, places: list[int] | None) -> TokenSpan:
    if places is None:
        return TokenSpan(token, first, beyond)
    return TokenSpan(token, places[first], max(places[beyond], places[first] + 1))


def _mapped(text: str) -> tuple[str, list[int] | None]:
    """The folded text and, where its characters are not those of the text, whence each of them comes."""
    plain = folded(text)
    if plain == text or text.isascii():
        return plain, None
    pieces: list[str] = []
    places: list[int] = []
    start = 0
    while start < len(text):
        end = start + 1
        while end < len(text) and _belongs_on(text, end):
            end += 1
        piece = folded(text[start:end])
        pieces.append(piece)
        places += [start] * len(piece)
        start = end
    if "".join(pieces) != plain:
        return plain, _coarse(text, plain)
    return plain, [*places, len(text)]


def _belongs_on(text: str, place: int) -> bool:
    """Is the character one with the character before it: an accent, a voicing mark, a piece of a Korean syllable?"""
    char = text[place]
    if char.isascii():
        return False
    before = text[place - 1]
    return unicodedata.combining(unicodedata.normalize("NFKD", char)[0]) != 0 or len(folded(before + char)) < len(
        folded(before)
    ) + len(folded(char))


def _coarse(text: str, plain: str) -> list[int]:
    """Places by proportion, for the few texts that cannot be taken apart character by character."""
    size = max(len(plain), 1)
    return [place * len(text) // size for place in range(len(plain))] + [len(text)]
