"""The process between a worker and a shell command: nothing that the command starts outlives the worker or the call.

Run as a program of its own, with the standard library only: ``shell_guard.py CONTROL COMMAND``. ``CONTROL`` is the
reading end of a pipe that the worker holds: any byte asks the command to end, its end means that the worker is gone or
wants no more, and everything is killed. When the shell itself ends, what is left of it is killed too. On Linux that
includes processes which have left the group: they become children of the guard. Elsewhere the group has to do.
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
_SIGNALLED = 128  # as shells tell that a signal ended a command


def main(control: int, command: str) -> int:
    """Run the command; its status."""
    os.set_inheritable(control, False)
    is_reaper = _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    wake, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    shell = _start(command)
    _let_go_of_output()
    status = _wait(shell, control, wake)
    _kill_all(shell, is_reaper)
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    return code if code >= 0 else _SIGNALLED - code


def _prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (OSError, AttributeError):  # not Linux
        return False


def _start(command: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execv("/bin/sh", ["/bin/sh", "-c", command])  # noqa: S606 - running it is the task
    finally:
        os._exit(127)


def _let_go_of_output() -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(nowhere, fd)


def _wait(shell: int, control: int, wake: int) -> int | None:
    """The shell's status, or nothing when the worker wants no more."""
    while True:
        for pid, status in _reaped():
            if pid == shell:
                return status
        ready, _, _ = select.select([control, wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
        if control in ready:
            if not os.read(control, 64):
                return None
            with suppress(OSError):
                os.killpg(shell, signal.SIGTERM)


def _reaped() -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    return found


def _kill_all(shell: int, is_reaper: bool) -> None:
    give_up = time.monotonic() + _PATIENCE
    while time.monotonic() < give_up:
        with suppress(OSError):
            os.killpg(shell, signal.SIGKILL)
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
    os.environ.pop("LC_CTYPE", None)  # the interpreter's own addition
    os._exit(main(int(sys.argv[1]), sys.argv[2]))
