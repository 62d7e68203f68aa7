"""What the tests must know of a back end: how to open it, and how to look at it and break it from outside."""

from __future__ import annotations

import base64
import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, LiteralString

import apsw

from orihon import MessageStore
from orihon.settings import load_settings
from orihon.store.factory import begin_folder, open_task_store
from tests.services import TASKS_DATABASE


class Backend(ABC):
    """A kind of store. One more back end is one more of these."""

    name: ClassVar[str]
    #: May several processes write at the same time?
    many_writers: ClassVar[bool]
    #: What a writer is told that waits too long for another one.
    busy: ClassVar[str]

    @property
    def label(self) -> str:
        """What other processes know it by."""
        return self.name

    def config(self) -> dict[str, Any]:
        """Settings that choose this back end."""
        return {"context_storage": {"backend": self.name}}

    def open(
        self, folder: Path, *, epoch: int | None = None, masking: dict[str, Any] | None = None, **storage: Any
    ) -> MessageStore:
        """The task in ``folder``, by a store of its own: nothing is shared with other stores of the process."""
        config = self.config()
        config["context_storage"].update(storage)
        settings = load_settings({**config, "masking": masking or {}}, environ={})
        begin_folder(folder, settings)
        task_store = open_task_store(folder, settings, epoch=epoch, base=folder.parent)
        return MessageStore(folder, settings, task_store=task_store)

    @abstractmethod
    def raw_log(self, folder: Path) -> bytes:
        """Every byte of the log, read without the store."""

    @abstractmethod
    def damage(self, folder: Path, number: int, record: bytes) -> None:
        """Put something else in the place of a message's record."""

    @abstractmethod
    def lose(self, folder: Path, number: int) -> None:
        """Take a message's record out of the middle."""

    @abstractmethod
    def forget(self, folder: Path, after: int) -> None:
        """Lose the messages after a number, as a restored backup does."""

    @abstractmethod
    def garble(self, folder: Path, document: str) -> None:
        """Spoil a derived document."""

    def unchanged(self, folder: Path) -> dict[str, str]:
        """What must be the same after a refused change: the log and everything else that is not derived."""
        log = hashlib.sha256(self.raw_log(folder)).hexdigest()
        return {"log": log, "blobs": " ".join(sorted(self.blobs(folder)))}

    def blobs(self, folder: Path) -> dict[str, bytes]:
        """The large contents by their names, read without the store."""
        blobs = folder / "blobs"
        return {path.name: path.read_bytes() for path in blobs.iterdir()} if blobs.exists() else {}

    def put_blob(self, folder: Path, name: str, content: bytes) -> None:
        """Put something else in the place of a large content."""
        (folder / "blobs" / name).write_bytes(content)

    def lose_blob(self, folder: Path, name: str) -> None:
        """Lose a large content."""
        (folder / "blobs" / name).unlink()

    def places_with(self, secret: str, folder: Path) -> list[str]:
        """Where a secret stands, plain or encoded: in what is kept of a task, or in a file beside it."""
        files = [path for path in folder.parent.rglob("*") if path.is_file()]
        return [path.name for path in files if holds(path.read_bytes(), secret)]


def holds(data: bytes, secret: str) -> bool:
    needle = secret.encode()
    return needle in data or base64.b64encode(needle) in data


class FilesBackend(Backend):
    """``files``: JSON Lines."""

    name = "files"
    many_writers = False
    busy = "held"

    def raw_log(self, folder: Path) -> bytes:
        path = folder / "messages.jsonl"
        return path.read_bytes() if path.exists() else b""

    def damage(self, folder: Path, number: int, record: bytes) -> None:
        path = folder / "messages.jsonl"
        lines = path.read_bytes().splitlines()
        lines[number - 1] = record
        path.write_bytes(b"\n".join(lines) + b"\n")

    def lose(self, folder: Path, number: int) -> None:
        path = folder / "messages.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[: number - 1] + lines[number:]))

    def forget(self, folder: Path, after: int) -> None:
        path = folder / "messages.jsonl"
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:after]))

    def garble(self, folder: Path, document: str) -> None:
        (folder / f"{document}.json").write_bytes(b"\xff{not json")


class SqliteBackend(Backend):
    """``sqlite``: one database."""

    name = "sqlite"
    many_writers = True
    busy = "locked"

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

    def lose(self, folder: Path, number: int) -> None:
        self._execute(folder, "DELETE FROM message_records WHERE id = ?", (number,))

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


_CONTENTS: dict[str, LiteralString] = {
    "messages": "SELECT convert_to(record, 'UTF8') FROM message_records WHERE task = %s",
    "summaries": "SELECT convert_to(record, 'UTF8') FROM summary_records WHERE task = %s",
    "tools": "SELECT convert_to(record, 'UTF8') FROM tool_records WHERE task = %s",
    "planning": "SELECT convert_to(record, 'UTF8') FROM plan_records WHERE task = %s",
    "compressions": "SELECT convert_to(record, 'UTF8') FROM compression_records WHERE task = %s",
    "checkpoints": "SELECT convert_to(record, 'UTF8') FROM checkpoint_records WHERE task = %s",
    "documents": "SELECT body FROM documents WHERE task = %s",
    "blobs": "SELECT content FROM blobs WHERE task = %s",
}


