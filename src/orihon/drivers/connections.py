"""Connections (to SQLite, to a broker) that survive threads and forks.

A thread gets a connection of its own, so readers never wait for a writer. Before the process forks, every
connection is closed, and opened again on both sides when it is next used. Opening a new one in the child is
not enough: SQLite keeps one list of its file locks per process, the child inherits the list but not the
locks, and the parent, closing last as it believes, removes the write-ahead log under the child's acknowledged
writes.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet


class Closable(Protocol):
    """What can be held here."""

    def close(self) -> None: ...


_Connection = TypeVar("_Connection", bound=Closable)


class ThreadConnections(Generic[_Connection]):
    """The connections of one process to one database, one for each thread."""

    def __init__(
        self, open_connection: Callable[[], _Connection], is_usable: Callable[[_Connection], bool] = lambda _: True
    ) -> None:
        """``is_usable`` is asked before each use; a connection that is not is closed, and another opened."""
        self._open_connection = open_connection
        self._is_usable = is_usable
        self._local = threading.local()
        self._slots: WeakSet[_Slot[_Connection]] = WeakSet()
        _close_at_forks()
        with _registry:
            _pools.add(self)

    @contextmanager
    def use(self) -> Iterator[_Connection]:
        """This thread's connection. Finish with it inside: a fork in another thread waits for that."""
        connection = self.take()
        try:
            yield connection
        finally:
            self.give_back()

    def take(self, *, is_looked_at: bool = True) -> _Connection:
        """The same without a block; ``give_back`` must follow in this thread.

        Not ``is_looked_at``: whoever takes it finds out at the end whether it was usable.
        """
        slot = self._slot()
        slot.lock.acquire()
        try:
            if is_looked_at and slot.connection is not None and not self._is_usable(slot.connection):
                slot.close()
            if slot.connection is None:
                slot.connection = self._open_connection()
            return slot.connection
        except BaseException:
            slot.lock.release()
            raise

    def give_back(self) -> None:
        """This thread has finished with its connection."""
        self._slot().lock.release()

    def close(self) -> None:
        """Close the connections of all threads; the next use opens again."""
        with _registry:
            slots = list(self._slots)
        for slot in slots:
            with slot.lock:
                slot.close()

    def _slot(self) -> _Slot[_Connection]:
        slot: _Slot[_Connection] | None = getattr(self._local, "slot", None)
        if slot is None:
            slot = self._local.slot = _Slot()
            with _registry:
                self._slots.add(slot)
        return slot


class _Slot(Generic[_Connection]):
    """The place of one thread's connection. It goes with the thread, and the connection with it."""

    __slots__ = ("__weakref__", "connection", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.connection: _Connection | None = None

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None


_registry = threading.Lock()
_pools: WeakSet[ThreadConnections[Any]] = WeakSet()
_held_for_fork: list[_Slot[Any]] = []


@cache
def _close_at_forks() -> None:
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


def _before_fork() -> None:
    _registry.acquire()
    for pool in list(_pools):
        for slot in list(pool._slots):
            slot.lock.acquire()
            _held_for_fork.append(slot)
            slot.close()


def _after_fork() -> None:
    while _held_for_fork:
        _held_for_fork.pop().lock.release()
    _registry.release()
