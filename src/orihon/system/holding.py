"""What a process holds on to, and others wait for: folders and locks.

``HeldFolder`` is a folder by itself, whatever has its name meanwhile: a process may stand still between two of its
steps, and somebody may have put another folder under the name. Locks are waited for, but never for ever. A process that
was stopped (``SIGSTOP``, a debugger, a frozen container) keeps its locks, and nobody can take them from it: whoever
waits gives up in time and says which process it is.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from orihon.errors import StorageUnavailable
from orihon.system.clock import is_stopped
from orihon.system.files import DESCRIPTORS

#: So long a lock is waited for that is never held for longer than a write takes.
LOCK_SECONDS = 30.0

_LOCKS = Path("/proc/locks")
_NAP = 0.002
#: A line of ``/proc/locks``: number, kind, "ADVISORY", "WRITE", process, file, from, to.
_FIELDS = 8


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
    if is_locked_within(fd, seconds):
        return
    raise held_too_long(path, seconds)


def is_locked_within(fd: int, seconds: float) -> bool:
    """The same; ``False`` when another keeps it."""
    give_up = 0.0  # nearly always it is free, and no clock is needed
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            now = time.monotonic()
            give_up = give_up or now + seconds
            if now >= give_up:
                return False
        time.sleep(_NAP)


def held_too_long(path: Path, seconds: float, *, pid: int = 0) -> StorageUnavailable:
    """The error about a lock that a process does not let go of; it says whether that process is stopped."""
    pid = pid or next(iter(lock_holders(path)), 0)
    reason = "held_stopped" if pid and is_stopped(pid) else "held"
    return StorageUnavailable(reason, path=path, pid=pid or "?", seconds=seconds)


def lock_holders(*paths: Path) -> list[int]:
    """The processes that have one of these files for themselves, stopped ones first; none where it cannot be told.

    Read from the system's table: to open a file and close it again would drop the locks that SQLite has on it here.
    """
    wanted = set()
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        wanted.add(f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}")
    try:
        lines = _LOCKS.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return []
    found = {
        int(fields[4])
        for fields in map(str.split, lines)
        if len(fields) == _FIELDS and fields[3] == "WRITE" and fields[5] in wanted
    }
    return sorted(found - {os.getpid(), -1}, key=lambda pid: (not is_stopped(pid), pid))
