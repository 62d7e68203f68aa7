"""What keeps a second copy of SQLite in this process (Python's own ``sqlite3``) from taking a database apart.

SQLite's locks belong to the process. The other copy does not see those of ours, drops them when it closes a file, and
then removes the write-ahead log as the last one who uses it. Locks on open file descriptions belong to nobody but the
description. Our copy takes such ones on the index of the log (``sqlite_locks``), so that the two do not write at once.
Besides, while this process has a connection, it holds

- a shared lock inside the range that whoever removes the log must lock alone,
- a shared lock on the byte of the index that says "somebody is here", so that nobody empties it, and
- while it writes or checkpoints, a lock on the whole file (``flock``, which SQLite does not use): SQLite's may be gone.
  Unlike the others it tells the process that has it.

A database whose log another program has taken away (``journal_mode``) gets it back before it is used: without one, the
locks of the process are all there is. That is done while nobody is at it: a lock of a description meets those of the
other copy, too.

So SQLite itself never removes the log; who closes the last connection does it here, when nobody else can come. To close
a file also drops the locks that the other copy has on it: nothing is closed while that has any.

A system without such locks goes on without them.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import apsw

from orihon.drivers.sqlite_locks import use_description_locks
from orihon.system.holding import LOOK_SECONDS

#: In the database file: who wants to open it looks here first, and is one of those who share this.
_DOOR, _SHARED, _SHARED_BYTES = 0x40000000, 0x40000002, 510
#: The last byte of SQLite's shared range.
_SOMEBODY = _SHARED + _SHARED_BYTES - 1
#: What anybody locks in the index (``-shm``) who reads, writes, checkpoints or repairs.
_INDEX_USE, _INDEX_USES = 120, 8
#: The byte of the index (``-shm``) that each process holds that has it open.
_INDEX_IN_USE = 128
_INDEX_BYTES = 132
_MAGIC = b"SQLite format 3\0"
_DESCRIPTORS = Path("/proc/self/fd")
_SET: int | None = getattr(fcntl, "F_OFD_SETLK", None) if _DESCRIPTORS.is_dir() else None
_LONGEST_NAP = 0.01
#: So long whoever closes waits for those who are just looking.
_CLOSE_SECONDS = 0.1
_FLOCK = "@hhqqi0q"


def _lock(kind: int, byte: int, number: int = 1) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, byte, number, 0)


_HERE, _ONLY = _lock(fcntl.F_RDLCK, _SOMEBODY), _lock(fcntl.F_WRLCK, _SHARED, _SHARED_BYTES)
#: Nobody reads, writes or opens it, by whatever copy of SQLite, with a log or without; and what ends that.
_ALONE, _AWAY = (_lock(kind, _DOOR, _SHARED_BYTES + 2) for kind in (fcntl.F_WRLCK, fcntl.F_UNLCK))
_OTHERS = _lock(fcntl.F_UNLCK, _DOOR, _SHARED_BYTES + 1)
_SHUT, _OPEN = _lock(fcntl.F_WRLCK, _DOOR), _lock(fcntl.F_UNLCK, _DOOR)
_FIRST, _USED = _lock(fcntl.F_WRLCK, _INDEX_IN_USE), _lock(fcntl.F_RDLCK, _INDEX_IN_USE)
_QUIET, _BUSY = _lock(fcntl.F_WRLCK, _INDEX_USE, _INDEX_USES), _lock(fcntl.F_UNLCK, _INDEX_USE, _INDEX_USES)


class FileGuard:
    """What this process holds on one database file, for all of its connections to it.

    To close any descriptor of the file would drop SQLite's own locks: all of them are kept until nobody uses it.
    """

    def __init__(self, file: int) -> None:
        self._file = file
        self._index: int | None = None
        self._holding = threading.RLock()
        self._free: list[int] = []  # descriptions for connections that write: one alone would not exclude another
        self._kept: list[int] = [file]
        self._stay: apsw.Connection | None = None
        self.members = 0
        self.is_closed = self.is_held = False

    # ---- somebody is here ------------------------------------------------------------------------------------------

    def hold(self, path: str, seconds: float, meanwhile: Callable[[], object]) -> None:
        """Keep the log and the index of the database, unless it is new; ``path`` is where it lies.

        Where the system refuses such locks it goes on without.
        """
        with self._holding, suppress(OSError):
            if self.is_held or os.pread(self._file, len(_MAGIC), 0) != _MAGIC:
                return
            if not _patiently(lambda: self._is_kept(path), seconds, meanwhile):
                raise apsw.BusyError("database is locked")
            self._hold_index(f"{path}-shm", seconds, meanwhile)
            self.is_held = True

    def _is_kept(self, path: str) -> bool:
        """Has it a log from now on? Refused while somebody removes the log, or works without one."""
        is_logged = self._has_log(path)
        if not _try(self._file, _HERE if is_logged else _ALONE):
            return False
        try:
            if not is_logged and not self._has_log(path):
                _give_log(path)
            if is_logged and not self._has_log(path):  # taken away in just this moment
                _set(self._file, _AWAY)
                return False
        except BaseException:
            _set(self._file, _AWAY)
            raise
        _set(self._file, _HERE)  # without a gap
        _set(self._file, _OTHERS)
        return True

    def _hold_index(self, name: str, seconds: float, meanwhile: Callable[[], object]) -> None:
        if self._index is None or not _is_same(self._index, name):  # never twice: see is_beside_another
            self._index = os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._kept.append(self._index)
        index = self._index
        if _try(index, _FIRST):  # as SQLite does it: an index that nobody uses may be older than the log
            os.fchmod(index, stat.S_IMODE(os.fstat(self._file).st_mode))
            os.ftruncate(index, 3)
        _patiently(lambda: _try(index, _USED), seconds, meanwhile)

    def _has_log(self, path: str) -> bool:
        return os.pread(self._file, 2, 18) == b"\2\2" and not _is_to_be_rolled_back(f"{path}-journal")

    def is_alone(self) -> bool:
        """Does no other process have the database open, and no other connection of this one?"""
        if not self.is_held or self.members > 1:
            return False
        others = _lock(fcntl.F_WRLCK, _SHARED, _SHARED_BYTES - 1)  # without the byte of our own
        kind, *_ = struct.unpack(_FLOCK, fcntl.fcntl(self._file, fcntl.F_GETLK, others))
        return bool(kind == fcntl.F_UNLCK)

    def is_beside_another(self) -> bool:
        """Does another copy of SQLite in this process have the index open? Each opens it once."""
        return self._index is not None and self._others(self._index) > bool(self.members or self._stay)

    def _others(self, file: int) -> int:
        """How many descriptors of a file this process has besides those of this guard."""
        status, found = os.fstat(file), 0
        for descriptor in _DESCRIPTORS.iterdir():
            with suppress(OSError):
                number = int(descriptor.name)
                found += number not in self._kept and os.path.samestat(os.fstat(number), status)
        return found

    # ---- going -----------------------------------------------------------------------------------------------------

    def close_last(self, close: Callable[[], None]) -> None:
        """Close the last connection of this process, by ``close``: at a moment when nobody has a lock on the index."""
        index = self._index
        is_quiet = index is not None and _patiently(lambda: _try(index, _QUIET), _CLOSE_SECONDS, lambda: None)
        try:
            if not is_quiet and self.is_beside_another():
                self._keep_open()
            close()
        finally:
            if is_quiet and index is not None and not self.is_closed:
                _set(index, _BUSY)

    def _keep_open(self) -> None:
        """The other copy is at work; as long as a connection is here, SQLite closes nothing."""
        place = self.place()
        if place is not None and self._stay is None:
            with suppress(apsw.Error):
                self._stay = apsw.Connection(str(place), flags=apsw.SQLITE_OPEN_READWRITE)
                self._stay.execute("PRAGMA user_version")

    def is_gone(self) -> bool:
        """Close everything, if nobody is left in this process; the last one of all removes the log."""
        if not _patiently(lambda: _try(self._file, _SHUT), _CLOSE_SECONDS, lambda: None):
            return False
        if self._stay is not None and not self.is_beside_another():
            self._stay.close()
            self._stay = None
        if self._stay is not None or self.is_beside_another() or self._others(self._file):
            _set(self._file, _OPEN)
            return False
        if self.is_held and _try(self._file, _ONLY):
            self._remove_log()
        self.close()
        return True

    def _remove_log(self) -> None:
        """Nobody has the database open, and nobody can open it. What is in the log stays for the next one."""
        place = self.place()
        if place is None or self._index is None:
            return
        log, index = Path(f"{place}-wal"), Path(f"{place}-shm")
        with suppress(OSError):
            if log.stat().st_size == 0 and _is_same(self._index, str(index)):
                log.unlink()
                index.unlink()

    def close(self) -> None:
        """Nobody uses it any more."""
        self.is_closed, self.is_held = True, False
        self._index = None
        self._free.clear()
        while self._kept:  # what keeps others off comes last
            os.close(self._kept.pop())

    # ---- one writes ------------------------------------------------------------------------------------------------

    def new_turn(self) -> int:
        """A place from which one connection asks for the right to write."""
        try:
            return self._free.pop()
        except IndexError:
            self._kept.append(os.open(_DESCRIPTORS / str(self._file), os.O_RDWR | os.O_CLOEXEC))
            return self._kept[-1]

    def take_turn(self, turn: int, seconds: float, meanwhile: Callable[[], object]) -> None:
        """The right to write, among all processes; ``give_turn`` gives it back."""
        if not _patiently(lambda: _is_locked(turn), seconds, meanwhile):
            raise apsw.BusyError("database is locked")

    def give_turn(self, turn: int) -> None:
        """Done with writing; also when nobody knows whether it had begun."""
        if not self.is_closed:  # by a fork
            fcntl.flock(turn, fcntl.LOCK_UN)

    def keep_turn(self, turn: int) -> None:
        """For another connection."""
        self.give_turn(turn)
        self._free.append(turn)

    # ---- where it is -----------------------------------------------------------------------------------------------

    def place(self) -> Path | None:
        """The name that the file has now; ``None`` when it has none, or nobody can tell."""
        with suppress(OSError):
            if not self.is_closed and os.fstat(self._file).st_nlink:
                return (_DESCRIPTORS / str(self._file)).readlink()
        return None

    def index(self) -> bytes:
        """The salts of the log, and how far checkpoints have tried to go in it; see SQLite's "WAL-index format"."""
        if self._index is None:
            return b""
        found = os.pread(self._index, _INDEX_BYTES, 0)
        return found[32:40] + found[128:]


