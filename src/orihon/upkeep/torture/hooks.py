"""What one process does to the disk, seen and steered: every call that changes files below one folder.

For a forked child alone, which ends afterwards: the functions of ``os`` that write and Python's ``open`` are replaced,
and SQLite gets a file system of ours as its default one. A ``DiskWatcher`` is told of each call before it is made, when
it may refuse it or let a part of it through, and afterwards. ``-shm`` files are left out: they need not be durable.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import io
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import apsw

from orihon.system.files import sync_folder

Kind = Literal["create", "mkdir", "link", "rename", "unlink", "rmdir", "write", "truncate", "sync"]
Place = tuple[int, str]  # a folder, by its number, and a name in it

_CREATES = (apsw.SQLITE_OPEN_MAIN_JOURNAL, apsw.SQLITE_OPEN_SUPER_JOURNAL, apsw.SQLITE_OPEN_WAL)
_SQLITE_ERRORS: dict[Kind, int] = {
    "create": apsw.SQLITE_CANTOPEN,
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "unlink": apsw.SQLITE_IOERR_DELETE,
}


@dataclass(slots=True)
class DiskCall:
    """One change of the disk. Files and folders are known by numbers that are never used twice."""

    kind: Kind
    file: int  # what is changed; of a name that is made or taken away, what has it
    places: tuple[Place, ...] = ()  # of a rename the old one first
    at: int = 0  # where a write begins; the size that is left
    data: bytes = b""
    path: str = ""  # for people

    @property
    def is_name(self) -> bool:
        """Does it change names, and no contents?"""
        return bool(self.places)


class DiskWatcher:
    """Is told of every call; this one lets everything pass."""

    def before(self, call: DiskCall) -> None:
        """May raise ``OSError``, or leave less in ``call.data``."""

    def after(self, call: DiskCall) -> None:
        """The call was made as it says."""


class Hooks:
    """The replaced functions. What is no change of anything below ``root`` goes the way it always went."""

    def __init__(self, root: Path, watcher: DiskWatcher) -> None:
        self._watcher = watcher
        self._lock = threading.RLock()
        self._files: dict[tuple[int, int], int] = {}
        self._next = 0
        self.numbers = {path: self._number(os.lstat(path)) for path in (root, *sorted(root.rglob("*")))}
        self._real: dict[str, Callable[..., Any]] = {}

    def install(self) -> None:
        """From here on every call of this process is seen."""
        for name in (
            *("open", "write", "writev", "pwrite", "pwritev", "fsync", "fdatasync", "ftruncate", "truncate"),
            *("rename", "replace", "link", "symlink", "unlink", "remove", "mkdir", "rmdir"),
            *("sendfile", "copy_file_range"),
        ):
            if hasattr(os, name):
                self._real[name] = getattr(os, name)
                setattr(os, name, getattr(self, f"_{name}"))
        self._plain_open = io.open
        io.open = builtins.open = self._open_file
        self._vfs = _Vfs(self)  # or it would be gone at once

    # ---- what is ours ----------------------------------------------------------------------------------------------

    def _number(self, status: os.stat_result) -> int:
        self._next += 1
        self._files[status.st_dev, status.st_ino] = self._next
        return self._next

    def _known(self, file: int | str | os.PathLike[str], dir_fd: int | None = None, follow: bool = True) -> int:
        """The number of a file or folder below the root; 0 for others."""
        try:
            status = os.stat(file, dir_fd=dir_fd, follow_symlinks=follow)
        except OSError:
            return 0
        return self._files.get((status.st_dev, status.st_ino), 0)

    def _place(self, path: Any, dir_fd: int | None = None) -> Place | None:
        folder, name = os.path.split(os.fsdecode(path))
        number = self._known(folder or ".", dir_fd)
        return (number, name) if number else None

    def _forget(self, status: os.stat_result | None) -> None:
        """Another file, somewhere else, may get the place on the disk of one whose last name has gone."""
        if status is not None and (status.st_nlink == 1 or stat.S_ISDIR(status.st_mode)):
            self._files.pop((status.st_dev, status.st_ino), None)

    def made(self, call: DiskCall, make: Callable[[], Any]) -> Any:
        """Make a call that the watcher is told of."""
        with self._lock:
            self._watcher.before(call)
            result = make()
            self._watcher.after(call)
            return result

    # ---- contents --------------------------------------------------------------------------------------------------

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        def opened() -> int:
            fd: int = self._real["open"](path, flags, mode, dir_fd=dir_fd)
            return fd

        place = self._place(path, dir_fd) if flags & (os.O_CREAT | os.O_TRUNC) else None
        if place is None or place[1].endswith("-shm"):
            return opened()
        there = self._known(path, dir_fd)
        if there and flags & os.O_TRUNC and not flags & os.O_EXCL:
            return int(self.made(DiskCall("truncate", there, path=_full(path, dir_fd)), opened))
        if there or _status(path, dir_fd):
            return opened()
        return int(self._named("create", place, opened, lambda: os.stat(path, dir_fd=dir_fd), _full(path, dir_fd)))

    def written(self, file: int, data: bytes, at: int, path: str, write: Callable[[bytes], int]) -> int:
        """A write: of what the watcher has left of it."""
        call = DiskCall("write", file, at=at, data=data, path=path)

        def make() -> int:
            call.data = call.data[: write(call.data)]
            return len(call.data)

        return int(self.made(call, make))

    def _write(self, fd: int, data: Any) -> int:
        file = self._known(fd)
        if not file:
            return int(self._real["write"](fd, data))
        with self._lock:
            at = _end_or_position(fd)
            return self.written(file, bytes(data), at, _path_of(fd), lambda part: self._real["write"](fd, part))

    def _writev(self, fd: int, buffers: Any) -> int:
        return self._write(fd, b"".join(buffers)) if self._known(fd) else int(self._real["writev"](fd, buffers))

    def _pwrite(self, fd: int, data: Any, offset: int) -> int:
        file = self._known(fd)
        if not file:
            return int(self._real["pwrite"](fd, data, offset))
        return self.written(
            file, bytes(data), offset, _path_of(fd), lambda part: self._real["pwrite"](fd, part, offset)
        )

    def _pwritev(self, fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        return self._pwrite(fd, b"".join(buffers), offset)

    def _sendfile(self, out_fd: int, *arguments: Any, **named: Any) -> int:
        return self._not_here("sendfile", out_fd, out_fd, *arguments, **named)

    def _copy_file_range(self, src: int, dst: int, *arguments: Any, **named: Any) -> int:
        return self._not_here("copy_file_range", dst, src, dst, *arguments, **named)

    def _not_here(self, name: str, fd: int, *arguments: Any, **named: Any) -> int:
        """Whoever copies inside the kernel is told to read and write instead."""
        if self._known(fd):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return int(self._real[name](*arguments, **named))

    def _ftruncate(self, fd: int, length: int) -> None:
        self._truncated(fd, length, "ftruncate", _path_of(fd))

    def _truncate(self, path: Any, length: int) -> None:
        self._truncated(path, length, "truncate", str(path))

    def _truncated(self, file: Any, length: int, name: str, path: str) -> None:
        known = self._known(file)
        call = DiskCall("truncate", known, at=length, path=path)
        self.made(call, lambda: self._real[name](file, length)) if known else self._real[name](file, length)

    def _fsync(self, fd: Any) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        file = self._known(number)
        call = DiskCall("sync", file, path=_path_of(number))
        self.made(call, lambda: self._real["fsync"](fd)) if file else self._real["fsync"](fd)

    _fdatasync = _fsync

    def _open_file(
        self,
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Callable[[str, int], int] | None = None,
    ) -> Any:
        """Python's ``open``, with a raw file whose writes are seen."""
        if not set(mode) & set("wax+"):
            return self._plain_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = _SeenFile(file, mode.replace("t", "").replace("b", ""), closefd, opener or _open_anew)
        if buffering == 0:
            return raw
        size = buffering if buffering > 1 else io.DEFAULT_BUFFER_SIZE
        buffered = io.BufferedRandom(raw, size) if "+" in mode else io.BufferedWriter(raw, size)
        if "b" in mode:
            return buffered
        return io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering=buffering == 1)

    # ---- names -----------------------------------------------------------------------------------------------------

    def _named(self, kind: Kind, place: Place, make: Callable[[], Any], look: Callable[[], Any], path: str) -> Any:
        """A new file or folder gets its number when it is there."""
        call = DiskCall(kind, 0, (place,), path=path)

        def made() -> Any:
            result = make()
            call.file = self._number(look())
            return result

        return self.made(call, made)

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        def make() -> None:
            self._real["mkdir"](path, mode, dir_fd=dir_fd)

        place = self._place(path, dir_fd)
        if place is None or _status(path, dir_fd):
            make()
            return
        self._named("mkdir", place, make, lambda: os.stat(path, dir_fd=dir_fd), _full(path, dir_fd))

    def _symlink(self, src: Any, dst: Any, *arguments: Any, **named: Any) -> None:
        if self._place(dst, named.get("dir_fd")):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))  # images have none
        self._real["symlink"](src, dst, *arguments, **named)

    def _link(self, src: Any, dst: Any, **named: Any) -> None:
        def make() -> None:
            self._real["link"](src, dst, **named)

        file, place = self._known(src, named.get("src_dir_fd")), self._place(dst, named.get("dst_dir_fd"))
        if place is None or not file or _status(dst, named.get("dst_dir_fd")):
            make()
            return
        self.made(DiskCall("link", file, (place,), path=_full(dst, named.get("dst_dir_fd"))), make)

    def _rename(self, src: Any, dst: Any, **named: Any) -> None:
        def make() -> None:
            self._real["rename"](src, dst, **named)

        old, new = self._place(src, named.get("src_dir_fd")), self._place(dst, named.get("dst_dir_fd"))
        file = self._known(src, named.get("src_dir_fd"), follow=False)
        if old is None or new is None or not file:
            make()
            return
        replaced = _status(dst, named.get("dst_dir_fd"))
        self.made(DiskCall("rename", file, (old, new), path=_full(dst, named.get("dst_dir_fd"))), make)
        self._forget(replaced)

    _replace = _rename

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._gone("unlink", path, dir_fd)

    _remove = _unlink

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self._gone("rmdir", path, dir_fd)

    def _gone(self, kind: Kind, path: Any, dir_fd: int | None) -> None:
        def make() -> None:
            self._real[kind](path, dir_fd=dir_fd)

        place, file = self._place(path, dir_fd), self._known(path, dir_fd, follow=False)
        if place is None or not file:
            make()
            return
        gone = _status(path, dir_fd)
        self.made(DiskCall(kind, file, (place,), path=_full(path, dir_fd)), make)
        self._forget(gone)

    # ---- for SQLite ------------------------------------------------------------------------------------------------

    def created(self, path: str, open_it: Callable[[], None]) -> int:
        """A database, journal or log that SQLite opens; its number, 0 if it is not ours."""
        place = self._place(path)
        if place is None:
            open_it()
            return 0
        if Path(path).exists():
            open_it()
        else:
            self._named("create", place, open_it, lambda: os.stat(path), path)
        return self._known(path)

    def synced_by_sqlite(self, folder: Path) -> None:
        """The system below has synced a folder by itself."""
        file = self._known(folder)
        if file:
            self.made(DiskCall("sync", file, path=str(folder)), lambda: None)

    def deleted(self, path: str, delete: Callable[[], None]) -> None:
        """SQLite takes a file away."""
        place, file, gone = self._place(path), self._known(path), _status(path, None)
        self.made(DiskCall("unlink", file, (place,), path=path), delete) if place and file else delete()
        self._forget(gone)


