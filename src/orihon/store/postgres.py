"""The ``postgres`` back end: the records of all tasks in one database, for writers on many machines.

A section collects what it appends and sends it at its end in one statement, which compares the epoch and the version of
the task's row and is its own commit: one round trip for each append. When another writer was quicker, no row is touched
and the section ends in ``LostRace``. A connection that is lost before the answer has come leaves open whether the
statement counts: then the task's row and our record tell, and what was not written is sent again. So nothing that was
acknowledged is lost, and nothing is there twice.

The folder is scratch: the file of the view is written there when somebody asks for it. It may be missing.
"""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg.abc import Params

from orihon.drivers.postgres.errors import is_conflict, is_lost, storage_error
from orihon.drivers.postgres.pool import Connection, Postgres
from orihon.errors import DamagedStore, StaleWriter, StorageError, StorageUnavailable
from orihon.store.contract import (
    DERIVED,
    OPEN_END,
    LostRace,
    OpenRecord,
    Pieces,
    RecordStore,
    Stream,
    StreamRange,
    TornTail,
    check_file_name,
)
from orihon.store.postgres_pages import RecordPage, first_page, records_from
from orihon.store.postgres_section import SQL, LogRow, Section, Writing, find_row, found_row, rows_of
from orihon.system.files import make_private_folder, replace_file

_Result = TypeVar("_Result")


