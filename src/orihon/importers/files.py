"""The files of an import: those that were named, and those in folders that were named, in a fixed order.

Only regular files are opened: nobody waits for a pipe. A link is followed only where it was named itself: inside a
folder it might lead anywhere on the machine. One that leads out of what was named, or back into a folder that contains
it, is reported; any other is passed over, since what it leads to is found by itself. Holds the names of one folder at a
time.

``imports.db`` in the base folder: which files were imported, so that one that has not changed is not read again.

Everything in it is derived. It may be deleted at any time; then every file is read again, and nothing new is found.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from orihon.drivers.postgres import statements
from orihon.drivers.sqlite import SqliteConnection, database_errors, open_database, transaction, write_anew
from orihon.errors import DamagedStore
from orihon.importers.registry import HEAD_BYTES, Problem

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
        self._roots = [Path(os.path.realpath(path)) for path in paths]

    def __iter__(self) -> Iterator[FoundFile | NotFound]:
        for path in self._paths:
            try:
                status = path.stat()
            except (OSError, ValueError) as error:
                yield NotFound(path, _unreadable(error))
                continue
            if stat.S_ISDIR(status.st_mode):
                yield from self._walk(path)
            else:
                yield _found(path, status, is_named=True)

    def _walk(self, folder: Path) -> Iterator[FoundFile | NotFound]:
        here = _identity(folder)
        if here is None or here == self._own or here in self._walked:
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
                status = path.lstat()
                if stat.S_ISLNK(status.st_mode):
                    yield from self._link(path)
                    continue
            except OSError as error:
                yield NotFound(path, _unreadable(error))
                continue
            if not stat.S_ISDIR(status.st_mode):
                yield _found(path, status, is_named=False)
            elif name not in _NOT_WALKED:
                yield from self._walk(path)

    def _link(self, path: Path) -> Iterator[NotFound]:
        """Why what a link leads to is not read, where that has to be said."""
        goal = Path(os.path.realpath(path, strict=True))
        if not any(goal.is_relative_to(root) for root in self._roots):
            yield NotFound(path, Problem("outside", fields={"goal": str(goal)}))
        elif Path(os.path.realpath(path.parent)).is_relative_to(goal):
            yield NotFound(path, Problem("loop"))


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


NAME = "imports.db"
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class FileFingerprint:
    """What tells a changed file from an unchanged one without reading it whole."""

    size: int
    modified: int  # in nanoseconds
    head: bytes  # a hash

    @classmethod
    def of(cls, path: Path, status: os.stat_result, head: bytes) -> FileFingerprint:
        if head.startswith(b"SQLite format 3\0"):  # what is new may stand beside the database for a while
            with suppress(OSError):
                beside = path.with_name(f"{path.name}-wal").stat()
                head += b"%d %d" % (beside.st_size, beside.st_mtime_ns)
        return cls(status.st_size, status.st_mtime_ns, blake2b(head, digest_size=16).digest())


class SeenFiles:
    """The files that were read whole."""

    def __init__(self, base_dir: Path, user: str, *, read_only: bool) -> None:
        self._path = base_dir / NAME
        self._user = user
        self._connection: SqliteConnection | None = None
        self._read_only = read_only
        if not read_only or self._path.exists():
            self._connection = self._opened()

    def _opened(self) -> SqliteConnection:
        try:
            return self._database()
        except DamagedStore:
            if self._read_only:
                raise
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    self._path.with_name(NAME + ending).unlink()
            return self._database()

    def _database(self) -> SqliteConnection:
        schema = _statement("schema")
        return open_database(
            self._path, schema=schema, steps=[], timeout=_TIMEOUT, durable=False, create=True, shared=True
        )

    def task_of(self, path: Path, fingerprint: FileFingerprint, form: str | None) -> str | None:
        """A task that the file became, if its fingerprint is the same; ``form``: if it was read as that."""
        if self._connection is None:
            return None
        with database_errors(self._path, _TIMEOUT):
            row = self._connection.execute(_statement("file"), self._key(path)).fetchone()
        if row is None:
            return None
        was, size, modified, head, task = row
        is_same = FileFingerprint(size, modified, head) == fingerprint and form in (None, was)
        return str(task) if is_same else None

    def keep(self, path: Path, fingerprint: FileFingerprint, form: str, task: str) -> None:
        """The file was read whole."""
        if self._read_only or self._connection is None:
            return
        values: dict[str, bytes | str | int] = {
            "format": form,
            "size": fingerprint.size,
            "modified": fingerprint.modified,
            "head": fingerprint.head,
            "task": task,
        }
        with database_errors(self._path, _TIMEOUT), transaction(self._connection):
            self._connection.execute(_statement("keep_file"), {**self._key(path), **values})

    def forget(self) -> None:
        """Drop what is known of this user's files, from the free pages of the database, too."""
        if self._connection is not None:
            with database_errors(self._path, _TIMEOUT):
                with transaction(self._connection):
                    self._connection.execute(_statement("forget_user"), {"user": self._user})
                write_anew(self._connection)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _key(self, path: Path) -> dict[str, bytes | str]:
        # Names of files may hold what must not be written.
        place = blake2b(os.fsencode(path.absolute()), digest_size=32).digest()
        return {"path": place, "user": self._user}


def forget_imports(base_dir: Path, user: str) -> None:
    """Nothing says any more which files were imported for a user."""
    if not (base_dir / NAME).exists():
        return
    seen = SeenFiles(base_dir, user, read_only=False)
    try:
        seen.forget()
    finally:
        seen.close()


def _statement(name: str) -> str:
    return statements("orihon.importers", "imports.sql")[name].decode()
