"""Power cuts: a life is played and recorded, and every image of the disk that a cut could leave is gone on with."""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from orihon.upkeep.torture.campaign import MUST_BE_ZERO, Arena, Trial, base_at
from orihon.upkeep.torture.disk import DiskRecord, Portion, image, write_image
from orihon.upkeep.torture.nursery import Say
from orihon.upkeep.torture.play import LIFE, STORAGE, Player, State, carried, failed_in, live_on, state_of, warm_up

_MEMORY = Path("/dev/shm")  # noqa: S108 - for folders that nobody else can guess
_PARTS: tuple[tuple[Portion, Portion], ...] = (
    *(("none", "none"), ("all", "none"), ("none", "all"), ("some", "some"), ("all", "some"), ("some", "all")),
    *(("some", "none"), ("none", "some"), ("some", "some"), ("all", "all")),
)
#: Images of one record; then life is played anew.
_IMAGES = 500


class Cuts:
    """Every point of a life, and of what was not synced there: nothing, all, names, contents, or some."""

    name: ClassVar[str] = "cuts"
    backends: ClassVar[tuple[str, ...]] = ("files", "sqlite")

    def __init__(self) -> None:
        warm_up()

    def trials(self, arena: Arena) -> Iterator[Trial]:
        config = arena.config(context_storage=STORAGE)
        while True:
            place = arena.place()
            trial = Trial(trials=0)
            child = arena.nursery.start(record_life, str(place / "life"), str(place / "record"), config)
            failed_in(child.wait(), trial)
            yield trial
            if trial.is_clean:
                yield from self._images(arena, _loaded(place / "record"), config)

    def _images(self, arena: Arena, record: DiskRecord, config: Mapping[str, Any]) -> Iterator[Trial]:
        positions = list(range(len(record.calls) + 1))
        for number in range(_IMAGES):
            position, (names, data) = arena.chance.choice(positions), _PARTS[number % len(_PARTS)]
            found = image(record, position, names, data, arena.chance)
            with fast_place() as place:
                write_image(found, place / "base")
                before, after = _promised(record, position)
                (place / "states").write_bytes(pickle.dumps((before, after)))
                trial = Trial(tasks=len(before))
                failed_in(arena.nursery.start(look_at, str(place), config).wait(), trial)
                if not trial.is_clean:
                    under_way = next((what for at, what, _ in record.acknowledged if at > position), "the end")
                    trial.seen = [
                        f"{one} (call {position}, {names} names, {data} data, {under_way})" for one in trial.seen
                    ]
                    write_image(found, arena.place())
            yield trial


def record_life(say: Say, folder: str, into: str, config: Mapping[str, Any]) -> None:
    """A child that plays a life and leaves its record."""
    root = Path(folder)
    root.mkdir(mode=0o700)
    record = DiskRecord()
    record.watch(root)
    player = Player(root, config)
    state: State = {}
    for step in LIFE:
        player.play(step)
        state = carried(state, state_of(player.base))
        record.acknowledge(step, state)
    player.base.close()
    Path(into).write_bytes(pickle.dumps(record))
    say_trial(say, Trial(trials=0))


def look_at(say: Say, folder: str, config: Mapping[str, Any]) -> None:
    """A child that goes on with an image."""
    trial = Trial(trials=0)
    before, after = _loaded(Path(folder) / "states")
    with base_at(Path(folder) / "base", config) as base:
        live_on(trial, base, before, after)
    say_trial(say, trial)


def say_trial(say: Say, trial: Trial) -> None:
    """What a child has found, for ``failed_in``."""
    said = asdict(trial)
    say("trial", {name: said[name] for name in ("acknowledged", "seen", *MUST_BE_ZERO)})


@contextmanager
def fast_place() -> Iterator[Path]:
    """A folder for one image, in memory where that is possible, gone with the block."""
    place = Path(tempfile.mkdtemp(prefix="orihon-torture-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _loaded(path: Path) -> Any:
    """What a child of ours has left in our scratch folder."""
    return pickle.loads(path.read_bytes())  # noqa: S301


def _promised(record: DiskRecord, position: int) -> tuple[State, State]:
    """What had been acknowledged by then, and what would have been next."""
    before: State = {}
    for at, _, state in record.acknowledged:
        if at > position:
            return before, state
        before = state
    return before, before
