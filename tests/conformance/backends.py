"""What the tests must know of a back end: how to open it, and how to look at it and break it from outside."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import apsw

from orihon.settings import load_settings
from orihon.store import MessageStore
from orihon.store.opening import open_task_store


class Backend(ABC):
    """A kind of store. One more back end is one more of these."""

    name: ClassVar[str]
    #: May several processes write at the same time?
    many_writers: ClassVar[bool]
    #: What a task looks like on disk when its log is unreadable.
    main_file: ClassVar[str]

    def open(
        self, folder: Path, *, epoch: int | None = None, masking: dict[str, Any] | None = None, **storage: Any
    ) -> MessageStore:
        """The task in ``folder``, by a store of its own: nothing is shared with other stores of the process."""
        settings = load_settings(
            {"context_storage": {"backend": self.name, **storage}, "masking": masking or {}}, environ={}
        )
        task_store = open_task_store(folder, settings, key_file=folder.parent / "mask.key", epoch=epoch)
        return MessageStore(folder, settings, task_store=task_store)

    @abstractmethod
    def raw_log(self, folder: Path) -> bytes:
        """Every byte of the log, read without the store."""

    @abstractmethod
    def damage(self, folder: Path, number: int, record: bytes) -> None:
        """Put something else in the place of a message's record."""

    @abstractmethod
    def forget(self, folder: Path, after: int) -> None:
        """Lose the messages after a number, as a restored backup does."""

    @abstractmethod
    def garble(self, folder: Path, document: str) -> None:
        """Spoil a derived document."""

    def unchanged(self, folder: Path) -> dict[str, str]:
        """What must be the same after a refused change: the log and everything else that is not derived."""
        with_log = {"log": hashlib.sha256(self.raw_log(folder)).hexdigest()}
        blobs = folder / "blobs"
        kept = sorted(path.name for path in blobs.iterdir()) if blobs.exists() else []
        return {**with_log, "blobs": " ".join(kept)}


class FilesBackend(Backend):
    """``files``: JSON Lines."""

    name = "files"
    many_writers = False
    main_file = "messages.jsonl"

    def raw_log(self, folder: Path) -> bytes:
        path = folder / "messages.jsonl"
        return path.read_bytes() if path.exists() else b""

    def damage(self, folder: Path, number: int, record: bytes) -> None:
        path = folder / "messages.jsonl"
        lines = path.read_bytes().splitlines()
        lines[number - 1] = record
        path.write_bytes(b"\n".join(lines) + b"\n")

    def forget(self, folder: Path, after: int) -> None:
        path = folder / "messages.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:after]))

    def garble(self, folder: Path, document: str) -> None:
        (folder / f"{document}.json").write_bytes(b"\xff{not json")


class SqliteBackend(Backend):
    """``sqlite``: one database."""

    name = "sqlite"
    many_writers = True
    main_file = "context.db"

    def raw_log(self, folder: Path) -> bytes:
        path = folder / "context.db"
        if not path.exists():
            return b""
        connection = apsw.Connection(str(path))
        try:
            rows = list(connection.execute("SELECT id, CAST(record AS BLOB) FROM message_records ORDER BY id"))
        finally:
            connection.close()
        return b"".join(b"%d %b\n" % row for row in rows)

    def damage(self, folder: Path, number: int, record: bytes) -> None:
        # In the pages of the file: SQLite itself would not let it in. Blanks after a JSON text mean nothing.
        path = folder / "context.db"
        connection = apsw.Connection(str(path))
        old = connection.execute("SELECT CAST(record AS BLOB) FROM message_records WHERE id = ?", (number,)).get
        connection.close()
        pages = path.read_bytes()
        assert old in pages
        path.write_bytes(pages.replace(old, record.ljust(len(old))))

    def forget(self, folder: Path, after: int) -> None:
        self._execute(folder, "DELETE FROM message_records WHERE id > ?", (after,))

    def garble(self, folder: Path, document: str) -> None:
        self._execute(folder, "UPDATE documents SET body = ? WHERE name = ?", (b"\xff{not json", document))

    @staticmethod
    def _execute(folder: Path, statement: str, values: tuple[bytes | str | int, ...]) -> None:
        connection = apsw.Connection(str(folder / "context.db"))
        try:
            connection.execute(statement, values)
            assert connection.changes()
        finally:
            connection.close()


BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (FilesBackend(), SqliteBackend())}