class PostgresRecords(RecordStore):
    """The records of one task in a database; the task is named as its folder is."""

    many_writers = True

    def __init__(self, folder: Path, pool: Postgres, *, durability: str = "full") -> None:
        self._pool = pool
        self._durable = durability == "full"
        self.moved_to(folder)
        self._epoch: int | None = None
        self._row: LogRow | None = None  # as it was when we last saw it
        self._settled = -1  # the version up to which our caller knows everything
        self._section: Section | None = None
        self._is_user = False

    def moved_to(self, folder: Path) -> None:
        self.folder = folder = folder.absolute()  # a program may change its directory
        if folder.exists() and not folder.is_dir():
            raise StorageUnavailable("io", path=folder, detail=os.strerror(errno.ENOTDIR))
        self._task = folder.name
        self._where = f"{self._pool.where} {self._pool.schema} {self._task}"

    # ---- the writer's place ------------------------------------------------------------------------------------

    def claim(self, epoch: int | None = None, *, opened: OpenRecord = bytes) -> tuple[int, list[TornTail]]:
        if not self._is_user:
            self._pool.join()
            self._is_user = True
        row = self._find()
        if row is None or row.epoch < (epoch or 1):
            row = self._make(epoch or 1)
        if epoch is not None and row.epoch > epoch:
            raise self._stale(row)
        self._row, self._epoch, self._settled = row, row.epoch, -1
        return row.epoch, []

    def writing(self, *, sure: bool = False) -> AbstractContextManager[bool]:
        return Writing(self, sure)

    def begin(self, sure: bool) -> bool:
        """Open the section; see ``writing``."""
        if self._epoch is None or self._row is None:
            raise StaleWriter("not_claimed", path=self.folder)
        section = self._locked() if sure else Section(self._row)
        if section.row.epoch != self._epoch:
            self._release(section)
            raise self._stale(section.row)
        self._section = section
        others_wrote = section.row.version != self._settled
        self._settled = section.row.version
        return others_wrote

    def end(self, error: BaseException | None) -> None:
        """Close the section: all of it is written, or nothing."""
        section, self._section = self._section, None
        assert section is not None
        try:
            if error is None:
                self._commit(section)
            elif section.connection is None and isinstance(error, Exception):
                self._doubt(section, error)
        finally:
            self._release(section)

    def close(self) -> None:
        self._epoch = self._row = None
        if self._is_user:
            self._is_user = False
            self._pool.leave()

    def _locked(self) -> Section:
        """A section that has the task for itself; until then nothing was asked that could not be repeated."""
        give_up = self._pool.give_up_at()
        while True:
            connection = self._pool.take(give_up)
            try:
                connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
                row = self._known(found_row(connection.execute(SQL["lock"], (self._task,))))
                return Section(row, connection)
            except psycopg.Error as error:
                self._pool.give_back(connection)
                if not is_lost(error) or time.monotonic() >= give_up:
                    raise self._error(error) from error
            except BaseException:
                self._pool.give_back(connection)
                raise

    def _release(self, section: Section) -> None:
        connection, section.connection = section.connection, None
        if connection is not None:
            self._pool.give_back(connection)

    # ---- the end of a section ----------------------------------------------------------------------------------

    def _commit(self, section: Section) -> None:
        if section.is_empty:
            if section.connection is None:
                self._refuse_stale(self._look())
            return
        give_up = self._pool.give_up_at()
        try:
            is_written = self._send(section, give_up)
        except psycopg.Error as error:
            if is_conflict(error):
                raise LostRace(self._error(error)) from error
            if not is_lost(error):
                raise self._error(error) from error
            self._settle(section, error, give_up)
            return
        if not is_written:
            self._refuse_stale(self._look())
            raise LostRace
        self._advance(section.next_row())

    def _send(self, section: Section, give_up: float) -> bool:
        """The statement of a section; ``False`` when it found the task somewhere else than the section began."""
        statement, values = section.statement(durable=self._durable)
        connection = section.connection or self._pool.take(give_up)
        try:
            is_written = connection.execute(statement, values).rowcount > 0
            if section.connection is not None:
                connection.execute("COMMIT")
            return is_written
        finally:
            if section.connection is None:
                self._pool.give_back(connection)

    def _settle(self, section: Section, error: psycopg.Error, give_up: float) -> None:
        """The connection was lost on the way: find out what the server has done, and send what it has not."""
        self._release(section)
        while True:
            row = self._look(give_up)
            if row.version != section.row.version and self._is_written(section):
                self._advance(section.next_row())
                return
            self._refuse_stale(row)
            if row.version != section.row.version:
                raise LostRace(self._error(error)) from error
            if time.monotonic() >= give_up:
                raise self._error(error) from error
            try:
                # A late twin of this statement does no harm: the version lets only one of them through.
                if self._send(section, give_up):
                    self._advance(section.next_row())
                    return
            except psycopg.Error as again:
                if not is_lost(again):
                    raise self._error(again) from again

    def _is_written(self, section: Section) -> bool:
        """Is our record there, byte for byte? Each message carries something random, so it can only be ours."""
        if not section.appended:
            return False
        said = (one for one in section.appended if one[0] == "messages")
        stream, number, record = next(said, section.appended[0])
        _, rows = self._page([(stream, number, number)])
        return [found for _, _, found in rows] == [record]

    def _doubt(self, section: Section, error: Exception) -> None:
        """A refusal counts only if the task is where we thought; otherwise we judged by what had passed."""
        if isinstance(error, LostRace | StorageUnavailable):
            return
        row = self._look()
        self._refuse_stale(row)
        if row.version != section.row.version:
            raise LostRace from error

    def _advance(self, row: LogRow) -> None:
        self._settled = row.version
        self._known(row)

    def _refuse_stale(self, row: LogRow) -> None:
        if row.epoch != self._epoch:
            raise self._stale(row)

    def _stale(self, row: LogRow) -> StaleWriter:
        return StaleWriter("taken_over", path=self.folder, epoch=row.epoch, pid="?")

    # ---- the task's row ----------------------------------------------------------------------------------------

    def _find(self, give_up: float | None = None) -> LogRow | None:
        """The task's row as it is now."""
        row = self._pool.patiently(lambda connection: find_row(connection, self._task), give_up=give_up)
        return None if row is None else self._known(row)

    def _look(self, give_up: float | None = None) -> LogRow:
        return self._known(self._find(give_up))

    def _known(self, row: LogRow | None) -> LogRow:
        if row is None:
            raise StaleWriter("moved", path=self._where)
        # Other threads look, too: what they saw earlier must not replace what is known.
        known = self._row
        if known is None or known.number != row.number or known.version <= row.version:
            self._row = row
        return row

    def _make(self, epoch: int) -> LogRow:
        values = {"uuid": self._task, "epoch": epoch}
        return self._known(self._pool.patiently(lambda connection: found_row(connection.execute(SQL["claim"], values))))

    def _write(self, name: str, values: Mapping[str, object]) -> None:
        """A statement beside the sections. It looks at number and epoch itself, and gives no row where they differ."""
        row = self._row or self._find() or self._make(0)
        while not self._asked(name, {**values, "number": row.number, "epoch": self._epoch}):
            row = self._look()  # the task has left, or it has come anew under another number
            if self._epoch is not None:
                self._refuse_stale(row)

    # ---- records -----------------------------------------------------------------------------------------------

    def append(self, stream: Stream, first: int, records: Sequence[Pieces], view_lines: Sequence[bytes] = ()) -> None:
        assert self._section is not None
        self._section.append(stream, first, records)

    def rewrite(self, stream: Stream, records: Mapping[int, bytes]) -> None:
        section = self._locked()
        assert section.connection is not None
        try:
            self._refuse_stale(section.row)
            for number, record in records.items():
                section.connection.execute(SQL[f"rewrite_{stream}"], (record.decode(), section.row.number, number))
            section.connection.execute("COMMIT")
        except psycopg.Error as error:
            raise self._error(error) from error
        finally:
            self._release(section)

    def drop_blob(self, digest: str) -> None:
        self._write("drop_blob", {"digest": digest})

    def last(self, stream: Stream) -> int:
        return self.lasts(stream)[0]

    def lasts(self, *streams: Stream) -> tuple[int, ...]:
        section = self._own_section()
        if section is not None:
            return tuple(map(section.last, streams))
        row = self._find()
        return tuple(0 if row is None else row.last(stream) for stream in streams)

    def read(self, stream: Stream, *spans: tuple[int, int]) -> Iterator[bytes]:
        wanted = spans or ((1, OPEN_END),)
        section = self._own_section()
        if section is None or section.last(stream) == section.row.last(stream):
            yield from self._pages([(stream, first, last) for first, last in wanted])
            return
        for first, last in wanted:
            yield from self._pages([(stream, first, last)])
            yield from section.waiting(stream, first, last)

    def read_runs(self, runs: Sequence[StreamRange], *, as_of: int) -> Iterator[bytes] | None:
        section = self._own_section()
        if section is not None and section.appended:
            return None
        head, page = self._page(runs)
        compressions, messages = head
        if compressions != as_of or messages < runs[-1][1] - 1:
            return None
        return self._checked(runs, page)

    def _pages(self, runs: Sequence[StreamRange]) -> Iterator[bytes]:
        return self._checked(runs, self._page(runs)[1])

    def _checked(self, runs: Sequence[StreamRange], page: RecordPage) -> Iterator[bytes]:
        return records_from(self._ask_read, self._task, runs, page, where=self._where)

    def _page(self, runs: Sequence[StreamRange]) -> tuple[tuple[int, int], RecordPage]:
        return first_page(self._ask_read, self._task, runs)

    def _ask_read(self, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        return self._asked("read", values)

    # ---- what is no record -------------------------------------------------------------------------------------

    def write_out(self, name: str, lines: Iterable[bytes]) -> Path:
        path = self.folder / name
        make_private_folder(self.folder)
        replace_file(path, (line + b"\n" for line in lines), durable=False)
        return path

    def save(self, name: str, document: bytes) -> None:
        self.keep_file(name, document)

    def load(self, name: str) -> bytes | None:
        return self.kept_file(name)

    def keep_file(self, name: str, content: bytes) -> None:
        check_file_name(name)
        section = self._own_section()
        if section is not None:
            section.documents[name] = content
            return
        self._write("keep", {"name": name, "body": content})

    def kept_file(self, name: str) -> bytes | None:
        check_file_name(name)
        section = self._own_section()
        if section is not None and name in section.documents:
            return section.documents[name]
        found = self._asked("kept", (self._task, name))
        return bytes(found[0][0]) if found else None

    def drop_file(self, name: str) -> None:
        if self._epoch is not None or self._find() is not None:
            self._write("drop", {"name": name})

    def kept_files(self) -> list[str]:
        return [name for (name,) in self._asked("kept_names", (self._task,)) if name not in DERIVED]

    def put_blob(self, digest: str, data: bytes) -> None:
        self._write("put_blob", {"digest": digest, "content": data})

    def get_blob(self, digest: str) -> bytes:
        found = self._asked("get_blob", (self._task, digest))
        if not found:
            raise DamagedStore("blob_missing", path=f"{self._where} blobs {digest}")
        data = bytes(found[0][0])
        if hashlib.sha256(data).hexdigest() != digest:
            raise DamagedStore("blob_changed", path=f"{self._where} blobs {digest}")
        return data

    def blob_digests(self) -> list[str]:
        return [digest for (digest,) in self._asked("blob_digests", (self._task,))]

    def size(self) -> int:
        return int(self._asked("size", (self._task,))[0][0])

    # ---- asking ------------------------------------------------------------------------------------------------

    def _own_section(self) -> Section | None:
        """The open section, if it is this thread's: others do not see what it has collected."""
        section = self._section
        return section if section is not None and section.thread == threading.get_ident() else None

    def _asked(self, name: str, values: Params) -> list[tuple[Any, ...]]:
        """The rows of a statement that only looks."""
        return self._run(lambda connection: rows_of(connection, name, values))

    def _run(self, action: Callable[[Connection], _Result]) -> _Result:
        """Something that may be done again; on the section's own connection, if it has one."""
        section = self._own_section()
        if section is None or section.connection is None:
            return self._pool.patiently(action)
        try:
            return action(section.connection)
        except psycopg.Error as error:
            problem = self._error(error)
            raise (LostRace(problem) if is_lost(error) else problem) from error

    def _error(self, error: psycopg.Error) -> StorageError:
        return storage_error(error, self._pool.where, self._pool.timeout)
