"""Secrets are masked here, before they touch any disk.

A secret is replaced by its kind and a keyed hash, ``[OPENAI_KEY]#1a2b3c4d5e6f``: the same secret always
gives the same placeholder, so that the text stays consistent, and without the key nobody can test guesses
against it. Placeholders are never masked again, and text without a secret comes back as the very same
object.

Owns the order of the search: the built-in forms (``rules``), known values (``known_values``), the user's own patterns
and exceptions (``patterns``), the same again in base64 and between invisible characters. Promises
linear time for all but the user's patterns, and those have a limit.

Names of tasks are written as they are, in rows, files and lines of the log: one with a secret in it is refused.

Masked it would name another task, and its source could not be told how the task ended. A user may well be an address
or match a pattern of somebody's own: in that field only the built-in rules count.
"""

from __future__ import annotations

import hmac
import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Final

from orihon.errors import InvalidInput, InvalidMessage
from orihon.guard.mask_key import KEY_BYTES
from orihon.guard.masking.anchors import (
    DEEPEST,
    UNSEEN,
    UNSEEN_PLACES,
    Encoded,
    Finders,
    Judged,
    Places,
    Runs,
    SecretSpan,
    Views,
    long_runs,
)
from orihon.guard.masking.known_values import LIVE, PLACEHOLDER, VAULT, PlainTexts
from orihon.guard.masking.patterns import UserPatterns
from orihon.guard.masking.rules import SHORTEST_TEXT, built_in_finders
from orihon.values.message.strings import map_named
from orihon.values.task import TaskKey

_DIGEST_DIGITS = 12
# Only a user's pattern that looks at its surroundings could want more, and it shall not keep the writer busy.
_MOST_PASSES = 4
# How far a secret lies at most from the placeholder that makes it one.
_SEAM = 600
# Which secret it was does not matter beside a placeholder; its name may.
_ANY_DIGEST = "0" * _DIGEST_DIGITS
_UNSEEN = re.compile(f"[{''.join(UNSEEN)}]+")


