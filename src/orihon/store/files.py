"""The ``files`` back end: JSON Lines that people read with ``cat`` and ``jq``.

One writer. Its place is a small file, ``writer.json``, that says who writes and with which epoch; it is locked for
every append and compared, so a writer that has been taken over is refused at its next append however long it slept.
One that sleeps with the lock loses the folder (``take_over``): a writer works in the folder that it has claimed.
The line of the view goes to ``current.jsonl`` before the record goes to the log, unsynced: the log decides, and a
line too many or too few is put right at the next claim.

Until its first record a task promises nothing that the catalogue does not hold. What lies in its folder by then, and
the folder's name, reach the disk with that record (``_found``): a new task waits for the disk once, not six times.
"""

from __future__ import annotations

import fcntl
import logging
import os
import secrets
import stat
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

from orihon.errors import DamagedStore, StaleWriter, TaskBusy
from orihon.store.append_handle import AppendHandle
from orihon.store.contract import NUMBER_FIELD, SETTLED, STREAMS, OpenRecord, Pieces, Stream, TornTail, ViewFile
from orihon.store.documents import save_document
from orihon.store.folder_store import AllLines, FolderStore, FormerView
from orihon.store.jsonl import ENDS, GONE, JsonlFile, lost_end, settled_sizes
from orihon.store.take_over import PATIENCE, can_be_taken, take_away
from orihon.store.writer_place import MOST_BYTES, NOBODY, highest_epoch, holder_in, line_of
from orihon.store.writer_place import NAME as WRITER
from orihon.system import jsonio
from orihon.system.clock import is_alive, process_identity
from orihon.system.files import (
    is_regular,
    keep_aside,
    make_way,
    named,
    open_private,
    refuse_network_file_system,
    replace_file,
    replacing_file,
    storage_error,
    sync_file,
    sync_folder,
    wrapping,
    write_all,
)
from orihon.system.holding import held_too_long, is_locked_within, lock_file

logger = logging.getLogger("orihon.store")

#: Who writes is not known: the line is empty, or cannot be read.
LOST: Mapping[str, Any] = {**NOBODY, "pid": "?"}

_METADATA = "metadata.json"

_WRITERS: weakref.WeakValueDictionary[str, FilesRecords] = weakref.WeakValueDictionary()


