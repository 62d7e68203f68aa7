"""A writer that is killed while it replaces a file leaves it unfinished; the next one removes it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orihon import MessageStore
from orihon.system.files import (
    Leftovers,
    create_file,
    find_leftovers,
    folder_size,
    is_unfinished,
    remove_leftovers,
    replace_file,
    unfinished_file,
    write_all,
)
from orihon.tasks.base import OpenBase
from orihon.upkeep.doctor import examine, repair
from orihon.upkeep.retention.vacuum import vacuum_databases
from tests.damage import paused_task, settings_for

FOLDER = """
import sys
from orihon import MessageStore
store = MessageStore(sys.argv[1])
store.count_messages()
print("ready", flush=True)
while True:
    store.create_summary(2, 11, "ten of them")
    store.folding.undo()
"""


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def killed_in_a_replacement(folder: Path) -> list[str]:
    """The names that a writer has left which was killed as soon as it had a new view under way."""
    writer = subprocess.Popen([sys.executable, "-c", FOLDER, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        known = set(names(folder))
        while not any(is_unfinished(name) for name in set(names(folder)) - known):
            assert writer.poll() is None
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert writer.stdout is not None
        writer.stdout.close()
    return [name for name in names(folder) if is_unfinished(name)]


def test_a_killed_writer_leaves_nothing_for_good(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    store = MessageStore(folder)
    for number in range(12):
        store.add_message("user", f"{number} " + "x" * 200_000)
    store.close()
    whole = folder_size(folder)
    left = [len(killed_in_a_replacement(folder)) for _ in range(4)]
    assert any(left), "none was killed in the middle"
    store = MessageStore(folder)
    assert store.add_message("user", "goes on") == 13
    store.close()
    assert [name for name in names(folder) if is_unfinished(name)] == []
    assert folder_size(folder) < 1.5 * whole
    assert not (folder / "aside").exists()


def test_what_a_live_process_writes_is_left_alone(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from orihon.system.files import unfinished_file\n"
        "with unfinished_file(Path(sys.argv[1])) as (path, fd):\n"
        "    print(path.name, flush=True); sys.stdin.read()\n"
        "    path.rename(sys.argv[1])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "file")]
    for ends_well in (True, False):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdin is not None
            name = writer.stdout.readline().strip()
            assert find_leftovers(tmp_path) == []
            assert remove_leftovers(tmp_path) == Leftovers()
            assert (tmp_path / name).exists()
            if not ends_well:
                writer.send_signal(signal.SIGKILL)
        assert find_leftovers(tmp_path) == ([] if ends_well else [tmp_path / name])
    assert remove_leftovers(tmp_path).files == 1
    assert names(tmp_path) == ["file"]


def test_who_tidies_up_never_disturbs_who_writes(tmp_path: Path) -> None:
    """Also in the moment between the making of a file and its lock."""
    program = (
        "import sys; from pathlib import Path; from orihon.system.files import remove_leftovers\n"
        "print('ready', flush=True)\n"
        "while True: remove_leftovers(Path(sys.argv[1]))"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
            for number in range(1500):
                replace_file(tmp_path / "file", [b"%d" % number], durable=False)
                assert (tmp_path / "file").read_bytes() == b"%d" % number
            assert all(create_file(tmp_path / f"new {number}", [b"x"]) for number in range(100))
        finally:
            other.kill()


def test_only_unfinished_files_are_removed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"not ours")
    folder = tmp_path / "folder"
    (folder / "blobs").mkdir(parents=True)
    (folder / ".link.0a1b2c3d").symlink_to(outside)
    os.mkfifo(folder / ".pipe.0a1b2c3d")
    (folder / ".hidden").write_bytes(b"x")
    (folder / "name.0a1b2c3d").write_bytes(b"x")
    (folder / "blobs" / ".blob.0a1b2c3d").write_bytes(b"12345")
    assert remove_leftovers(folder) == Leftovers(1, 5)
    assert outside.read_bytes() == b"not ours"
    assert sorted(names(folder)) == [".hidden", ".link.0a1b2c3d", ".pipe.0a1b2c3d", "blobs", "name.0a1b2c3d"]
    assert remove_leftovers(tmp_path / "missing") == Leftovers()


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_vacuum_gives_the_room_back_and_says_how_much(tmp_path: Path, backend: str) -> None:
    _, folder = paused_task(tmp_path, backend)
    (folder / ".current.jsonl.0a1b2c3d").write_bytes(b"x" * 5000)
    (tmp_path / ".mask.key.0a1b2c3d").write_bytes(b"x" * 7)
    with OpenBase(tmp_path, settings_for(backend)) as base, unfinished_file(folder / "metadata.json") as (held, _):
        planned = vacuum_databases(base, dry_run=True)
        assert (planned.leftover_files, planned.leftover_bytes) == (2, 5007)
        done = vacuum_databases(base)
        assert (done.leftover_files, done.leftover_bytes) == (2, 5007)
        assert vacuum_databases(base).leftover_files == 0
        assert held.exists()


@pytest.mark.parametrize("name", [".new.0a1b2c3d.fork", ".0a1b2c3d0a1b2c3d.import", ".task.0a1b2c3d"])
def test_a_folder_that_nobody_will_finish_goes_as_a_whole(tmp_path: Path, name: str) -> None:
    paused_task(tmp_path, "files")
    staged = tmp_path / "paused" / name
    staged.mkdir(mode=0o700)
    (staged / ".current.jsonl.0a1b2c3d").write_bytes(b"x" * 5000)
    with OpenBase(tmp_path, settings_for("files")) as base:
        assert examine(base) == [], "somebody may be at it"
        os.utime(staged, (1_000_000_000, 1_000_000_000))
        assert [(*finding.kind, finding.repair) for finding in repair(base)] == [("base", "temporary", "done")]
        assert examine(base) == []
    assert not staged.exists()


def test_all_is_written_when_the_system_takes_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, pwrite = os.write, os.pwrite
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:3]))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: pwrite(fd, data[:3], offset))
    path = tmp_path / "file"
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        write_all(fd, b"0123456789")
        write_all(fd, b"abcdefgh", 1)
    finally:
        os.close(fd)
    assert path.read_bytes() == b"0abcdefgh9"
