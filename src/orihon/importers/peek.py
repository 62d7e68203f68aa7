"""The beginning of a file, as far as it is JSON: what a format is recognised by.

A head is cut somewhere, often in the middle of the one document that the file is. ``peek`` gives what stands before the
cut: whole lines of JSON Lines, elements of a list, or one object with the fields that are there.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from orihon.system import jsonio

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"\s*")
_ENOUGH = 40  # lines or elements
_DEEP = 8
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


@dataclass(frozen=True)
class Peek:
    """What was found: objects one after the other, the elements of a list or the lines of a file."""

    found: tuple[Mapping[str, Any], ...] = ()
    is_list: bool = False

    @property
    def first(self) -> Mapping[str, Any]:
        return self.found[0] if self.found else {}


@lru_cache(maxsize=4)
def peek(head: bytes) -> Peek:
    """The objects at the beginning of a file; none when it is no JSON."""
    text = head.removeprefix(codecs.BOM_UTF8).decode(_MARKS.get(head[:2], "utf-8"), "ignore").removeprefix("\ufeff")
    start = text.lstrip()
    if start.startswith("["):
        elements = _partial(start, 0, 0)[0] or []
        return Peek(tuple(element for element in elements if isinstance(element, Mapping)), is_list=True)
    if not start.startswith("{"):
        return Peek()
    lines = start.split("\n", _ENOUGH)[:_ENOUGH]
    if _whole(lines[0]) is None:  # one document over many lines, or cut in its only one
        document = _partial(start, 0, 0)[0]
        return Peek((document,) if isinstance(document, Mapping) else ())
    return Peek(tuple(value for line in lines if (value := _whole(line)) is not None))


def _whole(line: str) -> Mapping[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = jsonio.decode(line.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return value if isinstance(value, Mapping) else None


def _partial(text: str, at: int, depth: int) -> tuple[Any, int | None]:
    """The value that begins here, as far as it goes, and where it ends; ``None`` for an end that is cut off."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        pass
    if depth < _DEEP and text[at : at + 1] == "{":
        return _object(text, at + 1, depth), None
    if depth < _DEEP and text[at : at + 1] == "[":
        return _list(text, at + 1, depth), None
    return None, None


def _object(text: str, at: int | None, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    while at is not None:
        try:
            key, at = _DECODER.raw_decode(text, _after(text, at))
        except (ValueError, RecursionError):
            break
        colon = _after(text, at)
        if not isinstance(key, str) or text[colon : colon + 1] != ":":
            break
        found[key], at = _partial(text, _after(text, colon + 1), depth + 1)
        at = _behind_comma(text, at)
    return found


def _list(text: str, at: int | None, depth: int) -> list[Any]:
    found: list[Any] = []
    while at is not None and len(found) < _ENOUGH:
        value, at = _partial(text, _after(text, at), depth + 1)
        found.append(value)
        at = _behind_comma(text, at)
    return found


def _after(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _behind_comma(text: str, at: int | None) -> int | None:
    if at is None:
        return None
    comma = _after(text, at)
    return comma + 1 if text[comma : comma + 1] == "," else None
