"""The wall clock jumps by up to a day while a task is owned: nobody takes it too early, and nothing is lost.

It jumps as a process sees it: ``time.time`` and every ``datetime`` that Orihon asks. A real clock needs rights that
this command should not have, and would harm everything else on the machine; the clock of a PostgreSQL server stays.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Mapping
from datetime import datetime, timedelta, tzinfo
from itertools import count
from random import Random
from typing import Any, ClassVar

from orihon.errors import TaskBusy
from orihon.upkeep.torture.campaign import BACKENDS, Arena, Trial, base_at, open_task
from orihon.upkeep.torture.nursery import PATIENCE, Say
from orihon.upkeep.torture.workload import STORAGE, Promises, Writer, check_whole, look_at

_HOUR, _DAY = 3600.0, 86400.0
_JUMPS = (-_DAY, -_HOUR, _HOUR, _DAY)
_OWNERS_PER_TASK = 4
_RIVALS = 3
_MOST_HEARD = 20
#: How many acts lie between two jumps of an owner's clock.
_ACTS = 5
_really = time.time


class JumpingClock(datetime):
    """What ``datetime`` is for the modules of Orihon in a process whose clock jumps."""

    shift = 0.0

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]  # an ordinary moment
        return datetime.now(tz) + timedelta(seconds=JumpingClock.shift)


def jump(seconds: float) -> None:
    """From now on the wall clock of this process is wrong by so much."""
    JumpingClock.shift = seconds
    time.time = lambda: _really() + seconds
    for name, module in list(sys.modules.items()):
        if name.startswith("orihon.") and name != __name__ and getattr(module, "datetime", None) is datetime:
            vars(module)["datetime"] = JumpingClock


class Clock:
    """One trial: one jump of a rival's clock, while the owner's own jumps too."""

    name: ClassVar[str] = "clock"
    backends: ClassVar[tuple[str, ...]] = BACKENDS

    def trials(self, arena: Arena) -> Generator[Trial, None, None]:
        chance, config = arena.chance, arena.config(context_storage=STORAGE)
        for number in count():
            place, key, promises = str(arena.place()), f"task-{arena.job}-{number}", Promises()
            for turn in range(_OWNERS_PER_TASK):
                life = f"{key}.{turn}"
                owner = arena.nursery.start(write_on_jumping, place, config, key, life, chance.getrandbits(32))
                for rival in range(_RIVALS):
                    trial = Trial(tasks=int(turn == rival == 0))
                    heard = [owner.said(PATIENCE) for _ in range(chance.randrange(1, _MOST_HEARD))]
                    promises.hear(filter(None, heard), trial)
                    jumped = chance.choice(_JUMPS)
                    rival_said = arena.nursery.start(try_to_take, place, config, promises.uuid, jumped).wait()
                    if ["taken"] in rival_said:
                        trial.fail("stale", f"{promises.uuid} was taken from a live owner after {jumped:+.0f} s")
                    promises.hear([said for said in rival_said if said != ["taken"]], trial)
                    if rival == _RIVALS - 1:
                        promises.hear(owner.kill(), trial)
                        with base_at(place, config) as base:
                            look_at(base, promises, trial).close()
                            check_whole(base, promises.uuid, trial)
                    yield trial


def write_on_jumping(say: Say, place: str, config: Mapping[str, Any], key: str, life: str, seed: int) -> None:
    """The work of a child: change the task, and be in another time every few acts."""
    chance = Random(seed)  # noqa: S311 - the same again from the same seed
    jump(chance.choice(_JUMPS))
    writer = Writer(say, base_at(place, config), key, life, seed, rests=False)
    writer.task.context.message_store.answer_open_calls("interrupted")
    while True:
        for _ in range(_ACTS):
            writer.act()
        jump(chance.choice(_JUMPS))


def try_to_take(say: Say, place: str, config: Mapping[str, Any], uuid: str, jumped: float) -> None:
    """The work of a child: open a task that has an owner, in another time."""
    jump(jumped)
    try:
        task = open_task(base_at(place, config), uuid)
    except TaskBusy:
        return
    say("taken")
    task.close()
