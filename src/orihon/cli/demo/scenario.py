"""The whole demo: queue, worker, model, tools, folds, a pause by SIGTERM, another worker, completion, inheritance.

The workers are those of ``orihon worker``, in processes of their own; this process only queues tasks, sends signals
and looks at what is written. An interrupted demo leaves its task paused and nobody working on it.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import orihon
from orihon.catalogue import TaskRow
from orihon.cli.demo.models import DemoModel
from orihon.cli.demo.observer import TaskProgress, Watcher
from orihon.cli.demo.workspace import BUILT_IN, SERVER, DemoWorkspace
from orihon.errors import InvalidInput, StateError
from orihon.runtime.broker_queue import open_queue
from orihon.runtime.child import LogPlan, WorkerSpec
from orihon.runtime.handlers import DEFAULT_HANDLER
from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.runtime.supervisor import SupervisedWorker
from orihon.settings import Settings, load_settings
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.texts import language, text
from orihon.values.task import FINISHED, TaskKey, TaskStatus

KEY = TaskKey("local", "demo", "toolbox", "issue", "1", "you")
_LOOK_SECONDS = 0.05
_IN_LINE = (TaskStatus.QUEUED, TaskStatus.PAUSED, TaskStatus.RUNNING)
_MANY = 10_000
_MOST_SAID = 400  # characters of the last words
_INHERITED = 2  # the number of the message that a task begins with when it inherits


@dataclass(frozen=True, slots=True)
class DemoReport:
    """What the demo's table shows."""

    uuid: str
    second_uuid: str
    status: str
    second_status: str
    base_dir: Path
    workspace: Path
    model: str
    tools: str
    workers: tuple[int, ...]  # process ids, in the order in which they worked on it
    model_calls: int
    tool_calls: int
    tests_failed: int
    tests_passed: int
    messages: int
    log_tokens: int
    view_entries: int
    view_tokens: int
    window: int
    folds: int
    compressions: int
    bytes_on_disk: int
    memory_bytes: int
    findings: int
    inherits_from: str | None
    inherited: str

    @property
    def is_complete(self) -> bool:
        """Did both tasks complete?"""
        return self.status == self.second_status == TaskStatus.COMPLETED.value


@dataclass(frozen=True, slots=True)
class Screen:
    """Where the demo says what happens."""

    stage: Callable[[str], object]
    line: Callable[[str], object]
    progress: Callable[[TaskProgress], object]


