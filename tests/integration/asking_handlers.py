"""A handler that asks people, for the tests of workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from orihon.errors import Waiting
from orihon.runtime.handler import open_context
from orihon.runtime.queue import QueuedTask
from orihon.settings import Settings
from orihon.tasks.approvals.answers import approve
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager

HANDLER = "tests.integration.asking_handlers:AskingHandler"
ANSWERED_AT_ONCE = "tests.integration.asking_handlers:AnsweredAtOnce"


class AskingHandler:
    """``ask TIMES``: so many questions, a message after each answer; ``work``: a message and done."""

    def __init__(self, settings: Settings, base_dir: Path) -> None:
        self._settings = settings
        self._base_dir = base_dir

    def handle(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        what, *arguments = task.prompt.split()
        context = open_context(task, self._base_dir, self._settings)
        try:
            if context.message_store.count_messages() == 0:
                context.message_store.add_message("user", task.prompt)
            if what == "ask":
                self._ask(context, int(arguments[0]), timeout=float(arguments[1]) if arguments[1:] else None)
            context.complete()
        finally:
            context.close()

    @staticmethod
    def _ask(context: TaskContextManager, times: int, timeout: float | None) -> None:
        for number in range(1, times + 1):
            answer = context.checkpoint(f"step {number}", f"Shall I do step {number}?", timeout=timeout)
            said = f"step {number}: {answer.decision}"
            texts = [stored.message.text for stored in context.message_store.get_messages()]
            if said not in texts:  # where it stood: what is in the log is not done again
                context.message_store.add_message("assistant", said)


class AnsweredAtOnce(AskingHandler):
    """The same with somebody who answers before the worker has let go of the task."""

    def handle(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        try:
            super().handle(task, should_stop)
        except Waiting:
            approve(OpenBase(self._base_dir, self._settings), task.lease.uuid, by="ann")
            raise
