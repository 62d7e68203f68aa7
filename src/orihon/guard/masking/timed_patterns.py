"""Patterns that users give for anything but masking: whether one of them matches, in bounded time.

Python's own engine cannot be stopped, and settings of a user may come from elsewhere. A pattern that may have to try
again and again is run by an engine with a time limit; when its time is over, it is left out, and the log says so.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable
from typing import Any

from orihon.errors import InvalidSettings

# Seconds of one pattern for everything that it is asked: ordinary ones take microseconds for a line.
SECONDS = 1.0

logger = logging.getLogger("orihon.guard")

_ESCAPED = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_BEGINS_A_LINE = re.compile(r"(?:\(\?[a-z]+\))?\^#\+ ")


class TimedPatterns:
    """Some expressions of a user's."""

    def __init__(self, patterns: Iterable[str], seconds: float = SECONDS) -> None:
        self._plain = []
        self._timed: dict[str, tuple[Any, float]] = {}
        for pattern in patterns:
            if _is_quick(pattern):
                self._plain.append(re.compile(pattern))
            else:
                self._timed[pattern] = _compiled(pattern), seconds

    def __bool__(self) -> bool:
        return bool(self._plain or self._timed)

    def search(self, text: str) -> bool:
        """Does one of them match somewhere?"""
        return any(pattern.search(text) for pattern in self._plain) or any(
            self._searched(pattern, text) for pattern in list(self._timed)
        )

    def _searched(self, pattern: str, text: str) -> bool:
        compiled, left = self._timed[pattern]
        begun = time.thread_time()
        try:
            found = compiled.search(text, timeout=left) is not None
        except TimeoutError:
            found, left = False, 0.0
        left -= time.thread_time() - begun
        if left > 0:
            self._timed[pattern] = compiled, left
        else:
            logger.warning("the pattern %s takes too long: it is not looked for any more", pattern)
            del self._timed[pattern]
        return found


def _compiled(pattern: str) -> Any:
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise InvalidSettings("bad_pattern", name=pattern, detail=str(error)) from error


def _is_quick(pattern: str) -> bool:
    """Whether it cannot try again and again: it has no repeats, or one at the beginning of a line as headings have."""
    bare = _ESCAPED.sub("x", _BEGINS_A_LINE.sub("", pattern))
    return not re.search(r"[*+{]", bare.replace("x*", "", 1) if _BEGINS_A_LINE.match(pattern) else bare)
