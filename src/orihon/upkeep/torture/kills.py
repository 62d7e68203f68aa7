"""``kill -9`` at any moment of a writer's life: nothing acknowledged is lost, and the next one goes on by itself."""

from __future__ import annotations

import time
from collections.abc import Generator
from itertools import count
from typing import ClassVar

from orihon.upkeep.torture.campaign import BACKENDS, Arena, Trial, base_at
from orihon.upkeep.torture.nursery import PATIENCE
from orihon.upkeep.torture.workload import STORAGE, Promises, check_whole, look_at, write_on

#: A new task after so many kills: checking everything takes time that grows with the log.
_KILLS_PER_TASK = 8
_MOST_HEARD = 14
_SECONDS = 0.004
#: How often the next one finds a task at rest, and not one whose owner is gone.
_RESTING = 0.3


class Kills:
    """One trial: a writer lives, is killed, and the task is opened and compared."""

    name: ClassVar[str] = "kills"
    backends: ClassVar[tuple[str, ...]] = BACKENDS

    def trials(self, arena: Arena) -> Generator[Trial, None, None]:
        chance, config = arena.chance, arena.config(context_storage=STORAGE)
        for number in count():
            place, key, promises = arena.place(), f"task-{arena.job}-{number}", Promises()
            for kill in range(_KILLS_PER_TASK):
                trial = Trial(tasks=int(kill == 0))
                life = f"{arena.job}.{number}.{kill}"
                victim = arena.nursery.start(write_on, str(place), config, key, life, chance.getrandbits(32))
                heard = [victim.said(PATIENCE) for _ in range(chance.randrange(_MOST_HEARD))]
                time.sleep(chance.random() * _SECONDS)  # anywhere inside an act
                promises.hear([*filter(None, heard), *victim.kill()], trial)
                if promises.uuid:
                    with base_at(place, config) as base:
                        task = look_at(base, promises, trial)
                        if kill == _KILLS_PER_TASK - 1:
                            task.complete()
                        elif chance.random() < _RESTING:
                            task.stop()
                        else:
                            task.close()
                        check_whole(base, promises.uuid, trial)
                yield trial
