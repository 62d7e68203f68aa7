"""``tasks.db`` is gone: the next step makes a new one from the folders, and nobody begins a task a second time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from orihon import Base, TaskContextManager, TaskQueue, storage_summary
from orihon.catalogue.connect import open_catalogue
from orihon.errors import DamagedStore
from orihon.settings import load_settings
from orihon.tasks.base import OpenBase
from orihon.upkeep.doctor import examine
from orihon.values.task import TaskStatus
from orihon.web.server import WebServer
from tests.commands import ended
from tests.helpers import refused

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


@pytest.mark.parametrize("how", ["command", "page", "queue", "context", "function"])
def test_every_entrance_finds_the_tasks_again(tmp_path: Path, how: str) -> None:
    """One way to open a base: what a program's ``Base`` puts right, each of them does."""
    uuids = lost(tmp_path, "files")
    if how == "command":
        command = ["orihon", "--base-dir", str(tmp_path), "list", "--json"]
        code, out, err = ended(command, {**os.environ, "ORIHON_LANG": "en"}, 240)
        assert code == 0, err
        assert {task["uuid"] for task in json.loads(out)["tasks"]} == set(uuids.values())
    elif how == "page":
        with WebServer(tmp_path, load_settings({}, environ={})) as server:
            found = server._base.open_catalogue()
            assert found is not None
    elif how == "queue":
        TaskQueue(tmp_path, load_settings({}, environ={})).close()
    elif how == "context":
        TaskContextManager.resume(tmp_path, uuids["notes"], load_settings({}, environ={})).stop()
    else:
        assert storage_summary(tmp_path, load_settings({}, environ={})).tasks == len(uuids)
    with OpenBase(tmp_path, load_settings({}, environ={})) as base:
        base.open_catalogue()
        assert {row.uuid for row in base.rows()} == folders(tmp_path) == set(uuids.values())


def test_a_new_one_that_somebody_else_has_made_is_filled_as_well(tmp_path: Path) -> None:
    """Who sends notifications, or notes an anchor, opens ``tasks.db`` alone."""
    uuids = lost(tmp_path, "files")
    open_catalogue(tmp_path, load_settings({}, environ={})).close()
    with opened(tmp_path, "files") as base:
        assert base.task("notes").uuid == uuids["notes"]
    assert not (tmp_path / "tasks.db.rebuild").exists()


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_that_is_lost_while_a_program_works_with_it(tmp_path: Path, backend: str) -> None:
    """The program opens a new one for its next step, which knows nothing of the tasks."""
    base = opened(tmp_path, backend)
    others = base.task("another")
    others.add("user", "of another")
    task = base.task("me")
    task.add("user", "before")
    for file in tmp_path.glob("tasks.db*"):
        file.unlink()
    task.add("user", "behind")
    task.close()
    others.close()
    base.close()
    with opened(tmp_path, backend) as base:
        again = base.task("me")
        assert again.uuid == task.uuid
        assert [message["content"] for message in again.messages()] == ["before", "behind"]
        assert base.task("another").uuid == others.uuid
    assert len(folders(tmp_path)) == 2


def test_one_that_was_cut_to_nothing_is_lost_as_well(tmp_path: Path) -> None:
    uuids = lost(tmp_path, "files")
    (tmp_path / "tasks.db").touch()
    with opened(tmp_path, "files") as base:
        assert base.task("notes").uuid == uuids["notes"]


def test_what_only_looks_for_damage_makes_nothing(tmp_path: Path) -> None:
    lost(tmp_path, "files")
    before = sorted(tmp_path.rglob("*"))
    with OpenBase(tmp_path, load_settings({}, environ={})) as base:
        assert ("catalogue", "missing") in {finding.kind for finding in examine(base)}
    assert sorted(tmp_path.rglob("*")) == before


# ---- archived tasks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_archived_tasks_are_known_again(tmp_path: Path, backend: str, where: str, alone: bool) -> None:
    url = f"file://{tmp_path}/storage"
    path = tmp_path / "contexts"
    config = {"context_storage": {"backend": backend}, "archive": {"url": url if where == "elsewhere" else None}}
    with Base(path, config) as base:
        with base.task("me/project#27", title="of old") as task:
            task.add("user", "long ago")
        uuid = task.uuid or ""
        before = base.registered(uuid)[1]
        base.archive(uuid)
        if not alone:
            other = base.task("another")
            other.close()
        if where == "elsewhere":  # of another base, which uses the same storage
            with Base(tmp_path / "other", config) as elsewhere:
                with elsewhere.task("theirs") as theirs:
                    theirs.add("user", "not ours")
                elsewhere.archive(theirs.uuid or "")
        said = base.registered(uuid)[1].metadata["archived"]
    for file in path.glob("tasks.db*"):
        file.unlink()
    with Base(path, config) as base:
        base.open_catalogue()
        assert base.resolve("me/project#27") == uuid
        assert len(list(base.rows())) == (1 if alone else 2)
        row = base.registered(uuid)[1]
        assert row.status is TaskStatus.ARCHIVED
        assert row.metadata["archived"] == said
        assert (row.key, row.total_messages, row.model) == (before.key, before.total_messages, before.model)
        assert base.task("me/project#27").uuid != uuid  # it is over
        base.unarchive(uuid)
        assert base.registered(uuid)[1].status is TaskStatus.COMPLETED
        assert not base.verify(uuid)
        assert not [name for name in (path / "archive").glob("*") if uuid in name.name]
    assert not list(path.glob("archive/.*"))


def test_an_archive_that_cannot_be_read_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    with opened(tmp_path, "files") as base:
        uuids = []
        for name in ("one", "two", "three"):
            with base.task(name) as task:
                task.add("user", name)
            base.archive(task.uuid or "")
            uuids.append(task.uuid or "")
    for file in tmp_path.glob("tasks.db*"):
        file.unlink()
    packed = next(tmp_path.glob(f"archive/{uuids[0]}.tar*"))
    packed.write_bytes(packed.read_bytes()[:-40])
    (tmp_path / "archive" / f"{uuids[1]}.json").write_text("{}", encoding="utf-8")
    with opened(tmp_path, "files") as base:
        base.open_catalogue()
        assert {row.uuid: row.status for row in base.rows()} == dict.fromkeys(uuids, TaskStatus.ARCHIVED)
        for uuid in uuids[:2]:
            with refused(DamagedStore, "archive"):
                base.unarchive(uuid)
        assert base.resolve("three") == uuids[2]


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
