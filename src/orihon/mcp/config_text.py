"""A member more in a configuration file, as text: what else stands there, comments too, stays as it is.

JSON is taken as the clients take it: with ``//`` and ``/* */`` comments, and commas before a closing bracket. TOML gets
a table at its end. Whatever was made is read again and compared with what was meant; where the two differ, or the file
is not what it should be, ``CannotMerge`` says why and nothing is made.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_STRINGS = json.JSONDecoder()
_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"-?[A-Za-z0-9+.]+(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": True, "false": False, "null": None}
_DEEPEST = 60
_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


class CannotMerge(ValueError):
    """Why a file is left alone; ``reason`` is one of ``syntax``, ``shape``, ``twice``, ``other`` and ``differs``."""

    def __init__(self, reason: str, place: str = "") -> None:
        super().__init__(reason, place)
        self.reason, self.place = reason, place


# ---- JSON with comments ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Member:
    key: str
    value: Any
    at: int  # where its key begins
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    members: tuple[_Member, ...]
    close: int  # where its closing brace is


class _Json:
    """A text, and what stands where in it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def skip(self, place: int) -> int:
        found = _BLANK.match(self.text, place)
        assert found is not None  # it may be empty
        return found.end()

    def value(self, place: int, depth: int = 0) -> tuple[Any, int]:
        """What stands there, and where it ends."""
        if depth > _DEEPEST:
            raise CannotMerge("syntax", self._line(place))
        mark = self.text[place : place + 1]
        try:
            if mark == '"':
                return _STRINGS.raw_decode(self.text, place)
            if mark == "{":
                found = self.object(place, depth)
                values = {one.key: one.value for one in found.members}
                if len(values) != len(found.members):
                    raise CannotMerge("twice", self._line(place))
                return values, found.close + 1
            if mark == "[":
                return self._array(place, depth)
        except json.JSONDecodeError as error:
            raise CannotMerge("syntax", self._line(place)) from error
        return self._word(place)

    def object(self, place: int, depth: int = 0) -> _Object:
        """The members of the object that begins there."""
        members: list[_Member] = []
        place = self.skip(place + 1)
        while self.text[place : place + 1] != "}":
            if self.text[place : place + 1] != '"':
                raise CannotMerge("syntax", self._line(place))
            at = place
            key, place = self.value(place, depth + 1)
            place = self.skip(place)
            if self.text[place : place + 1] != ":":
                raise CannotMerge("syntax", self._line(place))
            start = self.skip(place + 1)
            value, end = self.value(start, depth + 1)
            members.append(_Member(key, value, at, start, end))
            place = self._next(end, "}")
        return _Object(tuple(members), place)

    def _array(self, place: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        place = self.skip(place + 1)
        while self.text[place : place + 1] != "]":
            one, end = self.value(place, depth + 1)
            found.append(one)
            place = self._next(end, "]")
        return found, place + 1

    def _next(self, end: int, close: str) -> int:
        """Where the next one begins, behind a comma, or the closing bracket."""
        place = self.skip(end)
        if self.text[place : place + 1] == ",":
            return self.skip(place + 1)
        if self.text[place : place + 1] != close:
            raise CannotMerge("syntax", self._line(place))
        return place

    def _word(self, place: int) -> tuple[Any, int]:
        found = _WORD.match(self.text, place)
        if found is None:
            raise CannotMerge("syntax", self._line(place))
        word = found[0]
        try:
            return (_WORDS[word] if word in _WORDS else json.loads(word)), found.end()
        except ValueError as error:
            raise CannotMerge("syntax", self._line(place)) from error

    def whole(self) -> Any:
        """All of it."""
        found, end = self.value(self.skip(0))
        if self.skip(end) != len(self.text):
            raise CannotMerge("syntax", self._line(end))
        return found

    def _line(self, place: int) -> str:
        return str(self.text.count("\n", 0, place) + 1)


def json_with(text: str, section: str, name: str, entry: Mapping[str, Any], *, replace: bool = False) -> str:
    """The text with ``{section: {name: entry}}`` in it; itself where that is there already."""
    mark, body = ("\ufeff", text[1:]) if text.startswith("\ufeff") else ("", text)
    source = _Json(body)
    if source.skip(0) == len(body):  # nothing, or comments alone
        said = json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False)
        return f"{mark}{body.rstrip()}\n{said}\n".lstrip("\n") if body.strip() else f"{mark}{said}\n"
    known = source.whole()
    made = _json_made(source, known, section, name, entry, replace=replace)
    wanted = {**known, section: {**known.get(section, {}), name: dict(entry)}}
    if _Json(made).whole() != wanted:
        raise CannotMerge("differs")
    return mark + made


