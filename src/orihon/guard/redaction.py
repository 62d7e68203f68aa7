"""Secrets are masked here, before they touch any disk.

A secret is replaced by its kind and a keyed hash, ``[OPENAI_KEY]#1a2b3c4d5e6f``: the same secret always
gives the same placeholder, so that the text stays consistent, and without the key nobody can test guesses
against it. Placeholders are never masked again, and text without a secret comes back as the very same
object.

Owns the search for secrets (their forms are in ``rules``), the user's own patterns and exceptions, and the
key file. Promises linear time for the built-in rules on any text. A user's pattern is refused when its
repeats nest, and sees the text in pieces of ``WINDOW`` characters, so that a clumsy one cannot stop the
writer; one that is exponential by other means still can. Its matches are found whole up to
``WINDOW_OVERLAP`` characters.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from orihon.errors import DamagedStore, InvalidMessage, InvalidSettings
from orihon.folders import make_private_folder, replace_file, sync_folder, wrapping
from orihon.guard.rules import SHORTEST_TEXT, Scanner, built_in_scanners

KEY_BYTES = 32
WINDOW = 4096
WINDOW_OVERLAP = 1024

_DIGEST_DIGITS = 12
# Only a user's pattern that looks at its surroundings could want more, and it shall not keep the writer busy.
_MOST_PASSES = 4
_PLACEHOLDER = re.compile(r"\[[A-Z][A-Z0-9_]*\]#[0-9a-f]{8,}")
_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_KEY_FILE = re.compile(rb"[0-9a-f]{64}\n?")

# Start, end and kind of one secret in a text.
_Span = tuple[int, int, str]


class Redactor:
    """Masks secrets in texts and JSON values. Never changes after construction: threads may share one."""

    __slots__ = ("_allow", "_key", "_patterns", "_scanners", "_shortest", "enabled")

    def __init__(
        self,
        key: bytes,
        *,
        enabled: bool = True,
        email: bool = False,
        ssn: bool = False,
        patterns: Mapping[str, str] | None = None,
        allow: Sequence[str] = (),
    ) -> None:
        """``patterns`` maps names of further kinds to expressions. A secret that an expression of ``allow``
        matches from its first to its last character stays as it is."""
        self._key: Final = key
        self.enabled: Final = enabled
        # Compiling them takes longer than most commands that only look.
        self._scanners: Final = built_in_scanners(email=email, ssn=ssn) if enabled else ()
        self._patterns: Final = tuple(
            (_checked_name(name), _compiled(name, pattern)) for name, pattern in (patterns or {}).items()
        )
        self._shortest: Final = 0 if self._patterns else SHORTEST_TEXT
        self._allow: Final = tuple(_compiled("allow", pattern) for pattern in allow)

    def mask(self, text: str) -> str:
        """``text`` with a placeholder for every secret; the same object when there is none."""
        if not self.enabled or len(text) < self._shortest:
            return text
        # The second look makes masking idempotent: some things count as secrets only beside a placeholder.
        for _ in range(_MOST_PASSES):
            spans = self._find(text)
            if not spans:
                break
            text = self._replace(text, spans)
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
                new_key, new_item = self._clean(key), self._clean(item)
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

    def _find(self, text: str) -> list[_Span]:
        """The secrets outside of placeholders."""
        # Finding one character is many times faster than starting an expression.
        scanners = [scanner for scanner in self._scanners if scanner.gate in text]
        spans = self._search(scanners, text, 0, len(text))
        if spans and _PLACEHOLDER.search(text):
            spans = [span for start, end in _gaps(text) for span in self._search(scanners, text, start, end)]
        return spans

    def _search(self, scanners: list[Scanner], text: str, start: int, end: int) -> list[_Span]:
        """The secrets between ``start`` and ``end``, the more telling kinds first; they may overlap."""
        spans: list[_Span] = []
        for scanner in scanners:
            for match in scanner.expression.finditer(text, start, end):
                group = match.lastindex or 1
                # Looking back sees the placeholder before ``start`` and may take its digits for an address.
                if match.start(group) >= start:
                    spans.append((match.start(group), match.end(), scanner.names[group - 1]))
        for name, pattern in self._patterns:
            for left, right in _windows(start, end):
                for match in pattern.finditer(text, left, right):
                    if match.end() > match.start():
                        spans.append((match.start(), match.end(), name))
        if self._allow:
            return [span for span in spans if not self._allowed(text[span[0] : span[1]])]
        return spans

    def _allowed(self, secret: str) -> bool:
        return any(pattern.fullmatch(secret) for pattern in self._allow)

    def _replace(self, text: str, spans: list[_Span]) -> str:
        digests: dict[str, str] = {}
        pieces: list[str] = []
        done = 0
        for start, end, name in _merged(spans):
            secret = text[start:end]
            digest = digests.get(secret) or digests.setdefault(secret, self._digest(secret))
            pieces += (text[done:start], f"[{name}]#{digest}")
            done = end
        pieces.append(text[done:])
        return "".join(pieces)

    def _digest(self, secret: str) -> str:
        raw = secret.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, raw, "sha256").hex()[:_DIGEST_DIGITS]


def has_placeholder(text: str) -> bool:
    """Does something stand in ``text`` in the place of a secret?"""
    return _PLACEHOLDER.search(text) is not None


def _merged(spans: list[_Span]) -> Iterator[_Span]:
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


def _gaps(text: str) -> Iterator[tuple[int, int]]:
    """What lies between the placeholders of ``text``."""
    start = 0
    for match in _PLACEHOLDER.finditer(text):
        yield start, match.start()
        start = match.end()
    yield start, len(text)


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


def _compiled(name: str, pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidSettings("bad_pattern", name=name, detail=str(error)) from error
    if _repeats_nest(pattern):
        raise InvalidSettings("slow_pattern", name=name, pattern=pattern)
    return compiled


# A repeat without an upper bound that gives back what it took; a possessive one (``++``) does not.
_LOOP = r"(?<![*+}?])(?:[*+]|\{[0-9]*,\})(?!\+)"
_LOOP_IN_LOOP = re.compile(rf"\([^()]*{_LOOP}[^()]*\){_LOOP}")
_ESCAPE_OR_CLASS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_INNERMOST_GROUP = re.compile(r"\(([^()]*)\)")


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


def load_key(path: Path) -> bytes:
    """The key in the file at ``path``; made when missing. Processes that start together agree on one."""
    with wrapping(path):
        if not path.exists():
            _make_key(path)
        content = path.read_bytes()
    if not _KEY_FILE.fullmatch(content):
        raise DamagedStore("mask_key", path=path)
    return bytes.fromhex(content.decode("ascii"))


def _make_key(path: Path) -> None:
    make_private_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    replace_file(temporary, [secrets.token_hex(KEY_BYTES).encode("ascii"), b"\n"])
    try:
        # Unlike a rename, a link never replaces the file of a process that was faster.
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
    sync_folder(path.parent)
