"""JSON files of others, read so that nothing in them stops the reader: lines one by one, or a document whole.

Takes UTF-8 with or without a mark, and UTF-16 with one. What cannot be read becomes a ``Problem`` with its line. A line
longer than ``LONGEST_LINE`` is passed over without being held in memory.

Databases of others (``reading_tables``): plain tables are read and nothing else. A view, a virtual table or a computed
column is a program that its author has written, and may run for ever.

The beginning of a file, as far as it is JSON: what a format is recognised by.

A head is cut somewhere, often in the middle of the one document that the file is. ``peek`` gives what stands before the
cut: whole lines of JSON Lines, elements of a list, or one object with the fields that are there.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

import apsw

from orihon.importers.registry import Problem, admit_document, check_bounds, goes_on
from orihon.system import jsonio

#: Longer lines, and documents, are not read: nobody could keep a message of that size.
LONGEST_LINE = 256 << 20
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DETAIL = 80
_LARGE = 1 << 20  # what is smaller is decoded without being looked at first
_BUFFER = 1 << 20  # lines of many kilobytes are common, and one that is cut by the buffer costs twice


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]] | Problem]:
    """The objects of a JSON Lines file with the numbers of their lines, from 1; blank lines are passed over."""
    try:
        with path.open("rb", buffering=_BUFFER) as file:
            for number, line in _lines(_as_utf8(file), LONGEST_LINE):
                found = line if isinstance(line, Problem) else _object(line, number)
                if isinstance(found, dict):
                    yield number, found
                elif found is not None:
                    yield found
    except OSError as error:
        yield Problem("unreadable", fields={"detail": error.strerror or str(error)})


def json_document(path: Path) -> Any | Problem:
    """The value of a JSON file."""
    try:
        with path.open("rb") as file:
            raw = _as_utf8(file).read(LONGEST_LINE + 1)
            if len(raw) > LONGEST_LINE:
                return Problem("too_large", fields={"size": path.stat().st_size, "limit": LONGEST_LINE})
    except OSError as error:
        return Problem("unreadable", fields={"detail": error.strerror or str(error)})
    return _value(raw, 0)


def is_beside(path: Path) -> bool:
    """May this be read along with the file that was found? A link might lead anywhere, and nobody waits for a pipe."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except (OSError, ValueError):
        return False


#: What a database of somebody else's may not do.
_SWITCHED_OFF = (
    apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA,
    apsw.SQLITE_DBCONFIG_ENABLE_VIEW,
    apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER,
    apsw.SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION,
)
_STEPS_BETWEEN_LOOKS = 50_000  # of SQLite's machine: some milliseconds


@contextmanager
def reading_tables(path: Path, *names: str) -> Iterator[apsw.Connection]:
    """A database of somebody else's for looking at its plain tables of these names; ``apsw.Error`` where it has none.

    Where its folder cannot be written to, what nobody has checkpointed yet cannot be seen.
    """
    address = f"file:{quote(os.fsencode(path))}?mode=ro"
    try:
        connection = _guarded(address, names)
    except apsw.CantOpenError:
        connection = _guarded(f"{address}&immutable=1", names)
    try:
        yield connection
    finally:
        connection.close()


def _guarded(address: str, names: tuple[str, ...]) -> apsw.Connection:
    connection = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        for option in _SWITCHED_OFF:
            connection.config(option, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.limit(apsw.SQLITE_LIMIT_LENGTH, LONGEST_LINE)
        # Python is called in between: so Ctrl-C arrives, too.
        connection.set_progress_handler(goes_on, _STEPS_BETWEEN_LOOKS)
        for name in names:
            _refuse_programs(connection, name)
        connection.authorizer = _reading_only(frozenset(names))
    except BaseException:
        connection.close()
        raise
    return connection


def _refuse_programs(connection: apsw.Connection, name: str) -> None:
    found = connection.execute("SELECT type FROM pragma_table_list(?) WHERE schema = 'main'", (name,)).fetchall()
    computed = connection.execute("SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden > 0", (name,)).fetchall()
    if any(kind != "table" for (kind,) in found) or computed:
        raise apsw.SQLError(f"{name}: not a plain table")


def _reading_only(names: frozenset[str]) -> Callable[..., int]:
    def decide(action: int, first: str | None, _column: str | None, _database: str | None, inside: str | None) -> int:
        is_read = action == apsw.SQLITE_READ and first in names and inside is None
        # Functions: those of a column's default, which are harmless ones in a schema that is not trusted.
        is_harmless = action in (apsw.SQLITE_SELECT, apsw.SQLITE_FUNCTION)
        return apsw.SQLITE_OK if is_read or is_harmless else apsw.SQLITE_DENY

    return decide


def _lines(file: BinaryIO, longest: int) -> Iterator[tuple[int, bytes | Problem]]:
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        check_bounds(len(line))
        if len(line) <= longest:
            yield number, line
            continue
        size = len(line)
        while not line.endswith(b"\n") and (line := file.readline(1 << 20)):
            size += len(line)
            check_bounds(len(line))
        yield number, Problem("long_line", number, {"size": size, "limit": longest})


def _object(line: bytes, number: int) -> dict[str, Any] | Problem | None:
    if line.isspace():
        return None
    value = _value(line, number)
    if isinstance(value, dict):
        return value
    if not isinstance(value, Problem):
        return Problem("not_object", number)
    return value if line.endswith(b"\n") else Problem("cut", number)


def _value(raw: bytes, line: int) -> Any | Problem:
    if len(raw) > _LARGE:
        admit_document(raw)
    try:
        return jsonio.decode(raw.removeprefix(codecs.BOM_UTF8), odd_numbers=False)
    except UnicodeDecodeError:
        return Problem("encoding", line)
    except ValueError as error:
        return Problem("not_json", line, {"detail": str(error)[:_DETAIL]})


def _as_utf8(file: BinaryIO) -> BinaryIO:
    """The file as UTF-8; only a mark at its beginning tells another encoding."""
    encoding = _UTF_16.get(file.read(2))
    file.seek(0)
    if encoding is None:
        return file
    return _Recoded(file, encoding)


class _Recoded(io.BufferedReader):
    """A file of another encoding; what is none is marked as such."""

    def __init__(self, file: BinaryIO, encoding: str) -> None:
        super().__init__(_RecodedBytes(codecs.getreader(encoding)(file, "replace")), 1 << 16)


class _RecodedBytes(io.RawIOBase):
    def __init__(self, reader: codecs.StreamReader) -> None:
        self._reader = reader
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._rest:
            text = self._reader.read(1 << 14)
            self._rest = text.removeprefix("\ufeff").encode("utf-8", "replace")
        taken = self._rest[: len(buffer)]
        self._rest = self._rest[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)


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
        return _cut_object(text, at + 1, depth), None
    if depth < _DEEP and text[at : at + 1] == "[":
        return _list(text, at + 1, depth), None
    return None, None


def _cut_object(text: str, at: int | None, depth: int) -> dict[str, Any]:
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