def _json_made(source: _Json, known: Any, section: str, name: str, entry: Mapping[str, Any], *, replace: bool) -> str:
    if not isinstance(known, dict) or not isinstance(known.get(section, {}), dict):
        raise CannotMerge("shape", section)
    root = source.object(source.skip(0))
    servers = next((one for one in root.members if one.key == section), None)
    if servers is None:
        return _inserted(source.text, root, source.skip(0), section, {name: entry})
    inside = source.object(servers.start)
    there = next((one for one in inside.members if one.key == name), None)
    if there is None:
        return _inserted(source.text, inside, servers.start, name, entry)
    if known[section][name] == dict(entry):
        return source.text
    if not replace:
        raise CannotMerge("other", name)
    said = _indented(entry, _indent_at(source.text, there.at))
    return source.text[: there.start] + said + source.text[there.end :]


def _inserted(text: str, target: _Object, opening: int, key: str, value: Mapping[str, Any]) -> str:
    """One member more, the last one; a comma that stands behind the one before it stays the only one."""
    newline = "\r\n" if "\r\n" in text else "\n"
    outer = _indent_at(text, opening)
    indent = _indent_at(text, target.members[-1].at) if target.members else outer + "  "
    if len(indent) <= len(outer):  # all on one line
        indent = outer + "  "
    member = f"{indent}{json.dumps(key, ensure_ascii=False)}: {_indented(value, indent)}".replace("\n", newline)
    head, rest = text[: target.close].rstrip(), text[target.close :]
    if target.members:
        end = target.members[-1].end
        behind = _BLANK.sub("", head[end:])
        head = head if behind.startswith(",") else head[:end] + "," + head[end:]
    return f"{head}{newline}{member}{newline}{outer}{rest}"


def _indented(value: Mapping[str, Any], indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + indent)


def _indent_at(text: str, place: int) -> str:
    """The white space at the beginning of the line on which something stands."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip())]


# ---- TOML ------------------------------------------------------------------------------------------------------------


def toml_with(text: str, section: str, name: str, entry: Mapping[str, Any], *, replace: bool = False) -> str:
    """The text with the table ``[section.name]``; itself where that is there already."""
    known = _toml(text)
    servers = known.get(section, {})
    if not isinstance(servers, dict):
        raise CannotMerge("shape", section)
    if servers.get(name) == dict(entry):
        return text
    kept = text
    if name in servers:
        if not replace:
            raise CannotMerge("other", name)
        kept = _without_table(text, section, name)
    newline = "\r\n" if "\r\n" in text else "\n"
    values = (f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())
    lines = [f"[{section}.{name}]", *values]
    made = "".join((kept.rstrip(), newline * 2 if kept.strip() else "", newline.join(lines), newline))
    try:
        found = tomllib.loads(made)
    except tomllib.TOMLDecodeError as error:  # the section is closed: an inline table, or dotted keys
        raise CannotMerge("shape", section) from error
    if found != {**known, section: {**servers, name: dict(entry)}}:
        raise CannotMerge("differs")
    return made


def _toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise CannotMerge("syntax", line[1] if line else str(text.count("\n") + 1)) from error


def _without_table(text: str, section: str, name: str) -> str:
    """The text without a table and those below it."""
    quoted = rf"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"
    own = re.compile(rf"^[ \t]*\[[ \t]*{re.escape(section)}[ \t]*\.[ \t]*{quoted}[ \t]*[.\]]", re.MULTILINE)
    while (found := own.search(text)) is not None:
        following = _HEADER.search(text, found.end())
        text = text[: found.start()] + ("" if following is None else text[following.start() :])
    return text
