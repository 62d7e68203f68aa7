"""A small life with everything in it, step by step, and what can be read of it afterwards.

Each step is one call that is acknowledged when it returns. ``state_of`` says what a base holds, ``judge`` compares that
with what was acknowledged, and ``live_on`` goes on with it as programs, workers and the doctor would.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

# What the steps use is loaded before processes are forked, and not in each of them.
import orihon.search.sqlite_index
import orihon.store.sqlite  # noqa: F401
from orihon.catalogue import TaskRow
from orihon.errors import OrihonError, StorageUnavailable, TaskNotFound
from orihon.runtime.queue import TaskQueue
from orihon.store.contract import STREAMS
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.task import Task
from orihon.tasks.task_name import key_named
from orihon.transfer.archive import archive_task, restore_task
from orihon.transfer.migrate import migrate_tasks
from orihon.upkeep.doctor import examine
from orihon.upkeep.torture.campaign import MUST_BE_ZERO, Trial, base_at, open_task
from orihon.upkeep.torture.nursery import Say
from orihon.values.records import FINAL_SUMMARY
from orihon.values.task import TaskStatus
from orihon.values.view import foldable_runs

#: Small enough for large contents to go their own way, and leases that outlast a slow machine.
STORAGE = {"blob_bytes": 1024, "lease_seconds": 600}
KEY = "torture/play#1"
QUEUED = "torture/queue#2"
_BIG = "a long output " * 120
_FINISHED = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED, TaskStatus.DEAD)
_BEFORE = {"archive": _FINISHED, "restore": (TaskStatus.ARCHIVED,)}
NONE: dict[str, list[str]] = {stream: [] for stream in STREAMS}
_TIMES = ("timestamp", "created_at", "epoch", "digest")

State = dict[str, dict[str, Any]]  # by UUID


class Player:
    """Plays steps at a base."""

    def __init__(self, folder: Path, config: Mapping[str, Any], *, said: int = 0) -> None:
        self.base = base_at(folder, config)
        self.said = said  # steps before, so that no text comes twice
        self._task: Task | None = None

    @property
    def task(self) -> Task:
        if self._task is None or not self._task.is_open:
            self._task = open_task(self.base, KEY)
        return self._task

    def reopen(self) -> None:
        """Begin again with new connections, as a program does after an error."""
        with suppress(OrihonError):
            if self._task is not None:
                self._task.close()
        self.base.close()
        self._task = None

    def play(self, step: str) -> None:
        """One step; what it says is the same however often it is tried."""
        text = f"{step} {self.said} 次の手順"
        match step:
            case "resume":
                self.task  # noqa: B018 - opening it is the step
            case "say":
                self.task.add("user", text)
            case "call":
                call = {"id": f"call_{self.said}", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
                self.task.add("assistant", None, tool_calls=[call])
            case "answer":
                for open_call in self.task.open_calls():
                    self.task.add("tool", f"{text} {_BIG}", tool_call_id=open_call.id)
            case "tool":
                self.task.context.tool_store.add_tool_call("ls", {"path": text}, f"{text} {_BIG}")
            case "plan":
                self.task.plan("initial", {"steps": [text]})
            case "fold":
                _fold_most(self.task, text)
            case "undo" | "redo":
                getattr(self.task, step)()
            case "pin":
                self.task.pin(2)
            case "phase":
                self.task.phase(text)
            case "pause":
                (self._task or self.task).stop()  # one that has ended already says so, and is not begun anew
            case "complete":
                (self._task or self.task).complete()
            case "inherit":
                self.task.context.create_initial_context_with_inheritance("You go on.")
            case "archive" | "restore":
                for uuid in [row.uuid for row in self._rows() if row.status in _BEFORE[step]][:1]:
                    (archive_task if step == "archive" else restore_task)(self.base, uuid)
            case "enqueue":
                TaskQueue(self.base).enqueue(key_named(QUEUED), prompt=text)
            case "work":
                self._work(text)
            case "migrate":
                self._migrate()
        self.said += 1

    def _rows(self) -> list[TaskRow]:
        self.base.open_catalogue()
        return list(self.base.rows())

    def _work(self, text: str) -> None:
        """A worker claims a task, says something there and ends it."""
        queue = TaskQueue(self.base)
        if (claimed := queue.dequeue()) is None:
            raise TaskNotFound("uuid", uuid="the next in line")
        task = open_task(self.base, str(claimed.uuid))
        task.add("user", text)
        task.complete()
        queue.ack(claimed)

    def _migrate(self) -> None:
        """To the other back end, and back."""
        ways = [("files", "sqlite"), ("sqlite", "files")]
        for source, target in sorted(ways, reverse=self.base.settings.context_storage.backend == "sqlite"):
            report = migrate_tasks(self.base.path, self.base.settings, source=source, target=target)
            if left := report.having("failed"):
                raise StorageUnavailable("io", path=self.base.path, detail=left[0].why)


def _fold_most(task: Task, text: str) -> None:
    store = task.context.message_store
    if runs := foldable_runs(store.view()):
        store.create_summary(*max(runs, key=lambda run: run[1] - run[0]), text)


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
    return {row.uuid: task_state(base, row.uuid, row.status.value) for row in base.rows()}


def task_state(base: OpenBase, uuid: str, status: str, *, exact: bool = False) -> dict[str, Any]:
    """One task of it; ``exact``: with the times of its records."""
    place = base.folders.find(uuid)
    if place is None:
        return {"status": status, "is_here": False}
    with closing(base.read_store(place)) as store:
        form = partial(_digest, without=() if exact else _TIMES)
        streams = {stream: [*map(form, store.read(stream))] for stream in STREAMS}
        bodies = [_digest(message.message.body()) for message in store.messages()]  # with large contents
        view = [_digest(message) for message in store.view_messages()]
        final = (store.records.kept_file(FINAL_SUMMARY) or b"").decode("utf-8", "replace")
    streams["messages"] = list(map("".join, zip(streams["messages"], bodies, strict=True)))
    return {"status": status, "is_here": True, "streams": streams, "view": view, "final": final}


def carried(before: State, now: State) -> State:
    """The state with what archived tasks hold, which cannot be read while they are packed."""
    return {uuid: task if task["is_here"] else {**before.get(uuid, {}), **task} for uuid, task in now.items()}


def nameless(state: State, known: Iterable[str]) -> State:
    """The state with tasks that are not ``known`` by their order, for their UUIDs are others each time."""
    named = {uuid: task for uuid, task in state.items() if uuid in known}
    new = [task for uuid, task in state.items() if uuid not in known]
    new.sort(key=lambda task: -len(task.get("streams", NONE)["messages"]))
    return named | {f"new {number}": task for number, task in enumerate(new)}


def _digest(record: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    kept = {name: value for name, value in record.items() if name not in without}
    return hashlib.blake2b(jsonio.encode(kept), digest_size=8).hexdigest()


def judge(trial: Trial, before: State, after: State, got: State) -> None:
    """All that was acknowledged ``before`` is there once; of what was under way until ``after``, some may be."""
    for uuid in got:
        if uuid not in before and uuid not in after:
            trial.fail("doubled", f"a task that nobody began: {uuid}")
    for uuid, kept in before.items():
        trial.acknowledged += sum(map(len, kept.get("streams", NONE).values()))
        found, wanted = got.get(uuid), after.get(uuid, kept)
        if found is None:
            trial.fail("lost", f"task {uuid} is gone")
            continue
        stood = {kept["status"], wanted["status"]}
        if found["status"] not in stood | ({"running"} if len(stood) > 1 else set()):
            trial.fail("lost", f"{uuid} is {found['status']}, not {kept['status']} or {wanted['status']}")
        if found["is_here"]:
            _judge_records(trial, uuid, kept, wanted, found)
        elif kept["is_here"] and wanted["is_here"] and any(kept["streams"].values()):  # a record founds the folder
            trial.fail("lost", f"{uuid} has no folder")


def _judge_records(
    trial: Trial, uuid: str, kept: Mapping[str, Any], wanted: Mapping[str, Any], found: Mapping[str, Any]
) -> None:
    for stream in STREAMS:
        old, new, here = (state.get("streams", NONE)[stream] for state in (kept, wanted, found))
        if here[: len(old)] != old:
            trial.fail("lost", f"{uuid} {stream}: {len(old)} were acknowledged, {len(here)} are there")
        elif here != new[: len(here)]:
            trial.fail("doubled", f"{uuid} {stream}: {len(here)} are there, {len(new)} were written")
    for state in (kept, wanted):
        if found["streams"] == state.get("streams") and found["view"] != state["view"]:
            trial.fail("lost", f"{uuid}: another view than it had")
    if found["final"] not in (kept.get("final", ""), wanted.get("final", "")):
        trial.fail("lost", f"{uuid}: another final summary")


# ---- going on --------------------------------------------------------------------------------------------------------


def live_on(trial: Trial, base: OpenBase, before: State, after: State) -> None:
    """Read, claim, go on, undo, pack and look at everything, as nobody's hand would have to help with."""
    got = state_of(base)
    judge(trial, before, after, nameless(got, {*before, *after}))
    for uuid in [uuid for uuid, task in got.items() if task["status"] == "archived"]:
        _tried(trial, f"restore {uuid}", partial(restore_task, base, uuid))
    queue = TaskQueue(base)
    claimed = list(iter(queue.dequeue, None))  # held until the end: whoever opens them does so with these claims
    if len(claimed) != len({task.uuid for task in claimed}):
        trial.fail("doubled", "a queued task was handed out twice")
    for uuid, task in state_of(base).items():
        if task["status"] not in [status.value for status in _FINISHED]:
            _tried(trial, f"go on with {uuid}", partial(go_on, trial, base, uuid))
        elif got[uuid]["status"] == "archived" and uuid in before:
            judge(trial, {uuid: {**before[uuid], "status": task["status"]}}, after, {uuid: task})
    for finding in examine(base):
        if finding.severity == "error":
            trial.fail("shut", f"doctor: {finding.check}/{finding.detail} {finding.where}: {finding.cause}")


