"""Changes of one task take turns: two that come at once would refuse each other, for each holds the task's lease.

Whoever waits has a thread, and all requests share those: only some wait, and not for long. All others go on at once,
and the lease decides.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

#: Who waits, for all tasks together: a fifth of the threads that answer requests.
MOST_WAITING = 8
_PATIENCE = 10.0


@dataclass(slots=True)
class _Line:
    lock: threading.Lock = field(default_factory=threading.Lock)
    people: int = 0


class Turns:
    """One line for each task that is being changed."""

    def __init__(self, patience: float = _PATIENCE) -> None:
        self._lines: dict[str, _Line] = {}
        self._lock = threading.Lock()
        self._patience = patience
        self._room = threading.Semaphore(MOST_WAITING)

    @contextmanager
    def of(self, task: str) -> Iterator[None]:
        """Nobody else is in this block for the same task, unless that would take too long."""
        with self._lock:
            line = self._lines.setdefault(task, _Line())
            line.people += 1
        is_ours = False
        try:
            is_ours = line.lock.acquire(blocking=False) or self._waited(line)
            yield
        finally:
            if is_ours:
                line.lock.release()
            with self._lock:
                line.people -= 1
                if not line.people:
                    del self._lines[task]

    def _waited(self, line: _Line) -> bool:
        if not self._room.acquire(blocking=False):
            return False
        try:
            return line.lock.acquire(timeout=self._patience)
        finally:
            self._room.release()
