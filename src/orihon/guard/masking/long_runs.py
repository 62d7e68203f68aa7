"""Long runs of letters and digits: base64 that hides a secret, and keys that nothing but a dot and a long run tells.

Every character of a run becomes a byte 1, all others 0, so that a long run is a literal that is found at nearly the
speed of memory. Words and paths are too short to be looked at; a run of base64 that is found is read on over its "/"
and "+", which are rare where the encoded text is ASCII.
"""

from __future__ import annotations

import re
import string
from base64 import b64decode
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter

from orihon.guard.masking.text_forms import Judged, SecretSpan, Views

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

_DOTTED_TABLE = bytes(2 if code == ord(".") else code in _LETTERS + b"_-" for code in range(256))
# No key of ``AFTER_DOT`` has a shorter rest.
_DOTTED_LITERAL = b"\x02" + b"\x01" * 27


def long_runs(views: Views) -> Runs:
    """Those of the text."""
    text = views.narrow
    ones = text.translate(_TABLE)
    inside = ones.find(_LITERAL)
    runs: Runs = []
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
    ones = views.narrow.translate(_DOTTED_TABLE)
    places: list[int] = []
    place = ones.find(_DOTTED_LITERAL)
    while place >= 0:
        places.append(place)
        place = ones.find(_DOTTED_LITERAL, place + len(_DOTTED_LITERAL))
    return places


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
