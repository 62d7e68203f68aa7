"""The process between us and a program that we start: nothing that the program starts outlives us or the program.

Run as a program of its own, with the standard library only: ``process_guard.py CONTROL KIND PROGRAM ARGUMENTS…``.
``CONTROL`` is the reading end of a pipe that our process holds: any byte asks the program to end, its end means that we
are gone or want no more, and everything is killed. That we are gone is also seen by the guard's parent: a child that we
have forked may hold the pipe open. When the program itself ends, what is left of it is killed too. On Linux that
includes processes which have left its group: they become children of the guard. Elsewhere the group has to do.
``KIND`` is ``session`` for a program by itself, ``terminal`` for one that may ask the person at the terminal something.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PATIENCE = 3.0  # seconds for the killed to go: one that waits for a device may not
_TICK = 0.005
_LOOK = 1.0  # seconds between two looks at the parent
_SIGNALLED = 128  # as shells tell that a signal ended a command


def main(control: int, kind: str, command: list[str]) -> int:
    """Run the program; its status."""
    parent = os.getppid()
    os.set_inheritable(control, False)
    is_reaper = prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake, waking = os.pipe()
    os.set_blocking(waking, False)
    for number in (signal.SIGCHLD, signal.SIGINT):  # Ctrl-C at a terminal is for the program, too
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    child = _Child(command, leads_session=kind == "session")
    _let_go_of_streams()
    status = _wait(child, control, wake, parent)
    _kill_all(child, is_reaper)
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    return code if code >= 0 else _SIGNALLED - code


def prctl(option: int, value: int) -> bool:
    """Set something for this process; false where the system cannot."""
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):  # not Linux
        return False


class _Child:
    """The program, begun."""

    def __init__(self, command: list[str], *, leads_session: bool) -> None:
        self._leads_session = leads_session
        self.pid = os.fork()
        if self.pid:
            return
        try:
            if leads_session:
                os.setsid()
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            os.execvp(command[0], command)  # noqa: S606 - running it is the task
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="replace"))
        finally:
            os._exit(127)

    def send(self, number: int) -> None:
        with suppress(OSError):
            (os.killpg if self._leads_session else os.kill)(self.pid, number)


def _let_go_of_streams() -> None:
    """They are the program's: whoever is at their other ends shall see when it closes them."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)


def _wait(child: _Child, control: int, wake: int, parent: int) -> int | None:
    """The program's status, or nothing when it is wanted no more."""
    while True:
        for pid, status in _reaped():
            if pid == child.pid:
                return status
        ready, _, _ = select.select([control, wake], [], [], _LOOK)
        if os.getppid() != parent:
            return None
        if wake in ready:
            os.read(wake, 4096)
        if control in ready:
            if not os.read(control, 64):
                return None
            child.send(signal.SIGTERM)


def _reaped() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found


def _kill_all(child: _Child, is_reaper: bool) -> None:
    give_up = time.monotonic() + _PATIENCE
    while time.monotonic() < give_up:
        child.send(signal.SIGKILL)
        for pid in _descendants() if is_reaper else []:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        _reaped()
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        time.sleep(_TICK)


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of names at times
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])  # a program's name may hold anything
                children.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


if __name__ == "__main__":
    given = b""
    with suppress(OSError), open("/proc/self/environ", "rb") as file:
        given = b"\0" + file.read()
    if b"\0LC_CTYPE=" not in given:  # the interpreter's own addition
        os.environ.pop("LC_CTYPE", None)
    os._exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
