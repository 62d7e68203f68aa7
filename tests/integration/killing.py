"""A process that is killed at a step of ours: the library says at debug level how far it is."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable


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


def killed_at(step: str, action: Callable[[], object]) -> bool:
    """Another process does something and is killed at a step; False when it never came there."""
    child = os.fork()
    if child == 0:
        try:
            Steps(step, lambda: os.kill(os.getpid(), signal.SIGKILL)).hear(action)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL
