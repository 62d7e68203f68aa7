"""The manifest of a backup: which pieces, one after the other, make up which file.

One JSON line for each file, compressed, sorted by task; so two manifests are compared, and one of any length is read,
with bounded memory. A manifest comes from a storage that others may write to: its names become paths, and are checked.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Self, cast

from orihon.guard.mask_key import KEY_FILE
from orihon.system import jsonio
from orihon.system.files import is_tame, wrapping
from orihon.tasks.base import is_id
from orihon.tasks.place import PLACES

#: Stands for the base folder itself where a task's name is expected; sorts after every one of them.
BASE = "~"
#: What of the base folder itself is in a backup: files, and folders. No key that signs or lets somebody in: whoever has
#: made the backup would have it.
BASE_FILES = ("tasks.db", KEY_FILE, "mcp_tools.json")
BASE_FOLDERS = ("archive", "aside", "audit", "keys")
#: Bytes of one entry; a file of a terabyte has some twenty million.
LONGEST_ENTRY = 1 << 28


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of bytes, by its SHA-256."""

    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a backup. ``seen`` tells whether the original has changed since; empty where that is not sure."""

    task: str
    place: str
    name: str
    pieces: tuple[Chunk, ...]
    seen: str = ""

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def path(self) -> str:
        """Where the file is, as seen from the base folder."""
        return self.name if self.task == BASE else f"{self.place}/{self.task}/{self.name}"

    def as_record(self) -> dict[str, Any]:
        pieces = [[piece.sha256, piece.size] for piece in self.pieces]
        return {"task": self.task, "place": self.place, "name": self.name, "pieces": pieces, "seen": self.seen}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> FileEntry:
        """A checked entry; ``ValueError`` for one that no backup of ours has written."""
        try:
            pieces = tuple(Chunk(_digest(sha256), _size(size)) for sha256, size in record["pieces"])
            entry = cls(record["task"], record["place"], record["name"], pieces, str(record.get("seen", "")))
            top, slash, _ = entry.name.partition("/")
            is_of_base = entry.task == BASE and top in (BASE_FOLDERS if slash else BASE_FILES)
            is_placed = is_of_base or (is_id(entry.task) and entry.place in PLACES)
            if not is_placed or not is_tame(entry.name):
                raise ValueError(ascii(entry.name)[:80])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(type(error).__name__) from error
        return entry


def _digest(value: str) -> str:
    if len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise ValueError("digest")
    return value


def _size(value: int) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("size")
    return value


class ManifestWriter:
    """A new manifest in a file; ``close`` it before the file is used."""

    def __init__(self, path: Path) -> None:
        import zstandard

        with wrapping(path):
            self._file = path.open("xb")
        compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
        self._stream = cast("IO[bytes]", compressor.stream_writer(self._file))
        self.files = self.size = self.tasks = 0
        self._task = BASE

    def add(self, entry: FileEntry) -> None:
        self._stream.write(jsonio.encode(entry.as_record()) + b"\n")
        self.files += 1
        self.size += entry.size
        if entry.task not in (BASE, self._task):
            self.tasks += 1
            self._task = entry.task

    def close(self) -> None:
        self._stream.close()  # and the file with it

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_manifest(path: Path) -> Iterator[FileEntry]:
    """The entries of a manifest; ``ValueError`` for anything else."""
    import zstandard

    with wrapping(path), path.open("rb") as file:
        try:
            for line in _lines(zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file)):
                yield FileEntry.from_record(jsonio.decode(line))
        except zstandard.ZstdError as error:
            raise ValueError("ZstdError") from error


def _lines(stream: Any) -> Iterator[bytes]:
    readable: IO[bytes] = stream
    reader = io.BufferedReader(readable)  # type: ignore[type-var]  # it reads, and no more is asked of it
    while line := reader.readline(LONGEST_ENTRY + 1):
        if len(line) > LONGEST_ENTRY:  # a few packed bytes can be any number of bytes
            raise ValueError("too long")
        yield line


class Earlier:
    """The files of an earlier backup, asked for task by task in their order.

    One that is not believed says where files were cut, and not that they are what they were.
    """

    def __init__(self, path: Path | None, *, is_believed: bool = True) -> None:
        entries = iter(()) if path is None else read_manifest(path)
        entries = entries if is_believed else (replace(entry, seen="") for entry in entries)
        self._groups = groupby(entries, key=lambda entry: entry.task)
        self._next: tuple[str, dict[str, FileEntry]] | None = None

    def files_of(self, task: str) -> dict[str, FileEntry]:
        """The files of a task by their names, wherever it was then."""
        while self._next is None or self._next[0] < task:
            group = next(self._groups, None)
            if group is None:
                return {}
            self._next = group[0], {entry.name: entry for entry in group[1]}
        return self._next[1] if self._next[0] == task else {}
