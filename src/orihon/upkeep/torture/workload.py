"""What goes on at a task while it is harmed, and whether everything that was acknowledged is there afterwards.

``Writer`` adds messages, tool calls and large contents, folds, undoes, pins, edits, begins phases, pauses and goes on;
each acknowledgement is said when the call has returned. ``Promises`` holds what was said against the store, read back
by the library as any program reads it.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from orihon.errors import IllegalFold, NoSuchMessage, NothingToUndo
from orihon.store import TaskMessages
from orihon.store.checkpoints import read_ledger
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.task import Task
from orihon.tasks.verify.verify import verify
from orihon.upkeep.torture.campaign import Trial, base_at, open_task
from orihon.upkeep.torture.nursery import Say
from orihon.values.view import PlannedFold, View, foldable_runs

#: Small, so that large contents are made often.
STORAGE = {"blob_bytes": 4096}
_LARGE = 6000
_MOST_SHOWN = 3


class Writer:
    """A life of changes at one task; only harm ends it. ``life`` makes every text one of its kind."""

    def __init__(self, say: Say, base: OpenBase, key: str, life: str, seed: int, *, rests: bool = True) -> None:
        self._say = say
        self._base = base
        self._chance = random.Random(seed)  # noqa: S311 - the same again from the same seed
        self._life = life
        self._number = 0
        self.task = open_task(base, key)
        say("open", self.task.context.uuid)
        self._acts: dict[Callable[[], None], int] = {
            self.add: 40,
            self.use_tools: 15,
            self.add_large: 4,
            self.fold: 12,
            self.step_back: 6,
            self.step_forward: 4,
            self.pin: 4,
            self.open_or_edit: 4,
            self.plan: 3,
            self.begin_phase: 2,
            self.rest: 3 if rests else 0,
        }

    def act(self) -> None:
        """One act by chance; what there is nothing for is left out."""
        (act,) = self._chance.choices(list(self._acts), list(self._acts.values()))
        with suppress(NothingToUndo, IllegalFold, NoSuchMessage):
            act()

    def add(self) -> None:
        self._append("user", "あ" * self._chance.randrange(600))

    def add_large(self) -> None:
        self._append("user", "large " * _LARGE)

    def use_tools(self) -> None:
        ids = [f"call-{self._mark()}" for _ in range(self._chance.randrange(1, 4))]
        calls = [{"id": one, "type": "function", "function": {"name": "ls", "arguments": "{}"}} for one in ids]
        self._append("assistant", "let me see", tool_calls=calls)
        for one in ids:
            self._append("tool", f"output of {one} " * self._chance.randrange(1, 100), tool_call_id=one)
        mark = self._mark()
        self._say("tools", self.task.context.tool_store.add_tool_call("ls", {"path": mark}, mark, "success"), mark)

    def fold(self) -> None:
        view = self.task.view()
        assert isinstance(view, View)
        if runs := foldable_runs(view):
            start, end = self._chance.choice(runs)
            text = f"{self._mark()} summary of {start} to {end}"
            self._changed(self.task.context.message_store.folding.compress([PlannedFold(start, end, text)]))

    def step_back(self) -> None:
        self._changed(self.task.undo())

    def step_forward(self) -> None:
        self._changed(self.task.redo())

    def pin(self) -> None:
        seq = self._chance.randint(1, max(1, self.task.context.message_store.count_messages()))
        view = self.task.view()
        assert isinstance(view, View)
        pinned = {pin.seq for pin in view.pins}
        self._changed(self.task.unpin(min(pinned)) if pinned else self.task.pin(seq))

    def open_or_edit(self) -> None:
        view = self.task.view()
        assert isinstance(view, View)
        folds = [fold.id for fold in view.folds]
        if folds:
            chosen = self._chance.choice(folds)
            is_edit = self._chance.random() < 0.5
            self._changed(self.task.edit(chosen, f"edited {self._mark()}") if is_edit else self.task.unfold(chosen))

    def plan(self) -> None:
        mark = self._mark()
        self._say("planning", self.task.plan("revision", {"steps": [mark]}), mark)

    def begin_phase(self) -> None:
        name = f"phase {self._mark()}"
        self.task.phase(name)
        self._say("checkpoints", 0, name)

    def rest(self) -> None:
        """Pause, and go on: the folder moves there and back."""
        uuid = self.task.context.uuid
        self.task.stop()
        self._say("state", "paused")
        self.task = open_task(self._base, uuid)
        self._say("state", "running")

    def _append(self, role: str, rest: str, **fields: Any) -> None:
        text = f"{self._mark()} {rest}"
        self._say("messages", self.task.add(role, text, **fields), digest(text))

    def _changed(self, change: Any) -> None:
        self._say("compressions", change.id, change.kind)

    def _mark(self) -> str:
        self._number += 1
        return f"[{self._life}.{self._number}]"


def write_on(say: Say, place: str, config: Mapping[str, Any], key: str, life: str, seed: int) -> None:
    """The work of a child: open the task, close what the last one left open, and go on until harmed."""
    writer = Writer(say, base_at(place, config), key, life, seed)
    writer.task.context.message_store.answer_open_calls("interrupted")
    while True:
        writer.act()


def digest(text: str | None) -> str:
    """What stands for a text in an acknowledgement."""
    return hashlib.sha256(str(text).encode()).hexdigest()[:16]


class Promises:
    """What the store has acknowledged of one task."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, int | str], str] = {}
        self.uuid = ""

    def hear(self, said: Iterable[list[Any]], trial: Trial, refusals: Collection[str] = ()) -> None:
        """What writers said. An error that ended one is a fault, but for the ``refusals`` that it has to expect."""
        for what, *rest in said:
            if what == "open":
                self.uuid = rest[0]
            elif what == "traceback":
                trial.fail("tracebacks", rest[0])
            elif what == "error":
                if rest[0] in refusals:
                    continue
                trial.fail("shut", f"a writer was refused: {rest[0]} {rest[1]}: {rest[2]}")
            elif what == "checkpoints":
                self.kept[what, rest[1]] = rest[1]
                trial.acknowledged += 1
            elif what != "state":
                self.kept[what, rest[0]] = rest[1]
                trial.acknowledged += 1

    def check(self, messages: TaskMessages, trial: Trial) -> None:
        """Is everything there, once?"""
        store = messages.task_store
        found: dict[tuple[str, int | str], str] = {}
        texts: Counter[str] = Counter()
        for stored in messages.get_messages():
            found["messages", stored.seq] = said = digest(stored.message.content)
            texts[said] += str(stored.message.content).startswith("[")
        for change in messages.compressions():
            found["compressions", change.id] = change.kind
        for stream in ("tools", "planning"):
            found |= {(stream, at): jsonio.encode(record).decode() for at, record in enumerate(store.read(stream), 1)}
        found |= {("checkpoints", phase.name): phase.name for phase in read_ledger(store).phases}
        gone = [
            f"{stream} {number}"
            for (stream, number), mark in self.kept.items()
            if (found.get((stream, number)) or "") != mark and mark not in (found.get((stream, number)) or "")
        ]
        if gone:
            trial.fail("lost", f"{self.uuid}: {', '.join(gone[:_MOST_SHOWN])}", len(gone))
        twice = [said for said, times in texts.items() if times > 1]
        if twice:
            trial.fail("doubled", f"{self.uuid}: {len(twice)} messages stand twice", len(twice))


def look_at(base: OpenBase, promises: Promises, trial: Trial) -> Task:
    """The task, opened as any program opens it, with everything that was acknowledged."""
    task = open_task(base, promises.uuid)
    promises.check(task.context.message_store, trial)
    check_steps(task, trial)
    return task


def check_steps(task: Task, trial: Trial) -> None:
    """A step back and forth again leads to the same view, unless a pin forbids the way or has gone a part of it."""
    store = task.context.message_store
    before = store.get_messages_for_llm()
    try:
        undone = task.undo()
        redone = task.redo(undone.parent)
    except (NothingToUndo, IllegalFold):
        return
    if (redone.folds, redone.removed) == (undone.removed, undone.folds) and store.get_messages_for_llm() != before:
        trial.fail(
            "lost", f"{task.context.uuid}: change {undone.id} undid {undone.parent}, and redo led to another view"
        )


def check_whole(base: OpenBase, uuid: str, trial: Trial) -> None:
    """``verify`` finds nothing wrong; what is only left over is a warning."""
    wrong = [finding for finding in verify(base, uuid) if finding.severity == "error"]
    if wrong:
        trial.fail("shut", f"{uuid}: {'; '.join(str(finding) for finding in wrong[:_MOST_SHOWN])}")
