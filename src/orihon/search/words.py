"""Texts taken apart into tokens, the same way for what is stored and for what is asked.

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
from collections.abc import Iterator
from typing import NamedTuple

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
