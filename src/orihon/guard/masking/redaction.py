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

import hashlib
import re
import secrets
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from operator import itemgetter
from typing import Any, ClassVar, Final

from orihon.errors import InvalidInput, InvalidMessage
from orihon.guard.mask_key import KEY_BYTES
from orihon.guard.masking.anchors import (
    DEEPEST,
    SEEN_AS,
    SEEN_LIKE,
    UNSEEN_PLACES,
    WIDE_PLACES,
    Encoded,
    Finders,
    Judged,
    Places,
    Runs,
    SecretSpan,
    Views,
    long_runs,
    odd_places,
)
from orihon.guard.masking.known_values import LIVE, PLACEHOLDER, VAULT, PlainTexts
from orihon.guard.masking.patterns import UserPatterns
from orihon.guard.masking.rules import SHORTEST_TEXT, built_in_finders
from orihon.system import jsonio
from orihon.system.patterns import lazy_re
from orihon.values.message.strings import map_named, name_for
from orihon.values.task import TaskKey

_DIGEST_DIGITS = 12
_BLOCK = 64  # bytes of SHA-256
# Only a user's pattern that looks at its surroundings could want more, and it shall not keep the writer busy.
_MOST_PASSES = 4
# How far a secret lies at most from the placeholder that makes it one.
_SEAM = 600
_FEW = 8
# So near to where a part of a text was cut, half a word may look like a secret.
_EDGE = 64


