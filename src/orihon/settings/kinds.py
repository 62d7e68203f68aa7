"""The kinds of value that a setting can hold.

A ``SettingKind`` reads what a YAML file, an environment variable or a caller gives and returns the value, or raises
``ValueError`` when it is none of its kind. Text is taken where another type is wanted, because the
environment and ``${VAR}`` know nothing else. What is allowed is written without words, for every language.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_ADDRESS = re.compile(r"https?://[^\s/?#:]\S*", re.IGNORECASE)
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_PATTERN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


class FrozenMap(Mapping[str, Any]):
    """A mapping that is not changed, but hashed and pickled (``MappingProxyType`` can do neither)."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Any] | None = None) -> None:
        self._items = dict(items or {})

    def __getitem__(self, name: str) -> Any:
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"FrozenMap({self._items!r})"


class BrokenPattern(ValueError):
    """A regular expression that does not compile."""

    def __init__(self, pattern: str, detail: str) -> None:
        super().__init__(pattern, detail)
        self.pattern = pattern
        self.detail = detail


class BrokenEntry(ValueError):
    """A wrong entry of a list or table: where it stands, and what is allowed there."""

    def __init__(self, where: str, allowed: str) -> None:
        super().__init__(where, allowed)
        self.where = where
        self.allowed = allowed


class Reach(StrEnum):
    """What a setting can do beyond the folder of a file that says it: a file that is merely found has none of it."""

    NONE = "none"  # a number, a switch, a word: obeyed from anybody
    PROGRAM = "program"  # names what is run or loaded
    ADDRESS = "address"  # says who gets data or keys
    PLACE = "place"  # a file or folder; inside the folder of the configuration it is harmless
    KEY = "key"  # whoever gave it sees what is done with it
    WORDS = "words"  # a model is told to follow them
    GUARD = "guard"  # takes a protection away, or data
    LIMIT = "limit"  # a number that protects; narrower than by default it takes nothing away


@dataclass(frozen=True, slots=True)
class SettingKind:
    """One kind of value; ``InvalidSettings`` explains a refusal under the reason ``not_<name>``."""

    name: str
    read: Callable[[object], object]
    allowed: str = ""
    empty_is_unset: bool = True  # where the setting may be unset at all
    reach: Reach | None = Reach.NONE  # None: may be anything, so that each setting has to say


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: float
    high: float | None
    low_is_open: bool

    def __contains__(self, number: float) -> bool:
        enough = number > self.low if self.low_is_open else number >= self.low
        return enough and (self.high is None or number <= self.high)

    def __str__(self) -> str:
        if self.high is None:
            return f"x {'>' if self.low_is_open else '≥'} {self.low:g}"
        return f"{self.low:g} {'<' if self.low_is_open else '≤'} x ≤ {self.high:g}"


def whole(low: int, high: int | None = None) -> SettingKind:
    """A whole number from ``low`` to ``high``."""
    bounds = _Bounds(low, high, low_is_open=False)

    def read(raw: object) -> int:
        number = _integer(raw)
        if number not in bounds:
            raise ValueError(number)
        return number

    return SettingKind("whole", read, str(bounds))


def number(*, above: float | None = None, low: float = 0.0, high: float | None = None) -> SettingKind:
    """A finite number greater than ``above`` (or not less than ``low``) and at most ``high``."""
    bounds = _Bounds(low if above is None else above, high, low_is_open=above is not None)

    def read(raw: object) -> float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ValueError(raw)
        try:
            value = float(raw)
        except OverflowError as error:
            raise ValueError(raw) from error
        if not math.isfinite(value) or value not in bounds:
            raise ValueError(value)
        return value

    return SettingKind("number", read, str(bounds))


def choice(*names: str, aliases: Mapping[str, str] | None = None) -> SettingKind:
    """One of ``names``, in capitals or not; ``aliases`` are other words for them."""
    known = {name.casefold(): name for name in names} | dict(aliases or {})

    def read(raw: object) -> str:
        word = _text(raw).strip().casefold()
        if word not in known:
            raise ValueError(raw)
        return known[word]

    return SettingKind("choice", read, ", ".join(names))


def address(*schemes: str) -> SettingKind:
    """An address of a service: ``scheme://…``."""

    def read(raw: object) -> str:
        place = _text(raw).strip()
        scheme, separator, _ = place.partition("://")
        if not separator or scheme.casefold() not in schemes or not place.isprintable() or " " in place:
            raise ValueError(raw)
        return place

    return SettingKind("url", read, ", ".join(f"{scheme}://…" for scheme in schemes), reach=Reach.ADDRESS)


