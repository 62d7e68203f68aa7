"""Damaged files: one fault in one file of a base at rest; all that is returned is right, or somebody says so.

A damage may be healed, or found by the doctor, or refused with an error of Orihon when it is met. What is only derived
must keep nobody from going on. The doctor's repairs lose no record that could still be read.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from orihon.errors import OrihonError
from orihon.guard import KEY_COPY, KEY_FILE
from orihon.store.contract import STREAMS
from orihon.tasks.base import OpenBase
from orihon.upkeep.doctor import examine, repair
from orihon.upkeep.torture.campaign import Arena, Trial, base_at
from orihon.upkeep.torture.cuts import fast_place
from orihon.upkeep.torture.faults import prepare
from orihon.upkeep.torture.nursery import Say
from orihon.upkeep.torture.play import BEGINNING, CHANGES, NONE, STORAGE, State, failed_in, go_on, say_trial, task_state

#: One packed task, one finished, one paused, one in line; each went on where the one before it had ended.
_LIVES = (
    *(*BEGINNING, "fold", "complete", "archive"),
    *("resume", "inherit", *BEGINNING[1:], *CHANGES, "complete"),
    *("resume", "inherit", *BEGINNING[1:], *CHANGES, "pause", "enqueue"),
)
#: Made from something else, or of use for a moment only: nobody is kept from a task by one of these.
_DERIVED = ("current.jsonl", "index.json", "counts.json", "writer.json", "writer.lock", "search.db", KEY_FILE, KEY_COPY)


class Damage:
    """One random damage of a random kind of file."""

    name: ClassVar[str] = "damage"
    backends: ClassVar[tuple[str, ...]] = ("files", "sqlite")

    def trials(self, arena: Arena) -> Iterator[Trial]:
        config, whole = arena.config(context_storage=STORAGE), arena.folder / "whole"
        prepare(whole, config, _LIVES)
        with base_at(whole, config) as base:
            self._known = _told(base), {finding.kind for finding in examine(base)}
        kinds: dict[str, list[Path]] = {}
        for path in sorted(whole.rglob("*")):
            if path.is_file() and path.stat().st_size and not path.name.endswith("-shm"):
                # Contents and packed tasks have a name each.
                kind = path.name if path.parent.name not in ("blobs", "archive", "archives") else path.parent.name
                kinds.setdefault(kind, []).append(path.relative_to(whole))
        while True:
            alike = kinds[arena.chance.choice(sorted(kinds))]
            yield self._tried(arena, whole, arena.chance.choice(alike), whole / arena.chance.choice(alike), config)

    def _tried(self, arena: Arena, whole: Path, path: Path, other: Path, config: Mapping[str, Any]) -> Trial:
        trial = Trial(tasks=4)
        with fast_place() as place:
            shutil.copytree(whole, place / "base")
            how = _harm(place / "base" / path, other, arena.chance)
            for name in ("repaired", "kept"):
                shutil.copytree(place / "base", place / name)
            failed_in(arena.nursery.start(look_for, place, config, path.name, *self._known).wait(), trial)
            if not trial.is_clean:
                trial.seen = [f"{one} ({path}: {how})" for one in trial.seen]
                shutil.copytree(place / "kept", arena.place(), dirs_exist_ok=True)
        return trial


def _harm(path: Path, other: Path, chance: random.Random) -> str:
    """Damage a file; what was done to it."""
    before = data = path.read_bytes()
    while data == before:
        at, page, lines = chance.randrange(len(data)), chance.choice((512, 4096)), data.splitlines(keepends=True)
        start, one, two = at - at % page, chance.randrange(len(lines)), chance.randrange(len(lines))
        harms = {
            "a bit flipped": data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :],
            "a page of zeros": data[:start] + bytes(len(data[start : start + page])) + data[start + page :],
            "cut off": data[:at],
            "cut off at a line": b"".join(lines[:one]),
            "a line moved": b"".join([*(rest := lines[:one] + lines[one + 1 :])[:two], lines[one], *rest[two:]]),
            "a line gone": b"".join(lines[:one] + lines[one + 1 :]),
            "a line twice": b"".join(lines[: one + 1] + lines[one:]),
            "replaced by another of its kind": other.read_bytes(),
            "removed": b"",
        }
        how = chance.choice(list(harms))
        data = harms[how]
    path.write_bytes(data)
    if how == "removed":
        path.unlink()
    return how


def look_for(
    say: Say, folder: Path, config: Mapping[str, Any], damaged: str, told: State, usual: set[tuple[str, str]]
) -> None:
    """A child that looks at a damaged base, goes on with it, and has another copy of it repaired."""
    trial = Trial(trials=0, acknowledged=sum(len(task["streams"]["messages"]) for task in told.values()))
    with base_at(folder / "base", config) as base, suppress(OrihonError):
        if not _is_noticed(base, usual):
            got = _told(base)  # or whoever reads it is told
            for uuid in {*told, *got}:
                was, now = told.get(uuid, {}), got.get(uuid, {})
                if wrong := sorted(name for name in {*was, *now} if was.get(name) != now.get(name)):
                    trial.fail("unnoticed", f"{uuid} has another {', '.join(wrong)}")
    with base_at(folder / "base", config) as base:
        _go_on(trial, base, told, usual, must=damaged in _DERIVED)
    with base_at(folder / "repaired", config) as base:
        before = _readable(base)
        with suppress(OrihonError):
            repair(base)
        aside = b"".join(path.read_bytes() for path in base.path.rglob("aside/**/*") if path.is_file())
        for uuid, stream, number, when in before - _readable(base):
            if when.encode() not in aside:
                trial.fail("lost", f"the repair lost {uuid} {stream} {number}")
    say_trial(say, trial)


def _is_noticed(base: OpenBase, usual: set[tuple[str, str]]) -> bool:
    try:
        return any(finding.kind not in usual for finding in examine(base))
    except OrihonError:
        return True


def _told(base: OpenBase) -> State:
    """Everything that programs and people get to see of the tasks."""
    base.open_catalogue()
    rows = {row.uuid: row for row in base.rows()}
    states = {uuid: task_state(base, uuid, row.status.value, exact=True) for uuid, row in rows.items()}
    return {uuid: {"streams": NONE, **states[uuid], **asdict(row)} for uuid, row in rows.items()}


def _go_on(trial: Trial, base: OpenBase, told: State, usual: set[tuple[str, str]], *, must: bool) -> None:
    """The paused task is taken up: what stood in it is right, or it is refused or told where its history is damaged."""
    (paused,) = (uuid for uuid, task in told.items() if task["status"].value == "paused")
    gone_on = Trial()
    try:
        go_on(gone_on, base, paused)
        streams = task_state(base, paused, "paused", exact=True)["streams"]
    except OrihonError as error:
        if must:
            trial.fail("shut", f"go on: {type(error).__name__}/{error.reason}: {error}")
        return
    for stream, records in told[paused]["streams"].items():
        if streams[stream][: len(records)] != records:
            gone_on.fail("unnoticed", f"other {stream}")
    if not gone_on.is_clean and not _is_noticed(base, usual):
        trial.fail("unnoticed", f"gone on with: {paused}: {gone_on.seen}")


def _readable(base: OpenBase) -> set[tuple[str, str, int, str]]:
    """Every record that can be read by itself, in whatever task: its task, stream, number and time."""
    found: set[tuple[str, str, int, str]] = set()
    with suppress(OrihonError):
        for place in base.folders.all():
            for stream in STREAMS:
                with suppress(OrihonError), closing(base.read_store(place)) as store:
                    for number in range(1, store.count(stream) + 1):
                        with suppress(OrihonError):
                            (record,) = store.read(stream, number, number)
                            when = record.get("timestamp") or record["created_at"]
                            found.add((place.uuid, stream, number, str(when)))
    return found