class _SeenFile(io.FileIO):
    """The raw part of a Python file, by way of the functions of ``os``."""

    def __init__(self, file: Any, mode: str, closefd: bool, opener: Callable[[str, int], int]) -> None:
        super().__init__(file, mode, closefd, opener)

    def write(self, data: Any, /) -> int:
        return os.write(self.fileno(), data)

    def truncate(self, size: int | None = None, /) -> int:
        length = self.tell() if size is None else size
        os.ftruncate(self.fileno(), length)
        return length


class _Vfs(apsw.VFS):
    """The file system that SQLite gets by default: the one it had, and ``Hooks`` are told."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.below = apsw.vfs_names()[0]
        super().__init__("orihon-torture", self.below, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        if name is None:
            return apsw.VFSFile(self.below, name, flags)
        return _SqliteFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with _in_words_of_sqlite("unlink"):
            self.hooks.deleted(filename, lambda: super(_Vfs, self).xDelete(filename, False))
        if syncdir:
            with _in_words_of_sqlite("sync"):
                sync_folder(Path(filename).parent)


class _SqliteFile(apsw.VFSFile):
    def __init__(self, vfs: _Vfs, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._hooks = vfs.hooks
        self._path = name if isinstance(name, str) else name.filename()
        # In the system below: the first sync of a new journal is one of its name, too.
        self._has_new_name = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and any(flags[0] & kind for kind in _CREATES))
        with _in_words_of_sqlite("create"):
            opening = super().__init__
            self._file = self._hooks.created(self._path, lambda: opening(vfs.below, name, flags))

    def xWrite(self, data: bytes, offset: int) -> None:
        def write(part: bytes) -> int:
            super(_SqliteFile, self).xWrite(part, offset)
            return len(part)

        with _in_words_of_sqlite("write"):
            if not self._file:
                super().xWrite(data, offset)
            elif self._hooks.written(self._file, bytes(data), offset, self._path, write) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # what SQLite makes of a short write

    def xTruncate(self, newsize: int) -> None:
        with _in_words_of_sqlite("truncate"):
            call = DiskCall("truncate", self._file, at=newsize, path=self._path)
            self._made(call, lambda: super(_SqliteFile, self).xTruncate(newsize))

    def xSync(self, flags: int) -> None:
        with _in_words_of_sqlite("sync"):
            call = DiskCall("sync", self._file, path=self._path)
            self._made(call, lambda: super(_SqliteFile, self).xSync(flags))
        if self._has_new_name:
            self._has_new_name = False
            with suppress(OSError):  # nobody there looks at an error of this
                self._hooks.synced_by_sqlite(Path(self._path).parent)

    def _made(self, call: DiskCall, make: Callable[[], None]) -> None:
        self._hooks.made(call, make) if self._file else make()


@contextmanager
def _in_words_of_sqlite(kind: Kind) -> Iterator[None]:
    """A refusal as SQLite's own file system would give it."""
    try:
        yield
    except OSError as error:
        full = error.errno == errno.ENOSPC and kind == "write"
        code = apsw.SQLITE_FULL if full else _SQLITE_ERRORS[kind]
        refusal = apsw.exception_for(code)
        raise refusal from error


def _open_anew(path: str, flags: int) -> int:
    return os.open(path, flags, 0o666)


def _status(path: Any, dir_fd: int | None) -> os.stat_result | None:
    try:
        return os.lstat(path, dir_fd=dir_fd)
    except OSError:
        return None


def _full(path: Any, dir_fd: int | None) -> str:
    return os.fspath(Path("" if dir_fd is None else _path_of(dir_fd)) / os.fsdecode(path))


def _end_or_position(fd: int) -> int:
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND:
        return os.fstat(fd).st_size
    return os.lseek(fd, 0, os.SEEK_CUR)


def _path_of(fd: int) -> str:
    try:
        return os.fspath(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return f"fd {fd}"
