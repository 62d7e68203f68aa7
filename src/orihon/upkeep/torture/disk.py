"""What a disk may hold after a power cut: a record of every call, and the images that it allows.

A sync of a file keeps its contents and size, one of a folder the names in it; a rename is kept whole or not at all.
Everything else may have reached the disk or not, in any order: names one by one, contents page by page, the size of a
file by itself. Of one name, and of one page, only some earlier state is possible.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from orihon.upkeep.torture.hooks import DiskCall, DiskWatcher, Hooks

#: How much of what was not synced is on the disk: nothing of it, all of it, or some.
Portion = Literal["none", "all", "some"]

_ROOT = 1  # the number of the folder that is watched
_UNITS = (512, 4096)  # what a disk writes whole


@dataclass(slots=True)
class DiskRecord(DiskWatcher):
    """The folder as it was, every call since, and what had been acknowledged by then."""

    names: dict[int, dict[str, int]] = field(default_factory=dict)  # of each folder
    contents: dict[int, bytes] = field(default_factory=dict)  # of each file
    calls: list[DiskCall] = field(default_factory=list)
    acknowledged: list[tuple[int, str, Any]] = field(default_factory=list)  # calls made until then, what, state

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

    def acknowledge(self, what: str, state: Any) -> None:
        """Everything until here was promised."""
        self.acknowledged.append((len(self.calls), what, state))


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


# ---- names -----------------------------------------------------------------------------------------------------------


def _kept_names(calls: Sequence[DiskCall], part: Portion, chance: random.Random) -> list[int]:
    """The numbers of the calls that changed names and are on the disk, in order."""
    changes = [number for number, call in enumerate(calls) if call.is_name]
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
    match chance.choice(("folders", "beginning", "any", "one")):
        case "folders":
            folders = {folder for number in open_changes for folder, _ in calls[number].places}
            written = {folder for folder in folders if chance.random() < 0.5}
            return {number for number in open_changes if written.issuperset(one for one, _ in calls[number].places)}
        case "beginning":
            return set(open_changes[: chance.randrange(len(open_changes) + 1)])
        case "one":
            return set(chance.sample(open_changes, min(1, len(open_changes))))
        case _:
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


# ---- contents --------------------------------------------------------------------------------------------------------


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
    """Each page as it was at some time, and the size as it was at some time."""
    unit, size = chance.choice(_UNITS), len(chance.choice(versions))
    choose: Callable[[], bytes] = chance.choice(
        (lambda: chance.choice(versions), lambda: chance.choice((versions[0], versions[-1])), lambda: versions[-1])
    )
    pages = [choose()[at : at + unit].ljust(unit, b"\0") for at in range(0, size, unit)]
    return b"".join(pages)[:size]
