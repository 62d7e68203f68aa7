"""The heartbeat: a thread that renews a lease while its task is open.

A stopped process (SIGSTOP, a suspended laptop) does not renew, so its lease runs out and the task can be taken over;
a process that merely waits for a slow model keeps it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from orihon.errors import StateError, StorageError

logger = logging.getLogger("orihon.heartbeat")


class Heartbeat:
    """Calls ``beat`` every ``seconds`` until it is stopped or the task has been taken over."""

    def __init__(self, beat: Callable[[], object], seconds: float, name: str) -> None:
        self._beat = beat
        self._seconds = seconds
        self._name = name
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"orihon-heartbeat-{name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No beat starts after this returns."""
        self._stopped.set()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._beat()
            except StateError as error:  # taken over, or no longer in the catalogue: there is nothing left to renew
                logger.warning("%s: %s", self._name, error)
                return
            except StorageError as error:
                logger.warning("%s: the lease could not be renewed: %s", self._name, error)
