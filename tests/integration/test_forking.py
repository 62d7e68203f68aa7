"""Forks of tasks that others work on, what they share with them, and what a crash leaves of one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from orihon import archive_task, fork_task
from orihon.catalogue.connect import open_catalogue
from orihon.errors import IllegalTransition, StorageError, TaskNotFound
from orihon.runtime.queue import TaskQueue
from orihon.settings import load_settings
from orihon.store import copy as copying
from orihon.store.factory import open_for_reading
from orihon.system import jsonio
from orihon.tasks import place as task_folders
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.transfer import fork as forking
from orihon.upkeep.doctor import examine, repair
from orihon.values.records import FORKED_FROM
from orihon.values.task import TaskStatus
from tests.conformance.child import ROOT, Lines, unmeasured
from tests.damage import BACKENDS, KEY, paused_task, settings_for, start_task
from tests.helpers import refused
from tests.services import Database

_BEGIN = (
    "import sys; from pathlib import Path; from tests.damage import KEY, settings_for;"
    "from orihon.tasks.context import TaskContextManager; from orihon.values.view import foldable_runs;"
    "base, settings = Path(sys.argv[1]), settings_for(sys.argv[2])\n"
)
APPENDING = (
    f"{_BEGIN}"
    "store = TaskContextManager(base, KEY, settings, uuid='busy').message_store\n"
    "while True:\n"
    "    seq = store.add_message('user', 'message ' * 20)\n"
    "    if seq % 5 == 0:\n"
    "        start, end = foldable_runs(store.view())[0]\n"
    "        store.create_summary(start, end, f'summary to {end}')\n"
    "    print(seq, flush=True)\n"
)
MOVING = (
    f"{_BEGIN}"
    "task = TaskContextManager(base, KEY, settings, uuid='busy')\n"
    "while True:\n"
    "    seq = task.message_store.add_message('user', 'message ' * 20)\n"
    "    task.stop()\n"
    "    print(seq, flush=True)\n"
    "    task = TaskContextManager.resume(base, 'busy', settings)\n"
)
FORKING = (
    f"{_BEGIN}"
    "from orihon import fork_task\n"
    "print('ready', flush=True)\n"
    "while True:\n"
    "    print(fork_task(base, 'long', settings, 500), flush=True)\n"
)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "base"


@contextmanager
def process(program: str, base: Path, backend: str) -> Iterator[tuple[Lines, subprocess.Popen[bytes]]]:
    command = [sys.executable, "-c", program, str(base), backend]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=unmeasured()) as started:
        assert started.stdout is not None
        try:
            yield Lines(started.stdout), started
        finally:
            started.kill()


def messages_of(folder: Path, backend: str) -> list[bytes]:
    with closing(open_for_reading(folder, settings_for(backend))) as store:
        return list(store.records.read("messages"))


@pytest.mark.parametrize("program", [APPENDING, MOVING], ids=["appending", "moving"])
def test_a_task_is_forked_under_its_owners_hands(base: Path, backend: str, program: str) -> None:
    settings = settings_for(backend)
    forks: dict[str, int] = {}
    with process(program, base, backend) as (lines, owner):
        for _ in range(12):
            at = int(lines.next())
            forks[fork_task(base, "busy", settings, at)] = at
        for _ in range(12):
            last = int(lines.next())  # it has not been disturbed
        assert owner.poll() is None
    assert last >= 13
    found = [path for place in ("running", "paused") for path in (base / place).glob("busy")]
    log = messages_of(found[0], backend)
    for new, at in forks.items():
        assert messages_of(base / "paused" / new, backend) == log[:at]
    assert [finding for finding in examine(OpenBase(base, settings)) if finding.task != "busy"] == []


def test_a_fork_shares_contents_and_outputs_and_copies_neither(base: Path, backend: str) -> None:
    settings = settings_for(backend)
    task = start_task(base, backend)
    records = task.task_store.records
    records.keep_file("outputs/shell-0123abcd.txt", b"a long output")
    records.keep_file("outputs/shell-4567abcd.txt", b"a later one")
    task.message_store.add_message("user", "see outputs/shell-0123abcd.txt")
    at = task.message_store.count_messages()
    task.message_store.add_message("user", "see outputs/shell-4567abcd.txt")
    (base / "paused").mkdir(exist_ok=True)
    early, late = (fork_task(base, task.uuid, settings, step) for step in (10, at))
    assert not (base / "paused" / early / "blobs").exists()
    shared = [*task.context_dir.glob("blobs/*"), task.context_dir / "outputs" / "shell-0123abcd.txt"]
    assert len(shared) > 1
    for path in shared:
        twin = base / "paused" / late / path.relative_to(task.context_dir)
        assert (twin.stat().st_ino, twin.stat().st_mode & 0o777) == (path.stat().st_ino, 0o600)
    assert [path.name for path in (base / "paused" / late / "outputs").iterdir()] == ["shell-0123abcd.txt"]
    task.complete()
    shutil.rmtree(task.context_dir)
    with TaskContextManager.resume(base, late, settings) as fork:
        assert "data data" in str(fork.message_store.get_message(13).message.content)


@pytest.mark.parametrize(("module", "moment"), [(forking, "_mentioned"), (copying, "_copy_files")])
def test_outputs_are_not_lost_when_the_task_ends_while_it_is_forked(
    base: Path, backend: str, module: ModuleType, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = TaskContextManager(base, KEY, settings_for(backend))
    task.task_store.records.keep_file("outputs/shell-0123abcd.txt", b"a long output")
    at = task.message_store.add_message("user", "see outputs/shell-0123abcd.txt")
    plain = getattr(module, moment)

    def after_its_end(*given: object) -> object:
        if (base / "running" / task.uuid).exists():
            task.complete()
        return plain(*given)

    monkeypatch.setattr(module, moment, after_its_end)
    new = fork_task(base, task.uuid, settings_for(backend), at)
    assert (base / "paused" / new / "outputs" / "shell-0123abcd.txt").read_bytes() == b"a long output"


def test_contents_on_another_file_system_are_copied(base: Path, backend: str) -> None:
    places = [place for place in map(Path, ("/dev/shm", "/var/tmp")) if place.is_dir()]
    elsewhere = next((place for place in places if place.stat().st_dev != base.parent.stat().st_dev), None)
    if elsewhere is None:
        pytest.skip("there is no other file system here")
    uuid, folder = paused_task(base, backend)
    moved = elsewhere / f"orihon-test-{os.getpid()}-{backend}"
    try:
        shutil.move(folder / "blobs", moved)
        (folder / "blobs").symlink_to(moved)
        new = fork_task(base, uuid, settings_for(backend), 13)
        copies = {path.name: path.read_bytes() for path in (base / "paused" / new / "blobs").iterdir()}
        assert copies == {path.name: path.read_bytes() for path in moved.iterdir()}
    finally:
        shutil.rmtree(moved)


def test_a_fork_of_a_finished_task_goes_on(base: Path, backend: str) -> None:
    settings = settings_for(backend)
    with start_task(base, backend) as task:
        pass
    new = fork_task(base, task.uuid, settings, 13, name="second-try")
    assert new == "second-try"
    metadata = jsonio.decode((base / "paused" / new / "metadata.json").read_bytes())
    assert metadata[FORKED_FROM] == {"uuid": task.uuid, "at": 13}
    assert metadata["uuid"] == new
    assert not (base / "paused" / new / "final_summary.txt").exists()
    with TaskContextManager.resume(base, new, settings) as fork:
        assert fork.task_key == task.task_key
        fork.message_store.folding.undo()  # what could be undone there can be undone here
        fork.message_store.add_message("user", "another way")
    assert examine(OpenBase(base, settings)) == []
    with open_catalogue(base, settings) as catalogue:
        row = catalogue.tasks.get(new)
        assert (row.status, row.llm_call_count, row.total_messages) == (TaskStatus.COMPLETED, 0, 14)
    archive_task(base, task.uuid, settings)
    with refused(TaskNotFound, "no_folder"):
        fork_task(base, task.uuid, settings, 13)


def test_a_fork_knows_nothing_of_what_is_being_done_to_the_old_task(base: Path) -> None:
    settings = settings_for("files")
    uuid, _ = paused_task(base, "files")
    with open_catalogue(base, settings) as catalogue:
        catalogue.tasks.update(uuid, metadata={"cleaning": {"at": "now"}, "archived": {"key": "x"}, "mine": 1})
        new = fork_task(base, uuid, settings, 10)
        assert catalogue.tasks.get(new).metadata == {"mine": 1, "forked_from": {"uuid": uuid, "at": 10}}


def test_a_fork_in_the_database_whose_row_is_lost_is_adopted(base: Path, postgres: Database) -> None:
    """As after a kill between the two."""
    settings = load_settings({"context_storage": {"backend": "postgres"}, "database": postgres.settings})
    task = start_task(base, settings)
    task.stop()
    new = fork_task(base, task.uuid, settings, 10)
    with closing(psycopg.connect(postgres.url, autocommit=True)) as connection:
        connection.execute(f"DELETE FROM {postgres.schema}.tasks WHERE uuid = '{new}'".encode())
    assert [finding.detail for finding in examine(OpenBase(base, settings))] == ["no_row"]
    assert [finding.repair for finding in repair(OpenBase(base, settings))] == ["done"]
    row = task.catalogue.tasks.get(new)
    assert (row.status, row.backend, row.total_messages) == (TaskStatus.PAUSED, "postgres", 10)
    assert row.metadata["forked_from"] == {"uuid": task.uuid, "at": 10}
    with TaskContextManager.resume(base, new, settings) as forked:
        assert forked.message_store.count_messages() == 10


def test_what_cannot_be_forked_is_refused(base: Path) -> None:
    settings = settings_for("files")
    uuid, _ = paused_task(base, "files")
    with refused(TaskNotFound, "uuid"):
        fork_task(base, "nobody", settings, 1)
    with refused(IllegalTransition, "exists"):
        fork_task(base, uuid, settings, 13, name=uuid)
    queue = TaskQueue(base, settings)
    queued = queue.enqueue(KEY, prompt="later")
    queue.close()
    with refused(TaskNotFound, "no_folder"):
        fork_task(base, queued, settings, 1)


def test_a_damaged_blob_is_not_forked(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_folders, "_SECONDS_OF_TRIES", 0.0)  # nobody moves it: it is not looked for that long
    uuid, folder = paused_task(base, "files")
    for path in folder.glob("blobs/*"):
        path.unlink()
    with pytest.raises(StorageError):
        fork_task(base, uuid, settings_for("files"), 13)
    assert [path.name for path in (base / "paused").iterdir()] == [uuid], "nothing of it stays"


def test_a_killed_fork_leaves_no_half_task(base: Path, backend: str) -> None:
    settings = settings_for(backend)
    with TaskContextManager(base, KEY, settings, uuid="long") as task:
        for number in range(500):
            task.message_store.add_message("user", f"message {number} " * 20)
    chance = random.Random()
    finished: set[str] = set()
    for _ in range(3):
        with process(FORKING, base, backend) as (lines, started):
            assert lines.next() == b"ready"
            for _ in range(chance.randrange(2)):
                finished.add(lines.next().decode())
            time.sleep(chance.random() * 0.2)
            started.kill()
    found = examine(OpenBase(base, settings))
    assert {finding.detail for finding in found} <= {"no_row"}, "killed between the folder and the row, at most"
    assert all(finding.repair == "done" for finding in repair(OpenBase(base, settings)))
    assert examine(OpenBase(base, settings)) == []
    log = messages_of(base / "completed" / "long", backend)
    forks = [path for path in (base / "paused").iterdir() if path.name[0] != "."]
    assert finished <= {path.name for path in forks}
    for path in forks:
        assert messages_of(path, backend) == log
    for path in (base / "paused").glob(".*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    fork_task(base, "long", settings, 1)
    assert list((base / "paused").glob(".*")) == [], "the next fork clears away what is left"
