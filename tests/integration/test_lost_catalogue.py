"""``tasks.db`` is gone: the next step makes a new one from the folders, and nobody begins a task a second time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orihon import Base
from orihon.errors import DamagedStore

BACKENDS = ("files", "sqlite")


def opened(path: Path, backend: str) -> Base:
    return Base(path, context_storage={"backend": backend})


def lost(path: Path, backend: str) -> dict[str, str]:
    """A base with tasks (by name, at rest or stopped in the middle) whose catalogue is gone."""
    uuids = {}
    with opened(path, backend) as base:
        for name in ("me/project#27", "notes", "ended"):
            task = base.task(name)
            task.add("user", f"about {name}")
            uuids[name] = task.uuid or ""
            if name == "ended":
                task.complete()
            task.close()
    for file in path.glob("tasks.db*"):
        file.unlink()
    return uuids


def folders(path: Path) -> set[str]:
    return {folder.name for place in ("running", "paused", "completed") for folder in path.glob(f"{place}/*")}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("by", ["name", "uuid"])
def test_the_next_step_goes_on_with_the_task(tmp_path: Path, backend: str, by: str) -> None:
    uuids = lost(tmp_path, backend)
    for name in ("notes", "me/project#27"):
        with opened(tmp_path, backend) as base:
            task = base.task(name if by == "name" else uuids[name])
            assert task.uuid == uuids[name]
            task.add("user", "more")
            assert [message["content"] for message in task.messages()][-2:] == [f"about {name}", "more"]
            task.close()
    with opened(tmp_path, backend) as base:
        assert set(base.uuids()) == folders(tmp_path) == set(uuids.values())
        assert base.resolve("ended") == uuids["ended"]
        assert not [finding for uuid in uuids.values() for finding in base.verify(uuid)]
    assert not (tmp_path / "tasks.db.rebuild").exists()


def test_who_enqueues_or_lists_finds_the_others(tmp_path: Path) -> None:
    uuids = lost(tmp_path, "files")
    with opened(tmp_path, "files") as base:
        new = base.enqueue("another")
        assert {row.uuid for row in base.rows()} == {new, *uuids.values()}


DIES = """
import os, sys
import orihon.tasks.folder_rows as rows
from orihon import Base

enter, count = rows.enter_folder, []
def dies(*arguments):
    count.append(1)
    if len(count) > 1:
        os.kill(os.getpid(), 9)
    enter(*arguments)
rows.enter_folder = dies
Base(sys.argv[1]).enqueue("another")
"""


def test_one_that_was_killed_meanwhile_is_gone_on_with(tmp_path: Path) -> None:
    uuids = lost(tmp_path, "files")
    done = subprocess.run([sys.executable, "-c", DIES, str(tmp_path)], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    assert (tmp_path / "tasks.db").exists()
    with opened(tmp_path, "files") as base:
        assert {base.task(name).uuid for name in ("notes", "me/project#27")} <= set(uuids.values())
        assert {row.uuid for row in base.rows()} == set(uuids.values())
    assert folders(tmp_path) == set(uuids.values())


def test_a_row_that_alone_is_missing_comes_from_its_folder(tmp_path: Path) -> None:
    uuids = lost(tmp_path, "files")
    aside = tmp_path / "aside.tmp"
    (tmp_path / "running" / uuids["notes"]).rename(aside)
    with opened(tmp_path, "files") as base:
        base.needed_catalogue()
        aside.rename(tmp_path / "running" / uuids["notes"])
        assert base.task(uuids["notes"]).uuid == uuids["notes"]
    assert folders(tmp_path) == set(uuids.values())


def test_one_that_cannot_be_read_keeps_nobody_from_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uuids = lost(tmp_path, "sqlite")
    (tmp_path / "running" / uuids["notes"] / "context.db").write_bytes(os.urandom(5000))
    with opened(tmp_path, "sqlite") as base:
        assert base.task("me/project#27").uuid == uuids["me/project#27"]
        with pytest.raises(DamagedStore):
            base.task("notes")
    assert uuids["notes"] in caplog.text
    assert folders(tmp_path) == set(uuids.values())
