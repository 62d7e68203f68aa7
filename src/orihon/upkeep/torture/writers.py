"""Several processes at one conversation: an owner who rests and goes on, others who change its view or add to it."""

from __future__ import annotations

import random
import time
from collections.abc import Generator, Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from orihon.errors import InvalidInput, StateError, StorageUnavailable
from orihon.tasks.editing import changing_task
from orihon.tasks.message_store import MessageStore
from orihon.tasks.verify.verify import verify_task
from orihon.upkeep.torture.campaign import BACKENDS, Arena, Trial, base_at
from orihon.upkeep.torture.nursery import PATIENCE, Say
from orihon.upkeep.torture.workload import STORAGE, Promises, check_whole, digest, look_at, write_on
from orihon.values.view import PlannedFold, foldable_runs

_SECONDS = 1.0
_BESIDE = 3
_APPENDS = 25
#: What the owner is told when it comes back to a task whose view somebody is changing.
_REFUSALS = ("TaskBusy",)


class Writers:
    """One trial: some seconds of work at one task, half of them with an owner and half without."""

    name: ClassVar[str] = "writers"
    backends: ClassVar[tuple[str, ...]] = BACKENDS

    def trials(self, arena: Arena) -> Generator[Trial, None, None]:
        config = arena.config(context_storage={**STORAGE, "db_timeout": 2.0})
        for number in count():
            name = f"task-{arena.job}-{number}"
            yield self._beside_owner(arena, config, name) if number % 2 else self._together(arena, config, name)

    def _beside_owner(self, arena: Arena, config: Mapping[str, Any], name: str) -> Trial:
        place, promises, trial = arena.place(), Promises(), Trial(tasks=1)
        owner = arena.nursery.start(write_on, str(place), config, name, name, arena.chance.getrandbits(32))
        promises.hear(filter(None, [owner.said(PATIENCE)]), trial)
        seeds = [arena.chance.getrandbits(32) for _ in range(_BESIDE)]
        others = [arena.nursery.start(change_on, str(place), config, promises.uuid, seed) for seed in seeds]
        time.sleep(_SECONDS)
        for one in (owner, *others):
            promises.hear(one.kill(), trial, _REFUSALS)
        with base_at(place, config) as base:
            look_at(base, promises, trial).close()
            check_whole(base, promises.uuid, trial)
            places = base.folders.places(promises.uuid)
            if len(places) > 1:
                trial.fail("shut", f"{promises.uuid} has {len(places)} folders")
        return trial

    def _together(self, arena: Arena, config: Mapping[str, Any], name: str) -> Trial:
        """Nobody owns it: each adds through a store of its own; where one alone may write, the others are refused."""
        place, promises, trial = arena.place(), Promises(), Trial(tasks=1)
        promises.uuid = name
        lives = [f"{name}.{one}" for one in range(_BESIDE + 1)]
        adding = [arena.nursery.start(add_on, str(place / name), config, life) for life in lives]
        for one in adding:
            promises.hear(one.wait(), trial)
        settings = base_at(place, config).settings
        with closing(MessageStore(place / name, settings)) as store:
            promises.check(store, trial)
            wrong = [finding for finding in verify_task(store.task_store, place / name) if finding.severity == "error"]
        if wrong:
            trial.fail("shut", f"{name}: {'; '.join(map(str, wrong))}")
        return trial


def change_on(say: Say, place: str, config: Mapping[str, Any], uuid: str, seed: int) -> None:
    """The work of a child: change the view of somebody's task, as a page or a command does, again and again."""
    chance, base = random.Random(seed), base_at(place, config)  # noqa: S311 - the same again from the same seed
    while True:
        try:
            with changing_task(base, uuid) as task:
                folding, view = task.messages.folding, task.messages.view()
                match chance.randrange(4):
                    case 0:
                        change = folding.undo()
                    case 1:
                        change = folding.redo()
                    case 2:
                        change = folding.pin(chance.randint(1, max(1, task.messages.count_messages())))
                    case _:
                        start, end = chance.choice(foldable_runs(view))
                        change = folding.compress([PlannedFold(start, end, f"summary of {start} to {end}")])
            say("compressions", change.id, change.kind)
        except (StateError, InvalidInput, IndexError):  # nothing to do, or not now
            time.sleep(chance.random() * 0.005)


def add_on(say: Say, folder: str, config: Mapping[str, Any], life: str) -> None:
    """The work of a child: so many messages, as far as others let it."""
    store: MessageStore | None = None
    for number in range(_APPENDS):
        text = f"[{life}.{number}]"
        try:
            store = store or MessageStore(Path(folder), base_at(Path(folder).parent, config).settings)
            say("messages", store.add_message("user", text), digest(text))
        except (StateError, StorageUnavailable):  # another has it
            time.sleep(0.01)
