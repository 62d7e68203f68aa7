"""JSON files of others, read so that nothing in them stops the reader: lines one by one, or a document whole.

Takes UTF-8 with or without a mark, and UTF-16 with one. What cannot be read becomes a ``Problem`` with its line. A line
longer than ``LONGEST_LINE`` is passed over without being held in memory.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from orihon.importers.base import Problem
from orihon.system import jsonio

#: Longer lines, and documents, are not read: nobody could keep a message of that size.
LONGEST_LINE = 256 << 20
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_DETAIL = 80
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


def _lines(file: BinaryIO, longest: int) -> Iterator[tuple[int, bytes | Problem]]:
    number = 0
    while line := file.readline(longest + 1):
        number += 1
        if len(line) <= longest:
            yield number, line
            continue
        size = len(line)
        while not line.endswith(b"\n") and (line := file.readline(1 << 20)):
            size += len(line)
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
