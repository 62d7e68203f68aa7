"""Writers stopped (SIGSTOP) past their lease: another takes over, and the sleeper is refused when it wakes."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from orihon.errors import OrihonError
from orihon.tasks.base import OpenBase
from orihon.tasks.task import Task
from orihon.upkeep.torture.campaign import BACKENDS, Arena, Trial, base_at, open_task
from orihon.upkeep.torture.nursery import PATIENCE, Victim
from orihon.upkeep.torture.workload import STORAGE, Promises, check_whole, digest, write_on

LEASE_SECONDS = 1.0
#: Seconds after which nobody should have to wait any more for a task whose owner is silent. A server ends a transaction
#: that stands still after a minute, which is less than the usual lease.
_TAKEN_WITHIN, _BY_SERVER = LEASE_SECONDS + 10.0, 75.0
_LEAST_TRIES = 5
#: What a writer is told from whom the task was taken, or whose time to wait for a server is over when it wakes.
REFUSALS = ("StaleWriter", "TaskBusy", "IllegalTransition", "StorageUnavailable")
_AT_ONCE, _ROUNDS, _MOST_HEARD, _SECONDS = 8, 4, 14, 0.004
_ADDED = 3


@dataclass(slots=True)
class _Sleeper:
    key: str
    life: str = ""
    promises: Promises = field(default_factory=Promises)
    victim: Victim | None = None
    heard: list[list[Any]] = field(default_factory=list)


class Stops:
    """One trial: a writer is stopped anywhere, its lease runs out, another goes on, the sleeper wakes.

    Each has a base of its own, so that a trial shows what one stopped process can do and not what another one does.
    """

    name: ClassVar[str] = "stops"
    backends: ClassVar[tuple[str, ...]] = BACKENDS

    def trials(self, arena: Arena) -> Generator[Trial, None, None]:
        quick = {"lease_seconds": LEASE_SECONDS, "db_timeout": 1.0, "max_retries": 1}
        config = arena.config(context_storage={**STORAGE, **quick})
        for number in count():
            place = arena.place()
            sleepers = [_Sleeper(f"task-{arena.job}-{number}-{one}") for one in range(_AT_ONCE)]
            for turn in range(_ROUNDS):
                for sleeper in sleepers:
                    sleeper.life = f"{sleeper.key}.{turn}"
                    self._put_to_sleep(arena, place / sleeper.key, config, sleeper)
                for sleeper in sleepers:
                    trial = Trial(tasks=int(turn == 0))
                    with base_at(place / sleeper.key, config) as base:
                        self._take_over(base, sleeper, trial)
                    yield trial

    def _put_to_sleep(self, arena: Arena, place: Path, config: Mapping[str, Any], sleeper: _Sleeper) -> None:
        chance = arena.chance
        victim = arena.nursery.start(write_on, str(place), config, sleeper.key, sleeper.life, chance.getrandbits(32))
        least = 0 if sleeper.promises.uuid else 1  # whose task it is has to be known
        heard = [victim.said(PATIENCE) for _ in range(chance.randrange(least, _MOST_HEARD))]
        time.sleep(chance.random() * _SECONDS)
        victim.stop()
        sleeper.victim, sleeper.heard = victim, [*filter(None, heard)]
        while (said := victim.said()) is not None:
            sleeper.heard.append(said)

    def _take_over(self, base: OpenBase, sleeper: _Sleeper, trial: Trial) -> None:
        victim, promises = sleeper.victim, sleeper.promises
        assert victim is not None
        promises.hear(sleeper.heard, trial)
        task = _taken(base, promises.uuid, trial)
        if task is None:
            victim.go_on()
            promises.hear(victim.kill(), trial, REFUSALS)
            task = open_task(base, promises.uuid)
            promises.check(task.context.message_store, trial)
            task.close()
            return
        promises.check(task.context.message_store, trial)
        messages, changes = len(task.log()), len(task.compressions())
        task.context.message_store.answer_open_calls("interrupted")
        texts = [f"[{sleeper.life} taken over] {number}" for number in range(_ADDED)]
        added = [["messages", task.add("user", text), digest(text)] for text in texts]
        victim.go_on()
        promises.hear([*added, *victim.wait()], trial, REFUSALS)
        promises.check(task.context.message_store, trial)
        stale = [
            stored.seq for stored in task.log(messages + 1) if f"[{sleeper.life}." in str(stored.message.content)[:200]
        ]
        for seq in stale:
            trial.fail("stale", f"{promises.uuid}: message {seq} is of one who had lost the task")
        if len(task.compressions()) != changes:
            trial.fail("stale", f"{promises.uuid}: the view was changed by one who had lost the task")
        task.close()
        check_whole(base, promises.uuid, trial)


def _taken(base: OpenBase, uuid: str, trial: Trial) -> Task | None:
    """The task, as soon as somebody else may have it."""
    is_server = base.settings.context_storage.backend == "postgres"
    give_up = time.monotonic() + (_BY_SERVER if is_server else _TAKEN_WITHIN)
    for tries in count(1):
        try:
            return open_task(base, uuid)
        except OrihonError as error:
            if time.monotonic() >= give_up and tries >= _LEAST_TRIES:
                trial.fail("shut", f"{uuid}: no take-over from a stopped process: {error}")
                break
        time.sleep(LEASE_SECONDS / 20)
    return None
