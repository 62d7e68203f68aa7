"""``writer.json``: one line that says which process writes to a task's folder, and with which epoch.

It is working state, never history: whatever stands there, the next writer makes a line of its own. The epoch of a line
that cannot be read is found again in the records, which were written with it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orihon.errors import OrihonError
from orihon.system import jsonio
from orihon.system.files import wrapping

NAME = "writer.json"
#: Nobody writes, and nobody has.
NOBODY: Mapping[str, Any] = {"epoch": 0, "host": "", "pid": 0, "start": 0, "boot": "", "token": ""}
#: Longer than any line.
MOST_BYTES = 1024

_CHECK = "check"
_TYPES = {name: type(value) for name, value in NOBODY.items()} | {"space": str, _CHECK: int}


def line_of(holder: Mapping[str, Any]) -> bytes:
    """The line, with a check over all that it says."""
    said = {name: value for name, value in holder.items() if name != _CHECK}
    return jsonio.encode({**said, _CHECK: zlib.crc32(jsonio.encode(said))}) + b"\n"


def holder_in(raw: bytes) -> dict[str, Any] | None:
    """Who the line names; ``None`` when it is not whole. Lines of before have no check.

    Only the first line counts: a longer one may have stood here, and a crash may have left its end.
    """
    try:
        holder = jsonio.decode(raw.partition(b"\n")[0])
    except ValueError:
        return None
    if not isinstance(holder, dict) or not NOBODY.keys() <= holder.keys() <= _TYPES.keys():
        return None
    if any(type(value) is not _TYPES[name] for name, value in holder.items()) or holder["epoch"] < 0:
        return None
    return holder if _CHECK not in holder or jsonio.decode(line_of(holder)) == holder else None


def highest_epoch(log: Path, opened: Callable[[bytes], bytes] = bytes) -> int:
    """The highest epoch that a readable record of the log was written with; 0 when none says one."""
    highest = 0
    with wrapping(log):
        if not log.is_file():
            return 0
        with log.open("rb") as file:
            for line in file:
                highest = max(highest, _epoch_in(line, opened))
    return highest


def _epoch_in(line: bytes, opened: Callable[[bytes], bytes]) -> int:
    try:
        epoch = jsonio.decode(opened(line.rstrip(b"\n")))["epoch"]
    except (ValueError, KeyError, TypeError, OrihonError):
        return 0
    return epoch if type(epoch) is int else 0