class Patience:
    """Short uneven naps between one attempt and the next, for so many seconds; ``meanwhile`` is called now and then."""

    def __init__(self, seconds: float, meanwhile: Callable[[], object]) -> None:
        self._deadline = time.monotonic() + seconds
        self._look = time.monotonic() + LOOK_SECONDS
        self._meanwhile = meanwhile
        self._attempt = 0

    def nap(self) -> bool:
        """A little longer each time, and never quite as long as somebody else's; ``False`` when it is over."""
        now = time.monotonic()
        if now >= self._deadline:
            return False
        if now >= self._look:
            self._meanwhile()
            self._look = time.monotonic() + LOOK_SECONDS
        uneven = (time.monotonic_ns() // 1000 % 1000) / 1000
        self._attempt += 1
        time.sleep(min(0.0005 * self._attempt, _LONGEST_NAP) * (0.5 + uneven))
        return True


def _set(descriptor: int, lock: bytes) -> None:
    assert _SET is not None
    fcntl.fcntl(descriptor, _SET, lock)


def _is_to_be_rolled_back(journal: str) -> bool:
    """Somebody was killed who wrote without a log; a journal that is over is gone, empty, or begins with a zero."""
    with suppress(FileNotFoundError), open(journal, "rb") as file:
        return file.read(1) not in (b"", b"\0")
    return False


def _give_log(path: str) -> None:
    """Another program has set ``journal_mode``; the caller has the database to itself.

    Our own locks would be in SQLite's way, so this connection takes none; what was broken off it takes back.
    """
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READWRITE, vfs="unix-none")) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # no index, which others could see
        connection.execute("PRAGMA journal_mode = WAL").fetchall()


