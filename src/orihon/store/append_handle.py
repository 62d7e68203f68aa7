"""``AppendHandle``: a file of the ``files`` back end while lines are appended to it.

Lines are written whole or not at all: a disk that takes only a part of them is full. What was appended since the last
commit can be taken back. When it reaches the disk (``sync``) is the business of its owner; only the last of several
lines that belong together waits for the others, so that it tells that they are all there (see ``jsonl``).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from orihon.store.contract import Pieces
from orihon.store.jsonl import CONTINUED

# The system takes no more of them in one write.
_MOST_PIECES = 1000


class AppendHandle:
    """A file open for appending that can take back what was appended since the last commit."""

    __slots__ = ("_is_synced", "durable", "fd", "grown", "size")

    def __init__(self, fd: int, *, durable: bool) -> None:
        self.fd = fd
        self.durable = durable
        self.size = os.fstat(fd).st_size
        self.grown = 0
        self._is_synced = True

    def append(self, lines: Sequence[Pieces], *, together: bool, ending: bytes = b"\n") -> None:
        """Lines that are all there, or do not count (``together``), or that do not know of each other."""
        if together and len(lines) > 1:
            self.append(lines[:-1], together=False, ending=CONTINUED)
            self.sync()
            lines = lines[-1:]
        data: list[bytes | memoryview] = [piece for line in lines for piece in (*line, ending)]
        if len(data) > _MOST_PIECES:
            data = [b"".join(data)]
        length = sum(map(len, data))
        self._is_synced = False
        if os.writev(self.fd, data) != length:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.grown += length

    def sync(self) -> None:
        """What was appended reaches the disk, where that is wanted."""
        if self.durable and not self._is_synced:
            os.fsync(self.fd)
            self._is_synced = True

    def commit(self) -> None:
        self.size += self.grown
        self.grown = 0

    def roll_back(self) -> None:
        self.grown = 0
        os.ftruncate(self.fd, self.size)
