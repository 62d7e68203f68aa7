"""Secrets that are known by their value: the keys in the environment and in the settings, and what a program registers.

They live in this process alone and are never written; on disk stands only the keyed hash that masks them. Looking for
them takes the same time whether there are twenty or a thousand.

A cache of short texts that were scanned and hold no secret.

Most strings of a message are always the same few: the names of its fields, roles, names of tools. Owns how many of them
are kept and when they have to be scanned again: as soon as a further value is registered as a secret.

What placeholders stand for, in the memory of this process and nowhere else: opt-in (``masking.vault``).

A placeholder is exchanged for its value at the last moment only: in a request on its way to the model, and in the
arguments of a call on their way into the tool. Nothing of it is written, and a new process knows nothing of it.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from ahocorasick_rs import BytesAhoCorasick

from orihon.errors import InvalidSettings
from orihon.guard.masking.judgement import is_env_secret, is_strong
from orihon.system.patterns import lazy_re

if TYPE_CHECKING:
    from orihon.settings import Settings

SHORTEST = 6
_NAME = lazy_re(r"pass(?:word|wd|phrase|code)?$|pwd$|secret|token|credential|(?:^|_)key$|api_?key|_key_|private", re.I)
# Up to so many, each is looked for by itself.
_FEW = 12


class LiveValues:
    """A set of values that only grows; every thread may add and look."""

    def __init__(self) -> None:
        self._values: tuple[str, ...] = ()
        self._automaton: tuple[tuple[str, ...], BytesAhoCorasick | None] = (), None
        self._lock = threading.Lock()

    def add(self, values: Iterable[str]) -> None:
        """Further values, also as they are written in addresses and in JSON."""
        forms = {form for value in values for form in (value, quote(value, safe=""), json.dumps(value)[1:-1])}
        with self._lock:
            if forms.difference(self._values):
                # Longer ones first: what is part of another is found as that.
                self._values = tuple(sorted({*self._values, *forms}, key=lambda value: (-len(value), value)))

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._values)

    def places(self, text: str, start: int, end: int) -> list[tuple[int, int, str]]:
        """Start, end and value of each occurrence."""
        found: list[tuple[int, int, str]] = []
        for value in self._candidates(text[start:end]) if self._values else ():
            place = text.find(value, start, end)
            while place >= 0:
                found.append((place, place + len(value), value))
                place = text.find(value, place + len(value), end)
        return found

    def _candidates(self, text: str) -> Iterable[str]:
        """The values that may be in a text."""
        values = self._values
        if len(values) <= _FEW:
            return values
        known, automaton = self._automaton
        if automaton is None or known is not values:
            automaton = BytesAhoCorasick([value.encode("utf-8", "surrogatepass") for value in values])
            self._automaton = values, automaton
        hits = automaton.find_matches_as_indexes(text.encode("utf-8", "surrogatepass"), overlapping=True)
        return {values[number]: None for number in sorted({number for number, _, _ in hits})}


LIVE = LiveValues()


def register_secret(value: str) -> None:
    """From now on ``value`` is masked wherever it stands, in this process."""
    if len(value.strip()) < SHORTEST:
        raise InvalidSettings("short_secret", least=SHORTEST)
    LIVE.add([value.strip()])


def register_environment(environ: Mapping[str, str]) -> None:
    """The values of the variables whose names say that they are keys. An ordinary word is left out: every text with
    it would be masked."""
    LIVE.add(value.strip() for name, value in environ.items() if _NAME.search(name) and _is_telling(value.strip()))


def register_keys(values: Iterable[str]) -> None:
    """Keys of the settings, unless they are ordinary words."""
    LIVE.add(value.strip() for value in values if _is_telling(value.strip()))


def _is_telling(value: str) -> bool:
    return len(value) >= 8 and (is_strong(value, is_password=False, least=8) or _is_odd_password(value))


def _is_odd_password(value: str) -> bool:
    has_mark = any(not character.isalnum() and character not in "-_./:" for character in value)
    return has_mark and is_env_secret(value, is_password=True)


@lru_cache(maxsize=16)
def register_live(settings: Settings) -> None:
    """The keys that this process has: they are masked wherever they stand."""
    register_environment(os.environ)
    register_keys(settings.secret_values())
    for server in (settings.mcp_servers or {}).values():
        register_environment(_texts_in(server.get("env")))
        register_keys(value.rpartition(" ")[2] for value in _texts_in(server.get("headers")).values())


def _texts_in(told: object) -> dict[str, str]:
    """The values of a server's table as it gets them; what cannot be one is refused by name when it is started."""
    entries = told.items() if isinstance(told, Mapping) else ()
    return {str(name): str(value) for name, value in entries if isinstance(value, str | int | float)}


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


MOST = 10_000
#: What stands in the place of a secret: its kind and a keyed hash.
PLACEHOLDER = lazy_re(r"\[[A-Z][A-Z0-9_]*\]#[0-9a-f]{8,}")


class Vault:
    """Values by their placeholders; the oldest go when there are too many."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()

    def keep(self, placeholder: str, value: str) -> None:
        """Remember what was masked."""
        with self._lock:
            self._values.pop(placeholder, None)
            self._values[placeholder] = value
            while len(self._values) > MOST:
                del self._values[next(iter(self._values))]

    def restored_json(self, text: str) -> str:
        """A JSON text, which stays one, with the values of the placeholders that are known."""

        def written(match: re.Match[str]) -> str:
            value = self._values.get(match[0])
            return match[0] if value is None else json.dumps(value, ensure_ascii=False)[1:-1]

        return PLACEHOLDER.sub(written, text)


VAULT = Vault()
