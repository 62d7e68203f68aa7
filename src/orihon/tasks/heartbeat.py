"""The heartbeat: a thread that renews leases while their tasks are open.

A stopped process (SIGSTOP, a suspended laptop) does not renew, so its lease runs out and the task can be taken over;
a process that merely waits for a slow model keeps it. All tasks of a catalogue in a process share one thread, and with
it one connection: a process may have hundreds of them open.
"""

from __future__ import annotations

import heapq
import logging
import os
import threading
import time
from collections.abc import Callable
from itertools import count

from orihon.errors import StateError, StorageError

logger = logging.getLogger("orihon.heartbeat")

_NUMBERS = count()


class Heartbeat:
    """Calls ``beat`` every ``seconds`` until it is stopped or the task has been taken over.

    Those of one ``group`` are called one after another: what keeps one of them waiting keeps the others, too.
    """

    def __init__(self, beat: Callable[[], object], seconds: float, name: str, *, group: str = "") -> None:
        self.beat = beat
        self.seconds = seconds
        self.name = name
        self.is_stopped = False
        self._pulse = _pulse_of(group)
        self._pulse.add(self)

    def stop(self) -> None:
        """No beat starts after this returns, and none is under way."""
        self._pulse.remove(self)


class _Pulse:
    """The thread of one group; it ends when nothing is left to do, and another begins when there is."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._changed = threading.Condition()
        self._due: list[tuple[float, int, Heartbeat]] = []
        self._beating: Heartbeat | None = None
        self._thread: threading.Thread | None = None

    def add(self, heartbeat: Heartbeat) -> None:
        with self._changed:
            self._put(heartbeat)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="orihon-heartbeat", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def remove(self, heartbeat: Heartbeat) -> None:
        with self._changed:
            heartbeat.is_stopped = True
            self._due = [one for one in self._due if one[2] is not heartbeat]
            heapq.heapify(self._due)
            self._changed.notify_all()
            while self._beating is heartbeat and self._thread is not threading.current_thread():
                self._changed.wait()

    def _put(self, heartbeat: Heartbeat) -> None:
        heapq.heappush(self._due, (time.monotonic() + heartbeat.seconds, next(_NUMBERS), heartbeat))

    def _run(self) -> None:
        while (heartbeat := self._next()) is not None:
            is_over = _is_over_after(heartbeat)
            with self._changed:
                self._beating = None
                if not is_over and not heartbeat.is_stopped:
                    self._put(heartbeat)
                self._changed.notify_all()

    def _next(self) -> Heartbeat | None:
        with self._changed:
            while self._due:
                left = self._due[0][0] - time.monotonic()
                if left <= 0:
                    self._beating = heapq.heappop(self._due)[2]
                    return self._beating
                self._changed.wait(left)
            self._thread = None
            return None


def _is_over_after(heartbeat: Heartbeat) -> bool:
    try:
        heartbeat.beat()
    except StateError as error:  # taken over, or no longer in the catalogue: there is nothing left to renew
        logger.warning("%s: %s", heartbeat.name, error)
        return True
    except StorageError as error:
        logger.warning("%s: the lease could not be renewed: %s", heartbeat.name, error)
    except Exception:  # the others of the group still have to be kept alive
        logger.exception("%s: the lease could not be renewed", heartbeat.name)
    return False


_PULSES: dict[tuple[int, str], _Pulse] = {}
_LOOKING = threading.Lock()


def _pulse_of(group: str) -> _Pulse:
    """In a forked process there is no thread of its parent."""
    with _LOOKING:
        return _PULSES.setdefault((os.getpid(), group), _Pulse(group))


def _begin_in_child() -> None:
    global _LOOKING
    _LOOKING = threading.Lock()
    _PULSES.clear()


os.register_at_fork(after_in_child=_begin_in_child)
