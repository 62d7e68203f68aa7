"""What the tests of the agent share: a queue, a scripted model, tools with effects that can be counted."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from orihon import MessageStore, load_settings
from orihon.llm.scripted import Reply, ScriptedModel, ScriptedRequest, ScriptStep
from orihon.runtime.handler import TaskHandler
from orihon.runtime.handlers import is_final
from orihon.runtime.queue import QueuedTask, TaskQueue
from orihon.runtime.sources.base import SourceOutcome, SourceTask, TaskSource
from orihon.runtime.tool import ServerAnswer, ServerCall, ServerTool
from orihon.runtime.tools import ToolBox
from orihon.store.record_codec import StoredMessage
from orihon.values.task import TaskKey, TaskStatus

SUMMARY = "The final summary."


class CommandSource(TaskSource):
    """A source of exactly one task: its words are given, and what is said about it goes to a function."""

    name = "cli"

    def __init__(self, said: str, *, tell: Callable[[str], object] = lambda said: None) -> None:
        self._task = SourceTask(
            TaskKey(self.name, "", "", "task", hashlib.sha256(said.encode()).hexdigest()[:12]), said, said
        )
        self._claimed = False
        self._told: set[tuple[str, str]] = set()
        self._tell = tell

    def poll(self) -> Iterator[SourceTask]:
        if not self._claimed:
            yield self._task

    def claimed(self) -> Iterator[SourceTask]:
        if self._claimed:
            yield self._task

    def find(self, key: TaskKey) -> SourceTask:
        return self._task

    def claim(self, found: SourceTask) -> bool:
        won, self._claimed = not self._claimed, True
        return won

    def comment(self, key: TaskKey, said: str, *, kind: str = "") -> None:
        once = (key.uuid or "", kind or said)
        if said.strip() and once not in self._told:
            self._tell(said)
            self._told.add(once)

    def finish(self, key: TaskKey, outcome: SourceOutcome, said: str) -> None:
        self.comment(key, said, kind=f"finish-{outcome}")

    def resumed(self, key: TaskKey) -> None:
        pass

    def prompt(self, found: SourceTask) -> str:
        return found.body


class EffectServer:
    """Tools that leave a line for each time they ran: ``write`` must not be repeated, ``put`` may be.

    Both fail when the text is ``bad``, and wait while there is a file ``hold``.
    """

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        self._folder = folder
        self._seconds = seconds
        self._at_work = 0
        self._lock = threading.Lock()
        self.most_at_work = 0

    @property
    def name(self) -> str:
        return "effects"

    def tools(self) -> Sequence[ServerTool]:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        return [ServerTool("effects", "write", "", schema), ServerTool("effects", "put", "", schema, repeatable=True)]

    def call(self, call: ServerCall) -> ServerAnswer:
        with self._lock:
            self._at_work += 1
            self.most_at_work = max(self.most_at_work, self._at_work)
        try:
            return self._run(call)
        finally:
            with self._lock:
                self._at_work -= 1

    def _run(self, call: ServerCall) -> ServerAnswer:
        said = str(call.arguments.get("text", ""))
        if said == "bad":
            return ServerAnswer("no", is_error=True)
        with self._lock, (self._folder / "effects").open("a") as file:
            file.write(f"{call.tool} {said} {call.id}\n")
        time.sleep(self._seconds)
        while (self._folder / "hold").exists():
            time.sleep(0.005)
        return ServerAnswer(f"{call.tool}: {said}")

    def refused_tools(self) -> Sequence[str]:
        return ()

    def approve(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing is open."""


def effects(folder: Path) -> list[list[str]]:
    """Tool, text and key of every effect so far."""
    path = folder / "effects"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def summary(request: ScriptedRequest) -> Reply:
    """A summary that has to do with what is summarized."""
    words = str(request.body["messages"][-1]["content"]).split()
    return Reply(f"{SUMMARY} {' '.join(words[-40:])}")


def with_summaries(
    steps: Iterable[ScriptStep] | Callable[[ScriptedRequest], ScriptStep],
) -> Callable[[ScriptedRequest], ScriptStep]:
    """A script for requests with tools; those without want summaries."""
    waiting = iter(()) if callable(steps) else iter(steps)

    def answer(request: ScriptedRequest) -> ScriptStep:
        if not request.body.get("tools"):
            return summary(request)
        return steps(request) if callable(steps) else next(waiting)

    return answer


def config(base_url: str, **sections: Any) -> dict[str, Any]:
    """Settings that lead to the scripted model."""
    openai = {"base_url": base_url, "model": "tiny", "context_length": 32_000}
    llm = {"provider": "openai", "retries": 0, "openai": openai, **sections.pop("llm", {})}
    return {"llm": llm, **sections}


class World:
    """A base folder with a queue, and a handler on it."""

    def __init__(self, folder: Path, model: ScriptedModel, sections: dict[str, Any], **parts: Any) -> None:
        self.folder = folder
        self.model = model
        self.settings = load_settings(config(model.base_url, **sections))
        self.queue = TaskQueue(folder, self.settings)
        self.server = EffectServer(folder)
        parts.setdefault("toolbox", ToolBox([self.server]))
        self.handler = TaskHandler(self.settings, folder, **parts)

    def put(self, prompt: str = "Do it.", number: str = "1", **options: Any) -> str:
        return self.queue.enqueue(TaskKey("cli", "", "", "task", number, "me"), prompt=prompt, **options)

    def claimed(self) -> QueuedTask:
        task = self.queue.dequeue()
        assert task is not None
        return task

    def work(self, should_stop: Callable[[], bool] = lambda: False) -> TaskStatus:
        """One attempt at the next task, as a worker makes it."""
        task = self.claimed()
        try:
            self.handler.handle(task, should_stop)
        except Exception as error:
            self.error: Exception = error
            return self.queue.nack(task, error, retry=not is_final(error))
        return self.queue.ack(task, stopped=should_stop())

    def messages(self, uuid: str) -> list[StoredMessage]:
        (place,) = self.queue.folders.places(uuid)
        store = MessageStore(place.folder)
        found = list(store.get_messages())
        store.close()
        return found

    def results(self, uuid: str) -> list[str]:
        """What the model was told by tools."""
        return [stored.message.text for stored in self.messages(uuid) if stored.message.role == "tool"]

    def close(self) -> None:
        self.handler.close()
        self.queue.close()


@contextmanager
def world(
    folder: Path,
    steps: Iterable[ScriptStep] | Callable[[ScriptedRequest], ScriptStep],
    sections: dict[str, Any] | None = None,
    **parts: Any,
) -> Iterator[World]:
    with ScriptedModel(with_summaries(steps)) as model:
        made = World(folder, model, sections or {}, **parts)
        try:
            yield made
        finally:
            made.close()
