"""Standard output: through a pager where it is long, and what a command does where it is gone, full or unread.

A reader that has had enough (``orihon list | head``) ends the command quietly, as it ends every other program. A full
disk is an error like any other, said in one line. Long output on a terminal goes through a pager, as with ``git``:
``$PAGER`` says which one (``cat`` or nothing: none), otherwise ``less``.
"""

from __future__ import annotations

import errno
import io
import os
import select
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from orihon.errors import StorageUnavailable

EXIT_NO_READER = 141  # what a shell shows for a program that SIGPIPE has ended
_STANDARD = (0, 1, 2)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class ReaderGone(Exception):
    """Nobody reads standard output any more."""


def open_missing_streams() -> None:
    """Whoever closed a standard stream gets nothing there; no file of ours may take its number."""
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as there is the program
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


@contextmanager
def writing_output() -> Iterator[None]:
    """A command at work; all that it has printed is out when the block ends."""
    try:
        yield
        sys.stdout.flush()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # so Rich ends, which prints the help pages
            raise ReaderGone from ended
        raise
    except BrokenPipeError as error:
        if _has_reader():
            raise  # it was about some other pipe
        _give_up_output()
        raise ReaderGone from error
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        _give_up_output()
        raise StorageUnavailable("output", detail=error.strerror) from error


def _has_reader() -> bool:
    poll = select.poll()
    with suppress(OSError, ValueError):
        poll.register(sys.stdout.fileno(), 0)
        return not any(event & select.POLLERR for _, event in poll.poll(0))
    return False


def _give_up_output() -> None:
    """What is still in buffers goes nowhere: Python would try, and complain, when it ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


# ---- the pager -------------------------------------------------------------------------------------------------------

_NO_PAGER = ("", "cat")
#: Colours as they are, no clearing of the screen, no page for what fits after all.
_FOR_LESS = {"LESS": "FRX"}


@contextmanager
def paged(*, off: bool = False) -> Iterator[None]:
    """What is printed in the block goes through the pager once it is longer than the screen."""
    command = [] if off else _pager()
    if not command or not sys.stdout.isatty() or not sys.stdin.isatty():
        yield
        return
    screen = sys.stdout
    held = _Held(screen, command, shutil.get_terminal_size().lines)
    sys.stdout = held
    try:
        with suppress(BrokenPipeError):  # whoever reads has had enough
            yield
    finally:
        sys.stdout = screen
        held.finish()


def _pager() -> list[str]:
    if os.environ.get("TERM", "dumb") == "dumb":
        return []  # it cannot move its cursor: a pager would only ask whether to go on
    named = os.environ.get("PAGER")
    with suppress(ValueError):
        command = shlex.split("less" if named is None else named)
        if command and command[0] not in _NO_PAGER and shutil.which(command[0]):
            return command
    return []


class _Held(io.TextIOBase):
    """A terminal that keeps what is written until it is more than a screen, and then gives all of it to the pager."""

    def __init__(self, screen: TextIO, command: list[str], lines: int) -> None:
        self._screen = screen
        self._command = command
        self._room = max(1, lines - 1)
        self._pieces: list[str] = []
        self._pager: subprocess.Popen[str] | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute by its stubs, which cannot be set
        return self._screen.encoding

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._screen.fileno()

    def write(self, piece: str, /) -> int:
        if self._pager is None:
            self._pieces.append(piece)
            self._room -= piece.count("\n")
            if self._room < 0:
                self._start()
        else:
            self._hand_over(piece)
        return len(piece)

    def flush(self) -> None:
        """Nothing is shown before it is clear how."""

    def finish(self) -> None:
        """Show what was held, or wait until the pager is left."""
        if self._pager is None:
            self._screen.write("".join(self._pieces))
            self._screen.flush()
            return
        assert self._pager.stdin is not None
        with suppress(BrokenPipeError):
            self._pager.stdin.close()
        while True:
            try:
                self._pager.wait()
            except KeyboardInterrupt:  # that was meant for the pager
                continue
            return

    def _start(self) -> None:
        environment = {**_FOR_LESS, **os.environ}
        self._pager = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, encoding="utf-8", errors="replace", env=environment
        )
        self._hand_over("".join(self._pieces))
        self._pieces.clear()

    def _hand_over(self, piece: str) -> None:
        assert self._pager is not None
        assert self._pager.stdin is not None
        self._pager.stdin.write(piece)
