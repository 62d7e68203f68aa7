"""Locks that somebody keeps are waited for, but not for ever; folders are held by themselves."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.errors import StorageUnavailable
from orihon.system.clock import is_stopped
from orihon.system.holding import HeldFolder, is_locked_within, let_finish, lock_file, lock_holders
from tests.helpers import refused


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[int]:
    """A process that is stopped while it has locked a file."""
    child = os.fork()
    if child == 0:
        fcntl.flock(os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    _, status = os.waitpid(child, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    yield child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_who_waits_for_a_stopped_process_gives_up_and_names_it(tmp_path: Path, sleeper: int) -> None:
    path = tmp_path / "lock"
    fd = os.open(path, os.O_RDWR)
    assert not is_locked_within(fd, 0)
    with refused(StorageUnavailable, "held_stopped") as caught:
        lock_file(fd, path, seconds=0.01)
    assert caught.value.fields["pid"] == sleeper
    assert lock_holders(path) == [sleeper]
    os.kill(sleeper, signal.SIGCONT)
    lock_file(fd, path)
    assert lock_holders(path) == [], "one's own locks are nobody else's"
    os.close(fd)


def test_one_who_was_stopped_in_the_middle_of_a_write_ends_it_and_stands_still_again(tmp_path: Path) -> None:
    path, count = tmp_path / "lock", tmp_path / "count"
    child = os.fork()
    if child == 0:
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        for number in range(1_000_000):
            fcntl.flock(fd, fcntl.LOCK_EX)
            if number == 0:
                os.kill(os.getpid(), signal.SIGSTOP)
            count.write_text(str(number))
            fcntl.flock(fd, fcntl.LOCK_UN)
        os._exit(0)
    try:
        _, status = os.waitpid(child, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        fd = os.open(path, os.O_RDWR)
        lock_file(fd, path)
        written = count.read_text()
        assert is_stopped(child)
        assert count.read_text() == written, "it went on"
        os.close(fd)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_locks_of_open_descriptions_are_found_with_those_who_are_stopped(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = os.fork()
    if child == 0:
        alone = struct.pack("@hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, alone)
        os.kill(os.getpid(), signal.SIGSTOP)
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack("@hhqqi0q", fcntl.F_UNLCK, os.SEEK_SET, 0, 1, 0))
        signal.pause()
    try:
        os.waitpid(child, os.WUNTRACED)
        assert lock_holders(path) == [child]
        let_finish(path)
        assert lock_holders(path) == []
        assert is_stopped(child)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_held_folder_knows_whether_it_still_counts(tmp_path: Path) -> None:
    folder, elsewhere, hidden = tmp_path / "task", tmp_path / "paused" / "task", tmp_path / ".task.taken"
    folder.mkdir()
    elsewhere.parent.mkdir()
    held = HeldFolder(folder)
    assert held.is_in_place()
    folder.rename(elsewhere)
    assert held.is_in_place(), "moved with its name"
    elsewhere.rename(hidden)
    assert not held.is_in_place()
    folder.mkdir()
    assert not held.is_in_place(), "another has its name"
    (held.path / "note").write_text("of the former one")
    assert (hidden / "note").exists()
    assert not (folder / "note").exists()
    hidden.joinpath("note").unlink()
    hidden.rmdir()
    assert not held.is_in_place()
