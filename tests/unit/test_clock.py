"""Clocks and process identity, asked of the running system."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from orihon.system.clock import as_typed, as_utc, boot_id, boottime, is_alive, process_identity, utc_now

IDENTITY = (
    "from orihon.system.clock import process_identity as p; import sys; print(p().start, flush=True); sys.stdin.read()"
)


def _child(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def _said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def test_times_from_elsewhere_get_our_form() -> None:
    assert as_utc("2026-01-31T21:00:00+09:00") == as_utc("2026-01-31 12:00") == "2026-01-31T12:00:00.000000+00:00"
    with pytest.raises(ValueError):
        as_utc('2026","seq":7')


def test_times_are_utc_and_sort_as_texts() -> None:
    first, second = utc_now(), utc_now()
    assert first <= second
    assert len(first) == len("2024-12-07T03:00:00.000000+00:00")
    parsed = datetime.fromisoformat(first)
    assert parsed.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - parsed) < timedelta(minutes=1)


def test_the_clock_of_leases_is_not_the_wall_clock() -> None:
    first, second = boottime(), boottime()
    assert first <= second
    assert abs(boottime() - time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))) < 60


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")  # noqa: PTH110 - at import
def test_a_process_is_told_from_a_later_one_with_its_number() -> None:
    me = process_identity()
    assert me == process_identity()
    assert me.pid == os.getpid()
    assert me.boot == boot_id() != ""
    assert is_alive(me.pid, me.start)
    assert not is_alive(me.pid, me.start + 1)
    child = _child(IDENTITY)
    start = int(_said(child))
    assert is_alive(child.pid, start)
    child.communicate()
    assert not is_alive(child.pid, start)


def test_a_killed_process_is_dead_before_its_parent_notices() -> None:
    child = _child(IDENTITY)
    start = int(_said(child))
    os.kill(child.pid, signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now, and stays one
    assert not is_alive(child.pid, start)
    child.communicate()


def test_a_stopped_process_is_alive() -> None:
    child = _child(IDENTITY)
    start = int(_said(child))
    os.kill(child.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, child.pid, os.WSTOPPED)
    assert is_alive(child.pid, start)
    os.kill(child.pid, signal.SIGCONT)
    child.communicate()


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**70])
def test_a_number_that_is_no_process_is_dead(pid: int) -> None:
    assert not is_alive(pid, 0)


def test_an_awkward_name_does_not_hide_the_start_time() -> None:
    child = _child("import ctypes; ctypes.CDLL(None).prctl(15, b') Z 1 2 (', 0, 0, 0);" + IDENTITY)
    start = int(_said(child))
    assert start > 0
    assert is_alive(child.pid, start)
    child.communicate()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05.678000+00:00"),
        ("2026-01-02T03:04:05.678901+00:00", "2026-01-02T03:04:05.678901+00:00"),
        ("2026-01-02T03:04:05.678901+09:00", "2026-01-01T18:04:05.678901+00:00"),
        ("2026-01-02 03:04:05", "2026-01-02T03:04:05.000000+00:00"),
        ("2026-W01-5T03:04:05.678901+00:00", "2026-01-02T03:04:05.678901+00:00"),
        ("20260102T030405Z", "2026-01-02T03:04:05.000000+00:00"),
        ("2026-01-02", "2026-01-02T00:00:00.000000+00:00"),
    ],
)
def test_times_of_others_in_our_form(said: str, meant: str) -> None:
    assert as_utc(said) == meant


@pytest.mark.parametrize("said", ["", "yesterday", "2026-13-02T03:04:05.678Z", "2026-01-02T03:04:65.678901+00:00"])
def test_what_is_no_time(said: str) -> None:
    with pytest.raises(ValueError, match=r"isoformat|must be in"):
        as_utc(said)


@pytest.mark.parametrize("typed", ["", "7y", "999999w", "0001-01-01T00:00+09:00"])
def test_what_nobody_can_mean_is_no_time(typed: str) -> None:
    with pytest.raises(ValueError):
        as_typed(typed)
