"""Locks that somebody keeps are waited for, but not for ever; folders are held by themselves."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.errors import StorageUnavailable
from orihon.system.holding import HeldFolder, is_locked_within, lock_file, lock_holders
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