def identifier(*, reserved: tuple[str, ...] = ()) -> SettingKind:
    """A name in a database or a queue; it does not begin with one of those that are ``reserved``."""

    def read(raw: object) -> str:
        name = _text(raw).strip()
        if not _IDENTIFIER.fullmatch(name) or name.startswith(reserved):
            raise ValueError(raw)
        return name

    return SettingKind("identifier", read, "a-z, 0-9, _" + "".join(f"; ≠ {name}…" for name in reserved))


def language(*codes: str) -> SettingKind:
    """One of the language ``codes``; a locale such as ``ja_JP.UTF-8`` says one too."""
    code = choice(*codes)
    return SettingKind(code.name, lambda raw: code.read(re.split(r"[-_.]", _text(raw))[0]), code.allowed)


def _integer(raw: object) -> int:
    if isinstance(raw, bool):
        raise ValueError(raw)
    if isinstance(raw, int):
        return raw
    if isinstance(raw, float) and raw.is_integer():
        return int(raw)
    return int(_text(raw))


def _text(raw: object) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError(raw)
    return raw


def _flag(raw: object) -> bool:
    word = str(raw).strip().lower() if isinstance(raw, bool | int | str) else ""
    if word not in _TRUE | _FALSE:
        raise ValueError(raw)
    return word in _TRUE


def _url(raw: object) -> str:
    address = _text(raw).strip()
    if not _ADDRESS.fullmatch(address):
        raise ValueError(raw)
    return address


def _path(raw: object) -> Path:
    name = _text(os.fspath(raw) if isinstance(raw, os.PathLike) else raw)
    if "\0" in name:
        raise ValueError(raw)
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # no such user, or no home folder
        raise ValueError(raw) from error


def _pattern(raw: object) -> str:
    pattern = _text(raw)
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise BrokenPattern(pattern, str(error)) from error
    return pattern


def parsed(raw: object) -> object:
    """``raw``, which as text (the environment has no lists) is JSON."""
    if not isinstance(raw, str):
        return raw
    try:
        return json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _pattern_list(raw: object) -> tuple[str, ...]:
    patterns = parsed(raw)
    if not isinstance(patterns, list | tuple):
        raise ValueError(raw)
    return tuple(_pattern(pattern) for pattern in patterns)


def _name_list(raw: object) -> tuple[str, ...]:
    names = parsed(raw)
    if not isinstance(names, list | tuple):
        raise ValueError(raw)
    return tuple(_text(name).strip() for name in names)


def _servers(raw: object) -> Any:
    """Servers by name. In a list each has its name in it, as the first designs write them."""
    servers = parsed(raw)
    entries = list(servers.values()) if isinstance(servers, Mapping) else servers
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, Mapping) for entry in entries):
        raise ValueError(raw)
    if not isinstance(servers, Mapping):
        names = [str(entry.get("mcp_server_name", entry.get("name", ""))) for entry in entries]
        if not all(names) or len({*names}) < len(names):
            raise ValueError(raw)
        bare = ({key: entry[key] for key in entry if key not in ("mcp_server_name", "name")} for entry in entries)
        servers = dict(zip(names, bare, strict=True))
    return _frozen(servers) if servers else None


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return FrozenMap({str(name): _frozen(item) for name, item in value.items()})
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value


def _pattern_map(raw: object) -> FrozenMap:
    patterns = parsed(raw)
    if not isinstance(patterns, Mapping):
        raise ValueError(raw)
    if not all(isinstance(name, str) and _PATTERN_NAME.fullmatch(name) for name in patterns):
        raise ValueError(raw)
    return FrozenMap({name: _pattern(pattern) for name, pattern in patterns.items()})


FLAG = SettingKind("flag", _flag, "true, false")
TEXT = SettingKind("text", _text, reach=None)
SECRET = SettingKind("text", _text, empty_is_unset=False, reach=Reach.KEY)  # to lose one must not go unnoticed
URL = SettingKind("url", _url, "http://…, https://…", reach=Reach.ADDRESS)
PATH = SettingKind("path", _path, reach=Reach.PLACE)
NAME_LIST = SettingKind("name_list", _name_list, reach=None)
SERVERS = SettingKind("servers", _servers, reach=Reach.PROGRAM)
PATTERN_LIST = SettingKind("pattern_list", _pattern_list, reach=None)
PATTERN_MAP = SettingKind("pattern_map", _pattern_map, reach=None)
