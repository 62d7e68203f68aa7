"""What somebody asks for: words that all have to be there, ``"phrases"``, ``-without``, ``beginning*``.

Any text is a query; there is no such thing as a wrong one. A word that falls into several tokens (``get_user``,
``移行計画``) is a phrase of them, and the beginning of a hash (``9ee0e44``) finds the whole. Of a very long query the
first words count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from orihon.search.words import ends_in_run, tokens, wholes

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
