"""A task's folder, and the catalogue, as they were at one moment, read while others write.

A folder is held open, so it may be moved meanwhile. What grows is looked at twice until nothing has grown in between:
then that state existed, up to the last whole record of each stream. Contents and files are listed afterwards, because
a record mentions only what was there before it. A database is copied by SQLite. What is derived, in flight or of this
machine alone is left out; the writer's place is kept as if the writer had left it.

In the copy of the catalogue no task has an owner: whoever works on one now does not own what is restored. Where a task
was taken over before its folder was copied, its epoch follows.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import BinaryIO, Self

import apsw

from orihon.drivers.sqlite import database_errors
from orihon.store.contract import DERIVED
from orihon.store.sqlite_copies import DATABASE, copy_database
from orihon.store.writer_place import NAME as _WRITER
from orihon.store.writer_place import holder_in, line_of
from orihon.system import jsonio
from orihon.system.files import is_tame, is_unfinished, wrapping
from orihon.tasks.base import OpenBase
from orihon.tasks.mirror.mirror import GROWING
from orihon.values.task import TaskStatus, parse_status

_LEFT_OUT = frozenset(
    {
        *("current.jsonl", "request.json", "writer.lock", DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"),
        *(f"{name}.json" for name in DERIVED),
    }
)
_LOOKS = 100
_CHUNK = 1 << 16
#: A file that was changed so shortly before it was looked at may change again without its time showing it.
_SECONDS_TO_SETTLE = 2.0
_NAME = "tasks.db"
_TIMEOUT = 30.0
_READING = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to back up: its first ``size`` bytes."""

    name: str
    file: BinaryIO
    size: int
    seen: str
    is_database: bool = False


class ChangedMeanwhile(Exception):
    """The folder is not what it was when the look began: look again."""


@contextmanager
def task_snapshot(folder: Path, workplace: Path, known: dict[str, str]) -> Iterator[Iterator[SourceFile]]:
    """The files of a task, for the time of the block.

    ``known`` says how files looked to an earlier backup: a database that looks the same is not copied, and comes with
    no contents.
    """
    with ExitStack() as at_end:
        with wrapping(folder):
            place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        at_end.callback(os.close, place)
        yield _files(folder, place, workplace, known, at_end)


def _files(folder: Path, place: int, workplace: Path, known: dict[str, str], at_end: ExitStack) -> Iterator[SourceFile]:
    found = [*_streams(place, at_end), *_database(folder, place, workplace, known, at_end)]
    names = sorted(name for name in _walk(place) if name not in GROWING)
    yield from found
    for name in names:
        if name == _WRITER:
            yield from _writers_place(place)
            continue
        with _opened(name, place) as file:
            yield SourceFile(name, file, os.fstat(file.fileno()).st_size, seen(os.fstat(file.fileno())))


# ---- streams -------------------------------------------------------------------------------------------------------


def _streams(place: int, at_end: ExitStack) -> list[SourceFile]:
    files: dict[str, BinaryIO] = {}
    for name in GROWING:
        with suppress(FileNotFoundError):
            files[name] = at_end.enter_context(_opened(name, place))
    sizes = _sizes(files)
    for _ in range(_LOOKS):
        again = _sizes(files)
        if again == sizes:
            break
        sizes = again
    if any(name not in files and _exists(name, place) for name in GROWING):
        raise ChangedMeanwhile  # the first record of a stream was written in between
    return [_stream(name, files[name], size) for name, size in sizes.items()]


def _sizes(files: dict[str, BinaryIO]) -> dict[str, int]:
    return {name: os.fstat(file.fileno()).st_size for name, file in files.items()}


def _stream(name: str, file: BinaryIO, size: int) -> SourceFile:
    whole = _whole_records(file.fileno(), size)
    status = os.fstat(file.fileno())
    return SourceFile(name, file, whole, seen(status) if status.st_size == whole else "")


def _whole_records(fd: int, size: int) -> int:
    """How many of these bytes are whole lines."""
    position = size
    while position > 0:
        step = min(_CHUNK, position)
        found = os.pread(fd, step, position - step).rfind(b"\n")
        if found >= 0:
            return position - step + found + 1
        position -= step
    return 0


# ---- the database --------------------------------------------------------------------------------------------------


def _database(
    folder: Path, place: int, workplace: Path, known: dict[str, str], at_end: ExitStack
) -> Iterator[SourceFile]:
    if not _exists(DATABASE, place):
        return
    looked = database_seen(folder / DATABASE)
    if looked and known.get(DATABASE) == looked:
        yield SourceFile(DATABASE, BytesIO(), 0, looked, is_database=True)
        return
    copy = workplace / f"{secrets.token_hex(8)}.db"
    at_end.callback(copy.unlink, missing_ok=True)
    copy_database(folder / DATABASE, copy)
    file = at_end.enter_context(copy.open("rb"))
    # Looked at before the copy was made: what came in between makes the next backup copy it again.
    yield SourceFile(DATABASE, file, copy.stat().st_size, looked, is_database=True)


