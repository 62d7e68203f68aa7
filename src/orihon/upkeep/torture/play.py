"""A small life with everything in it, step by step, and what can be read of it afterwards.

Each step is one call that is acknowledged when it returns. ``state_of`` says what a base holds, ``judge`` compares that
with what was acknowledged, and ``live_on`` goes on with it as programs, workers and the doctor would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

# What the steps use is loaded before processes are forked, and not in each of them.
import orihon.audit.files_sink
import orihon.search.sqlite_index
import orihon.store.sqlite  # noqa: F401
from orihon.errors import OrihonError, StorageUnavailable
from orihon.guard.masking.rules import built_in_finders
from orihon.runtime.queue import TaskQueue
from orihon.store.contract import STREAMS
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.task import Task
from orihon.tasks.task_name import key_named
from orihon.transfer.archive import archive_task, restore_task
from orihon.transfer.migrate import migrate_tasks
from orihon.upkeep.doctor import examine
from orihon.upkeep.torture.campaign import Trial, base_at, open_task
from orihon.values.task import TaskStatus
from orihon.values.view import foldable_runs

#: Small enough for large contents to go their own way, and leases that outlast a slow machine.
STORAGE = {"blob_bytes": 1024, "lease_seconds": 600}
KEY = "torture/play#1"
QUEUED = "torture/queue#2"
_BIG = "a long output " * 120
_FINISHED = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.DEAD)

State = dict[str, dict[str, Any]]  # by UUID


def warm_up() -> None:
    """What every process would do again, once before they are forked."""
    built_in_finders(email=False, ssn=False)


class Player:
    """Plays steps at a base; ``state`` is what was acknowledged."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.base = base_at(folder, config)
        self.config = config
        self._said = 0
        self._task: Task | None = None

    @property
    def task(self) -> Task:
        if self._task is None or not self._task.is_open:
            self._task = open_task(self.base, KEY)
        return self._task

    def play(self, step: str) -> None:
        """One step; what it says is the same however often it is tried."""
        _STEPS[step](self)
        self._said += 1

    def reopen(self) -> None:
        """Begin again with new connections, as a program does after an error."""
        if self._task is not None:
            self._task.close()
        self.base.close()
        self._task = None

    def _text(self, what: str, times: int = 1) -> str:
        return " ".join([f"{what} {self._said} 次の手順"] * times)

    def _say(self) -> None:
        self.task.add("user", self._text("do this"))

    def _call(self) -> None:
        call = {"id": f"call_{self._said}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
        self.task.add("assistant", None, tool_calls=[call])

    def _answer(self) -> None:
        for call in self.task.open_calls():
            self.task.add("tool", f"{self._text('output')} {_BIG}", tool_call_id=call.id)

    def _tool(self) -> None:
        self.task.context.tool_store.add_tool_call("ls", {"path": self._text("a")}, self._text("files", 60))

    def _plan(self) -> None:
        self.task.plan("initial", {"steps": [self._text("look")]})

    def _fold(self) -> None:
        store = self.task.context.message_store
        start, end = max(foldable_runs(store.view()), key=lambda run: run[1] - run[0])
        store.create_summary(start, end, self._text("a summary"))

    def _undo(self) -> None:
        self.task.undo()

    def _redo(self) -> None:
        self.task.redo()

    def _pin(self) -> None:
        self.task.pin(2)

    def _phase(self) -> None:
        self.task.phase(self._text("phase"))

    def _pause(self) -> None:
        self.task.stop()

    def _resume(self) -> None:
        self.task  # noqa: B018 - opening it is the step

    def _complete(self) -> None:
        self.task.complete()

    def _inherit(self) -> None:
        self.task.context.create_initial_context_with_inheritance("You go on.")

    def _archive(self) -> None:
        archive_task(self.base, self._last(*_FINISHED))

    def _restore(self) -> None:
        restore_task(self.base, self._last(TaskStatus.ARCHIVED))

    def _last(self, *wanted: TaskStatus) -> str:
        self.base.open_catalogue()
        return max(row.uuid for row in self.base.rows() if row.status in wanted)

    def _enqueue(self) -> None:
        TaskQueue(self.base).enqueue(key_named(QUEUED), prompt=self._text("please"))

    def _work(self) -> None:
        """A worker claims a task, says something there and ends it."""
        queue = TaskQueue(self.base)
        claimed = queue.dequeue()
        if claimed is not None:
            task = open_task(self.base, str(claimed.uuid))
            task.add("user", self._text("at work"))
            task.complete()
            queue.ack(claimed)

    def _migrate(self) -> None:
        """To the other back end, and back."""
        one = str(self.config["context_storage"]["backend"])
        other = {"files": "sqlite", "sqlite": "files"}[one]
        for source, target in ((one, other), (other, one)):
            report = migrate_tasks(self.base.path, self.base.settings, source=source, target=target)
            if left := report.having("failed"):
                raise StorageUnavailable("io", path=self.base.path, detail=left[0].why)


_STEPS: dict[str, Callable[[Player], None]] = {
    name: getattr(Player, f"_{name}")
    for name in (
        *("say", "call", "answer", "tool", "plan", "fold", "undo", "redo", "pin", "phase", "pause", "resume"),
        *("complete", "inherit", "archive", "restore", "enqueue", "work", "migrate"),
    )
}
#: A task from its first message to the next one on the same key.
TURN = ("say", "call", "answer", "tool")
BEGINNING = ("resume", *TURN, "plan", *TURN, *TURN)
CHANGES = ("fold", "undo", "redo", "say", "pin", "phase", "say", "fold")
LIFE = (
    *(*BEGINNING, *CHANGES, "pause", "resume", "say", "fold", "undo", "say", "complete", "archive", "restore"),
    *("resume", "inherit", "say", "enqueue", "enqueue", "work", "pause", "work", "resume", "complete"),
)


# ---- what is there ---------------------------------------------------------------------------------------------------


def state_of(base: OpenBase) -> State:
    """What can be read of every task: digests of its records, its view, its final summary, and its status."""
    base.open_catalogue()
    rows = {row.uuid: row for row in base.rows()}
    return {uuid: _task_state(base, uuid, rows[uuid].status.value) for uuid in rows}


def _task_state(base: OpenBase, uuid: str, status: str) -> dict[str, Any]:
    place = base.folders.find(uuid)
    if place is None:
        return {"status": status, "is_here": False, "streams": {stream: [] for stream in STREAMS}}
    with closing(base.read_store(place)) as store:
        streams = {stream: [_digest(record) for record in store.read(stream)] for stream in STREAMS}
        said = [_digest(message.message.body()) for message in store.messages()]
        view = [_digest(message) for message in store.view_messages()]
        final = store.records.kept_file("final_summary.txt")
    return {
        "status": status,
        "is_here": True,
        "streams": streams,
        "said": said,
        "view": view,
        "final": None if final is None else _digest(final.decode("utf-8", "replace")),
    }


def carried(before: State, now: State) -> State:
    """The state with what archived tasks hold, which cannot be read while they are packed."""
    return {
        uuid: {**before[uuid], "status": task["status"], "is_here": False}
        if not task["is_here"] and uuid in before
        else task
        for uuid, task in now.items()
    }


def _digest(value: Any) -> str:
    return hashlib.blake2b(jsonio.encode(value), digest_size=8).hexdigest()


def judge(trial: Trial, before: State, after: State, got: State) -> None:
    """All that was acknowledged ``before`` is there once; of what was under way until ``after``, some may be."""
    for uuid, kept in before.items():
        trial.acknowledged += sum(map(len, kept["streams"].values()))
        found, wanted = got.get(uuid), after.get(uuid, kept)
        if found is None:
            trial.fail("lost", f"task {uuid} is gone")
            continue
        if found["status"] not in (kept["status"], wanted["status"], "running"):
            trial.fail("lost", f"{uuid} is {found['status']}, not {kept['status']} or {wanted['status']}")
        if found["is_here"]:
            _judge_records(trial, uuid, kept, wanted, found)
        elif kept["is_here"] and wanted["is_here"]:
            trial.fail("lost", f"{uuid} has no folder")


def _judge_records(
    trial: Trial, uuid: str, kept: Mapping[str, Any], wanted: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    for stream in STREAMS:
        old, new, here = kept["streams"][stream], wanted["streams"][stream], found["streams"][stream]
        if here[: len(old)] != old:
            trial.fail("lost", f"{uuid} {stream}: {len(old)} were acknowledged, {len(here)} are there")
        elif len(here) > len(new):
            trial.fail("doubled", f"{uuid} {stream}: {len(here)} are there, {len(new)} were written")
    said = found["said"]
    if said != wanted.get("said", [])[: len(said)]:
        trial.fail("doubled", f"{uuid}: messages that nobody wrote so")
    for state in (kept, wanted):
        if found["streams"] == state["streams"] and found["view"] != state.get("view", found["view"]):
            trial.fail("lost", f"{uuid}: another view than it had")
    if found["final"] not in (kept.get("final"), wanted.get("final")):
        trial.fail("lost", f"{uuid}: another final summary")


# ---- going on --------------------------------------------------------------------------------------------------------


def live_on(trial: Trial, base: OpenBase, before: State, after: State) -> None:
    """Read, claim, go on, undo, pack and look at everything, as nobody's hand would have to help with."""
    judge(trial, before, after, got := state_of(base))
    for uuid in [uuid for uuid, task in got.items() if task["status"] == "archived"]:
        _tried(trial, f"restore {uuid}", partial(restore_task, base, uuid))
    queue = TaskQueue(base)
    claimed = list(iter(queue.dequeue, None))  # held until the end: whoever opens them does so with these claims
    if len(claimed) != len({task.uuid for task in claimed}):
        trial.fail("doubled", "a queued task was handed out twice")
    packed = {uuid: {**task, "status": "running", "is_here": True} for uuid, task in before.items()}
    for uuid, task in state_of(base).items():
        if task["status"] not in [status.value for status in _FINISHED]:
            _tried(trial, f"go on with {uuid}", partial(_go_on, trial, base, uuid))
        elif got[uuid]["status"] == "archived" and uuid in before:
            judge(trial, {uuid: {**packed[uuid], "status": task["status"]}}, after, {uuid: task})
    for finding in examine(base):
        if finding.severity == "error":
            trial.fail("shut", f"doctor: {finding.check}/{finding.detail} {finding.where}: {finding.cause}")


def _tried(trial: Trial, what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except OrihonError as error:
        trial.fail("shut", f"{what}: {type(error).__name__}/{error.reason}: {error}")


def _go_on(trial: Trial, base: OpenBase, uuid: str) -> None:
    task = open_task(base, uuid)
    for call in task.open_calls():
        task.add("tool", "interrupted", tool_call_id=call.id)
    before = task.log()
    if task.add("user", "goes on") != len(before) + 1 or task.log()[:-1] != before:
        trial.fail("lost", f"{uuid}: another log after an append")
    store = task.context.message_store
    view = store.get_messages_for_llm()
    runs = foldable_runs(store.view())
    if runs:
        store.create_summary(*max(runs, key=lambda run: run[1] - run[0]), "everything so far")
        task.undo()
        if store.get_messages_for_llm() != view:
            trial.fail("lost", f"{uuid}: undo gives another view")
    task.stop()


def failed_in(said: Iterable[list[Any]], trial: Trial) -> None:
    """What a child that looks at something has said: the trial, or why it could not be made."""
    for line in said:
        match line:
            case ["trial", found]:
                for name, value in found.items():
                    setattr(trial, name, getattr(trial, name) + value)
                return
            case ["error", kind, reason, text]:
                trial.fail("shut", f"{kind}/{reason}: {text}")
                return
            case ["traceback", text]:
                trial.fail("tracebacks", text)
                return
    trial.fail("tracebacks", "the process ended without a word")