class Redactor:
    """Masks secrets in texts and JSON values. Threads may share one."""

    #: What a redaction with it is for, as records say it afterwards.
    purpose: ClassVar[str] = "secrets"
    __slots__ = ("_encoded", "_finders", "_live_kinds", "_mac", "_patterns", "_plain", "_shortest", "enabled", "vault")

    def __init__(
        self,
        key: bytes,
        *,
        enabled: bool = True,
        email: bool = False,
        ssn: bool = False,
        patterns: Mapping[str, str] | None = None,
        allow: Sequence[str] = (),
        vault: bool = False,
    ) -> None:
        """``patterns`` maps names of further kinds to expressions. A secret that an expression of ``allow``
        matches from its first to its last character stays as it is. ``vault`` remembers, in this process, what
        was masked, so that it can be sent."""
        self._mac: Final = hmac.new(key, digestmod="sha256")
        self.vault: Final = VAULT if vault else None
        self.enabled: Final = enabled
        # Making them takes longer than many a command that only looks.
        self._finders: Final = built_in_finders(email=email, ssn=ssn) if enabled else Finders(())
        self._encoded: Final = [Encoded(partial(self._find, depth=depth)) for depth in range(1, DEEPEST + 1)]
        self._patterns: Final = UserPatterns(patterns or {}, allow)
        self._shortest: Final = 0 if self._patterns else SHORTEST_TEXT
        self._live_kinds: Final[dict[str, str]] = {}
        self._plain: Final = PlainTexts()

    def mask(self, text: str) -> str:
        """``text`` with a placeholder for every secret; the same object when there is none."""
        if not self.enabled or len(text) < self._shortest or text in self._plain:
            return text
        registered = LIVE.count
        judged: Judged = {}
        for turn in range(_MOST_PASSES):
            spans = self._find(text, judged)
            if not spans:
                if turn == 0:
                    self._plain.add(text, registered)
                break
            merged = list(_merged(spans))
            beside = _beside(text, merged)
            text = self._replace(text, merged)
            # Some things count as secrets only beside a placeholder: a second look makes masking idempotent.
            if not any(self._find(part, judged) for part in beside):
                break
        return text

    __call__ = mask

    def clean(self, value: Any) -> Any:
        """A JSON value with all its strings and keys masked; the same object when nothing changed."""
        if not self.enabled:
            return value
        try:
            return self._clean(value)
        except RecursionError as error:
            raise InvalidMessage("not_json", detail="nested too deeply") from error

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.mask(value)
        changed = False
        if isinstance(value, dict):
            pairs: dict[Any, Any] = {}
            for key, item in value.items():
                new_key = self._clean(key)
                new_item = map_named(key, item, self.mask) if isinstance(item, str) else self._clean(item)
                new_item = item if new_item == item else new_item
                changed = changed or new_key is not key or new_item is not item
                pairs[new_key] = new_item
            return pairs if changed else value
        if isinstance(value, list | tuple):
            items: list[Any] = []
            for item in value:
                new_item = self._clean(item)
                changed = changed or new_item is not item
                items.append(new_item)
            if changed:
                return items if isinstance(value, list) else tuple(items)
        return value

    def _find(self, text: str, judged: Judged, depth: int = 0) -> list[SecretSpan]:
        """The secrets outside of placeholders."""
        views = Views(text, judged)
        places = self._finders.places(views)
        unseen = places.pop(UNSEEN_PLACES, [])
        spans = self._found(views, places, depth)
        for start, end in _around(unseen) if unseen else ():
            hidden = unseen[bisect_left(unseen, start) : bisect_left(unseen, end)]
            seen = Views(_UNSEEN.sub("", text[start:end]), judged)
            found = self._found(seen, self._finders.places(seen), depth)
            spans += _with_unseen(found, start, hidden)
        return spans

    def _found(self, views: Views, places: Places, depth: int) -> list[SecretSpan]:
        """The same for the characters as they stand there."""
        runs = long_runs(views) if depth < DEEPEST else []
        if not places and not runs and not LIVE.count and not self._patterns:
            return []
        found = partial(self._search, views, places, runs, depth)
        spans = found(0, len(views.text))
        if spans and _goes_over_placeholder(views.text, spans):
            spans = [span for start, end in _gaps(views.text) for span in found(start, end)]
        return spans

    def _search(self, views: Views, places: Places, runs: Runs, depth: int, start: int, end: int) -> list[SecretSpan]:
        """The secrets between ``start`` and ``end``, the more telling kinds first; they may overlap."""
        spans = self._finders.find(views, places, start, end)
        if runs:
            spans += self._encoded[depth].find(views, runs, start, end)
        for first, last, value in LIVE.places(views.text, start, end):
            spans.append((first, last, self._live_kind(value)))
        if self._patterns:
            spans += self._patterns.find(views.text, start, end)
        return self._patterns.without_allowed(views.text, spans) if spans else spans

    def _live_kind(self, value: str) -> str:
        """What a known value is called: as by its form, so that it has one placeholder wherever it stands."""
        if value not in self._live_kinds:
            views = Views(value)
            spans = self._finders.find(views, self._finders.places(views), 0, len(value))
            whole = [kind for start, end, kind in spans if (start, end) == (0, len(value))]
            self._live_kinds[value] = whole[0] if whole else "SECRET"
        return self._live_kinds[value]

    def _replace(self, text: str, spans: list[SecretSpan]) -> str:
        """The text with placeholders."""
        digests: dict[str, str] = {}
        pieces: list[str] = []
        done = 0
        for start, end, name in spans:
            secret = text[start:end]
            digest = digests.get(secret) or digests.setdefault(secret, self._digest(secret))
            placeholder = f"[{name}]#{digest}"
            if self.vault is not None:
                self.vault.keep(placeholder, secret)
            pieces += (text[done:start], placeholder)
            done = end
        pieces.append(text[done:])
        return "".join(pieces)

    def _digest(self, secret: str) -> str:
        seen = secret if secret.isascii() else _UNSEEN.sub("", secret)
        # A copy of one that has taken the key is twice as fast as a new one.
        mac = self._mac.copy()
        mac.update(seen.encode("utf-8", "surrogatepass"))
        return mac.hexdigest()[:_DIGEST_DIGITS]


