"""A process that archives or restores a task, and dies after the step that it is told.

``python archive_child.py BASE UUID archive|restore SETTINGS [STEP]``; prints the outcome as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import sys

from orihon import archive_task, restore_task
from orihon.errors import OrihonError
from orihon.settings import load_settings

DIED = 70


class _Death(logging.Handler):
    """The library says at debug level how far it is."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self._step = step

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().endswith(f": {self._step}"):
            os._exit(DIED)


def main(base: str, uuid: str, action: str, settings: str, step: str = "") -> None:
    logger = logging.getLogger("orihon.archive")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(_Death(step))
    config = load_settings(json.loads(settings))
    try:
        if action == "archive":
            outcome = archive_task(base, uuid, config).as_dict()
        else:
            outcome = {"folder": str(restore_task(base, uuid, config))}
    except OrihonError as error:
        outcome = {"error": type(error).__name__, "reason": error.reason}
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main(*sys.argv[1:])
