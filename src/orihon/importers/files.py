"""The files of an import: those that were named, and those in folders that were named, in a fixed order.

Only regular files are opened: nobody waits for a pipe. A link into a folder that is being walked is reported, one into
a folder that was walked already is passed over. Holds the names of one folder at a time.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from orihon.importers.base import HEAD_BYTES, Problem

#: Folders that hold no transcripts, and very many files.
_NOT_WALKED = frozenset({".git", "node_modules"})
_Identity = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file to look at; ``is_named``: somebody asked for just this one."""

    path: Path
    status: os.stat_result
    is_named: bool


@dataclass(frozen=True, slots=True)
class NotFound:
    """A file or folder that cannot be looked at, and why."""

    path: Path
    problem: Problem


class Search:
    """The walk over everything that was named."""

    def __init__(self, paths: Sequence[Path], base_dir: Path) -> None:
        """``base_dir`` is not walked: it has our own files."""
        self._paths = paths
        self._walked: set[_Identity] = set()
        self._own = _identity(base_dir)

    def __iter__(self) -> Iterator[FoundFile | NotFound]:
        for path in self._paths:
            try:
                status = path.stat()
            except (OSError, ValueError) as error:
                yield NotFound(path, _unreadable(error))
                continue
            if stat.S_ISDIR(status.st_mode):
                yield from self._walk(path, ())
            else:
                yield _found(path, status, is_named=True)

    def _walk(self, folder: Path, above: tuple[_Identity, ...]) -> Iterator[FoundFile | NotFound]:
        here = _identity(folder)
        if here is None or here == self._own:
            return
        if here in above:
            yield NotFound(folder, Problem("loop"))
            return
        if here in self._walked:
            return
        self._walked.add(here)
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in entries)
        except OSError as error:
            yield NotFound(folder, _unreadable(error))
            return
        for name in names:
            path = folder / name
            try:
                status = path.stat()
            except OSError as error:
                yield NotFound(path, _unreadable(error))
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield _found(path, status, is_named=False)
            elif name not in _NOT_WALKED:
                yield from self._walk(path, (*above, here))


def _found(path: Path, status: os.stat_result, *, is_named: bool) -> FoundFile | NotFound:
    if not stat.S_ISREG(status.st_mode):
        return NotFound(path, Problem("not_regular"))
    return FoundFile(path, status, is_named)


def head_of(path: Path) -> bytes | Problem:
    """The beginning of a file."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError as error:
        return _unreadable(error)


def total_size(paths: Sequence[Path], base_dir: Path) -> int:
    """Bytes of all files that would be looked at."""
    return sum(found.status.st_size for found in Search(paths, base_dir) if isinstance(found, FoundFile))


def _unreadable(error: OSError | ValueError) -> Problem:
    detail = error.strerror if isinstance(error, OSError) else str(error)
    return Problem("unreadable", fields={"detail": detail or type(error).__name__})


def _identity(path: Path) -> _Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
