"""The ``sqlite`` back end: one ``context.db`` per task, in WAL mode, for several writing processes.

Every append is one transaction that first compares the epoch, so a stale writer is refused. One that sleeps inside its
transaction loses the folder (``take_over``). The view is not kept line by line: ``current.jsonl`` is written out when
somebody asks for the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import apsw

from orihon.drivers.connections import ThreadConnections
from orihon.drivers.sqlite import (
    SqliteConnection,
    database_errors,
    open_database,
    retrying,
    storage_error,
    transaction,
    write_anew,
)
from orihon.errors import DamagedStore, StaleWriter, StorageUnavailable
from orihon.store.contract import OPEN_END, OpenRecord, Pieces, Stream, TornTail
from orihon.store.folder_store import FolderStore
from orihon.store.record_check import is_whole
from orihon.store.sqlite_copies import read_fence
from orihon.store.take_over import LOCKED, PATIENCE, can_be_taken, take_away
from orihon.system import jsonio
from orihon.system.clock import process_identity, utc_now
from orihon.system.files import refuse_network_file_system

_TABLES: dict[Stream, str] = {
    "messages": "message_records",
    "summaries": "summary_records",
    "tools": "tool_records",
    "planning": "plan_records",
    "compressions": "compression_records",
    "checkpoints": "checkpoint_records",
}
# Table names are ours; nothing from outside ever becomes part of a statement.
_INSERT = {stream: f"INSERT INTO {table} (id, record) VALUES (?, CAST(? AS TEXT))" for stream, table in _TABLES.items()}
_UPDATE = {stream: f"UPDATE {table} SET record = CAST(? AS TEXT) WHERE id = ?" for stream, table in _TABLES.items()}
_LAST = {stream: f"SELECT max(id) FROM {table}" for stream, table in _TABLES.items()}
_PAGE_OF = {
    stream: f"SELECT id, CAST(record AS BLOB) FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 256"
    for stream, table in _TABLES.items()
}
#: The tables of a new database, and the steps that bring an old one to it; the views of a new one are the last step's.
_SCHEMA = ("context.sql", "context_to_version_2.sql", "context_to_version_3.sql")
# KiB of pages for each connection. A log is written once and read seldom: more would hold old messages in memory.
_CACHE = 256
_KNOWN_WRITERS = 16
_METADATA = "metadata.json"


class SqliteRecords(FolderStore):
    """The records of one task in its ``context.db``."""

    many_writers = True

    def __init__(
        self,
        folder: Path,
        *,
        durability: str = "full",
        timeout: float = 30.0,
        max_retries: int = 3,
        retry_delay: float = 0.5,
        create: bool = False,
    ) -> None:
        """``create`` makes the database, never its folder: a task that moves away would have two of them."""
        refuse_network_file_system(folder)
        self._durable = durability == "full"
        self._create = create
        self.timeout = timeout
        self._max_retries = max_retries
        self._retry_delay = retry_delay
        self.moved_to(folder)
        self._epoch: int | None = None
        self._writer: SqliteConnection | None = None
        self._seen: tuple[SqliteConnection, object] | None = None

    def moved_to(self, folder: Path) -> None:
        self._live_in(folder, durable=self._durable)
        self.path = self.folder / "context.db"
        # Not a method of ours: a reference cycle would keep a forgotten store's connections open.
        self._waits = [self.timeout]  # seconds for others when a connection is opened
        connect = partial(_connect, self.path, self._waits, self._durable, self._create)
        self._connections = ThreadConnections(connect, SqliteConnection.is_usable)

    # ---- connection --------------------------------------------------------------------------------------------

    @contextmanager
    def _connection(self) -> Iterator[SqliteConnection]:
        with self._connections.use() as connection, database_errors(self.path, self.timeout):
            yield connection

    def reading_connection(self) -> SqliteConnection:
        """A read-only connection for people and for tests; rows can be asked by number and by name."""
        with self._connection():
            pass  # there is a database now
        connection = SqliteConnection(self.path, timeout=self.timeout, flags=apsw.SQLITE_OPEN_READONLY)
        connection.row_trace = _named
        return connection

    def close(self) -> None:
        self._connections.close()
        self._held = None
        self._epoch = self._writer = self._seen = None

    # ---- writing -----------------------------------------------------------------------------------------------

    def claim(self, epoch: int | None = None, *, opened: OpenRecord = bytes) -> tuple[int, list[TornTail]]:
        while True:
            self._hold()
            try:
                granted = self._claimed(epoch)
            except StorageUnavailable as error:
                if epoch is None or error.reason not in LOCKED or not self._can_be_taken(epoch):
                    raise
                self._connections.close()
                take_away(self.folder, epoch)
                continue
            self.refuse_taken()
            self._epoch = granted
            return granted, []

    def _claimed(self, epoch: int | None) -> int:
        seconds = self.timeout if epoch is None else min(self.timeout, PATIENCE)
        with self._waiting(seconds) as connection, transaction(connection):
            reached = self._reached_epoch(connection)
            if epoch is not None and epoch < reached:
                raise StaleWriter("taken_over", path=self.folder, epoch=reached, pid="?")
            granted = max(reached, 1) if epoch is None else epoch
            if granted != reached:
                connection.execute("UPDATE fence SET epoch = ?", (granted,))
            _note_writer(connection)
        return granted

    @contextmanager
    def _waiting(self, seconds: float) -> Iterator[SqliteConnection]:
        """A connection that waits so long for others; also for one that keeps everybody out, as it opens or closes."""
        self._waits[0] = seconds
        try:
            with self._connection() as connection:
                connection.wait_for(seconds)
                try:
                    yield connection
                finally:
                    connection.wait_for(self.timeout)
        finally:
            self._waits[0] = self.timeout

    def _can_be_taken(self, epoch: int) -> bool:
        """Has the lease passed all who write here?"""
        if not can_be_taken(self.folder):
            return False
        try:
            return epoch > read_fence(self.path, timeout=PATIENCE)
        except StorageUnavailable as error:
            return error.reason in LOCKED  # also for readers: then the copy will tell

    def writing(self, *, sure: bool = False) -> AbstractContextManager[bool]:
        if self._epoch is None:
            raise StaleWriter("not_claimed", path=self.folder)
        return _Section(self)

    def begin(self) -> bool:
        """Open the section; see ``writing``."""
        connection = self._writer = self._connections.take(is_looked_at=False)
        try:
            retrying(
                connection.begin,
                path=self.path,
                timeout=self.timeout,
                max_retries=self._max_retries,
                retry_delay=self._retry_delay,
            )
            return self._others_wrote(connection)
        except apsw.Error as error:
            self.roll_back()
            raise storage_error(error, self.path, self.timeout) from error
        except BaseException:
            self.roll_back()
            raise

    def _others_wrote(self, connection: SqliteConnection) -> bool:
        # Changes with every commit of another connection, and only then: most appends need not look further.
        seen = connection.execute("PRAGMA data_version").get
        others_wrote = (connection, seen) != self._seen
        if others_wrote:
            reached = self._reached_epoch(connection)
            if reached != self._epoch:
                raise StaleWriter("taken_over", path=self.folder, epoch=reached, pid="?")
            self._seen = (connection, seen)
        return others_wrote

    def commit(self) -> None:
        """What was written in the section counts from now on."""
        assert self._writer is not None
        try:
            self._writer.commit()
        except apsw.Error as error:
            self.roll_back()
            raise storage_error(error, self.path, self.timeout) from error
        except StorageUnavailable as error:
            self.roll_back()
            self.refuse_taken()
            raise (StaleWriter("moved", path=self.folder) if error.reason == "replaced" else error) from error
        except BaseException:
            self.roll_back()
            raise
        self._connections.give_back()

    def roll_back(self) -> None:
        """Nothing of the section was written."""
        assert self._writer is not None
        try:
            self._writer.roll_back()
        finally:
            self._connections.give_back()

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        if self._epoch is None:
            yield
            return
        with self._connection() as connection, nullcontext() if connection.in_transaction else transaction(connection):
            reached = self._reached_epoch(connection)
            if reached != self._epoch:
                raise StaleWriter("taken_over", path=self.folder, epoch=reached, pid="?")
            yield

    @staticmethod
    def _reached_epoch(connection: SqliteConnection) -> int:
        epoch = connection.execute("SELECT epoch FROM fence").get
        if not isinstance(epoch, int):
            raise DamagedStore("database", path=connection.filename, detail="no epoch")
        return epoch

    def append(self, stream: Stream, first: int, records: Sequence[Pieces], view_lines: Sequence[bytes] = ()) -> None:
        assert self._writer is not None
        for number, record in enumerate(records, start=first):
            self._writer.execute(_INSERT[stream], (number, b"".join(record)))

    def rewrite(self, stream: Stream, records: Mapping[int, bytes]) -> None:
        with self.writing():
            assert self._writer is not None
            self._writer.execute("PRAGMA secure_delete = ON")
            for number, record in records.items():
                self._writer.execute(_UPDATE[stream], (record, number))
        with self._connection() as connection:
            # What was replaced must not lie on in the log or in free pages.
            write_anew(connection)

    # ---- reading -----------------------------------------------------------------------------------------------

    def read(self, stream: Stream, *spans: tuple[int, int]) -> Iterator[bytes]:
        for first, last in spans or ((1, OPEN_END),):
            expected = first
            # A page at a time: a reader must not keep a transaction open while its caller thinks.
            while expected <= last:
                with self._connection() as connection:
                    page = connection.rows(_PAGE_OF[stream], (expected, last))
                for number, record in page:
                    if number != expected or record is None:  # no NULL is ever written: only damage brings one about
                        raise DamagedStore("line", path=self.path, number=expected, offset=_TABLES[stream])
                    if not is_whole(record):
                        raise DamagedStore("check", path=self.path, stream=stream, number=number)
                    yield record
                    expected += 1
                if not page:
                    # What was added in this moment is of no interest; what is missing before it is damage.
                    if last < OPEN_END and self._follows(stream, expected):
                        raise DamagedStore("line", path=self.path, number=expected, offset=_TABLES[stream])
                    break

    def _follows(self, stream: Stream, number: int) -> bool:
        """Is there a record behind this number although it is missing itself?"""
        with self._connection() as connection:
            following = connection.rows(_PAGE_OF[stream], (number, OPEN_END))
        return bool(following) and following[0][0] != number

    def last(self, stream: Stream) -> int:
        with self._connection() as connection:
            return int(connection.rows(_LAST[stream])[0][0] or 0)

    def save(self, name: str, document: bytes) -> None:
        with self._connection() as connection, nullcontext() if connection.in_transaction else transaction(connection):
            connection.execute("INSERT OR REPLACE INTO documents VALUES (?, ?)", (name, document))

    def keep_file(self, name: str, content: bytes) -> None:
        super().keep_file(name, content)
        if name == _METADATA and (about := _about(content)):
            self.save("about", about)

    def load(self, name: str) -> bytes | None:
        with self._connection() as connection:
            found = connection.rows("SELECT CAST(body AS BLOB) FROM documents WHERE name = ?", (name,))
        return found[0][0] if found and isinstance(found[0][0], bytes) else None


def _connect(path: Path, waits: Sequence[float], durable: bool, create: bool) -> SqliteConnection:
    if not path.parent.is_dir():
        raise StorageUnavailable("gone", path=path.parent)
    if not path.exists() and path.with_name("writer.json").exists():
        raise StaleWriter("moved", path=path.parent)  # a new, empty database would hide the files of the task
    sql = files("orihon.store").joinpath("sql")
    schema, *steps = (sql.joinpath(name).read_text(encoding="utf-8") for name in _SCHEMA)
    schema += steps[-1]
    connection = open_database(path, schema=schema, steps=steps, timeout=waits[0], durable=durable, create=create)
    connection.execute(f"PRAGMA cache_size = -{_CACHE}")
    return connection


def _note_writer(connection: SqliteConnection) -> None:
    """For people who ask ``process_locks``; what counts is the epoch, and the lease in the catalogue."""
    me = process_identity()
    connection.execute("INSERT OR REPLACE INTO writers VALUES (?, ?, ?)", (str(me.pid), me.host, utc_now()))
    newest = "SELECT process_id FROM writers ORDER BY acquired_at DESC LIMIT ?"
    connection.execute(f"DELETE FROM writers WHERE process_id NOT IN ({newest})", (_KNOWN_WRITERS,))


def _about(metadata: bytes) -> bytes | None:
    """What the view ``metadata`` shows of the file: no names; nothing of one that is sealed."""
    try:
        fields = jsonio.decode(metadata)
        return jsonio.encode({"created_at": fields["created_at"], **fields["config"]})
    except (ValueError, KeyError, TypeError):
        return None


class _Section:
    """The block of ``SqliteRecords.writing``: a class, because a generator would cost each append microseconds."""

    __slots__ = ("_records",)

    def __init__(self, records: SqliteRecords) -> None:
        self._records = records

    def __enter__(self) -> bool:
        return self._records.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._records.commit()
            return
        self._records.roll_back()
        self._records.refuse_taken()
        if isinstance(error, apsw.Error):
            raise storage_error(error, self._records.path, self._records.timeout) from error


class NamedRow(tuple[Any, ...]):
    """A row whose columns can be asked by name, too."""

    names: tuple[str, ...]

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)


def _named(cursor: apsw.Cursor, row: apsw.SQLiteValues) -> NamedRow:
    named = NamedRow(row)
    named.names = tuple(column[0] for column in cursor.get_description())
    return named
