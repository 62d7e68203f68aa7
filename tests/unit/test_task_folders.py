"""A task's folder is looked for while its owner moves it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from orihon.errors import DamagedStore
from orihon.tasks.place import TaskFolders, TaskPlace
from orihon.values.task import TaskStatus

MOVER = """
import os, sys
running, completed, stop = sys.argv[1:]
print("moving", flush=True)
while not os.path.exists(stop):
    os.rename(running, completed)
    os.rename(completed, running)
"""


def test_a_folder_that_is_being_moved_is_found_once(tmp_path: Path) -> None:
    """Two looks, one before and one after the move, once made "more than one folder" of it."""
    uuid, folders, stop = str(uuid4()), TaskFolders(tmp_path), tmp_path / "stop"
    running = folders.create(uuid)
    (tmp_path / "completed").mkdir()
    command = [sys.executable, "-c", MOVER, str(running), str(tmp_path / "completed" / uuid), str(stop)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as mover:
        try:
            assert mover.stdout is not None
            assert mover.stdout.readline() == "moving\n"
            for _ in range(20_000):
                assert len(folders.places(uuid)) <= 1
        finally:
            stop.touch()


def test_two_folders_with_records_are_damage(tmp_path: Path) -> None:
    uuid, folders = str(uuid4()), TaskFolders(tmp_path)
    here = folders.create(uuid)
    there = folders.create(uuid, TaskStatus.COMPLETED)
    assert len(folders.places(uuid)) == 2
    assert folders.find(uuid) == here
    (there.folder / "messages.jsonl").write_bytes(b'{"seq":1,"role":"user"}\n')
    assert folders.find(uuid) == there
    (here.folder / "messages.jsonl").write_bytes(b'{"seq":1,"role":"system"}\n')
    with pytest.raises(DamagedStore, match="more than one folder"):
        folders.find(uuid)


def test_a_folder_moved_by_somebody_else_in_the_meantime_is_where_they_put_it(tmp_path: Path) -> None:
    uuid, folders = str(uuid4()), TaskFolders(tmp_path)
    here, there = folders.create(uuid), tmp_path / "completed" / uuid
    there.parent.mkdir()

    class Slow(TaskFolders):
        def find(self, uuid: str) -> TaskPlace | None:
            found = super().find(uuid)
            if here.folder.exists():
                here.folder.rename(there)
            return found

    assert Slow(tmp_path).settle(uuid, TaskStatus.PAUSED, still=lambda: None) == TaskPlace(there)
