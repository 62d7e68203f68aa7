"""What one process does to the disk, seen and steered: every call that changes files below one folder.

For a forked child alone, which ends afterwards: the functions of ``os`` that write and Python's ``open`` are replaced,
and SQLite gets a file system of ours as its default one. A ``DiskWatcher`` is told of each call before it is made, when
it may refuse it or let a part of it through, and afterwards. ``-shm`` files are left out: they need not be durable.
"""

from __future__ import annotations

import _pyio  # type: ignore[import-not-found]
import builtins
import errno
import fcntl
import io
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import apsw

from orihon.system.files import sync_folder

DiskCallKind = Literal["create", "mkdir", "link", "rename", "unlink", "rmdir", "write", "truncate", "sync"]

_JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL
_SQLITE_ERRORS: dict[DiskCallKind, int] = {
    "create": apsw.SQLITE_CANTOPEN,
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "unlink": apsw.SQLITE_IOERR_DELETE,
}
_OPEN_FILES = ("/", "proc", "self", "fd")
_PLAIN_CONNECTION = apsw.Connection


@dataclass(slots=True)
class DiskCall:
    """One change of the disk. Files and folders are known by numbers that are never used twice."""

    kind: DiskCallKind
    file: int  # what is changed; of a name that is made or taken away, what has it
    places: tuple[tuple[int, str], ...] = ()  # folders with names in them; of a rename the old one first
    at: int = 0  # where a write begins; the size that is left
    data: bytes = b""
    path: str = ""  # for people


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
        alike: dict[str, Callable[..., Any]] = {
            "fdatasync": self._fsync,
            "replace": self._rename,
            "copy_file_range": self._sendfile,
        }
        alike |= {name: partial(self._cut, name) for name in ("truncate", "ftruncate")}
        alike |= {name: partial(self._gone, name) for name in ("unlink", "remove", "rmdir")}
        for name in (
            *("open", "write", "writev", "pwrite", "fsync", "fdatasync", "ftruncate", "truncate", "rename", "replace"),
            *("link", "unlink", "remove", "mkdir", "rmdir", "sendfile", "copy_file_range"),
        ):
            if hasattr(os, name):
                self._real[name] = getattr(os, name)
                setattr(os, name, alike[name] if name in alike else getattr(self, f"_{name}"))
        plain = io.open

        def opened(file: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
            # Python's own files in Python write by way of ``os``.
            return (_pyio.open if {*mode} & {*"wax+"} else plain)(file, mode, *rest, **named)

        io.open = builtins.open = opened
        self._vfs = _Vfs(self)  # or it would be gone at once
        apsw.Connection = _Connection  # type: ignore[misc]
        # A refusal that SQLite has no use for, as when it closes, is told to nobody.
        sys.excepthook = lambda *_: None
        sys.unraisablehook = lambda _: None

    def made(self, call: DiskCall, make: Callable[[], Any], *, new: Callable[[], os.stat_result] | None = None) -> Any:
        """Make a call; the watcher is told if it is about a file of ours. ``new`` finds what it has made."""
        if not call.file and new is None:
            return make()
        with self._lock:
            self._watcher.before(call)
            result = make()
            if new is not None:
                call.file = self._number(new())
            self._watcher.after(call)
            return result

    # ---- what is ours ----------------------------------------------------------------------------------------------

    def _number(self, status: os.stat_result) -> int:
        self._next += 1
        self._files[status.st_dev, status.st_ino] = self._next
        return self._next

    def known(self, file: Any, dir_fd: int | None = None) -> int:
        """The number of a file or folder below the root; 0 for others."""
        try:
            status = os.stat(file, dir_fd=dir_fd)
        except OSError:
            return 0
        return self._files.get((status.st_dev, status.st_ino), 0)

    def place(self, path: Any, dir_fd: int | None = None) -> tuple[tuple[int, str], ...]:
        """The folder and the name in it, if the folder is ours."""
        folder, name = os.path.split(os.fsdecode(path))
        number = 0 if name.endswith("-shm") else self.known(folder or ".", dir_fd)
        return ((number, name),) if number else ()

    def forget(self, status: os.stat_result | None) -> None:
        """Another file, somewhere else, may get the place on the disk of one whose last name has gone."""
        if status is not None and (status.st_nlink == 1 or stat.S_ISDIR(status.st_mode)):
            self._files.pop((status.st_dev, status.st_ino), None)

    # ---- contents --------------------------------------------------------------------------------------------------

    def _open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        there, where = self.known(path, dir_fd), _full(path, dir_fd)
        call, new = DiskCall("truncate", there if flags & os.O_TRUNC and not flags & os.O_EXCL else 0, path=where), None
        if flags & os.O_CREAT and not _status(path, dir_fd) and (place := self.place(path, dir_fd)):
            call, new = DiskCall("create", 0, place, path=where), lambda: os.stat(path, dir_fd=dir_fd)
        return int(self.made(call, lambda: self._real["open"](path, flags, mode, dir_fd=dir_fd), new=new))

    def written(self, file: int, data: bytes, at: int, path: str, write: Callable[[bytes], int]) -> int:
        """A write: of what the watcher has left of it."""
        call = DiskCall("write", file, at=at, data=data, path=path)

        def make() -> int:
            call.data = call.data[: write(call.data)]
            return len(call.data)

        return int(self.made(call, make))

    def _write(self, fd: int, data: Any) -> int:
        if not (file := self.known(fd)):
            return int(self._real["write"](fd, data))
        with self._lock:
            is_appended = fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_APPEND
            at = os.fstat(fd).st_size if is_appended else os.lseek(fd, 0, os.SEEK_CUR)
            return self.written(file, bytes(data), at, _path_of(fd), lambda part: self._real["write"](fd, part))

    def _writev(self, fd: int, buffers: Any) -> int:
        return self._write(fd, b"".join(buffers)) if self.known(fd) else int(self._real["writev"](fd, buffers))

    def _pwrite(self, fd: int, data: Any, offset: int) -> int:
        write = self._real["pwrite"]
        return self.written(self.known(fd), bytes(data), offset, _path_of(fd), lambda part: write(fd, part, offset))

    def _sendfile(self, *arguments: Any, **named: Any) -> int:
        """Whoever copies inside the kernel is told to read and write instead."""
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    def _cut(self, name: str, file: Any, length: int) -> None:
        path = _path_of(file) if isinstance(file, int) else os.fsdecode(file)
        call = DiskCall("truncate", self.known(file), at=length, path=path)
        self.made(call, lambda: self._real[name](file, length))

    def _fsync(self, fd: Any) -> None:
        number = fd if isinstance(fd, int) else fd.fileno()
        self.made(DiskCall("sync", self.known(number), path=_path_of(number)), lambda: self._real["fsync"](number))

    # ---- names -----------------------------------------------------------------------------------------------------

    def _mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        place = () if _status(path, dir_fd) else self.place(path, dir_fd)
        call = DiskCall("mkdir", 0, place, path=_full(path, dir_fd))
        new = (lambda: os.stat(path, dir_fd=dir_fd)) if place else None
        self.made(call, lambda: self._real["mkdir"](path, mode, dir_fd=dir_fd), new=new)

    def _link(self, src: Any, dst: Any, **named: Any) -> None:
        place = () if _status(dst, None) else self.place(dst)
        call = DiskCall("link", self.known(src) if place else 0, place, path=os.fsdecode(dst))
        self.made(call, lambda: self._real["link"](src, dst, **named))

    def _rename(self, src: Any, dst: Any, **named: Any) -> None:
        old, new = named.get("src_dir_fd"), named.get("dst_dir_fd")
        places, replaced = self.place(src, old) + self.place(dst, new), _status(dst, new)
        call = DiskCall("rename", self.known(src, old) if len(places) == 2 else 0, places, path=_full(dst, new))
        self.made(call, lambda: self._real["rename"](src, dst, **named))
        self.forget(replaced)

    def _gone(self, name: str, path: Any, *, dir_fd: int | None = None) -> None:
        kind: DiskCallKind = "rmdir" if name == "rmdir" else "unlink"
        self.removed(kind, path, dir_fd, lambda: self._real[name](path, dir_fd=dir_fd))

    def removed(self, kind: DiskCallKind, path: Any, dir_fd: int | None, remove: Callable[[], None]) -> None:
        """A name goes, by whatever means."""
        gone, place = _status(path, dir_fd), self.place(path, dir_fd)
        self.made(DiskCall(kind, self.known(path, dir_fd) if place else 0, place, path=_full(path, dir_fd)), remove)
        self.forget(gone)


class _Vfs(apsw.VFS):
    """The file system that SQLite gets by default: the one it had, and ``Hooks`` are told."""

    def __init__(self, hooks: Hooks) -> None:
        self.hooks = hooks
        self.below = apsw.vfs_names()[0]
        super().__init__("orihon-torture", self.below, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return apsw.VFSFile(self.below, name, flags) if name is None else _SqliteFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        with _in_words_of_sqlite("unlink"):
            self.hooks.removed("unlink", filename, None, lambda: super(_Vfs, self).xDelete(filename, False))
        if syncdir:
            with _in_words_of_sqlite("sync"):
                sync_folder(Path(filename).parent)


class _SqliteFile(apsw.VFSFile):
    def __init__(self, vfs: _Vfs, name: str | apsw.URIFilename, flags: list[int]) -> None:
        self._hooks, opening = vfs.hooks, super().__init__
        self._path = path = name if isinstance(name, str) else name.filename()
        # In the system below: the first sync of a new journal is one of its name, too.
        self._has_new_name = bool(flags[0] & apsw.SQLITE_OPEN_CREATE and flags[0] & _JOURNALS)
        place = () if Path(path).exists() else self._hooks.place(path)
        call = DiskCall("create", 0, place, path=path)
        with _in_words_of_sqlite("create"):
            new = (lambda: os.stat(path)) if place else None
            self._hooks.made(call, lambda: opening(vfs.below, name, flags), new=new)
        self._file = self._hooks.known(path)

    def xWrite(self, data: Any, offset: int) -> None:
        def write(part: bytes) -> int:
            super(_SqliteFile, self).xWrite(part, offset)
            return len(part)

        with _in_words_of_sqlite("write"):
            if self._hooks.written(self._file, bytes(data), offset, self._path, write) < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # what SQLite makes of a short write

    def xTruncate(self, newsize: int) -> None:
        with _in_words_of_sqlite("truncate"):
            call = DiskCall("truncate", self._file, at=newsize, path=self._path)
            self._hooks.made(call, lambda: super(_SqliteFile, self).xTruncate(newsize))

    def xSync(self, flags: int) -> None:
        with _in_words_of_sqlite("sync"):
            call = DiskCall("sync", self._file, path=self._path)
            self._hooks.made(call, lambda: super(_SqliteFile, self).xSync(flags))
        if self._has_new_name:
            self._has_new_name, folder = False, str(Path(self._path).parent)
            with suppress(OSError):  # nobody there looks at an error of this
                self._hooks.made(DiskCall("sync", self._hooks.known(folder), path=folder), lambda: None)


class _Connection(apsw.Connection):
    """SQLite does without what it cannot do when it closes a database; what our file system raised stays with it."""

    def close(self, force: bool = False) -> None:
        with suppress(apsw.IOError, apsw.FullError):
            _PLAIN_CONNECTION.close(self, force)  # also of connections that are not of this class


@contextmanager
def _in_words_of_sqlite(kind: DiskCallKind) -> Iterator[None]:
    """A refusal as SQLite's own file system would give it."""
    try:
        yield
    except OSError as error:
        is_full = error.errno == errno.ENOSPC and kind == "write"
        refusal = apsw.exception_for(apsw.SQLITE_FULL if is_full else _SQLITE_ERRORS[kind])
        refusal.args = (error.strerror,)
        raise refusal from error


def _status(path: Any, dir_fd: int | None) -> os.stat_result | None:
    try:
        return os.lstat(path, dir_fd=dir_fd)
    except OSError:
        return None


def _full(path: Any, dir_fd: int | None) -> str:
    named = Path("" if dir_fd is None else _path_of(dir_fd)) / os.fsdecode(path)
    if named.parts[:4] == _OPEN_FILES:  # a writer names what lies in the folder that it has open
        named = Path(_path_of(int(named.parts[4])), *named.parts[5:])
    return os.fspath(named)


def _path_of(fd: int) -> str:
    try:
        return os.fspath(Path(f"/proc/self/fd/{fd}").readlink())
    except OSError:
        return f"fd {fd}"