def database_seen(path: Path) -> str:
    """How a database looks, with what is not in its main file yet; without opening it."""
    parts = []
    for ending in ("", "-wal"):
        try:
            parts.append(seen(path.with_name(path.name + ending).stat()))
        except FileNotFoundError:
            parts.append("-")
    return "" if "" in parts else "/".join(parts)


# ---- other files ---------------------------------------------------------------------------------------------------


def _writers_place(place: int) -> Iterator[SourceFile]:
    """``writer.json`` with its epoch, as the writer leaves it when it closes: the copy is nobody's."""
    with suppress(FileNotFoundError), _opened(_WRITER, place) as file:
        data = file.read()
        if (holder := holder_in(data)) is not None:
            data = line_of({**holder, "pid": 0, "token": ""})
        yield SourceFile(_WRITER, BytesIO(data), len(data), "")


def _walk(place: int, prefix: str = "") -> Iterator[str]:
    with os.scandir(place) as entries:
        found = [(entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
    for name, mode in found:
        path = f"{prefix}{name}"
        if path in _LEFT_OUT or is_unfinished(name) or not is_tame(path):
            continue
        if stat.S_ISDIR(mode):
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
            try:
                yield from _walk(below, f"{path}/")
            finally:
                os.close(below)
        elif stat.S_ISREG(mode):
            yield path


def _opened(name: str, place: int) -> BinaryIO:
    # Not to be stopped by a pipe that somebody has put there.
    return os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place), "rb")


def _exists(name: str, place: int) -> bool:
    try:
        os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def seen(status: os.stat_result) -> str:
    """How a file looks; empty when it was changed too shortly ago to tell."""
    if time.time() - status.st_mtime < _SECONDS_TO_SETTLE:
        return ""
    return f"{status.st_ino:x}-{status.st_size:x}-{status.st_mtime_ns:x}"


def read_exactly(source: SourceFile, size: int) -> bytes:
    """The next bytes of a file; fewer mean that its end was taken back meanwhile."""
    data = source.file.read(size)
    if len(data) != size:
        raise ChangedMeanwhile
    return data


class CatalogueCopy:
    """A copy of ``tasks.db``; ``path`` is ``None`` when there is no catalogue."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._epochs: dict[str, int] = {}

    @classmethod
    def of(cls, base: OpenBase, workplace: Path) -> Self:
        """The copy, as of now."""
        if base.open_catalogue() is None:  # brings an old one up to date
            return cls(None)
        path = workplace / f"{secrets.token_hex(8)}-{_NAME}"
        copy_database(base.database, path)
        copy = cls(path)
        with copy._opened() as connection:
            connection.execute("PRAGMA journal_mode = DELETE")  # one file, and none beside it
            connection.execute(statement("free_tasks"))
        return copy

    def statuses(self) -> dict[str, TaskStatus]:
        """Every task that it knows."""
        if self.path is None:
            return {}
        with self._opened() as connection:
            rows = connection.execute(statement("placed_tasks"))
            return {str(uuid): parse_status(str(status)) for uuid, status in rows}

    def notice(self, uuid: str, source: SourceFile) -> None:
        """Remember the epoch that a copied folder has reached."""
        if source.name == "writer.json":
            source.file.seek(0)
            self._reached(uuid, _epoch_in(source.file.read()))
        elif source.name == DATABASE and source.size:
            with closing(opened_copy(Path(source.file.name))) as connection:
                self._reached(uuid, int(connection.execute("SELECT epoch FROM fence").get or 0))

    def _reached(self, uuid: str, epoch: int) -> None:
        self._epochs[uuid] = max(epoch, self._epochs.get(uuid, 0))

    def finished(self) -> Iterator[SourceFile]:
        """The copy as a file, once all tasks have been noticed."""
        if self.path is None:
            return
        with self._opened() as connection:
            raising = statement("raise_epoch")
            with connection:
                for uuid, epoch in self._epochs.items():
                    connection.execute(raising, {"uuid": uuid, "epoch": epoch})
        with self.path.open("rb") as file:
            yield SourceFile(_NAME, file, self.path.stat().st_size, "", is_database=True)

    @contextmanager
    def _opened(self) -> Iterator[apsw.Connection]:
        assert self.path is not None
        with database_errors(self.path, _TIMEOUT), closing(apsw.Connection(str(self.path))) as connection:
            connection.execute("PRAGMA synchronous = OFF")  # it is thrown away
            yield connection


def opened_copy(path: Path) -> apsw.Connection:
    """A database that nobody else has open, to look at."""
    return apsw.Connection(f"file:{path}?immutable=1", flags=_READING)


def statement(name: str) -> str:
    return files("orihon.transfer.backup").joinpath(f"sql/{name}.sql").read_text(encoding="utf-8")


def _epoch_in(place: bytes) -> int:
    try:
        epoch = jsonio.decode(place).get("epoch")
    except (ValueError, AttributeError):
        return 0
    return epoch if type(epoch) is int else 0
