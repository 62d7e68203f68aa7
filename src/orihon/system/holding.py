"""What a process holds on to, and others wait for: folders and locks.

``HeldFolder`` is a folder by itself, whatever has its name meanwhile: a process may stand still between two of its
steps, and somebody may have put another folder under the name. Locks are waited for, but never for ever. A process that
was stopped (``SIGSTOP``, a debugger, a frozen container) keeps its locks, and nobody can take them from it. One that a
signal has stopped is let go on for the moment that its write takes (``let_finish``); for others whoever waits gives up
in time and says which process it is.
"""

from __future__ import annotations

import fcntl
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from orihon.errors import StorageUnavailable
from orihon.system.clock import is_stopped, is_stopped_by_signal
from orihon.system.files import DESCRIPTORS

#: So long a lock is waited for that is never held for longer than a write takes.
LOCK_SECONDS = 30.0
#: After so long a wait somebody looks whether the holder is stopped, and again each time.
LOOK_SECONDS = 0.5

logger = logging.getLogger("orihon.system")

_PROCESSES = Path("/proc")
_LOCKS = _PROCESSES / "locks"
_NAP = 0.002
#: A process that is let go on has so long to end its write, and so often it may begin another one.
_WRITE_SECONDS, _MOST_WRITES = 2.0, 20
#: A line of ``/proc/locks``: number, kind, "ADVISORY", "WRITE", process, file, from, to.
_FIELDS = 8
#: The process of a lock that belongs to an open description.
_OF_A_DESCRIPTION = -1


class HeldFolder:
    """A folder that stays open until nobody needs this object any more; so its number is not given to another."""

    def __init__(self, folder: Path) -> None:
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._name = str(folder)
        self._identity = _identity(os.fstat(self._fd))
        by_number = Path(f"{DESCRIPTORS}/{self._fd}")
        #: Leads to this folder; where the system has no such paths, to whatever has its name.
        self.path = by_number if by_number.is_dir() else folder

    def __del__(self) -> None:
        if (fd := getattr(self, "_fd", -1)) >= 0:
            os.close(fd)

    def is_in_place(self) -> bool:
        """Is this still the folder under its name, here or where it was moved with that name?"""
        try:
            if _identity(os.stat(self._name)) == self._identity:
                return True
        except (FileNotFoundError, NotADirectoryError):
            pass
        try:
            return Path(f"{DESCRIPTORS}/{self._fd}").readlink().name == Path(self._name).name
        except OSError:
            return False

    def is_at(self, path: Path) -> bool:
        """Does this path lead to it?"""
        try:
            return _identity(os.stat(path)) == self._identity
        except (FileNotFoundError, NotADirectoryError):
            return False


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def lock_file(fd: int, path: Path, *, seconds: float = LOCK_SECONDS) -> None:
    """Lock an open file for this process alone; ``StorageUnavailable`` when another keeps it for so long."""
    if is_locked_within(fd, seconds, meanwhile=lambda: let_finish(path)):
        return
    raise held_too_long(path, seconds)


def is_locked_within(fd: int, seconds: float, *, meanwhile: Callable[[], object] = lambda: None) -> bool:
    """The same; ``False`` when another keeps it. What is to be done ``meanwhile`` is done every ``LOOK_SECONDS``."""
    give_up = look = 0.0  # nearly always it is free, and no clock is needed
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            now = time.monotonic()
            give_up, look = give_up or now + seconds, look or now + LOOK_SECONDS
            if now >= give_up:
                return False
            if now >= look:
                meanwhile()
                look = time.monotonic() + LOOK_SECONDS
        time.sleep(_NAP)


def held_too_long(path: Path, seconds: float, *, pid: int = 0) -> StorageUnavailable:
    """The error about a lock that a process does not let go of; it says whether that process is stopped."""
    pid = pid or next(iter(lock_holders(path)), 0)
    reason = "held_stopped" if pid and is_stopped(pid) else "held"
    return StorageUnavailable(reason, path=path, pid=pid or "?", seconds=seconds)


def let_finish(*paths: Path) -> None:
    """Let processes that a signal has stopped in the middle of a write end it; then they are stopped as before.

    For what all share, and nobody can do without. A write is short, and whatever such a process writes besides is
    fenced. Not for a debugger's or a frozen container's, nor for those of other users.
    """
    for pid in lock_holders(*paths):
        with suppress(OSError, AttributeError):  # it has ended meanwhile, is not ours, or the system has no such means
            process = os.pidfd_open(pid)
            try:
                _let_finish(process, pid, paths)
            finally:
                os.close(process)


def _let_finish(process: int, pid: int, paths: tuple[Path, ...]) -> None:
    """It is stopped again at a moment when it has none of the locks."""
    for attempt in range(_MOST_WRITES):
        if not (is_stopped_by_signal(pid) and pid in lock_holders(*paths)):
            return
        if attempt == 0:
            logger.warning("process %s, which was stopped in the middle of a write, may end it", pid)
        signal.pidfd_send_signal(process, signal.SIGCONT)
        try:
            _wait(lambda: pid not in lock_holders(*paths))
        finally:
            signal.pidfd_send_signal(process, signal.SIGSTOP)
        _wait(lambda: is_stopped(pid))


def _wait(is_so: Callable[[], bool]) -> None:
    give_up = time.monotonic() + _WRITE_SECONDS
    while not is_so() and time.monotonic() < give_up:
        time.sleep(_NAP)


def lock_holders(*paths: Path) -> list[int]:
    """The processes that have one of these files for themselves, stopped ones first; none where it cannot be told.

    Read from the system's tables: to open a file and close it again would drop the locks that SQLite has on it here.
    """
    wanted = set()
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        wanted.add(f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}")
    found = set(_holders(_LOCKS, wanted))
    if _OF_A_DESCRIPTION in found:
        found |= {pid for pid in _stopped() for _ in _held_by(pid, wanted)}
    return sorted(found - {os.getpid(), _OF_A_DESCRIPTION}, key=lambda pid: (not is_stopped(pid), pid))


def _holders(table: Path, wanted: set[str]) -> Iterator[int]:
    """Who has locked a file alone, by a table of the system's."""
    try:
        lines = table.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        fields = line.removeprefix("lock:").split()
        if len(fields) == _FIELDS and fields[3] == "WRITE" and fields[5] in wanted:
            yield int(fields[4])


def _stopped() -> Iterator[int]:
    with suppress(OSError):
        for entry in _PROCESSES.iterdir():
            if entry.name.isdecimal() and is_stopped(int(entry.name)):
                yield int(entry.name)


def _held_by(pid: int, wanted: set[str]) -> Iterator[int]:
    """Locks of open descriptions are in the table without their process; where it may be looked at, they are its."""
    with suppress(OSError):
        for table in (_PROCESSES / str(pid) / "fdinfo").iterdir():
            yield from _holders(table, wanted)