class Scenario:
    """Runs the stages one by one."""

    def __init__(self, folder: Path, model: DemoModel, screen: Screen) -> None:
        self.base_dir = (folder / "contexts").absolute()
        self.workspace = DemoWorkspace(folder.absolute() / "workspace")
        self.log_file = folder.absolute() / "worker.log"
        self.has_mcp = find_spec("mcp") is not None
        self._model = model
        self._screen = screen
        self._settings = self._make_settings()
        self._claims: list[tuple[str, int]] = []  # tasks, and the processes that worked on them

    def run(self) -> DemoReport:
        """Play it all."""
        with closing(open_queue(self.base_dir, self._settings)) as queue:
            self._let_rest(queue)
            self.workspace.prepare(self._model.features)
            try:
                return self._play(queue)
            except KeyboardInterrupt:
                self._let_rest(queue)  # its model ends with this process
                raise

    def _play(self, queue: TaskQueue) -> DemoReport:
        self._screen.stage(text("demo.stage_first"))
        first = self._enqueue(
            queue, text("demo.goal", names=", ".join(feature.name for feature in self._model.features))
        )
        with self._worker("1") as worker:
            self._follow(first, worker, self._model.should_pause)
            self._pause(first, worker)
        with self._worker("2") as worker:
            if first.row.status not in FINISHED:
                self._screen.stage(text("demo.stage_resume"))
                self._follow(first, worker)
            self._say_end(first)
            self._screen.stage(text("demo.stage_inherit"))
            second = self._enqueue(queue, text("demo.second_goal"))
            self._follow(second, worker)
            self._say_end(second)
        return self._report(first, second)

    # ---- stages ------------------------------------------------------------------------------------------------

    def _enqueue(self, queue: TaskQueue, prompt: str) -> Watcher:
        uuid = queue.enqueue(KEY, prompt=prompt)
        self._screen.line(text("demo.queued", uuid=uuid, waiting=queue.depth()))
        return Watcher(queue, uuid)

    @contextmanager
    def _worker(self, number: str) -> Iterator[SupervisedWorker]:
        handler = DEFAULT_HANDLER if self.has_mcp else BUILT_IN
        logs = LogPlan("INFO", self.log_file, "CRITICAL")
        limits = QueueLimits.of(self._settings)
        spec = WorkerSpec(number, self._settings, self.base_dir, handler, limits, logs=logs, language=language())
        worker = SupervisedWorker(spec)
        worker.start()
        try:
            yield worker
        finally:
            self._end(worker)

    def _end(self, worker: SupervisedWorker) -> None:
        """As a supervisor does: drained, so that a task at hand is paused and stays in line."""
        worker.signal(signal.SIGTERM)
        self._model.go_on()
        give_up = time.monotonic() + worker.spec.limits.drain_seconds
        while worker.is_alive:
            if time.monotonic() >= give_up:
                worker.signal(signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)
        if worker.process is not None:
            worker.bury()

    def _follow(
        self, task: Watcher, worker: SupervisedWorker, until: Callable[[Watcher], bool] = lambda _: False
    ) -> None:
        """Show what the worker does, until the task has ended or ``until`` says so."""
        while True:
            row = task.row
            self._say_claim(task, row)
            self._show(task)
            if (row.status in FINISHED and row.lease_owner is None) or until(task):
                return
            if not worker.is_alive:
                worker.bury()
                raise StateError("demo_process", code=worker.exit_code, file=self.log_file)
            time.sleep(_LOOK_SECONDS)

    def _say_claim(self, task: Watcher, row: TaskRow) -> None:
        if row.process_id is None or (task.uuid, row.process_id) in self._claims:
            return
        self._claims.append((task.uuid, row.process_id))
        key = "demo.taken_up" if task.progress.messages else "demo.claimed"
        self._screen.line(text(key, pid=row.process_id, messages=task.progress.messages))

    def _show(self, task: Watcher) -> None:
        for line in task.poll():
            self._screen.line(line)
        self._screen.progress(task.progress)

    def _pause(self, task: Watcher, worker: SupervisedWorker) -> None:
        if task.row.status in FINISHED:
            self._screen.line(text("demo.too_quick"))
            return
        self._screen.stage(text("demo.stage_pause"))
        self._end(worker)
        self._show(task)
        row, now = task.row, task.progress
        self._screen.line(
            text(
                "demo.paused",
                status=row.status.value,
                code=worker.exit_code,
                messages=now.messages,
                entries=now.entries,
                tokens=now.tokens,
            )
        )

    def _say_end(self, task: Watcher) -> None:
        row = task.row
        said = row.error_message or (task.messages(row.total_messages)[-1][1] if row.total_messages else "")
        self._screen.line(text("demo.ended", status=row.status.value, said=said.strip()[:_MOST_SAID]))

    def _let_rest(self, queue: TaskQueue) -> None:
        """No worker takes up what an interrupted demo has left: the answers would not be for it."""
        for row in queue.catalogue.tasks.page(limit=_MANY):
            if (row.repository, row.task_identifier) != (KEY.repository, KEY.identifier):
                raise InvalidInput("demo_folder", path=self.base_dir)
            if row.status in _IN_LINE:
                queue.pause(row.uuid)

    # ---- settings and figures ----------------------------------------------------------------------------------

    def _make_settings(self) -> Settings:
        tools: dict[str, Any] = {"tools.shell": False, "tools.workspace": None, "mcp_servers": None}
        if self.has_mcp:
            command = [sys.executable, "-P", "-m", "orihon.cli.demo.files_server", str(self.workspace.folder)]
            # A server gets little of our environment; it shall find the package that we are.
            package = str(Path(orihon.__file__).parents[1])
            tools["mcp_servers"] = {SERVER: {"command": command, "env": {"PYTHONPATH": package}}}
        else:
            tools["tools.workspace"] = self.workspace.folder
        return load_settings().replace(
            **{
                "compression.threshold": 0.7,
                "compression.keep_recent": 12,
                "multiprocess.poll_interval": 0.1,
                "multiprocess.max_attempts": 2,
                "runtime.system_prompt": text("demo.system"),
                **tools,
                **self._model.settings,
            }
        )

    def _report(self, first: Watcher, second: Watcher) -> DemoReport:
        row, second_row = first.row, second.row
        inherited = second.messages(_INHERITED, _INHERITED) if second_row.inherits_from else []
        return DemoReport(
            uuid=row.uuid,
            second_uuid=second_row.uuid,
            status=row.status.value,
            second_status=second_row.status.value,
            base_dir=self.base_dir,
            workspace=self.workspace.folder,
            model=self._model.label,
            tools="MCP" if self.has_mcp else "built-in",
            workers=tuple(pid for uuid, pid in self._claims if uuid == row.uuid),
            model_calls=row.llm_call_count,
            tool_calls=row.total_tool_calls,
            tests_failed=first.progress.failures,
            tests_passed=first.progress.passed,
            messages=row.total_messages,
            log_tokens=first.progress.log_tokens,
            view_entries=row.final_message_count or 0,
            view_tokens=row.final_token_count or 0,
            window=row.context_length or 0,
            folds=row.total_summaries,
            compressions=row.compression_count,
            bytes_on_disk=first.bytes_on_disk(),
            memory_bytes=resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024,
            findings=len(verify(OpenBase(self.base_dir, self._settings), row.uuid)),
            inherits_from=second_row.inherits_from,
            inherited=inherited[0][1] if inherited else "",
        )