class Redactor:
    """Masks secrets in texts and JSON values. Threads may share one."""

    #: What a redaction with it is for, as records say it afterwards.
    purpose: ClassVar[str] = "secrets"
    __slots__ = (
        "_encoded",
        "_finders",
        "_inner",
        "_live_kinds",
        "_outer",
        "_patterns",
        "_plain",
        "_shortest",
        "enabled",
        "vault",
    )

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
        padded = key.ljust(_BLOCK, b"\0") if len(key) <= _BLOCK else hashlib.sha256(key).digest().ljust(_BLOCK, b"\0")
        # Both halves of an HMAC with the key already in them: copies of these take half the time of one.
        self._inner: Final = hashlib.sha256(bytes(byte ^ 0x36 for byte in padded))
        self._outer: Final = hashlib.sha256(bytes(byte ^ 0x5C for byte in padded))
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
        spans = self._find(text, judged)
        if not spans:
            self._plain.add(text, registered)
            return text
        is_json = _is_json(text)
        # Some things count as secrets only beside a placeholder: further looks there make masking idempotent.
        for _ in range(_MOST_PASSES):
            merged, bare = list(_merged(spans)), None
            if is_json:
                merged, bare = _in_values(text, merged)
            text, near = self._replace(text, merged, bare)
            spans = [span for start, end in near for span in self._find_between(text, start, end, judged)]
            if not spans:
                break
        return text

    __call__ = mask

    def clean(self, value: Any) -> Any:
        """A JSON value with all its strings and keys masked; the same object when nothing changed."""
        if not self.enabled:
            return value
        try:
            return self._clean(self._seen_whole(value))
        except RecursionError as error:
            raise InvalidMessage("not_json", detail="nested too deeply") from error

    def _seen_whole(self, value: Any) -> Any:
        """The value without the secrets that only a look at the whole finds: a key over the lines of a list."""
        if not isinstance(value, dict | list | tuple):
            return value
        try:
            text = jsonio.encode(value).decode()
        except InvalidMessage:
            return value  # it is refused where it is written
        masked = self.mask(text)
        return value if masked is text else _with_strings_of(value, jsonio.decode(masked))

    def _clean(self, value: Any, above: Any = None) -> Any:
        if isinstance(value, str):
            return self.mask(value)
        changed = False
        if isinstance(value, dict):
            pairs: dict[Any, Any] = {}
            for key, item in value.items():
                new_key = self._clean(key)
                if isinstance(item, dict | list | tuple):
                    new_item = self._clean(item, key)
                elif item is None or isinstance(item, bool):
                    new_item = item
                else:
                    new_item = map_named(name_for(value, key, above), item, self.mask)
                new_item = item if new_item == item else new_item
                changed = changed or new_key is not key or new_item is not item
                pairs[new_key] = new_item
            return pairs if changed else value
        if isinstance(value, list | tuple):
            items: list[Any] = []
            for item in value:
                new_item = self._clean(item, above)
                changed = changed or new_item is not item
                items.append(new_item)
            if changed:
                return items if isinstance(value, list) else tuple(items)
        return value

    def _find_between(self, text: str, start: int, end: int, judged: Judged) -> Iterator[SecretSpan]:
        """The secrets of a part of a text. What lies at its edges may be cut, and no more than a part of a word."""
        first = start + (_EDGE if start else 0)
        last = end - (_EDGE if end < len(text) else 0)
        for left, right, kind in self._find(text[start:end], judged):
            if first <= start + left and start + right <= last:
                yield start + left, start + right, kind

    def _find(self, text: str, judged: Judged, depth: int = 0) -> list[SecretSpan]:
        """The secrets outside of placeholders."""
        views = Views(text, judged)
        places = self._finders.places(views)
        if views.is_ascii:
            return self._found(views, places, depth)
        unseen = places.pop(UNSEEN_PLACES, [])
        odd = sorted(odd_places(views, places.pop(WIDE_PLACES, [])))
        hiding = sorted((*unseen, *odd)) if odd else unseen
        if not hiding:
            return self._found(views, places, depth)
        # Once more as somebody sees it. Where that is most of the text, only keys with a form are looked for twice:
        # what cannot be seen may also divide them.
        parts = list(_around(hiding))
        if 2 * sum(end - start for start, end in parts) > len(text):
            parts, places = [(0, len(text))], self._finders.by_form(places)
        spans = self._found(views, places, depth)
        for start, end in parts:
            hidden = unseen[bisect_left(unseen, start) : bisect_left(unseen, end)]
            has_odd = bisect_left(odd, start) < bisect_left(odd, end)
            seen = Views(_as_seen(text[start:end], {text[place] for place in hidden}, has_odd=has_odd), judged)
            places = self._finders.places(seen)
            places.pop(UNSEEN_PLACES, None)
            places.pop(WIDE_PLACES, None)
            spans += _with_unseen(self._found(seen, places, depth), start, hidden)
        return spans

    def _found(self, views: Views, places: Places, depth: int) -> list[SecretSpan]:
        """The same for the characters as they stand there."""
        runs = long_runs(views) if depth < DEEPEST else []
        if not places and not runs and not LIVE.count and not self._patterns:
            return []
        spans = self._search(views, places, runs, depth, 0, len(views.text))
        if not spans or "]#" not in views.text:
            return spans
        whole, gaps = _outside_placeholders(views.text, spans)
        for start, end in gaps:
            whole += self._search(views, places, runs, depth, start, end)
        return whole

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

    def _replace(self, text: str, spans: list[SecretSpan], bare: set[int] | None) -> tuple[str, list[tuple[int, int]]]:
        """The text with placeholders, those at the places ``bare`` in quotes; where it is no JSON as a whole, those
        that seem to need them. With it, what of it lies near the placeholders."""
        digests: dict[str, str] = {}
        pieces: list[str] = []
        places: list[int] = []
        done = shift = 0
        for start, end, name in spans:
            secret = text[start:end]
            digest = digests.get(secret) or digests.setdefault(secret, self._digest(secret))
            placeholder = f"[{name}]#{digest}"
            if self.vault is not None:
                self.vault.keep(placeholder, secret)
            quote = _missing_quote(text, start, end) if bare is None else '"' if start in bare else ""
            pieces += (text[done:start], quote, placeholder, quote)
            places.append(start + shift)
            shift += len(placeholder) + 2 * len(quote) - (end - start)
            places.append(end + shift)
            done = end
        pieces.append(text[done:])
        new = "".join(pieces)
        return new, [(max(0, start), min(end, len(new))) for start, end in (_around(places) if places else ())]

    def _digest(self, secret: str) -> str:
        seen = secret if secret.isascii() else secret.translate(SEEN_AS)
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(seen.encode("utf-8", "surrogatepass"))
        outer.update(inner.digest())
        return outer.hexdigest()[:_DIGEST_DIGITS]


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
    # The sorts are stable: of two kinds with the same place, the more telling one leads.
    (start, end, name), *others = sorted(sorted(spans, key=itemgetter(1), reverse=True), key=itemgetter(0))
    for next_start, next_end, next_name in others:
        if next_start < end:
            end = max(end, next_end)
        else:
            yield start, end, name
            start, end, name = next_start, next_end, next_name
    yield start, end, name


# What of a JSON text is neither space nor structure, and what of that stands outside of quotes.
_JSON_VALUE = lazy_re(r'"(?:[^"\\]++|\\.)*+"|[^\s\[\]{}:,"]++', re.DOTALL)
_JSON_BARE = lazy_re(r"-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null|NaN|-?Infinity")
_JSON_BEFORE = lazy_re(r'(\\{0,7}")[ \t]{0,8}:[ \t\r\n]{0,32}(?:\[[^\]\[{}":]{0,200})?\Z')
_BEFORE_BARE = " \t\n:,["
_JSON_AFTER = lazy_re(r"[ \t\r\n]{0,32}(?:[,\]}]|\Z)")
_ESCAPE_START = lazy_re(r"\\u[0-9A-Fa-f]{0,3}\Z|\\\Z")
_ESCAPE_END = lazy_re(r"u[0-9A-Fa-f]{4}|.", re.DOTALL)