def _is_same(descriptor: int, name: str) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.stat(name))
    return False


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _try(descriptor: int, lock: bytes) -> bool:
    try:
        _set(descriptor, lock)
    except BlockingIOError:
        return False
    return True


def _patiently(is_done: Callable[[], bool], seconds: float, meanwhile: Callable[[], object]) -> bool:
    if is_done():
        return True
    patience = Patience(seconds, meanwhile)
    while patience.nap():
        if is_done():
            return True
    return False


# ---- one for each file -----------------------------------------------------------------------------------------------

_guards: dict[tuple[int, int], FileGuard] = {}
# Re-entrant: a forgotten connection may be collected at any moment. So every step leaves something whole.
_entering = threading.RLock()


def enter(path: str) -> FileGuard | None:
    """One more connection of this process to the database; ``leave`` must follow. ``None`` where there are no locks."""
    if _SET is None:
        return None
    with _entering:
        use_description_locks()
        _sweep()
        while True:
            try:
                guard = _guards.get(_identity(os.stat(path))) or _new(path)
            except OSError:  # read-only, or gone: whoever opens it gets told
                return None
            guard.members += 1
            if not guard.is_closed:
                return guard


def leave(guard: FileGuard, close: Callable[[], None]) -> None:
    """A connection is closed, by ``close``."""
    try:
        guard.close_last(close) if guard.members == 1 else close()
    finally:
        with _entering:
            guard.members -= 1
            _sweep()


def _new(path: str) -> FileGuard:
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    identity = _identity(os.fstat(file))
    if identity in _guards:  # put there in just this moment
        _guards[identity]._kept.append(file)
        return _guards[identity]
    guard = _guards[identity] = FileGuard(file)
    return guard


def _sweep() -> None:
    """Close what nobody uses; beside connections that are not ours, once they are gone: to close drops their locks."""
    # Names only: pairs are made one by one, and the garbage collection that this may start closes connections, too.
    for identity in list(_guards):
        guard = _guards.get(identity)
        if guard is not None and guard.members == 0 and guard.is_gone():
            _guards.pop(identity, None)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _forget() -> None:
    """In a forked child: the locks are the parent's, and would live on with the child."""
    global _entering
    _entering = threading.RLock()
    while _guards:
        _guards.popitem()[1].close()


os.register_at_fork(after_in_child=_forget)
