"""Disks that say no: calls that are refused or made in part, and no room; and everything goes on.

``Errors`` refuses each call of each operation in turn, ``Full`` leaves so many bytes; the process tries again, then
another one goes on.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

from orihon.errors import OrihonError
from orihon.upkeep.torture import play
from orihon.upkeep.torture.campaign import Arena, Trial
from orihon.upkeep.torture.cuts import fast_place, look_at
from orihon.upkeep.torture.hooks import DiskCall, DiskWatcher, Hooks
from orihon.upkeep.torture.nursery import Say
from orihon.upkeep.torture.play import BEGINNING, STORAGE, TURN, Player, State, failed_in, state_of

_WORKED = (*BEGINNING, "fold")
#: By name: what was done before, and what is disturbed.
OPERATIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "create": ((), ("resume", "say")),
    "append": (_WORKED, (*TURN, "plan")),
    "fold": (BEGINNING, ("fold", "undo", "redo", "pin", "phase")),
    "pause": (_WORKED, ("pause",)),
    "resume": ((*_WORKED, "pause"), ("resume", "say")),
    "complete": (_WORKED, ("complete",)),
    "inherit": ((*_WORKED, "complete", "resume"), ("inherit",)),
    "archive": ((*_WORKED, "complete"), ("archive",)),
    "restore": ((*_WORKED, "complete", "archive"), ("restore",)),
    "queue": (_WORKED, ("enqueue", "work")),
    "migrate": ((*_WORKED, "pause"), ("migrate",)),
}
#: Of these nothing may stay when they were refused: a program that tries again must not say it twice.
_NOTHING_STAYS = (*TURN, "plan")
#: Several calls in one: a program looks at what is there before it goes on.
_ONCE = ("inherit", "work")
_FAULTS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EDQUOT": errno.EDQUOT, "short": 0}
_MOST_ROOM = 60_000
_SAID = 1000


class _Disturbing(DiskWatcher):
    """Once armed it refuses one call or makes a write of ``short`` in part; with ``full`` there is so much room."""

    def __init__(self, number: int, fault: str) -> None:
        self.kinds: list[str] = []
        self.is_armed = False
        self.room = number if fault == "full" else 1 << 40
        self._refused, self._fault = number, fault

    def before(self, call: DiskCall) -> None:
        if not self.is_armed:
            return
        self.kinds.append(call.kind)
        if self._fault == "full":
            self._fill(call)
        elif len(self.kinds) == self._refused and self._fault != "short":
            raise OSError(_FAULTS[self._fault], os.strerror(_FAULTS[self._fault]))
        elif len(self.kinds) == self._refused:
            call.data = call.data[: len(call.data) // 2]

    def _fill(self, call: DiskCall) -> None:
        if call.kind not in ("write", "create", "mkdir"):
            return
        size = Path(call.path).stat().st_size if Path(call.path).is_file() else 0
        growth = 1 if call.kind != "write" else max(0, call.at + len(call.data) - size)
        if growth > self.room:
            call.data = call.data[: len(call.data) - growth + self.room]
            if not call.data:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= min(growth, self.room)


class Errors:
    """Every call of every operation, with every fault."""

    name: ClassVar[str] = "errors"
    backends: ClassVar[tuple[str, ...]] = ("files", "sqlite")

    def trials(self, arena: Arena) -> Iterator[Trial]:
        operations = {name: DisturbedOperation(arena, name) for name in OPERATIONS}
        points = [
            (name, number, fault)
            for name, operation in operations.items()
            for number, kind in enumerate(operation.kinds, 1)
            for fault in _FAULTS
            if fault != "short" or kind == "write"
        ]
        random.Random(0).shuffle(points)  # noqa: S311 - the same in every job
        for name, number, fault in points[arena.job :: arena.jobs]:
            yield operations[name].tried(arena, number, fault)


class Full(Errors):
    """A random operation with a random number of bytes left."""

    name: ClassVar[str] = "full"

    def trials(self, arena: Arena) -> Iterator[Trial]:
        operations = [DisturbedOperation(arena, name) for name in OPERATIONS]
        while True:
            yield arena.chance.choice(operations).tried(arena, int(_MOST_ROOM ** arena.chance.random()), "full")


class DisturbedOperation:
    """An operation: the base before it, its calls, and what is there after each of its steps."""

    def __init__(self, arena: Arena, name: str) -> None:
        self._name, self._config = name, arena.config(context_storage=STORAGE)
        before, self._steps = OPERATIONS[name]
        self._place = arena.folder / f"before-{name}"
        prepare(self._place, self._config, before)
        with fast_place() as place:
            said = self._heard(arena, place, 0, "EIO", [])
        if not said or said[-1][0] != "kinds":
            raise RuntimeError(f"the undisturbed run failed: {said[-1:]}")
        self._states: list[State] = [state for what, state in said if what == "state"]
        self.kinds: list[str] = said[-1][1]

    def _heard(self, arena: Arena, place: Path, number: int, fault: str, known: list[State]) -> list[list[Any]]:
        shutil.copytree(self._place, place, dirs_exist_ok=True)
        return arena.nursery.start(act, str(place), self._config, self._steps, number, fault, known).wait()

    def tried(self, arena: Arena, number: int, fault: str) -> Trial:
        """Once, with a fault at that call, or with so many bytes left."""
        trial = Trial(tasks=len(self._states[0]))
        with fast_place() as place:
            said = self._heard(arena, place, number, fault, self._states)
            done = sum(line[0] == "done" for line in said)
            for what, *rest in said:
                if what in ("traceback", "error", "given up"):
                    trial.fail("tracebacks" if what == "traceback" else "shut", " ".join(map(str, rest)))
            states = self._states[done], self._states[min(done + 1, len(self._steps))]
            failed_in(arena.nursery.start(look_at, str(place), self._config, *states).wait(), trial)
            if not trial.is_clean:
                told = [line for line in said if line[0] in ("refused", "done")]
                trial.seen = [f"{one} ({self._name}: {fault} {number}; {told})" for one in trial.seen]
                shutil.copytree(place, arena.place(), dirs_exist_ok=True)
        return trial


def prepare(folder: Path, config: Mapping[str, Any], steps: Sequence[str]) -> None:
    """A base where these steps have been played, at rest."""
    folder.mkdir(mode=0o700)
    player = Player(folder, config)
    for step in steps:
        player.play(step)
    player.reopen()


def act(
    say: Say, folder: str, config: Mapping[str, Any], steps: Sequence[str], number: int, fault: str, known: list[State]
) -> None:
    """A child that plays the steps while the disk says no, and tries again; ``known``: what was there without it."""
    watcher = _Disturbing(number, fault)
    Hooks(Path(folder), watcher).install()
    player = Player(Path(folder), config, said=_SAID)
    if steps[0] not in ("resume", "archive", "restore", "migrate"):
        player.task  # noqa: B018 - is open before anything happens
    first = state = state_of(player.base)
    say("state", first)
    watcher.is_armed = True
    for at, step in enumerate(steps, 1):
        if not _played(say, player, watcher, step, known[at] if known else None):
            return
        if not known:
            watcher.is_armed = False
            state = play.carried(state, play.nameless(state_of(player.base), first))
            say("state", state)
            watcher.is_armed = True
    say("kinds", watcher.kinds)


def _played(say: Say, player: Player, watcher: _Disturbing, step: str, wanted: State | None) -> bool:
    """Tried, tried again when there is room, and once more with new connections."""
    for attempt in range(1 if step in _ONCE else 3):
        try:
            player.play(step)
        except OrihonError as error:
            say("refused", step, type(error).__name__, error.reason)
            watcher.room = 1 << 40
            with suppress(OrihonError):
                if step not in _NOTHING_STAYS and wanted and play.nameless(state_of(player.base), wanted) == wanted:
                    player.said += 1
                    say("done", step, "although refused")
                    return True
            if attempt:
                player.reopen()
        else:
            say("done", step)
            return True
    if step in _NOTHING_STAYS:
        say("given up", step)
    return False
