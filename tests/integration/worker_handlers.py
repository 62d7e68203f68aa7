"""Handlers for the tests of workers. The prompt of a task says what happens to whoever works on it."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from orihon.errors import InvalidInput
from orihon.runtime.handler import open_context
from orihon.runtime.queue import QueuedTask
from orihon.runtime.tools import ToolBox
from orihon.settings import Settings
from tests.helpers import raw_database

HANDLER = "tests.integration.worker_handlers:PromptHandler"
#: While this file lies in the base folder, no task comes to its last step, however long a test needs.
HELD = "held"


class PromptHandler:
    """``steps N SECONDS``: so many messages, each after a pause; the other prompts are misfortunes."""

    def __init__(self, settings: Settings, base_dir: Path) -> None:
        self._settings = settings
        self._base_dir = base_dir

    def handle(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        what, *arguments = task.prompt.split()
        getattr(self, f"_{what}")(task, should_stop, *arguments)

    def _steps(self, task: QueuedTask, should_stop: Callable[[], bool], count: str, seconds: str) -> None:
        """As an agent does: every step is stored before the next begins, and none that is stored is done again."""
        context = open_context(task, self._base_dir, self._settings)
        try:
            while context.message_store.count_messages() < int(count):
                if should_stop():
                    context.stop()
                    return
                time.sleep(float(seconds))
                number = context.message_store.count_messages() + 1
                if number < int(count) or not (self._base_dir / HELD).exists():
                    context.message_store.add_message("user", f"step {number}")
            # The effect of a finished task: done twice, it would stand there twice.
            context.register_completion_hook("effect", lambda: self._effect(task))
            context.complete()
        finally:
            context.close()

    def _calls(self, task: QueuedTask, should_stop: Callable[[], bool], count: str, seconds: str) -> None:
        """Tool calls whose effect must not be doubled: one that was begun and not answered is never made again."""
        context = open_context(task, self._base_dir, self._settings)
        store = context.message_store
        try:
            store.answer_open_calls("interrupted")
            while store.count_messages() < 2 * int(count):
                if should_stop():
                    context.stop()
                    return
                call_id = f"call-{store.count_messages() // 2 + 1}"
                function = {"name": "write", "arguments": "{}"}
                store.add_message("assistant", None, tool_calls=[{"id": call_id, "function": function}])
                with (self._base_dir / "effects").open("a") as file:
                    file.write(f"{task.uuid}/{call_id}\n")
                time.sleep(float(seconds))
                store.add_message("tool", "done", tool_call_id=call_id)
            context.complete()
        finally:
            context.close()

    def _effect(self, task: QueuedTask) -> None:
        with (self._base_dir / "effects").open("a") as file:
            file.write(f"{task.uuid}\n")

    def _poison(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def _exit(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        sys.exit("a tool ended the program")

    def _fail(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        raise RuntimeError("the model is on strike")

    def _fail_once(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        if task.attempt == 1:
            raise RuntimeError("not today")

    def _fail_inside(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        with open_context(task, self._base_dir, self._settings) as context:
            context.message_store.add_message("user", f"attempt {task.attempt}")
            if task.attempt < 3:
                raise RuntimeError("not yet")

    def _refuse(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        raise InvalidInput("empty_field", field="task_id")

    def _twin(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        """Leaves the task with two folders."""
        for place in ("running", "paused"):
            (self._base_dir / place / str(task.uuid)).mkdir(parents=True)

    def _vanish(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        """The catalogue no longer knows the task."""
        with raw_database(self._base_dir / "tasks.db") as connection:
            connection.execute("DELETE FROM tasks WHERE uuid = ?", (task.uuid,))

    def _serve(self, task: QueuedTask, should_stop: Callable[[], bool], pids: str) -> None:
        """Has started a tool server that does not end by itself."""
        command = ["-S", str(Path(__file__).with_name("mcp_raw_server.py")), "--stubborn", pids]
        box = ToolBox.from_config({"mcp_servers": {"raw": {"command": sys.executable, "args": command}}})
        box.schemas()
        self._hang(task, should_stop)

    def _hang(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        time.sleep(3600)

    def _wait(self, task: QueuedTask, should_stop: Callable[[], bool]) -> None:
        while not should_stop():
            time.sleep(0.01)

    def _meet(self, task: QueuedTask, should_stop: Callable[[], bool], count: str) -> None:
        """Done when so many workers have such a task."""
        (self._base_dir / f"met-{task.uuid}").touch()
        while len(list(self._base_dir.glob("met-*"))) < int(count) and not should_stop():
            time.sleep(0.01)
        self._effect(task)

    def _reach(self, task: QueuedTask, should_stop: Callable[[], bool], other: str) -> None:
        """Tries to open a task that it does not hold."""
        task.uuid = other
        open_context(task, self._base_dir, self._settings)
