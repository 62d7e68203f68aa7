"""A lock that is free in a forked child.

A thread of the parent may hold it at the fork; in the child there is nobody who would let it go.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Hashable
from functools import cache


class ForkSafeLock:
    """A re-entrant lock, to be used in a ``with`` block."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _free_at_forks()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def free(self) -> None:
        """Nobody holds it any more."""
        self._lock = threading.RLock()


class NamedLocks:
    """One such lock for each name that somebody uses."""

    def __init__(self) -> None:
        self._by_name: weakref.WeakValueDictionary[Hashable, ForkSafeLock] = weakref.WeakValueDictionary()
        self._lock = ForkSafeLock()

    def of(self, name: Hashable) -> ForkSafeLock:
        """The lock of this name; it lives as long as anybody holds on to it."""
        with self._lock:
            found = self._by_name.get(name)
            if found is None:
                found = self._by_name[name] = ForkSafeLock()
            return found


_LOCKS: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


@cache
def _free_at_forks() -> None:
    os.register_at_fork(after_in_child=_free_all)


def _free_all() -> None:
    for lock in list(_LOCKS):
        lock.free()
