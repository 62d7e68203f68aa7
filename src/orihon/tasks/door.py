"""The door of a process that holds tasks open for long: who wants a view changed meanwhile asks there.

A file for each such process in the base folder, for its owner only, says at which port of this machine it answers and
the word that opens. It is written when the process begins to listen; one whose process is gone leads nowhere.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from orihon.catalogue import TaskRow
from orihon.errors import InvalidInput
from orihon.system import jsonio
from orihon.system.clock import process_identity
from orihon.system.files import make_private_folder, replace_file, wrapping

FOLDER = "doors"
PATH = "/orihon/change"
WORD_HEADER = "x-orihon-door"
_LOOPBACK = "127.0.0.1"
_SECONDS = 60.0
_MOST_BYTES = 4 << 20
_OK = 200


@dataclass(frozen=True, slots=True)
class Door:
    """Where a process answers."""

    port: int
    word: str


def open_door(base: Path, pid: int, door: Door) -> None:
    """This process answers there from now on."""
    make_private_folder(base / FOLDER)
    replace_file(_file(base, pid), [jsonio.encode(asdict(door))], durable=False)


def close_door(base: Path, pid: int) -> None:
    """It does no longer."""
    with wrapping(_file(base, pid)):
        _file(base, pid).unlink(missing_ok=True)


def ask_owner(base: Path, row: TaskRow, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the owner of a task answers; ``None`` where it has no door. What it refuses is an error."""
    me = process_identity()
    if (row.lease_host, row.lease_pid_space, row.lease_boot) != (me.host, me.space, me.boot) or row.lease_pid is None:
        return None
    try:
        door = Door(**jsonio.decode(_file(base, row.lease_pid).read_bytes()))
        line = http.client.HTTPConnection(_LOOPBACK, door.port, timeout=_SECONDS)
        try:
            line.request("POST", PATH, jsonio.encode({"task": row.uuid, **asked}), {WORD_HEADER: door.word})
            answer = line.getresponse()
            said = jsonio.decode(answer.read(_MOST_BYTES))
        finally:
            line.close()
    except (OSError, ValueError, TypeError, http.client.HTTPException):
        return None
    if answer.status != _OK or not isinstance(said, dict):
        detail = said.get("refused") if isinstance(said, dict) else None
        if detail is None:  # it does not hold the task, or is not the one that we mean
            return None
        raise InvalidInput("owner_refused", detail=detail)
    return said


def _file(base: Path, pid: int) -> Path:
    return base / FOLDER / f"{pid}.json"