class PostgresBackend(Backend):
    """``postgres``: one schema for all tests of a session; tasks are told apart by the names of their folders."""

    name = "postgres"
    many_writers = True
    busy = "server_locked"

    def config(self) -> dict[str, Any]:
        url, schema = os.environ[TASKS_DATABASE].split()
        return {**super().config(), "database": {"url": url, "schema": schema}}

    def raw_log(self, folder: Path) -> bytes:
        rows = self._rows("SELECT id, record FROM message_records WHERE task = %s ORDER BY id", folder)
        return b"".join(b"%d %b\n" % (number, record.encode()) for number, record in rows)

    def damage(self, folder: Path, number: int, record: bytes) -> None:
        # What is no text the server itself would not let in.
        text = record.decode("utf-8", "replace").replace("\0", "?")
        self._change(
            "UPDATE message_records SET record = %s WHERE task = %s AND id = %s", folder, number, first=(text,)
        )

    def lose(self, folder: Path, number: int) -> None:
        self._change("DELETE FROM message_records WHERE task = %s AND id = %s", folder, number)

    def forget(self, folder: Path, after: int) -> None:
        self._change("DELETE FROM message_records WHERE task = %s AND id > %s", folder, after)
        self._change("UPDATE task_logs SET messages = %s WHERE number = %s", folder, first=(after,))

    def garble(self, folder: Path, document: str) -> None:
        statement: LiteralString = "UPDATE documents SET body = %s WHERE task = %s AND name = %s"
        self._change(statement, folder, document, first=(b"\xff{not json",))

    def blobs(self, folder: Path) -> dict[str, bytes]:
        return dict(self._rows("SELECT digest, content FROM blobs WHERE task = %s", folder))

    def put_blob(self, folder: Path, name: str, content: bytes) -> None:
        statement: LiteralString = (
            "INSERT INTO blobs (content, task, digest) VALUES (%s, %s, %s)"
            " ON CONFLICT (task, digest) DO UPDATE SET content = excluded.content"
        )
        self._change(statement, folder, name, first=(content,))

    def lose_blob(self, folder: Path, name: str) -> None:
        self._change("DELETE FROM blobs WHERE task = %s AND digest = %s", folder, name)

    def delete(self, folder: Path) -> None:
        """Remove the task as an administrator might."""
        self._change("DELETE FROM message_records WHERE task = %s", folder)
        self._change("DELETE FROM task_logs WHERE number = %s", folder)

    def places_with(self, secret: str, folder: Path) -> list[str]:
        found = [
            name
            for name, statement in _CONTENTS.items()
            if any(holds(bytes(content), secret) for (content,) in self._rows(statement, folder))
        ]
        return [*super().places_with(secret, folder), *found]

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        import psycopg

        url, schema = os.environ[TASKS_DATABASE].split()
        with psycopg.connect(url, options=f"-c search_path={schema}", autocommit=True) as connection:
            yield connection

    def _rows(self, statement: LiteralString, folder: Path) -> list[tuple[Any, ...]]:
        with self._connection() as connection:
            number = connection.execute("SELECT number FROM task_logs WHERE uuid = %s", (folder.name,)).fetchone()
            return list(connection.execute(statement, number).fetchall()) if number else []

    def _change(self, statement: LiteralString, folder: Path, *last: object, first: tuple[object, ...] = ()) -> None:
        with self._connection() as connection:
            (number,) = connection.execute("SELECT number FROM task_logs WHERE uuid = %s", (folder.name,)).fetchone()
            assert connection.execute(statement, (*first, number, *last)).rowcount


#: The master key of the tests, for all their processes.
MASTER_KEY = "TEST_MASTER_KEY"


class _Sealed(Backend):
    """A back end with encryption at rest."""

    @property
    def label(self) -> str:
        return f"sealed {self.name}"

    def config(self) -> dict[str, Any]:
        os.environ.setdefault(MASTER_KEY, "5a" * 32)
        return {**super().config(), "encryption": {"enabled": True, "key": f"env:{MASTER_KEY}"}}


class SealedFiles(_Sealed, FilesBackend):
    """``files``, sealed."""


class SealedSqlite(_Sealed, SqliteBackend):
    """``sqlite``, sealed."""


class SealedPostgres(_Sealed, PostgresBackend):
    """``postgres``, sealed: large contents are files there."""

    def blobs(self, folder: Path) -> dict[str, bytes]:
        statement: LiteralString = "SELECT name, body FROM documents WHERE task = %s AND starts_with(name, 'blobs/')"
        return dict(self._rows(statement, folder))

    def put_blob(self, folder: Path, name: str, content: bytes) -> None:
        self._change("UPDATE documents SET body = %s WHERE task = %s AND name = %s", folder, name, first=(content,))

    def lose_blob(self, folder: Path, name: str) -> None:
        self._change("DELETE FROM documents WHERE task = %s AND name = %s", folder, name)


ON_DISK: dict[str, Backend] = {backend.name: backend for backend in (FilesBackend(), SqliteBackend())}
BACKENDS: dict[str, Backend] = {**ON_DISK, "postgres": PostgresBackend()}
SEALED: dict[str, Backend] = {backend.label: backend for backend in (SealedFiles(), SealedSqlite(), SealedPostgres())}
