"""The tasks of sessions that a process has open: opened when something is written, let go when nobody writes any more.

A framework does not say when a conversation rests. So a task that was not used for a moment is paused, and the next
process that writes to it waits that long at most, instead of being refused for as long as this one lives.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from orihon.adapters.common import session_task
from orihon.base import Base
from orihon.errors import OrihonError, StaleWriter, TaskBusy
from orihon.tasks.task import Task

_REST = 2.0  # seconds without use after which a task is let go
_PATIENCE = 10.0  # seconds that a writer waits for another process to let go
_LOOK = 0.1

_of_bases: WeakKeyDictionary[Base, OpenTasks]


@dataclass(slots=True)
class _Held:
    task: Task
    users: int = 0
    used: float = 0.0


class OpenTasks:
    """What the adapters have open in one base."""

    def __init__(self, base: Base) -> None:
        self._base = base
        self._held: dict[tuple[str, str], _Held] = {}
        self._lock = threading.RLock()
        self._keeper: threading.Thread | None = None
        atexit.register(self.let_go)

    @contextmanager
    def using(self, session: str | Task, user: str = "") -> Iterator[Task]:
        """The task of a session while something is written to it; ``TaskBusy`` when another process keeps it."""
        if isinstance(session, Task):
            yield session
            return
        held = self._enter((session, user))
        try:
            yield held.task
        except StaleWriter:
            with self._lock:
                self._held.pop((session, user), None)
            raise
        finally:
            with self._lock:
                held.users -= 1
                held.used = time.monotonic()

    @contextmanager
    def if_open(self, session: str | Task, user: str = "") -> Iterator[Task | None]:
        """The same for who reads; ``None`` where it is not open here."""
        if isinstance(session, Task):
            yield session if session.is_open else None
            return
        with self._lock:
            held = self._held.get((session, user))
            if held is not None and held.task.is_open:
                held.users += 1
            else:
                held = None
        try:
            yield None if held is None else held.task
        finally:
            if held is not None:
                with self._lock:
                    held.users -= 1

    def let_go(self, session: str | None = None, user: str = "") -> None:
        """Pause what is open and not in use: of one session, or all."""
        self._release(0.0, None if session is None else (session, user))

    def _enter(self, name: tuple[str, str]) -> _Held:
        until = time.monotonic() + _PATIENCE
        while True:
            with self._lock:
                held = self._held.get(name)
                if held is not None and held.task.is_open:
                    held.users += 1
                    return held
                try:
                    held = self._held[name] = _Held(session_task(self._base, name[0], user=name[1]), users=1)
                    self._keep()
                    return held
                except TaskBusy:
                    if time.monotonic() >= until:
                        raise
            time.sleep(_LOOK)

    def _keep(self) -> None:
        if self._keeper is None or not self._keeper.is_alive():
            self._keeper = threading.Thread(target=self._look_after, name="orihon-adapters", daemon=True)
            self._keeper.start()

    def _look_after(self) -> None:
        while True:
            time.sleep(_REST / 4)
            self._release(_REST)
            with self._lock:
                if not self._held:
                    self._keeper = None
                    return

    def _release(self, rested: float, name: tuple[str, str] | None = None) -> None:
        with self._lock:
            before = time.monotonic() - rested
            for one, held in list(self._held.items()):
                if held.users == 0 and held.used <= before and name in (None, one):
                    del self._held[one]
                    if held.task.is_open:
                        with suppress(OrihonError):  # somebody has taken it over: then it is his
                            held.task.stop()


_of_bases = WeakKeyDictionary()
_making = threading.Lock()


def open_tasks(base: Base) -> OpenTasks:
    """The one of a base."""
    with _making:
        if base not in _of_bases:
            _of_bases[base] = OpenTasks(base)
        return _of_bases[base]