def _tried(trial: Trial, what: str, act: Callable[[], object]) -> None:
    try:
        act()
    except OrihonError as error:
        trial.fail("shut", f"{what}: {type(error).__name__}/{error.reason}: {error}")


def go_on(trial: Trial, base: OpenBase, uuid: str) -> None:
    """Take a task up, say something, fold and undo, and let it rest."""
    task = open_task(base, uuid)
    for call in task.open_calls():
        task.add("tool", "interrupted", tool_call_id=call.id)
    before = task.log()
    if task.add("user", "goes on") != len(before) + 1 or task.log()[:-1] != before:
        trial.fail("lost", f"{uuid}: another log after an append")
    view, changes = task.context.message_store.get_messages_for_llm(), len(task.compressions())
    _fold_most(task, "everything so far")
    if len(task.compressions()) > changes:
        task.undo()
    if task.context.message_store.get_messages_for_llm() != view:
        trial.fail("lost", f"{uuid}: undo gives another view")
    task.stop()


def failed_in(said: Iterable[list[Any]], trial: Trial) -> None:
    """What a child that looks at something has said: the trial, or why it could not be made."""
    match [*said][-1:]:
        case [["trial", found]]:
            for name, value in found.items():
                setattr(trial, name, getattr(trial, name) + value)
        case [["error", kind, reason, text]]:
            trial.fail("shut", f"{kind}/{reason}: {text}")
        case last:
            trial.fail("tracebacks", f"a process ended otherwise than it should: {last}")


def say_trial(say: Say, trial: Trial) -> None:
    """What a child has found, for ``failed_in``."""
    said = asdict(trial)
    say("trial", {name: said[name] for name in ("acknowledged", "seen", *MUST_BE_ZERO)})
