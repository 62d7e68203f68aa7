"""Power cuts: a life is played and recorded, and every image of the disk that a cut could leave is gone on with.

A sync of a file keeps its contents and size, one of a folder the names in it; a rename is kept whole or not at all.
Everything else may have reached the disk or not, in any order: names one by one, contents page by page, the size of a
file by itself. Of one name, and of one page, only some earlier state is possible.
"""

from __future__ import annotations

import pickle
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from orihon.upkeep.torture.campaign import Arena, Trial, base_at
from orihon.upkeep.torture.hooks import DiskCall, DiskWatcher, Hooks
from orihon.upkeep.torture.nursery import Say
from orihon.upkeep.torture.play import LIFE, STORAGE, Player, State, carried, failed_in, live_on, say_trial, state_of

#: How much of what was not synced is on the disk: nothing of it, all of it, or some.
Portion = Literal["none", "all", "some"]

_ROOT = 1  # the number of the folder that is watched
_UNITS = (512, 4096)  # what a disk writes whole
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

    def trials(self, arena: Arena) -> Iterator[Trial]:
        config = arena.config(context_storage=STORAGE)
        while True:
            place, trial = arena.place(), Trial(trials=0)
            child = arena.nursery.start(record_life, str(place / "life"), str(place / "record"), config)
            failed_in(child.wait(), trial)
            yield trial
            record: DiskRecord = pickle.loads((place / "record").read_bytes())  # noqa: S301 - our own child's
            for number in range(_IMAGES):
                yield self._tried(arena, record, *_PARTS[number % len(_PARTS)], config)

    def _tried(
        self, arena: Arena, record: DiskRecord, names: Portion, data: Portion, config: Mapping[str, Any]
    ) -> Trial:
        position = arena.chance.randrange(len(record.calls) + 1)
        found = image(record, position, names, data, arena.chance)
        states = [("nothing", {}), *((step, state) for at, step, state in record.acknowledged if at <= position)]
        step, after = (*((step, state) for at, step, state in record.acknowledged if at > position), states[-1])[0]
        trial = Trial(tasks=len(states[-1][1]))
        with fast_place() as place:
            write_image(found, place)
            failed_in(arena.nursery.start(look_at, str(place), config, states[-1][1], after).wait(), trial)
        if not trial.is_clean:
            trial.seen = [f"{one} (call {position} in {step}, {names} names, {data} data)" for one in trial.seen]
            write_image(found, arena.place())
        return trial


def record_life(say: Say, folder: str, into: str, config: Mapping[str, Any]) -> None:
    """A child that plays a life and leaves its record."""
    root, record, state = Path(folder), DiskRecord(), State()
    root.mkdir(mode=0o700)
    record.watch(root)
    player = Player(root, config)
    for step in LIFE:
        player.play(step)
        state = carried(state, state_of(player.base))
        record.acknowledged.append((len(record.calls), step, state))
    player.base.close()
    Path(into).write_bytes(pickle.dumps(record))
    say_trial(say, Trial(trials=0))


def look_at(say: Say, folder: str, config: Mapping[str, Any], before: State, after: State) -> None:
    """A child that goes on with what is there: all that was acknowledged, and some of what was under way."""
    trial = Trial(trials=0)
    with base_at(folder, config) as base:
        live_on(trial, base, before, after)
    say_trial(say, trial)


