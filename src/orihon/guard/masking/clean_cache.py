"""A cache of short texts that were scanned and hold no secret.

Most strings of a message are always the same few: the names of its fields, roles, names of tools. Owns how many of them
are kept and when they have to be scanned again: as soon as a further value is registered as a secret.
"""

from __future__ import annotations

from typing import Final

from orihon.guard.masking.known_values import LIVE

_LONGEST = 48
_MOST = 4096


class PlainTexts:
    """A set with an end; every thread may ask and add."""

    __slots__ = ("_known", "_texts")

    def __init__(self) -> None:
        self._texts: Final[set[str]] = set()
        self._known = 0

    def __contains__(self, text: str) -> bool:
        return len(text) <= _LONGEST and text in self._texts and self._known == LIVE.count

    def add(self, text: str, known: int) -> None:
        """``text`` holds no secret, as far as ``known`` registered ones go."""
        if len(text) > _LONGEST:
            return
        if self._known != known or len(self._texts) >= _MOST:
            self._texts.clear()
            self._known = known
        self._texts.add(text)
