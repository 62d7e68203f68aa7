"""Long output on a terminal goes through a pager, as with ``git``; short output, and output to a program, never does.

``$PAGER`` says which one (``cat`` or nothing: none), otherwise ``less``. A pager that is left early ends the command
in good order.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

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