@contextmanager
def fast_place() -> Iterator[Path]:
    """A folder for one image, in memory where that is possible, gone with the block."""
    place = Path(tempfile.mkdtemp(prefix="orihon-image-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


# ---- what a disk may hold --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class DiskRecord(DiskWatcher):
    """The folder as it was, every call since, and what had been acknowledged by then."""

    names: dict[int, dict[str, int]] = field(default_factory=dict)  # of each folder
    contents: dict[int, bytes] = field(default_factory=dict)  # of each file
    calls: list[DiskCall] = field(default_factory=list)
    acknowledged: list[tuple[int, str, State]] = field(default_factory=list)  # calls until then, step, state

    def watch(self, root: Path) -> None:
        """From here on; nothing was being written."""
        hooks = Hooks(root, self)
        for path, number in hooks.numbers.items():
            if path.is_dir():
                self.names[number] = {one.name: hooks.numbers[one] for one in path.iterdir()}
            else:
                self.contents[number] = path.read_bytes()
        hooks.install()

    def after(self, call: DiskCall) -> None:
        self.calls.append(call)


def image(
    record: DiskRecord, position: int, names: Portion, data: Portion, chance: random.Random
) -> dict[str, bytes | None]:
    """What the disk holds when the power goes after so many calls: contents by path, ``None`` for a folder."""
    calls = record.calls[:position]
    kept = _kept_names(calls, names, chance)
    folders = {number: dict(inside) for number, inside in record.names.items()}
    folders |= {call.file: {} for call in calls if call.kind == "mkdir"}
    for number in kept:
        _apply(calls[number], folders)
    found: dict[str, bytes | None] = {}
    waiting = [("", _ROOT)]
    while waiting:
        path, folder = waiting.pop()
        for name, file in folders[folder].items():
            if file in folders:
                found[f"{path}{name}"] = None
                waiting.append((f"{path}{name}/", file))
            else:
                found[f"{path}{name}"] = _content(record.contents.get(file, b""), calls, file, data, chance)
    return found


def write_image(found: dict[str, bytes | None], root: Path) -> None:
    """The image as files."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, content in sorted(found.items()):
        path = root / name
        if content is None:
            path.mkdir(mode=0o700)
        else:
            path.write_bytes(content)
            path.chmod(0o600)


def _kept_names(calls: Sequence[DiskCall], part: Portion, chance: random.Random) -> list[int]:
    """The numbers of the calls that changed names and are on the disk, in order."""
    changes = [number for number, call in enumerate(calls) if call.places]
    if part == "all":
        return changes
    synced = {call.file: number for number, call in enumerate(calls) if call.kind == "sync"}
    kept = {
        number
        for number in changes
        if any(number < synced.get(folder, -1) for folder, _ in calls[number].places)
    }  # fmt: skip
    if part == "some":
        kept |= _chosen(calls, [number for number in changes if number not in kept], chance)
    # Whatever came before it at the same name is there too, or was replaced by it.
    needed: set[tuple[int, str]] = set()
    for number in reversed(changes):
        if number in kept or needed.intersection(calls[number].places):
            kept.add(number)
            needed.update(calls[number].places)
    return sorted(kept)


def _chosen(calls: Sequence[DiskCall], open_changes: Sequence[int], chance: random.Random) -> set[int]:
    """A few ways in which file systems write names: by folder, in the order of the calls, or as it comes."""
    way, folders = chance.randrange(3), {folder for number in open_changes for folder, _ in calls[number].places}
    if way == 0:
        written = {folder for folder in folders if chance.random() < 0.5}
        return {number for number in open_changes if written.issuperset(one for one, _ in calls[number].places)}
    if way == 1:
        return set(open_changes[: chance.randrange(len(open_changes) + 1)])
    return {number for number in open_changes if chance.random() < 0.5}


def _apply(call: DiskCall, folders: dict[int, dict[str, int]]) -> None:
    (folder, name), (target, new) = call.places[0], call.places[-1]
    match call.kind:
        case "create" | "mkdir" | "link":
            folders[folder][name] = call.file
        case "unlink" | "rmdir":
            folders[folder].pop(name, None)
        case "rename":
            folders[folder].pop(name, None)
            folders[target][new] = call.file


def _content(content: bytes, calls: Sequence[DiskCall], file: int, part: Portion, chance: random.Random) -> bytes:
    changes = [call for call in calls if call.file == file and call.kind in ("write", "truncate", "sync")]
    synced = max((number for number, call in enumerate(changes) if call.kind == "sync"), default=0)
    here = bytearray(content)
    for call in changes[: len(changes) if part == "all" else synced]:
        _change(here, call)
    versions = [bytes(here)]
    if part == "some":
        for call in changes[synced:]:
            _change(here, call)
            versions.append(bytes(here))
    return _mixed(versions, chance) if len(versions) > 1 else versions[0]


def _change(content: bytearray, call: DiskCall) -> None:
    if call.kind == "sync":
        return
    content.extend(bytes(max(0, call.at - len(content))))
    if call.kind == "truncate":
        del content[call.at :]
    else:
        content[call.at : call.at + len(call.data)] = call.data


def _mixed(versions: Sequence[bytes], chance: random.Random) -> bytes:
    """Each page as it was at some time, and the size as it was at some time.

    A page that had not come yet is zeros; one that was cut off later is not. To be cut is one change: file systems keep
    the size and what it covers together, and SQLite commits by it (``journal_mode=TRUNCATE``).
    """
    unit, last = chance.choice(_UNITS), len(versions) - 1
    sized = chance.randint(0, last)
    choose: Callable[[], int] = chance.choice(
        (lambda: chance.randint(0, last), lambda: chance.choice((0, last)), lambda: last)
    )
    pages, size = [], len(versions[sized])
    for at in range(0, size, unit):
        chosen = choose()
        if chosen > sized and len(versions[chosen]) < min(at + unit, size):
            chosen = sized
        pages.append(versions[chosen][at : at + unit].ljust(unit, b"\0"))
    return b"".join(pages)[:size]
