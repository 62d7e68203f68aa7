"""``imports.db`` in the base folder: which files were imported, so that one that has not changed is not read again.

Everything in it is derived. It may be deleted at any time; then every file is read again, and nothing new is found.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import apsw

from orihon.drivers.postgres.statements import statements
from orihon.drivers.sqlite import database_errors, open_database
from orihon.errors import DamagedStore

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
        self._connection: apsw.Connection | None = None
        self._read_only = read_only
        if not read_only or self._path.exists():
            self._connection = self._opened()

    def _opened(self) -> apsw.Connection:
        try:
            return open_database(self._path, schema=_statement("schema"), steps=[], timeout=_TIMEOUT, durable=False)
        except DamagedStore:
            if self._read_only:
                raise
            for ending in ("", "-wal", "-shm"):
                with suppress(FileNotFoundError):
                    self._path.with_name(NAME + ending).unlink()
            return open_database(self._path, schema=_statement("schema"), steps=[], timeout=_TIMEOUT, durable=False)

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
        with database_errors(self._path, _TIMEOUT):
            self._connection.execute(_statement("keep_file"), {**self._key(path), **values})

    def forget(self) -> None:
        """Drop what is known of this user's files, from the free pages of the database, too."""
        if self._connection is not None:
            with database_errors(self._path, _TIMEOUT):
                self._connection.execute(_statement("forget_user"), {"user": self._user})
                self._connection.execute("VACUUM")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

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