def _is_json(text: str) -> bool:
    """Is it a document, or one on every line?"""
    begin, ending = text.lstrip()[:1], text.rstrip()[-1:]
    if (begin, ending) not in (("{", "}"), ("[", "]"), ('"', '"')):
        return False
    try:
        jsonio.decode(text)
    except ValueError:
        try:
            return all(line[:1] in "{[" and jsonio.decode(line) is not None for line in text.split("\n") if line)
        except ValueError:
            return False
    return True


def _in_values(text: str, spans: list[SecretSpan]) -> tuple[list[SecretSpan], set[int]]:
    """What of the spans, which are in order, lies in the strings of a JSON text, and the other values whole that they
    touch, with the places of those: the structure stays as it is."""
    inside: list[SecretSpan] = []
    bare: set[int] = set()
    values = _JSON_VALUE.finditer(text)
    value = next(values, None)
    done = 0
    for start, end, name in spans:
        while value is not None and value.start() < end:
            first, last = value.span()
            if last > max(start, done):
                if text[first] == '"':
                    first, last = _without_cut_escapes(text, max(first + 1, start), min(last - 1, end))
                else:
                    bare.add(first)
                if max(first, done) < last:
                    inside.append((max(first, done), last, name))
                    done = last
                if value.end() > end:
                    break  # the next span may lie in the same one
            value = next(values, None)
    return inside, bare


def _without_cut_escapes(text: str, start: int, end: int) -> tuple[int, int]:
    """The same, but with the whole of an escape of which it has a part."""
    for place, is_start in ((start, True), (end, False)):
        cut = _ESCAPE_START.search(text, max(0, place - 5), place)
        if cut is None:
            continue
        run = cut.start()
        while run > 0 and text[run - 1] == "\\":
            run -= 1
        if (cut.start() - run) % 2:
            continue  # the backslash is itself escaped
        if is_start:
            start = cut.start()
        else:
            rest = _ESCAPE_END.match(text, cut.start() + 1)
            end = max(end, rest.end() if rest is not None else end)
    return start, end


def _with_strings_of(old: Any, new: Any) -> Any:
    """The old value with the strings of the new one, which has the same shape; names and numbers are left for a look
    at each, and what did not change is the old object."""
    if isinstance(old, dict) and len(old) == len(new):
        pairs = zip(old.items(), new.values(), strict=True)
        fields = {key: _with_strings_of(item, other) for (key, item), other in pairs}
        return old if all(fields[key] is item for key, item in old.items()) else fields
    if isinstance(old, list | tuple):
        items = [_with_strings_of(*pair) for pair in zip(old, new, strict=True)]
        return old if all(one is other for one, other in zip(items, old, strict=True)) else type(old)(items)
    return new if isinstance(old, str) and new != old else old


def _missing_quote(text: str, start: int, end: int) -> str:
    """The quote that a placeholder wants in the place of a number or a word of JSON that stands in another text."""
    # Most stand behind something else, which is quickly seen.
    if (
        text[start - 1] not in _BEFORE_BARE
        or not _JSON_BARE.fullmatch(text, start, end)
        or _JSON_AFTER.match(text, end) is None
    ):
        return ""
    before = _JSON_BEFORE.search(text, max(0, start - 240), start)
    return "" if before is None else before[1]


def _as_seen(text: str, unseen: set[str], *, has_odd: bool) -> str:
    hiding = SEEN_LIKE.keys() & set(text) if has_odd else unseen
    if len(hiding) > _FEW:
        return text.translate(SEEN_AS)
    for character in hiding:  # much faster than a table
        text = text.replace(character, SEEN_LIKE[character])
    return text


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


def _outside_placeholders(text: str, spans: list[SecretSpan]) -> tuple[list[SecretSpan], list[tuple[int, int]]]:
    """The spans without a character of a placeholder, and the texts between placeholders where the others lie."""
    held = [match.span() for match in PLACEHOLDER.finditer(text)]
    ends = [end for _, end in held]
    whole: list[SecretSpan] = []
    gaps: dict[int, tuple[int, int]] = {}
    for span in spans:
        place = bisect_right(ends, span[0])
        if place == len(held) or held[place][0] >= span[1]:
            whole.append(span)
            continue
        while place <= len(held) and (place == 0 or ends[place - 1] < span[1]):
            gaps[place] = (ends[place - 1] if place else 0, held[place][0] if place < len(held) else len(text))
            place += 1
    return whole, sorted(gaps.values())


_FIELDS = ("task_source", "owner", "repo", "task_type", "task_id")


def refuse_secret_in(key: TaskKey, redactor: Redactor) -> None:
    """Raise where a field of the key has something to mask."""
    for field in _FIELDS:
        if redactor.mask(value := getattr(key, field)) != value:
            raise InvalidInput("secret_in_key", field=field)
    if redactor.enabled and hide(key.user) != key.user:
        raise InvalidInput("secret_in_key", field="user")
