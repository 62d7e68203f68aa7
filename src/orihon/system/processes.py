"""Programs that we start: neither they nor what they start outlive us, however we end.

Each runs under a guard, a small process of its own (``process_guard``), that holds the other end of a pipe of ours: the
kernel closes that also for a process that is killed.

Before the first one runs, this process is closed to its own user (``close_to_children``): what a child may not have in
its environment it shall not read from ours, our memory or our open files.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from orihon.system.process_guard import prctl

#: With this variable set, a debugger may look into our processes, and so may every program that they start.
DEBUGGABLE = "ORIHON_DEBUGGABLE"
_PR_SET_DUMPABLE = 4
_GUARD = Path(__file__).with_name("process_guard.py")
_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
_GUARD_PATIENCE = 60.0  # seconds for the guard to end everything; killed, it would leave what has left its group


def close_to_children() -> None:
    """From now on nobody but root reads ``/proc/PID/environ``, ``mem``, ``fd`` … of this process, or attaches to it.

    A fork inherits that, a new program (``exec``) does not. Nothing is written to a disk when it crashes. Linux only.
    """
    if not os.environ.get(DEBUGGABLE):
        prctl(_PR_SET_DUMPABLE, 0)


class GuardPipe(FileIO):
    """Our end of the pipe by which a guard knows that its program is still wanted. Closed, everything is killed."""

    def ask_to_end(self) -> None:
        """SIGTERM to the program, and to its group where it leads one."""
        with suppress(OSError, ValueError):  # it has ended, or was killed meanwhile
            self.write(b"t")


@contextmanager
def guard_pipe() -> Iterator[tuple[GuardPipe, int]]:
    """Our end, and the one that the guard is started with in this block."""
    guards_end, ours = os.pipe()
    pipe = GuardPipe(ours, "wb")
    try:
        yield pipe, guards_end
    except BaseException:
        pipe.close()
        raise
    finally:
        os.close(guards_end)


def guarded(command: Sequence[str], guards_end: int, options: Mapping[str, Any], *, at_terminal: bool) -> list[str]:
    """The command line of a guard with this program; ``OSError`` as if the program itself were started.

    ``options`` are those of ``Popen``. ``at_terminal``: it stays in our session, and may ask the person there.
    """
    close_to_children()
    program, path = command[0], (options.get("env") or os.environ).get("PATH", os.defpath)
    named = str(Path(options.get("cwd") or ".", program).absolute()) if os.sep in program else program
    if shutil.which(named, path=path) is None:
        number = errno.EACCES if os.sep in program and Path(named).exists() else errno.ENOENT
        raise OSError(number, os.strerror(number), program)
    kind = "terminal" if at_terminal else "session"
    return [sys.executable, "-I", "-S", str(_GUARD), str(guards_end), kind, *command]


@dataclass(frozen=True, slots=True, eq=False)
class GuardedProcess:
    """A program under way. The status of its guard is the program's, of one that a signal ended 128 and its number."""

    guard: subprocess.Popen[bytes]
    pipe: GuardPipe

    def ends_within(self, seconds: float) -> bool:
        try:
            self.guard.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> None:
        """Nothing that it started stays alive."""
        if self.guard.poll() is None:
            self.pipe.ask_to_end()
            self.ends_within(_GRACE)
        self.pipe.close()
        if not self.ends_within(_GUARD_PATIENCE):
            self.guard.kill()
            self.guard.wait()
        for stream in filter(None, (self.guard.stdout, self.guard.stderr)):
            stream.close()


def start_guarded(command: Sequence[str], *, at_terminal: bool = False, **options: Any) -> GuardedProcess:
    """Start a program, with the options of ``Popen``."""
    with guard_pipe() as (pipe, guards_end):
        line = guarded(command, guards_end, options, at_terminal=at_terminal)
        options |= {"start_new_session": not at_terminal, "pass_fds": (guards_end,)}
        return GuardedProcess(subprocess.Popen(line, **options), pipe)


def run_guarded(command: Sequence[str], *, timeout: float, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """What a program has written, and its status; ``subprocess.TimeoutExpired`` when it takes longer, and is ended."""
    running = start_guarded(command, stdout=subprocess.PIPE, **options)
    try:
        output, errors = running.guard.communicate(timeout=timeout)
    finally:
        running.end()
    return subprocess.CompletedProcess(list(command), running.guard.returncode, output, errors)
