"""What happens to a task, read from what its worker has written: the catalogue's row and the task's records.

Nobody tells the demo anything: a ``Watcher`` looks into the folder as any other program could, whoever works there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any

from orihon.catalogue import TaskRow
from orihon.cli.demo.workspace import passes
from orihon.errors import StorageError, TaskNotFound
from orihon.runtime.queue import TaskQueue
from orihon.tasks.reader import TaskStore
from orihon.texts import text
from orihon.values.records import Compression

_RUN_TEST = "files_run_test"


@dataclass(frozen=True, slots=True)
class TaskProgress:
    """How far a task is."""

    messages: int = 0
    entries: int = 0
    tokens: int = 0
    log_tokens: int = 0
    passed: int = 0  # tests that pass by now
    failures: int = 0  # runs of tests that failed


class Watcher:
    """Looks at one task again and again; what is new is told in lines."""

    def __init__(self, queue: TaskQueue, uuid: str) -> None:
        self.uuid = uuid
        self.progress = TaskProgress()
        self.tool_calls = 0
        self.plans: list[str] = []
        self._queue = queue
        self._compressions = 0
        self._last_error: dict[str, str] = {}  # of tests that fail
        self._passed: set[str] = set()
        self._failures = 0

    @property
    def row(self) -> TaskRow:
        """The task as the catalogue has it."""
        return self._queue.catalogue.tasks.get(self.uuid)

    def poll(self) -> list[str]:
        """What has happened since the last look."""
        # The records may move away while we read: the next look finds them elsewhere.
        with suppress(StorageError, FileNotFoundError, TaskNotFound), self._reading() as store:
            return self._events(store)
        return []

    def messages(self, first: int = 1, last: int | None = None) -> list[tuple[str, str]]:
        """Role and text of messages of the log."""
        with self._reading() as store:
            return [(stored.message.role, stored.message.text) for stored in store.messages(first, last)]

    def bytes_on_disk(self) -> int:
        """The size of the task's records."""
        with self._reading() as store:
            return store.records.size()

    def _reading(self) -> closing[TaskStore]:
        place = self._queue.folders.find(self.uuid)
        if place is None:
            raise TaskNotFound("no_folder", uuid=self.uuid, status="-")
        return closing(self._queue.base.read_store(place))

    def _events(self, store: TaskStore) -> list[str]:
        lines = [*self._new_plans(store), *self._new_tool_calls(store), *self._new_folds(store)]
        tail = store.tail
        self.progress = TaskProgress(
            tail.seq, tail.view_entries, tail.view_tokens, tail.log_tokens, len(self._passed), self._failures
        )
        return lines

    def _new_plans(self, store: TaskStore) -> Iterator[str]:
        for record in store.read("planning", len(self.plans) + 1):
            self.plans.append(str(record["plan_content"]))
            yield text("demo.planned", plan=self.plans[-1])

    def _new_tool_calls(self, store: TaskStore) -> Iterator[str]:
        for record in store.read("tools", self.tool_calls + 1):
            self.tool_calls += 1
            if record["tool_name"] == _RUN_TEST:
                yield from self._new_test_run(record)

    def _new_test_run(self, record: dict[str, Any]) -> Iterator[str]:
        name, output = str(record["arguments"].get("path", "?")), str(record["result"])
        if not passes(output):
            self._failures += 1
            self._passed.discard(name)
            self._last_error[name] = output.rstrip().rpartition("\n")[2]
        elif name not in self._passed:
            self._passed.add(name)
            error = self._last_error.pop(name, None)
            yield text("demo.passes", name=name) if error is None else text("demo.mended", name=name, error=error)

    def _new_folds(self, store: TaskStore) -> Iterator[str]:
        for record in store.read("compressions", self._compressions + 1):
            self._compressions += 1
            made = Compression.from_record(record)
            if made.folds:
                folds = store.folds(made.folds)
                first, last = min(fold.start_seq for fold in folds), max(fold.end_seq for fold in folds)
                yield text("demo.folded", first=first, last=last, before=made.before_tokens, after=made.after_tokens)
