"""The patterns that a user adds, and those that a user excepts.

Promises that none of them stops the writer: a pattern whose repeats nest is refused when the settings are read, every
other one sees the text in pieces of ``WINDOW`` characters and has a bounded time for a text, however it backtracks. A
piece that it could not judge in that time is masked whole: late is better than leaked. Matches are found whole up to
``WINDOW_OVERLAP`` characters.

Patterns that users give for anything but masking: whether one of them matches, in bounded time.

Python's own engine cannot be stopped, and settings of a user may come from elsewhere. A pattern that may have to try
again and again is run by an engine with a time limit; when its time is over, it is left out, and the log says so.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from orihon.errors import InvalidSettings
from orihon.guard.masking.anchors import SecretSpan
from orihon.system.patterns import lazy_re

WINDOW = 4096
WINDOW_OVERLAP = 1024
# Seconds for one pattern on one text: ordinary ones take microseconds. The share of a window keeps large texts going.
LEAST_SECONDS = 0.25
SECONDS_PER_WINDOW = 0.002

logger = logging.getLogger("orihon.guard")

_NAME = lazy_re(r"[A-Z][A-Z0-9_]*")


class UserPatterns:
    """Names of kinds, and the expressions that find them; secrets that an exception matches whole stay."""

    def __init__(self, patterns: Mapping[str, str], allow: Sequence[str]) -> None:
        self._patterns: Final = [(_checked_name(name), _compiled(name, text)) for name, text in patterns.items()]
        self._allow: Final = [_compiled("allow", text) for text in allow]

    def __bool__(self) -> bool:
        """Is there any pattern?"""
        return bool(self._patterns)

    def find(self, text: str, start: int, end: int) -> list[SecretSpan]:
        """The secrets between ``start`` and ``end``."""
        return [span for name, pattern in self._patterns for span in _found(name, pattern, text, start, end)]

    def without_allowed(self, text: str, spans: list[SecretSpan]) -> list[SecretSpan]:
        """The spans that no exception matches."""
        return [span for span in spans if not self._allowed(text[span[0] : span[1]])] if self._allow else spans

    def _allowed(self, secret: str) -> bool:
        try:
            return any(pattern.fullmatch(secret, timeout=LEAST_SECONDS) for pattern in self._allow)
        except TimeoutError:
            return False


def _found(name: str, pattern: Any, text: str, start: int, end: int) -> Iterator[SecretSpan]:
    windows = list(_windows(start, end))
    deadline = time.thread_time() + LEAST_SECONDS + SECONDS_PER_WINDOW * len(windows)
    for left, right in windows:
        try:
            # The rest of the time, but at least a moment: zero would mean that there is no limit.
            rest = max(deadline - time.thread_time(), 1e-4)
            for match in pattern.finditer(text, left, right, timeout=rest):
                if match.end() > match.start():
                    yield match.start(), match.end(), name
        except TimeoutError:
            logger.warning("the pattern %s takes too long; %d characters are masked whole", name, right - left)
            yield left, right, name


def _windows(start: int, end: int) -> Iterator[tuple[int, int]]:
    """Overlapping pieces that cover ``start`` to ``end``."""
    while end - start > WINDOW:
        yield start, start + WINDOW
        start += WINDOW - WINDOW_OVERLAP
    yield start, end


def _checked_name(name: str) -> str:
    upper = name.upper()
    if not _NAME.fullmatch(upper):
        raise InvalidSettings("bad_pattern_name", name=name)
    return upper


@cache
def _compiled(name: str, pattern: str) -> Any:
    """Of the ``regex`` module: Python's own cannot be stopped."""
    import regex

    try:
        re.compile(pattern)
        compiled = regex.compile(pattern)
    except (re.error, regex.error, RecursionError, OverflowError) as error:
        raise InvalidSettings("bad_pattern", name=name, detail=str(error)) from error
    if _repeats_nest(pattern):
        raise InvalidSettings("slow_pattern", name=name, pattern=pattern)
    return compiled


# A repeat without an upper bound that gives back what it took; a possessive one (``++``) does not.
_LOOP = r"(?<![*+}?])(?:[*+]|\{[0-9]*,\})(?!\+)"
_LOOP_IN_LOOP = lazy_re(rf"\([^()]*{_LOOP}[^()]*\){_LOOP}")
_ESCAPE_OR_CLASS = lazy_re(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_INNERMOST_GROUP = lazy_re(r"\(([^()]*)\)")


def _repeats_nest(pattern: str) -> bool:
    """Whether a loop stands inside a loop, as in ``(a+)+``: exponential time on the wrong text."""
    bare = _ESCAPE_OR_CLASS.sub("x", pattern)
    while not _LOOP_IN_LOOP.search(bare):
        # Without its parentheses, a group's loops belong to the group around it.
        flatter = _INNERMOST_GROUP.sub(r"\1", bare)
        if flatter == bare:
            return False
        bare = flatter
    return True


# Seconds of one pattern for everything that it is asked: ordinary ones take microseconds for a line.
SECONDS = 1.0


_ESCAPED = lazy_re(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_BEGINS_A_LINE = lazy_re(r"(?:\(\?[a-z]+\))?\^#\+ ")


class TimedPatterns:
    """Some expressions of a user's."""

    def __init__(self, patterns: Iterable[str], seconds: float = SECONDS) -> None:
        self._plain = []
        self._timed: dict[str, tuple[Any, float]] = {}
        for pattern in patterns:
            if _is_quick(pattern):
                self._plain.append(re.compile(pattern))
            else:
                self._timed[pattern] = _timed_pattern(pattern), seconds

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


def _timed_pattern(pattern: str) -> Any:
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        raise InvalidSettings("bad_pattern", name=pattern, detail=str(error)) from error


def _is_quick(pattern: str) -> bool:
    """Whether it cannot try again and again: it has no repeats, or one at the beginning of a line as headings have."""
    bare = _ESCAPED.sub("x", _BEGINS_A_LINE.sub("", pattern))
    return not re.search(r"[*+{]", bare.replace("x*", "", 1) if _BEGINS_A_LINE.match(pattern) else bare)
