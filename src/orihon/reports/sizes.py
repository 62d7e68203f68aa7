"""How many bytes a base folder takes on its disk, without walking through it each time somebody asks.

Everything counts that lies there, whether a catalogue knows of it or not, and nothing that lies elsewhere (archives in
an object storage, tasks in a database): this is for who watches the disk. What each task takes up, wherever it lies, is
the catalogue's business and added up by ``storage``. A walk over very many tasks takes seconds, so its result is kept
in ``sizes.json`` for whoever asks next. Losing the file costs a walk.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from orihon.errors import NotJSON, StorageError
from orihon.system import jsonio
from orihon.system.files import replace_file

NAME = "sizes.json"
_RUNNING = "running"


@dataclass(frozen=True, slots=True)
class FileSizes:
    """Bytes of files, as of a moment."""

    measured_at: float  # seconds since 1970
    took: float  # seconds
    running: dict[str, int]  # each task's folder below ``running/``
    rest: int  # everything else: other tasks, archives, databases

    @property
    def total(self) -> int:
        return self.rest + sum(self.running.values())


def measure(base_dir: Path) -> FileSizes:
    """Walk through the base folder, and keep the result."""
    started, moment = time.monotonic(), time.time()
    running = {entry.name: size_of(entry.path) for entry in _entries(base_dir / _RUNNING) if entry.is_dir()}
    rest = size_of(base_dir, without=_RUNNING)
    sizes = FileSizes(moment, round(time.monotonic() - started, 3), running, rest)
    with suppress(StorageError):  # who looks at a folder that is not ours to write to, walks
        replace_file(base_dir / NAME, [jsonio.encode(asdict(sizes))], durable=False)
    return sizes


def known_sizes(base_dir: Path) -> FileSizes | None:
    """The result of the last walk, if there was one."""
    try:
        kept = jsonio.decode((base_dir / NAME).read_bytes())
        running = {str(name): int(size) for name, size in kept["running"].items()}
        return FileSizes(float(kept["measured_at"]), float(kept["took"]), running, int(kept["rest"]))
    except (OSError, NotJSON, ValueError, TypeError, KeyError, AttributeError):
        return None


def sizes_of(base_dir: Path, max_age: float) -> FileSizes:
    """The sizes, not older than so many seconds."""
    known = known_sizes(base_dir)
    is_fresh = known is not None and 0 <= time.time() - known.measured_at <= max_age
    return known if known is not None and is_fresh else measure(base_dir)


def size_of(folder: Path | str, *, without: str = "") -> int:
    """Bytes of the files below a folder, ``without`` one folder in it; what vanishes meanwhile counts nothing."""
    total = 0
    for entry in _entries(folder):
        with suppress(OSError):
            if entry.is_dir(follow_symlinks=False):
                total += size_of(entry.path) if entry.name != without else 0
            elif entry.is_file(follow_symlinks=False):
                total += entry.stat(follow_symlinks=False).st_size
    return total


def _entries(folder: Path | str) -> Iterator[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        yield from entries
