"""Time and process identity, as leases need them.

Three things that must not be mixed up: ``utc_now`` is for people and may jump; ``boottime`` counts since the
machine started, goes on while it sleeps, and no setting of the clock touches it; ``ProcessIdentity`` tells a
process from a later one that was given the same number. Where the system does not tell (no ``/proc``), the
answers are weaker and never wrong: a process counts as alive, a lease has to run out.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from pathlib import Path

_LEASE_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_LARGEST_PID = 2**31 - 1
_WIDTH = len("2026-01-01T00:00:00.000000+00:00")
_WIDTH_OF_Z = len("2026-01-01T00:00:00.000Z")
_AGO = re.compile(r"(?P<count>[0-9]{1,6})\s*(?P<unit>[smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process, on one host, between two boots."""

    host: str
    pid: int
    start: int  # in ticks since boot; 0 where unknown
    boot: str  # changes at every boot; empty where unknown
    space: str  # the PID namespace: the same number means another process in another container


def utc_now() -> str:
    """Now, ISO 8601 with microseconds and ``+00:00``: texts of one width, which sort as times do."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@lru_cache(maxsize=256)  # what is said at one time is written down in several places
def as_utc(moment: str) -> str:
    """A time in ISO 8601 in the form of ``utc_now``, without a zone taken for UTC; ``ValueError`` when it is none."""
    read = datetime.fromisoformat(moment)
    # Nearly all come in one of two forms: in ours, or with thousandths and a Z.
    if (moment[7:8], moment[10:11], moment[19:20]) == ("-", "T", "."):
        if len(moment) == _WIDTH and moment.endswith("+00:00"):
            return moment
        if len(moment) == _WIDTH_OF_Z and moment.endswith("Z"):
            return f"{moment[:-1]}000+00:00"
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="microseconds")


def as_typed(typed: str) -> str:
    """A time as people type it, in the form of ``utc_now``: a date, a time, or how long ago (``7d``, ``12h``, ``30m``).

    ``ValueError`` when it is none.
    """
    wanted = typed.strip()
    ago = _AGO.fullmatch(wanted.lower())
    try:
        if ago is not None:
            then = datetime.now(UTC) - timedelta(seconds=int(ago["count"]) * _SECONDS[ago["unit"]])
            return then.isoformat(timespec="microseconds")
        return as_utc(wanted)
    except OverflowError as error:
        raise ValueError(typed) from error


def boottime() -> float:
    """Seconds since the machine started; the clock of leases."""
    return time.clock_gettime(_LEASE_CLOCK)


@cache
def boot_id() -> str:
    """A name for the time since the last boot; empty where the system does not give one."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip().decode("ascii")
    except OSError:
        return ""


def process_identity() -> ProcessIdentity:
    """Who is asking. Not cached: a fork changes the answer."""
    pid = os.getpid()
    return ProcessIdentity(
        host=os.uname().nodename,
        pid=pid,
        start=process_start(pid),
        boot=boot_id(),
        space=_pid_space(),
    )


def process_start(pid: int) -> int:
    """When a process began, which tells it from a later one with its number; 0 where the system does not say."""
    found = _stat(pid)
    return 0 if found is None else found[1]


def is_alive(pid: int, start: int) -> bool:
    """Does the process that began at ``start`` still run here? A zombie does not."""
    if not 0 < pid <= _LARGEST_PID:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, and alive
    found = _stat(pid)
    if found is None:
        return True
    state, began = found
    return state not in "ZX" and (start == 0 or began == start)


def is_stopped(pid: int) -> bool:
    """Does a process stand still until somebody lets it go on (a signal, a debugger)?"""
    found = _stat(pid)
    return found is not None and found[0] in "Tt"


def is_stopped_by_signal(pid: int) -> bool:
    """The same, where a signal is enough to let it go on."""
    found = _stat(pid)
    return found is not None and found[0] == "T"


def _stat(pid: int) -> tuple[str, int] | None:
    """State and start time (fields 3 and 22) of a process, ``None`` where ``/proc`` does not show it."""
    try:
        raw = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the command's name in brackets, which may itself hold brackets and spaces.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return fields[0].decode("ascii"), int(fields[19])


def _pid_space() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""
