"""``Supervisor``: keeps a number of worker processes alive, and ends them in good order.

A worker that dies is started again, at first soon, later after pauses that grow with each quick death. A worker that
says that it cannot work at all (a wrong setting, a damaged catalogue) ends them all. The first SIGTERM or SIGINT drains
the workers and waits for them up to ``drain_seconds``; the second kills them. When the supervisor itself is killed, its
workers notice and drain.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from orihon.runtime.broker_queue import open_queue
from orihon.runtime.child import EXIT_REFUSED, LogPlan, WorkerSpec
from orihon.runtime.handlers import DEFAULT_HANDLER
from orihon.runtime.poller import SourcePoller, sources_of
from orihon.runtime.queue import QueueLimits
from orihon.settings import Settings, load_settings
from orihon.system.processes import DEBUGGABLE
from orihon.texts import language

logger = logging.getLogger("orihon.supervisor")

_LOOK_SECONDS = 0.05
_HEALTHY_SECONDS = 10.0  # whoever lived so long did not die of its start
# -P: a file in the working folder, where agents write, must not stand in for a module.
_COMMAND = (sys.executable, "-P", "-m", "orihon.runtime.child")
# What the interpreter and its libraries want to know before the worker has read anything. No keys: see ``child``.
_AT_START = re.compile(
    r"PATH|HOME|USER|LOGNAME|TMPDIR|TZ|LANG|LANGUAGE|VIRTUAL_ENV|PYTHON[A-Z]*"
    rf"|(?:LC|LD|DYLD|MALLOC|GLIBC|OPENSSL|COV|COVERAGE)_\w+|{DEBUGGABLE}"
)


@dataclass(slots=True)
class SupervisedWorker:
    """One place for a worker, and the process in it."""

    spec: WorkerSpec
    process: subprocess.Popen[bytes] | None = None
    line: BinaryIO | None = None  # to its standard input
    started: float = 0.0
    quick_deaths: int = 0
    start_at: float = 0.0
    exit_code: int | None = None
    is_done: bool = False

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """A new process, in a group of its own: Ctrl-C is for the supervisor, which passes it on."""
        try:
            # Not a pipe: whoever may look at the process could open its end of one, and read what is meant for it.
            ours, theirs = socket.socketpair()
            with ours, theirs:
                environment = {name: value for name, value in os.environ.items() if _AT_START.fullmatch(name)}
                self.process = subprocess.Popen(_COMMAND, stdin=theirs.fileno(), process_group=0, env=environment)
                self.line = ours.makefile("wb")
        except OSError as error:  # the machine has no room for it now
            logger.warning("worker %s could not be started: %s", self.spec.worker_id, error)
            self._count_quick_death()
            return
        self.started = time.monotonic()
        with suppress(OSError):  # dead already: the next look finds out
            self.spec.write(self.line)

    def bury(self) -> None:
        """Take note of a process that has ended."""
        assert self.process is not None
        assert self.line is not None
        self.exit_code = self.process.wait()
        with suppress(OSError):
            self.line.close()
        self.process = self.line = None
        if time.monotonic() - self.started >= _HEALTHY_SECONDS:
            self.quick_deaths = 0
        self.is_done = self.exit_code == EXIT_REFUSED or (self.spec.until_empty and self.exit_code == 0)
        self._count_quick_death()

    def _count_quick_death(self) -> None:
        self.quick_deaths += 1
        self.start_at = time.monotonic() + self.spec.limits.restart_after(self.quick_deaths)

    def signal(self, number: int) -> None:
        if self.process is not None:
            self.process.send_signal(number)


def monitor_workers(workers: Sequence[SupervisedWorker]) -> None:
    """One look: the dead are noted, and started again when their time has come."""
    for worker in workers:
        if worker.process is not None and not worker.is_alive:
            worker.bury()
            if not worker.is_done:
                logger.warning("worker %s ended with %s", worker.spec.worker_id, worker.exit_code)
        if worker.process is None and not worker.is_done and time.monotonic() >= worker.start_at:
            worker.start()


class Supervisor:
    """``count`` workers on one base folder."""

    def __init__(
        self,
        count: int | None = None,
        config: Mapping[str, Any] | Settings | None = None,
        *,
        base_dir: Path | str | None = None,
        handler: str = DEFAULT_HANDLER,
        limits: QueueLimits | None = None,
        until_empty: bool = False,
        logs: LogPlan | None = None,
    ) -> None:
        settings = load_settings(config)
        base = Path(base_dir if base_dir is not None else settings.context_storage.base_dir).absolute()
        self.limits = limits or QueueLimits.of(settings)
        self.workers = [
            SupervisedWorker(
                WorkerSpec(str(number), settings, base, handler, self.limits, until_empty, logs, language())
            )
            for number in range(1, (count or settings.multiprocess.max_workers) + 1)
        ]
        self._poller = SourcePoller(open_queue(base, settings), sources_of(settings), settings.sources.poll_interval)
        self._until_empty = until_empty
        self._wake = threading.Event()
        self._signals = 0

    def run(self) -> bool:
        """Work until told to stop, or until the queue is empty if that is wanted; false when a worker cannot work."""
        previous = self._listen()
        if self._until_empty:
            self._poller.poll_once()
        else:
            self._poller.start()
        try:
            while not self._signals and not all(worker.is_done for worker in self.workers):
                monitor_workers(self.workers)
                if self._is_refused():
                    break
                self._wake.wait(_LOOK_SECONDS)
        finally:
            self._poller.stop()
            self._drain()
            for number, handler in previous.items():
                signal.signal(number, handler)
        return not self._is_refused()

    def _is_refused(self) -> bool:
        return any(worker.exit_code == EXIT_REFUSED for worker in self.workers)

    def stop(self) -> None:
        """Drain, as by a signal; a second call kills."""
        self._signals += 1
        self._wake.set()

    def _listen(self) -> dict[int, Any]:
        if threading.current_thread() is not threading.main_thread():
            return {}
        numbers = (signal.SIGTERM, signal.SIGINT)
        return {number: signal.signal(number, lambda *_: self.stop()) for number in numbers}

    def _drain(self) -> None:
        for worker in self.workers:
            worker.signal(signal.SIGTERM)
        give_up = time.monotonic() + self.limits.drain_seconds
        while any(worker.is_alive for worker in self.workers):
            if self._signals > 1 or time.monotonic() >= give_up:
                for worker in self.workers:
                    worker.signal(signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)
        for worker in self.workers:
            if worker.process is not None:
                worker.bury()
