"""What a writer collects between the beginning and the end of a section, and the one statement that writes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from psycopg import Cursor
from psycopg.abc import Params

from orihon.drivers.postgres import statements
from orihon.drivers.postgres.pool import Connection, Postgres
from orihon.store.contract import Pieces, Stream

SQL = statements("orihon.store", "postgres.sql")


class LogRow(NamedTuple):
    """A task's row in ``task_logs``: who may write, and how far each stream has come."""

    number: int
    epoch: int
    version: int
    messages: int
    summaries: int
    tools: int
    planning: int
    compressions: int
    checkpoints: int

    def last(self, stream: Stream) -> int:
        """The number of the stream's last record."""
        return int(getattr(self, stream))


class Section:
    """One section, begun where ``row`` says that the task is.

    With a ``connection`` the row is locked on it; without one, nothing has been sent yet.
    """

    __slots__ = ("appended", "connection", "documents", "row", "thread")

    def __init__(self, row: LogRow, connection: Connection | None = None) -> None:
        self.row = row
        self.connection = connection
        self.thread = threading.get_ident()
        self.appended: list[tuple[Stream, int, str]] = []
        self.documents: dict[str, bytes] = {}

    @property
    def is_empty(self) -> bool:
        """Is there nothing to write?"""
        return not self.appended and not self.documents

    def append(self, stream: Stream, first: int, records: Sequence[Pieces]) -> None:
        """Collect records for the end of the section."""
        for number, record in enumerate(records, start=first):
            self.appended.append((stream, number, b"".join(record).decode()))

    def last(self, stream: Stream) -> int:
        """The last number, with what has been collected."""
        return max((number for one, number, _ in self.appended if one == stream), default=self.row.last(stream))

    def waiting(self, stream: Stream, first: int, last: int) -> Iterator[bytes]:
        """The collected records of a stream between two numbers."""
        return (record.encode() for one, number, record in self.appended if one == stream and first <= number <= last)

    def next_row(self) -> LogRow:
        """The row as it is when everything has been written."""
        reached: dict[str, int] = {stream: number for stream, number, _ in self.appended}
        return self.row._replace(version=self.row.version + 1, **reached)

    def statement(self, *, durable: bool) -> tuple[bytes, Mapping[str, Any]]:
        """What writes everything and is committed by itself; it touches no row when another writer was quicker."""
        values: dict[str, Any] = {**self.row._asdict(), "durable": durable}
        values.update({stream: number for stream, number, _ in self.appended})
        if len(self.appended) == 1 and self.appended[0][0] == "messages" and not self.documents:
            return SQL["append_message"], {**values, "record": self.appended[0][2]}
        return SQL["append"], {
            **values,
            "streams": [stream for stream, _, _ in self.appended],
            "ids": [number for _, number, _ in self.appended],
            "records": [record for _, _, record in self.appended],
            "names": list(self.documents),
            "bodies": list(self.documents.values()),
        }


class Sections(Protocol):
    """Who opens and closes sections."""

    def begin(self, sure: bool) -> bool:
        """Open one; has somebody else written?"""

    def end(self, error: BaseException | None) -> None:
        """Close it, after an error or well."""


class Writing:
    """The block of ``PostgresRecords.writing``: a class, because a generator would cost each append microseconds."""

    __slots__ = ("_records", "_sure")

    def __init__(self, records: Sections, sure: bool) -> None:
        self._records = records
        self._sure = sure

    def __enter__(self) -> bool:
        return self._records.begin(self._sure)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._records.end(error)


def is_kept_in(pool: Postgres, task: str) -> bool:
    """Are there records of this task in the database?"""
    return pool.patiently(lambda connection: find_row(connection, task)) is not None


def rows_of(connection: Connection, name: str, values: Params) -> list[tuple[Any, ...]]:
    """All rows that a statement gives."""
    return connection.execute(SQL[name], values, binary=True).fetchall()


def find_row(connection: Connection, task: str) -> LogRow | None:
    """The task's row as it is now."""
    return found_row(connection.execute(SQL["find"], (task,)))


def found_row(cursor: Cursor[tuple[Any, ...]]) -> LogRow | None:
    """The task's row, if there is one."""
    found = cursor.fetchone()
    return None if found is None else LogRow(*found)