@cache
def _passing() -> Redactor:
    return Redactor(secrets.token_bytes(KEY_BYTES))


def hide(text: str) -> str:
    """For texts that belong to no task, such as errors of a server: placeholders that only this process gives."""
    return _passing().mask(text)


def hide_in(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same for JSON values."""
    hidden: dict[str, Any] = _passing().clean(dict(fields))
    return hidden


def has_placeholder(text: str) -> bool:
    """Does something stand in ``text`` in the place of a secret?"""
    return PLACEHOLDER.search(text) is not None


def _merged(spans: list[SecretSpan]) -> Iterator[SecretSpan]:
    """The spans in order, overlapping ones as one, so that no rest of a secret stays."""
    # The sort is stable: of two kinds with the same place, the more telling one leads.
    (start, end, name), *others = sorted(spans, key=lambda span: (span[0], -span[1]))
    for next_start, next_end, next_name in others:
        if next_start < end:
            end = max(end, next_end)
        else:
            yield start, end, name
            start, end, name = next_start, next_end, next_name
    yield start, end, name


def _beside(text: str, spans: list[SecretSpan]) -> Iterator[str]:
    """What lies near the spans, which are in order, with a placeholder for each of them."""
    done = spans[0][0]
    pieces = [text[max(0, done - _SEAM) : done]]
    for start, end, name in spans:
        if start - done > 2 * _SEAM:
            yield "".join((*pieces, text[done : done + _SEAM]))
            pieces = [text[start - _SEAM : start]]
        else:
            pieces.append(text[done:start])
        pieces.append(f"[{name}]#{_ANY_DIGEST}")
        done = end
    yield "".join((*pieces, text[done : done + _SEAM]))


def _around(places: list[int]) -> Iterator[tuple[int, int]]:
    """What lies near places that are in order, each part of the text once."""
    start, end = max(0, places[0] - _SEAM), places[0] + _SEAM
    for place in places[1:]:
        if place - _SEAM <= end:
            end = place + _SEAM
        else:
            yield start, end
            start, end = place - _SEAM, place + _SEAM
    yield start, end


def _with_unseen(spans: list[SecretSpan], start: int, unseen: list[int]) -> Iterator[SecretSpan]:
    """Where spans lie that were found without the characters at the places ``unseen``, in a part from ``start`` on."""
    # So many characters that are seen stand before each of them.
    before = [place - start - count for count, place in enumerate(unseen)]
    for first, last, kind in spans:
        yield start + first + bisect_right(before, first), start + last + bisect_right(before, last - 1), kind


def _goes_over_placeholder(text: str, spans: list[SecretSpan]) -> bool:
    """Has one of the spans a character of a placeholder?"""
    held = [match.span() for match in PLACEHOLDER.finditer(text)] if "]#" in text else []
    if not held:
        return False
    ends = [end for _, end in held]
    following = ((bisect_right(ends, start), end) for start, end, _ in spans)
    return any(place < len(held) and held[place][0] < end for place, end in following)


def _gaps(text: str) -> Iterator[tuple[int, int]]:
    """What lies between the placeholders of ``text``."""
    start = 0
    for match in PLACEHOLDER.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)


_FIELDS = ("task_source", "owner", "repo", "task_type", "task_id")


def refuse_secret_in(key: TaskKey, redactor: Redactor) -> None:
    """Raise where a field of the key has something to mask."""
    for field in _FIELDS:
        if redactor.mask(value := getattr(key, field)) != value:
            raise InvalidInput("secret_in_key", field=field)
    if redactor.enabled and hide(key.user) != key.user:
        raise InvalidInput("secret_in_key", field="user")
