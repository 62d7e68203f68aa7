"""A program in our place: it has our streams, our terminal and our process group, and what is sent to us is sent to it.

Keys that send signals (Ctrl-C, Ctrl-Z) reach the whole group, the program too; those are not sent a second time. When
it stops itself, we stop, so that the shell gets its terminal back; when it is over, its status is ours.
"""

from __future__ import annotations

import errno
import os
import select
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

#: What somebody may send to us and means for the program.
_PASSED_ON = (
    *("SIGINT", "SIGQUIT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGALRM"),
    *("SIGCONT", "SIGINFO"),
)
#: What a terminal sends to every process of the group in its foreground.
_OF_A_TERMINAL = ("SIGINT", "SIGQUIT", "SIGWINCH", "SIGINFO")
#: What Python has changed for itself, and other programs want as it was.
_AS_BEFORE = ("SIGPIPE", "SIGXFSZ")
_SHELL = "/bin/sh"
_LOOK_SECONDS = 1.0


def _numbers(names: Sequence[str]) -> list[int]:
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def run_in_foreground(
    program: str, arguments: Sequence[str], environment: Mapping[str, str], started: Callable[[int], object]
) -> int:
    """Run it to its end; returns its status as ``waitpid`` gives it. ``started`` is called with its process id.

    ``OSError`` where it cannot be started.
    """
    waiting: list[int] = []
    with _heeding(waiting) as awake:
        pid = _spawned(program, arguments, environment)
        started(pid)
        while (status := _looked_after(pid)) is None:
            while waiting:
                _pass_on(waiting.pop(0), pid)
            select.select([awake], [], [], _LOOK_SECONDS)
            with suppress(BlockingIOError):
                os.read(awake, 4096)
        return status


def _spawned(program: str, arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    as_before = _numbers(_AS_BEFORE)
    try:
        return os.posix_spawn(program, [program, *arguments], environment, setsigdef=as_before)
    except OSError as error:
        if error.errno != errno.ENOEXEC:
            raise
        # A script that does not say what runs it; shells take it for one of theirs.
        return os.posix_spawn(_SHELL, [_SHELL, program, *arguments], environment, setsigdef=as_before)


@contextmanager
def _heeding(waiting: list[int]) -> Iterator[int]:
    """Signals are noted instead of ending us; the descriptor can be read when there was one.

    What was ignored when we were started is left so: the program ignores it, too.
    """
    awake, wakes = os.pipe()
    os.set_blocking(awake, False)
    os.set_blocking(wakes, False)
    earlier_wakes = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    heeded = [number for number in _numbers(_PASSED_ON) if signal.getsignal(number) is not signal.SIG_IGN]
    earlier: dict[int, Any] = {number: signal.signal(number, lambda got, _: waiting.append(got)) for number in heeded}
    earlier[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
    try:
        yield awake
    finally:
        for number, before in earlier.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        signal.set_wakeup_fd(earlier_wakes)
        os.close(awake)
        os.close(wakes)


def _looked_after(pid: int) -> int | None:
    """The status of the program, once it is over."""
    ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
    if not ended:
        return None
    if not os.WIFSTOPPED(status):
        return status
    if _is_in_foreground():
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(ProcessLookupError):  # the shell has let us go on
            os.kill(pid, signal.SIGCONT)
    return None


def _pass_on(number: int, pid: int) -> None:
    if number in _numbers(_OF_A_TERMINAL) and _is_in_foreground():
        return  # it has got it
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _is_in_foreground() -> bool:
    """Does the terminal send its signals to our group?"""
    try:
        terminal = os.open(os.ctermid(), os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def end_as(status: int) -> int:
    """Our exit code for the status of a program; one that a signal has ended ends us by the same signal."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    with suppress(OSError, ValueError):  # of SIGKILL nothing can be set
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