class FilesRecords(FolderStore, ViewFile):
    """The records of one task as JSON Lines in its folder."""

    many_writers = False

    def __init__(self, folder: Path, *, durability: str = "full", lock_timeout: float = 30.0) -> None:
        """The folder is whoever's who begins the task: made here, one that moves away would have two of them."""
        refuse_network_file_system(folder)
        self._durable = durability == "full"
        self._lock_timeout = lock_timeout
        self._patience = min(lock_timeout, PATIENCE)
        self.moved_to(folder)
        self._lock_fd = -1
        self._life_fd = -1
        self._place = b""  # our line in writer.json while we are the writer
        self._pid = 0
        self._granted = 0  # the epoch of our claim
        self._in_section = 0  # the thread that is in one
        self._handles: dict[str, AppendHandle] = {}
        self._written: list[AppendHandle] = []  # in the section that is open
        self._is_unfounded = False  # no record is there yet, and so nothing has to last
        self._has_founded = False  # it was us who wrote the first one

    def moved_to(self, folder: Path) -> None:
        self._live_in(folder, durable=self._durable)
        self._files = {stream: JsonlFile(self.folder / f"{stream}.jsonl", NUMBER_FIELD[stream]) for stream in STREAMS}

    @property
    def _root(self) -> Path:
        """The folder that was claimed, whatever has its name meanwhile."""
        assert self._held is not None
        return self._held.path

    def _file(self, stream: Stream) -> JsonlFile:
        """A stream to be read: under its name, or, for a writer whose folder was moved, in that folder."""
        held = self._held
        if held is None or held.is_at(self.folder):
            return self._files[stream]
        return JsonlFile(held.path / f"{stream}.jsonl", NUMBER_FIELD[stream])

    # ---- the writer's place ------------------------------------------------------------------------------------

    def claim(self, epoch: int | None = None, *, opened: OpenRecord = bytes) -> tuple[int, list[TornTail]]:
        self._lock_place(epoch)
        try:
            holder = self._holder()
            if holder is LOST:
                holder = self._holder_by_records(opened, epoch)
            self._is_unfounded = self._durable and self._has_no_record()
            granted = self._granted = self._granted_epoch(holder, epoch)
            me = process_identity()
            token = secrets.token_hex(8)
            _WRITERS[token] = self
            self._write_place({"epoch": granted, **asdict(me), "token": token})
            self._pid = me.pid
            self._hold_life_lock()
            torn = [tail for stream in STREAMS if (tail := self._cut_torn_tail(stream))]
            self._settle()
            return granted, torn
        finally:
            self._unlock()

    def _has_no_record(self) -> bool:
        with wrapping(self._root):
            return not any(_size(self._root / f"{stream}.jsonl") for stream in STREAMS)

    def _lasts_alone(self, name: str) -> bool:
        return not (self._is_unfounded and name == _METADATA)

    def _found(self) -> None:
        """The first record was written: what it stands on reaches the disk before it is acknowledged."""
        for name in (_METADATA, WRITER):
            with suppress(FileNotFoundError):
                sync_file(self._root / name)
        self._sync_written()
        sync_folder(self._root)
        sync_folder(self.folder.parent)
        self._is_unfounded, self._has_founded = False, True

    def _lock_place(self, epoch: int | None) -> None:
        """Lock ``writer.json`` in the folder that has the task's name; who keeps it beyond its lease loses that."""
        while True:
            self._open_place()
            is_late = epoch is not None and not is_locked_within(self._lock_fd, self._patience)
            if epoch is not None and is_late and epoch > self._holder()["epoch"] and can_be_taken(self.folder):
                take_away(self.folder, epoch)
                continue
            self._lock()
            if self._held is not None and self._held.is_in_place():
                return

    def _open_place(self) -> None:
        self._drop_handles()
        root = self._hold().path
        make_way(root / WRITER, root)
        with wrapping(root):
            if (root / "context.db").exists():
                raise StaleWriter("moved", path=self.folder)
            self._lock_fd = open_private(root / WRITER, os.O_RDWR | os.O_CREAT)

    def writing(self, *, sure: bool = False) -> AbstractContextManager[bool]:
        if not self._is_writer():
            raise StaleWriter("not_claimed", path=self.folder)
        return _Section(self)

    def begin(self) -> None:
        """Open the section; see ``writing``."""
        self._lock()
        self._in_section = threading.get_ident()
        if os.pread(self._lock_fd, MOST_BYTES, 0) != self._place:
            holder = self._holder()
            self._in_section = 0
            self._drop_handles()  # and the lock with them
            raise StaleWriter("taken_over", path=self.folder, epoch=holder["epoch"], pid=holder["pid"])

    def end(self, failed: bool) -> None:
        """Close the section: what was written in it stays, or none of it."""
        try:
            if failed:
                self._roll_back()
        finally:
            self._in_section = 0
            self._unlock()
        self._sync()
        self.refuse_taken()

    def close(self) -> None:
        try:
            if self._is_writer():
                with suppress(StaleWriter), self.writing():
                    self._settle()
                    self._write_place({**jsonio.decode(self._place), "pid": 0, "token": ""})
        finally:
            self._drop_handles()
            self._held = None

    def _granted_epoch(self, holder: Mapping[str, Any], epoch: int | None) -> int:
        reached: int = holder["epoch"]
        if epoch is not None and epoch < reached:
            raise StaleWriter("taken_over", path=self.folder, epoch=reached, pid=holder["pid"])
        if (epoch is None or epoch == reached) and self._is_at_work(holder):
            raise TaskBusy("writer", path=self.folder, host=holder["host"], pid=holder["pid"])
        return reached + 1 if epoch is None else epoch

    def _is_at_work(self, holder: Mapping[str, Any]) -> bool:
        me = process_identity()
        if not holder["pid"] or holder["boot"] != me.boot:
            return False
        if (holder["host"], holder.get("space", me.space)) != (me.host, me.space):
            return not self._hold_life_lock()  # its process cannot be seen from here, but the kernel knows
        if (holder["pid"], holder["start"]) == (me.pid, me.start):
            other = _WRITERS.get(holder["token"])
            return other is not None and other is not self
        return is_alive(holder["pid"], holder["start"])

    def _hold_life_lock(self) -> bool:
        """Take a lock that the kernel drops when this process ends; ``False`` when another one lives."""
        path = self._root / "writer.lock"
        with wrapping(path):
            if self._life_fd < 0:
                make_way(path, self._root)
                self._life_fd = open_private(path, os.O_RDWR | os.O_CREAT)
            try:
                fcntl.flock(self._life_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def _holder(self) -> Mapping[str, Any]:
        raw = os.pread(self._lock_fd, MOST_BYTES, 0)
        return (holder_in(raw) if raw else None) or LOST

    def _holder_by_records(self, opened: Callable[[bytes], bytes], epoch: int | None) -> Mapping[str, Any]:
        """Nobody, with the epoch that the records have reached; a line that cannot be read is kept aside."""
        raw = os.pread(self._lock_fd, MOST_BYTES, 0)
        if raw:
            if epoch is None and not self._hold_life_lock():
                raise TaskBusy("writer", path=self.folder, host="?", pid="?")
            kept = named(keep_aside(self._root, WRITER, raw))
            logger.warning("%s: %s could not be read; it is made anew, and kept in %s", self.folder.name, WRITER, kept)
        return {**NOBODY, "epoch": highest_epoch(self._files["messages"].path, opened)}

    def _write_place(self, holder: Mapping[str, Any]) -> None:
        place = line_of(holder)
        self._place = b""  # what stands there is not known until all of it is written
        with wrapping(self._root / WRITER):
            # Blanks over the end of a longer line: also who dies before it is cut off leaves a line that can be read.
            write_all(self._lock_fd, place.ljust(os.fstat(self._lock_fd).st_size), 0)
            os.ftruncate(self._lock_fd, len(place))
            if self._durable and not self._is_unfounded:
                os.fsync(self._lock_fd)
        self._place = place

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        held = self._held
        if held is None or self._in_section == threading.get_ident():
            yield
            return
        # Opened anew: a section of another thread keeps its own lock.
        with wrapping(self.folder / WRITER), (held.path / WRITER).open("rb") as place:
            lock_file(place.fileno(), self.folder / WRITER, seconds=self._lock_timeout)
            holder = holder_in(place.read(MOST_BYTES))
            if holder is not None and holder["epoch"] > self._granted:
                raise StaleWriter("taken_over", path=self.folder, epoch=holder["epoch"], pid=holder["pid"])
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._lock()
        try:
            yield
        finally:
            self._unlock()

    def _lock(self) -> None:
        if not is_locked_within(self._lock_fd, self._lock_timeout):
            raise held_too_long(self.folder / WRITER, self._lock_timeout)

    def _unlock(self) -> None:
        if self._lock_fd >= 0:
            fcntl.flock(self._lock_fd, fcntl.LOCK_UN)

    def _cut_torn_tail(self, stream: Stream) -> TornTail | None:
        file = JsonlFile(self._root / f"{stream}.jsonl", NUMBER_FIELD[stream])
        torn = file.torn_tail()
        if not torn:
            return None
        kept_in = named(keep_aside(self._root, file.path.name, torn))
        with wrapping(file.path), os.fdopen(open_private(file.path, os.O_RDWR), "r+b") as opened:
            os.ftruncate(opened.fileno(), os.fstat(opened.fileno()).st_size - len(torn))
        return TornTail(stream, len(torn), kept_in)

    def _settle(self) -> None:
        """All that the files hold is on the disk, and noted: from here on it is never taken for unfinished.

        The note itself need not be on the disk; an older one only says less.
        """
        if not self._durable:
            return
        known: dict[str, Any] = settled_sizes(self._root)
        files = {stream: self._file(stream) for stream in STREAMS}
        sizes: dict[str, Any] = {stream: known.get(stream, 0) for stream in STREAMS}
        gone: dict[str, list[int]] = dict(known.get(GONE, {}))
        for stream, file in files.items():
            with wrapping(file.path), suppress(FileNotFoundError, DamagedStore):
                sizes[stream] = file.size()
                if sizes[stream] != known.get(stream):
                    sync_file(file.path)
            if lost := lost_end(file, known):
                gone[stream], sizes[stream] = lost, min(lost[0], sizes[stream])
                logger.warning("%s: records at its end are gone: %d bytes instead of %d", file.path, *lost)
        is_first = any(sizes[stream] for stream in STREAMS) and not any(known.get(stream) for stream in STREAMS)
        if is_first and not self._has_founded:
            with wrapping(self._root):
                self._found()  # whoever wrote the first record may have died in the middle of this
        sizes[ENDS] = {stream: file.end_check(sizes[stream]) for stream, file in files.items()}
        if gone:
            sizes[GONE] = gone
        if sizes != known:
            save_document(self, SETTLED, sizes)

    # ---- records -----------------------------------------------------------------------------------------------

    def append(self, stream: Stream, first: int, records: Sequence[Pieces], view_lines: Sequence[bytes] = ()) -> None:
        log = self._handle(f"{stream}.jsonl", durable=self._durable)
        lines = [(log, records)]
        if view_lines:
            view = self._handle("current.jsonl", durable=False)
            lines.append((view, [(line,) for line in view_lines]))
        # Of several the log comes first: a crash in between must leave no lines that it cannot account for.
        if len(view_lines) == 1:
            lines.reverse()
        try:
            if self._written:
                self._sync_written()  # what this record may mention must be on the disk before it
            for handle, new in lines:
                if handle not in self._written:
                    self._written.append(handle)
                handle.append(new, together=handle is log)
        except OSError as error:
            raise storage_error(error, self.folder / f"{stream}.jsonl") from error

    def _sync(self) -> None:
        """The end of a section, after its lock is free again: a process that is stopped here can be taken over."""
        try:
            if self._is_unfounded and any(handle.durable for handle in self._written):
                self._found()
            self._sync_written()
        except OSError as error:
            # After a failed fsync nothing that we hold can be trusted. What is still ours alone is taken back.
            with suppress(StaleWriter), self._locked():
                if os.pread(self._lock_fd, MOST_BYTES, 0) == self._place:
                    self._roll_back()
            self._written.clear()
            self._place = b""
            raise storage_error(error, self.folder) from error
        for handle in self._written:
            handle.commit()
        self._written.clear()

    def _sync_written(self) -> None:
        for handle in self._written:
            handle.sync()

    def _roll_back(self) -> None:
        """Nothing of this section stays; what cannot be taken back now is put right, or found, by the next claim."""
        for handle in self._written:
            with suppress(OSError):
                handle.roll_back()
        self._written.clear()

    def rewrite(self, stream: Stream, records: Mapping[int, bytes]) -> None:
        with self.writing():
            path, view = self._root / f"{stream}.jsonl", self._root / "current.jsonl"
            self._forget_settled()
            with wrapping(view):
                self._close_handle(view.name)
                view.unlink(missing_ok=True)  # before: nothing of what is taken out may be left in it, or kept aside
            lines = (records.get(number, line) + b"\n" for number, line in enumerate(self._file(stream).read(1), 1))
            replace_file(path, lines)
            self._close_handle(path.name)

    def _forget_settled(self) -> None:
        """The files get other sizes: what is known of them would be wrong, and must not come back after a crash."""
        path = self._root / f"{SETTLED}.json"
        with wrapping(path):
            path.unlink(missing_ok=True)
            sync_folder(self._root)

    def read(self, stream: Stream, *spans: tuple[int, int]) -> Iterator[bytes]:
        if not spans:
            yield from self._file(stream).read(1)
        for first, last in spans:
            yield from self._file(stream).read(first, last)

    def last(self, stream: Stream) -> int:
        return self._file(stream).last()

    @property
    def kept_view(self) -> ViewFile:
        return self

    @contextmanager
    def sync_view(self, lines: Iterable[bytes], *, all_lines: AllLines | None = None) -> Iterator[None]:
        path = self._root / "current.jsonl"
        make_way(path, self._root)
        former = FormerView(path)
        new = lines if all_lines is None else former.along(lines)
        with replacing_file(path, (line + b"\n" for line in new), durable=False):
            if all_lines is not None and (kept := former.put_aside(self._root, all_lines)) is not None:
                logger.warning(
                    "%s: %s had lines that the log does not have; it is made anew, and kept in %s",
                    self.folder.name,
                    path.name,
                    named(kept),
                )
            yield
        self._close_handle("current.jsonl")

    def view_file(self, lines: Iterable[bytes]) -> Path | None:
        path = self.folder / "current.jsonl"
        with wrapping(path):
            if self._is_writer() and self._is_ours(path):
                return path
            if os.path.lexists(path) and not self._is_writer():
                return path if _has_lines(path, lines) else None
        self.write_out("current.jsonl", lines)
        self._close_handle("current.jsonl")
        return path

    def _is_writer(self) -> bool:
        return bool(self._place) and os.getpid() == self._pid

    def _is_ours(self, path: Path) -> bool:
        """Is this still the file that we append to, or has somebody removed or replaced it?"""
        handle = self._handles.get(path.name)
        return is_regular(path) and (handle is None or os.fstat(handle.fd).st_ino == path.stat().st_ino)

    def save(self, name: str, document: bytes) -> None:
        held = self._held
        root = held.path if held else self.folder
        make_way(root / f"{name}.json", root)
        replace_file(root / f"{name}.json", [document], durable=False)

    def load(self, name: str) -> bytes | None:
        path = self.folder / f"{name}.json"
        with wrapping(path):
            try:
                return path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else b""
            except FileNotFoundError:
                return None

    # ---- handles -----------------------------------------------------------------------------------------------

    def _handle(self, name: str, *, durable: bool) -> AppendHandle:
        handle = self._handles.get(name)
        if handle is None:
            path = self._root / name
            with wrapping(path):
                new = not path.exists()
                fd = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                handle = self._handles[name] = AppendHandle(fd, durable=durable)
                if new and self._durable and not self._is_unfounded:
                    sync_folder(self._root)
        return handle

    def _close_handle(self, name: str) -> None:
        if handle := self._handles.pop(name, None):
            if handle in self._written:
                self._written.remove(handle)
            os.close(handle.fd)

    def _drop_handles(self) -> None:
        for name in list(self._handles):
            self._close_handle(name)
        # First forgotten, then closed: an interrupt in between must not leave numbers that others may get.
        fds, self._lock_fd, self._life_fd, self._place = (self._lock_fd, self._life_fd), -1, -1, b""
        for fd in fds:
            if fd >= 0:
                os.close(fd)


class _Section:
    """The block of ``FilesRecords.writing``: a class, because a generator would cost each append microseconds."""

    __slots__ = ("_records",)

    def __init__(self, records: FilesRecords) -> None:
        self._records = records

    def __enter__(self) -> bool:
        self._records.begin()
        return False  # nobody else can have written

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._records.end(failed=error is not None)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _has_lines(path: Path, lines: Iterable[bytes]) -> bool:
    former = FormerView(path)
    return is_regular(path) and not any(former.first_difference for _ in chain(former.along(lines), (b"",)))
