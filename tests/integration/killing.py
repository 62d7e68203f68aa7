"""A process that is killed at a step of ours (the library says at debug level how far it is), or at any change."""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from orihon.catalogue import postgres_db

_PATIENCE = 300.0


class Steps(logging.Handler):
    """Hears the steps that are taken; at one of them it does something."""

    def __init__(self, step: str = "", act: Callable[[], object] = lambda: None) -> None:
        super().__init__(logging.DEBUG)
        self.seen: list[str] = []
        self._step = step
        self._act = act

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.DEBUG and isinstance(record.args, tuple):
            self.seen.append(str(record.args[-1]))
            if self.seen[-1] == self._step:
                self._act()

    def hear(self, action: Callable[[], object], name: str = "orihon.archive") -> list[str]:
        """The steps of an action."""
        logger = logging.getLogger(name)
        level = logger.level
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG)
        try:
            action()
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)
        return self.seen


def killed_at(step: str, action: Callable[[], object], name: str = "orihon.archive") -> bool:
    """Another process does something and is killed at a step; False when it never came there."""
    child = os.fork()
    if child == 0:
        try:
            Steps(step, lambda: os.kill(os.getpid(), signal.SIGKILL)).hear(action, name)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(ended(child)) == -signal.SIGKILL


def ended(child: int) -> int:
    """How a child has ended; one that hangs is a failure, not a test without an end."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        gone, status = os.waitpid(child, os.WNOHANG)
        if gone:
            return status
        if time.monotonic() > give_up:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError("the child does not end")
        time.sleep(0.001)


class Changes:
    """Counts the calls by which a process changes something outside itself; at one of them it kills or stops itself.

    These are the calls of the operating system, of SQLite and of PostgreSQL's driver: between two of them nothing
    happens that anybody could see.
    """

    _NAMES = frozenset(
        (
            *("write", "writelines", "fsync", "rename", "replace", "link", "unlink", "mkdir", "rmdir"),
            *("writev", "pwrite", "truncate", "ftruncate", "execute", "step"),
        )
    )

    def __init__(
        self, die_at: int = 0, by: signal.Signals = signal.SIGKILL, also: frozenset[str] = frozenset()
    ) -> None:
        self.count = 0
        self._die_at = die_at
        self._by = by
        self._names = self._NAMES | also

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "c_call":
            name, owner = getattr(argument, "__name__", ""), getattr(argument, "__self__", None)
            is_change = name in self._names and not isinstance(owner, str | bytes)
        else:
            is_change = event == "call" and frame.f_code.co_name == "execute" and "psycopg" in frame.f_code.co_filename
        if is_change:
            self.count += 1
            if self.count == self._die_at:
                os.kill(os.getpid(), self._by)


def count_changes(action: Callable[[], object]) -> int:
    """How many there are when another process does something and is left alone."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _act_and_leave(action, Changes(), lambda changes: os.write(writing, str(changes.count).encode()))
    os.close(writing)
    with os.fdopen(reading) as told:
        count = told.read()
    assert ended(child) == 0
    return int(count)


def killed_at_change(number: int, action: Callable[[], object]) -> bool:
    """Another process does something and is killed before a change; False when it never came there."""
    child = os.fork()
    if child == 0:
        _act_and_leave(action, Changes(number), lambda changes: None)
    status = ended(child)
    assert status in (0, signal.SIGKILL)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def _act_and_leave(action: Callable[[], object], changes: Changes, then: Callable[[Changes], object]) -> NoReturn:
    try:
        # In which of the processes sums are merged is left to chance: a run that did would have more changes.
        postgres_db.WRITES_PER_MERGE = 1 << 40
        sys.setprofile(changes)
        try:
            action()
        finally:
            sys.setprofile(None)
        then(changes)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
