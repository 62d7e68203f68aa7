"""Log lines that can be told apart: every one begins with the UUID of the task that it is about.

The library only logs, to loggers below ``orihon``; ``configure`` is for the command line, which has a screen and a
log file of its own. A line that does not name a task itself gets the one that was opened last in this thread of
work; ``-`` when there is none. A line of text is one line of the log, whatever is in it.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from io import TextIOWrapper
from pathlib import Path

from orihon.system.files import make_private_folder, open_private, wrapping
from orihon.system.patterns import lazy_re

current_task: ContextVar[str] = ContextVar("orihon_current_task", default="")

_UUID_FIRST = lazy_re(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}: ")
#: Would move the cursor, begin a line that nobody logged, or not be UTF-8.
_CONTROL = lazy_re(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_installed: list[logging.Handler] = []
_before_masking: list[Callable[[], None]] = []


def enter_task(uuid: str) -> None:
    """What is logged from here on is about this task."""
    current_task.set(uuid)


def leave_task(uuid: str) -> None:
    """The task is closed; nothing happens when another one was opened since."""
    if current_task.get() == uuid:
        current_task.set("")


def configure(
    level: int | str,
    file: Path | None = None,
    *,
    screen: int | str | None = None,
    before_masking: Callable[[], None] | None = None,
) -> None:
    """Log to the screen (stderr) from ``screen`` on and to ``file`` from ``level`` on; replaces an earlier call.

    ``before_masking`` makes known which values are secrets; it is called when there is something to mask.
    """
    _before_masking[:] = [] if before_masking is None else [before_masking]
    logger = logging.getLogger("orihon")
    while _installed:
        handler = _installed.pop()
        logger.removeHandler(handler)
        handler.close()
    _installed.append(logging.StreamHandler(sys.stderr))
    _installed[0].setLevel(level if screen is None else screen)
    if file is not None:
        _installed.append(_PrivateFile(file))
        _installed[1].setLevel(level)
    for handler in _installed:
        handler.setFormatter(_TaskFormatter())
        logger.addHandler(handler)
    logger.setLevel(min(handler.level for handler in _installed))


def shifted(level: int | str, verbosity: int) -> int:
    """The level one step lower for each ``-v`` and one higher for each ``-q``."""
    number = level if isinstance(level, int) else logging.getLevelNamesMapping()[level]
    return min(max(number - 10 * verbosity, logging.DEBUG), logging.CRITICAL)


class _PrivateFile(logging.FileHandler):
    """A log file for its owner only: lines may quote what a task is about."""

    def __init__(self, path: Path) -> None:
        make_private_folder(path.absolute().parent)
        with wrapping(path):
            super().__init__(path, encoding="utf-8", errors="backslashreplace")

    def _open(self) -> TextIOWrapper:
        fd = open_private(Path(self.baseFilename), os.O_WRONLY | os.O_CREAT | os.O_APPEND, through_links=True)
        return open(fd, "a", encoding=self.encoding, errors=self.errors)


class _TaskFormatter(logging.Formatter):
    """Time, level, logger, task, text: on every line, those of a traceback too."""

    def format(self, record: logging.LogRecord) -> str:
        text = masked(super().format(record))
        task = current_task.get() or "-"
        match = _UUID_FIRST.match(text)
        if match is not None:
            task, text = match[0][:-2], text[match.end() :]
        text = text.removeprefix(f"{task}: ")
        head = f"{self.formatTime(record)} {record.levelname} {record.name} {task}: "
        return "\n".join(head + _CONTROL.sub(_visible, line) for line in text.split("\n"))


def masked(text: str) -> str:
    """Without secrets; the rules are loaded with the first text."""
    from orihon.guard.masking.redaction import hide

    while _before_masking:
        # Whatever is wrong with the settings, there is an error on its way that somebody has to see.
        with suppress(Exception):
            _before_masking.pop()()
    return hide(text)


def _visible(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
