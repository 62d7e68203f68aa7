"""Processes made to be harmed. Starting Python takes too long to do it for every kill, so a small process forks them.

That one has no threads and is forked before anything else; it ends with the process that has it, and its children end
with it. What a child says comes over a pipe of its own, one JSON value on a line, whatever becomes of the child later.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any

from orihon.errors import OrihonError
from orihon.system import jsonio

Say = Callable[..., None]
_PR_SET_PDEATHSIG = 1
_BLOCK = 1 << 16
#: Seconds that a child may be silent which is to say something.
PATIENCE = 60.0


class Victim:
    """One child: what it says, and the means to harm it."""

    def __init__(self, nursery: Nursery, pid: int, pipe: int) -> None:
        self.pid = pid
        self._nursery = nursery
        self._pipe = pipe
        self._heard = b""
        self._is_over = False

    def said(self, seconds: float = 0.0) -> list[Any] | None:
        """What it said next, waited for so long; ``None`` when there is nothing, or will be nothing any more."""
        give_up = time.monotonic() + seconds
        while b"\n" not in self._heard:
            left = max(0.0, give_up - time.monotonic())
            if self._is_over or not select.select([self._pipe], [], [], left)[0]:
                return None
            block = os.read(self._pipe, _BLOCK)
            self._is_over = not block
            self._heard += block
        line, self._heard = self._heard.split(b"\n", 1)
        said: list[Any] = jsonio.decode(line)
        return said

    def rest(self, seconds: float = PATIENCE) -> Iterator[list[Any]]:
        """All that it still says until it ends."""
        while (said := self.said(seconds)) is not None:
            yield said

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> list[list[Any]]:
        """As by ``kill -9``, waited for; returns what it had said and nobody had heard."""
        os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def wait(self) -> list[list[Any]]:
        """Until it is dead; returns what it had said and nobody had heard."""
        said = list(self.rest())
        self._nursery.bury(self)
        os.close(self._pipe)
        return said


class Nursery:
    """Forks children on demand."""

    def __init__(self) -> None:
        self._line, theirs = Pipe()
        self._alive: dict[int, Victim] = {}
        self._pid = os.fork()
        if self._pid == 0:
            self._line.close()
            try:
                die_with_parent()
                _serve(theirs)
            finally:
                os._exit(0)
        theirs.close()

    def start(self, work: Callable[..., object], *arguments: Any) -> Victim:
        """A child that calls ``work(say, *arguments)``; both must be known by name in their module.

        Besides what it says itself it says ``["error", class, reason, text]`` when an error of Orihon ends it, and
        ``["traceback", text]`` when another one does.
        """
        ours, theirs = os.pipe()
        self._line.send((work, arguments))
        send_handle(self._line, theirs, self._pid)
        os.close(theirs)
        victim = Victim(self, self._line.recv(), ours)
        self._alive[victim.pid] = victim
        return victim

    def bury(self, victim: Victim) -> None:
        """Wait until a child that ends is dead."""
        self._line.send(victim.pid)
        self._line.recv()
        del self._alive[victim.pid]

    def clear(self) -> None:
        """No child is left."""
        for victim in list(self._alive.values()):
            victim.kill()

    def close(self) -> None:
        self._line.close()
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)


def _serve(line: Connection) -> None:
    alive: set[int] = set()
    try:
        while True:
            asked = line.recv()
            if isinstance(asked, int):
                line.send(os.waitpid(asked, 0)[1])
                alive.discard(asked)
                continue
            pipe = recv_handle(line)
            child = os.fork()
            if child == 0:
                line.close()
                _live(pipe, *asked)
            os.close(pipe)
            alive.add(child)
            line.send(child)
    except (EOFError, OSError):  # nobody needs it any more
        for child in alive:
            os.kill(child, signal.SIGKILL)


def _live(pipe: int, work: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    def say(*value: Any) -> None:
        os.write(pipe, jsonio.encode(list(value)) + b"\n")

    code = 0
    try:
        die_with_parent()
        work(say, *arguments)
    except OrihonError as error:
        say("error", type(error).__name__, error.reason, str(error))
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        traceback.print_exc()
        say("traceback", f"{where_raised(error)}: {type(error).__name__}: {error}")
        code = 1
    finally:
        sys.stdout.flush()
        os._exit(code)


def where_raised(error: BaseException) -> str:
    """The file and line that an error comes from."""
    *_, last = traceback.extract_tb(error.__traceback__)
    return f"{last.filename}:{last.lineno}"


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Where the system can: no child outlives whoever started it, also when that one is killed."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
