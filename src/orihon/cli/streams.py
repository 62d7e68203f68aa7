"""Standard output that is not there, is full, or whose reader has gone: what a command does then.

A reader that has had enough (``orihon list | head``) ends the command quietly, as it ends every other program. A full
disk is an error like any other, said in one line.
"""

from __future__ import annotations

import errno
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
