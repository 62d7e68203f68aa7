"""A task has one folder: nothing makes it again where it has just left, and what old versions left is put aside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import cycle
from pathlib import Path

import apsw
import pytest

from orihon import MessageStore, SummaryStore
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.errors import DamagedStore, OrihonError, StorageUnavailable, TaskBusy
from orihon.reports.overview import task_overview
from orihon.reports.records import compression_page, record_page, view_diff, view_page
from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.runtime.worker import WorkerProcess
from orihon.settings import load_settings
from orihon.store.factory import open_task_store
from orihon.store.task_store import TaskStore
from orihon.system.files import keep_aside, move_aside
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.editing import changing_task, check_changeable
from orihon.tasks.hand_edits import change_view, preview_compression
from orihon.tasks.place import TaskFolders, TaskPlace
from orihon.tasks.reader import Choice, reading_task
from orihon.tasks.verify.database import damage_in
from orihon.tasks.verify.verify import Finding, found_steadily, verify
from orihon.tasks.view_reader import view_at
from orihon.transfer.migrate import migrate_tasks
from orihon.upkeep.doctor import examine, repair
from orihon.upkeep.privacy.anonymize import anonymize_task
from orihon.upkeep.retention.vacuum import vacuum_databases
from orihon.upkeep.scan import scan_tasks
from orihon.values.task import TaskKey, TaskStatus
from tests.damage import BACKENDS, add_record, edit_record, paused_task, settings_for, start_task
from tests.helpers import refused
from tests.integration.run_supervisor import LIMITS
from tests.integration.worker_handlers import HANDLER

ROOT = Path(__file__).parents[2]
OTHER = {"files": "sqlite", "sqlite": "files"}


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def row_of(base: Path, uuid: str) -> TaskRow:
    with open_catalogue(base, settings_for("files")) as catalogue:
        return catalogue.tasks.get(uuid)


def aside(base: Path) -> list[str]:
    """What was put aside, without the random ends of the names."""
    place = base / "aside"
    return sorted(path.name.rpartition(".")[0] for path in place.iterdir()) if place.is_dir() else []


# ---- nothing makes a second one ------------------------------------------------------------------------------------


class Leaving(TaskFolders):
    """The owner moves the task's folder in the moment after somebody has found it."""

    def __init__(self, base_dir: Path, source: Path, target: Path) -> None:
        super().__init__(base_dir)
        self._source, self._target = source, target

    def find(self, uuid: str) -> TaskPlace | None:
        found = super().find(uuid)
        if self._source.exists():
            self._source.rename(self._target)
        return found


def test_a_change_that_finds_the_folder_just_before_it_is_moved(tmp_path: Path, backend: str) -> None:
    """The row says running, the folder still lies among the paused ones: its owner is just resuming it."""
    task = start_task(tmp_path, backend)
    running, paused = task.context_dir, tmp_path / "paused" / task.uuid
    paused.parent.mkdir(mode=0o700)

    def outside() -> OpenBase:
        running.rename(paused)
        base = OpenBase(tmp_path, settings_for(backend))
        base.folders = Leaving(tmp_path, paused, running)
        return base

    if backend == "files":
        with refused(TaskBusy, "view"), changing_task(outside(), task.uuid):
            pass
        with refused(TaskBusy, "view"):
            check_changeable(outside(), task.uuid)
    else:
        with changing_task(outside(), task.uuid) as changing:
            changing.messages.folding.undo(made_by="somebody")
        assert task.message_store.compressions()[-1].made_by == "somebody"
        check_changeable(outside(), task.uuid)
    assert not paused.exists()
    task.message_store.add_message("user", "and on")
    task.stop()
    assert verify(OpenBase(tmp_path, settings_for(backend)), task.uuid) == []


#: What gives a value of a task, for whoever only looks.
LOOKS: dict[str, Callable[[OpenBase, str], object]] = {
    "overview": task_overview,
    "view_at": lambda base, uuid: view_at(base, uuid, 2),
    "view": lambda base, uuid: view_page(base, uuid, limit=10),
    "messages": lambda base, uuid: record_page(base, uuid, "messages", Choice(), 10),
    "compressions": lambda base, uuid: compression_page(base, uuid, limit=10),
    "diff": view_diff,
    "preview": preview_compression,
    "verify": verify,
    "doctor": lambda base, uuid: examine(base),
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_that_finds_the_folder_just_before_it_is_moved(tmp_path: Path, backend: str, look: str) -> None:
    """Once, it was gone, might not be read, could not be examined."""
    uuid, paused = paused_task(tmp_path, backend)
    running = tmp_path / "running" / uuid
    base = OpenBase(tmp_path, settings_for(backend))
    expected = LOOKS[look](base, uuid)

    class Resumed(TaskFolders):
        """The owner resumes the task in the moment after somebody has found its folder, and not only looked there."""

        calls = 0

        def places(self, uuid: str) -> list[TaskPlace]:
            found = super().places(uuid)
            self.calls += 1
            if self.calls == 2:
                base.needed_catalogue().tasks.change_status(uuid, TaskStatus.RUNNING)
                paused.rename(running)
            return found

    base.folders = Resumed(tmp_path)
    found = LOOKS[look](base, uuid)
    assert running.is_dir()
    assert found == [] if isinstance(expected, list) else type(found) is type(expected)


def test_of_a_task_that_never_rests_only_what_every_look_finds_is_told(tmp_path: Path) -> None:
    uuid, _ = paused_task(tmp_path, "files")
    base = OpenBase(tmp_path, settings_for("files"))
    tasks = base.needed_catalogue().tasks
    passing = cycle(("misplaced", "epoch"))

    def look() -> list[Finding]:
        is_paused = tasks.get(uuid).status is TaskStatus.PAUSED
        tasks.change_status(uuid, TaskStatus.RUNNING if is_paused else TaskStatus.PAUSED)
        return [Finding("stream", "damaged", "-"), Finding("catalogue", next(passing), "-")]

    assert [finding.detail for finding in found_steadily(base, uuid, look)] == ["damaged"]


def _reopened(store: TaskStore, folder: Path) -> None:
    settings = settings_for("files")
    open_task_store(folder, settings).claim()


#: What may be tried on a store whose folder has gone.
AFTER_THE_MOVE: dict[str, Callable[[TaskStore, Path], object]] = {
    "opened again": _reopened,
    "claimed": lambda store, folder: store.claim(),
    "a kept file": lambda store, folder: store.records.keep_file("final_summary.txt", b"x"),
    "a kept file in a folder": lambda store, folder: store.records.keep_file("outputs/1.txt", b"x"),
    "a large content": lambda store, folder: store.records.put_blob("0" * 64, b"x"),
    "a derived document": lambda store, folder: store.records.save("index", b"{}"),
    "a view for a request": lambda store, folder: store.records.write_out("request.json", [b"{}"]),
    "something cut off": lambda store, folder: keep_aside(folder, "messages.jsonl", b"x"),
    "a file put aside": lambda store, folder: move_aside(folder / "request.json", folder),
    "a look at the database": lambda store, folder: damage_in(folder / "context.db"),
    "a summary": lambda store, folder: SummaryStore(folder).add_summary("x"),
    "a message": lambda store, folder: MessageStore(folder).add_message("user", "x"),
}


@pytest.mark.parametrize("what", AFTER_THE_MOVE)
def test_nothing_makes_a_folder_where_the_task_was(tmp_path: Path, backend: str, what: str) -> None:
    uuid, left = paused_task(tmp_path, backend)
    store = open_task_store(left, settings_for(backend))
    moved = tmp_path / "completed" / uuid
    moved.parent.mkdir(mode=0o700)
    left.rename(moved)
    with suppress(OrihonError), closing(store):
        AFTER_THE_MOVE[what](store, left)
    assert not left.exists()
    assert [path.name for path in moved.parent.iterdir()] == [uuid]


def test_a_task_that_was_archived_is_not_begun_again(tmp_path: Path) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    shutil.rmtree(folder)
    with pytest.raises(OrihonError, match=uuid):
        MessageStore(folder).add_message("user", "x")
    assert not folder.exists()


#: Resumes and pauses the task again and again for some seconds, and until both others have changed it, then says so;
#: prints how often.
MOVER = """
import sys, time
from pathlib import Path
from orihon.errors import TaskBusy
from orihon.tasks.context import TaskContextManager
from tests.damage import settings_for
base, uuid, backend, stop = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
try:
    done, end = 0, time.monotonic() + 3
    while done < 5 or time.monotonic() < end or len(list(stop.parent.glob("begun-*"))) < 2:
        try:
            task = TaskContextManager.resume(base, uuid, settings_for(backend))
        except TaskBusy:
            time.sleep(0.001)
            continue
        task.message_store.add_message("user", f"round {done}")
        task.stop()
        done += 1
    print(done)
finally:
    stop.touch()
"""

#: Changes the task's view in every way until the other is done; prints what it could not do, by kind.
CHANGER = """
import itertools, os, sys, time
from pathlib import Path
from orihon.errors import OrihonError
from orihon.tasks.base import OpenBase
from orihon.tasks.editing import changing_task
from orihon.values.view import PlannedFold
from tests.damage import settings_for
base, uuid, backend, stop = Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])
opened = OpenBase(base, settings_for(backend))
seen, done = set(), 0
for number in itertools.count():
    if stop.exists():
        break
    try:
        with changing_task(opened, uuid) as task:
            folding = task.messages.folding
            way = number % 5
            if way == 0: folding.undo(made_by="test")
            elif way == 1: folding.redo(made_by="test")
            elif way == 2: folding.pin(8)
            elif way == 3: folding.unpin(8)
            else: folding.compress([PlannedFold(2, 4, f"by {number}")])
        done += 1
        stop.with_name(f"begun-{os.getpid()}").touch()
    except OrihonError as error:
        seen.add(f"{type(error).__name__} {error.reason}")
    time.sleep(0.02)  # the other one shall come to its turn
print(done, *sorted(seen), sep="\\n")
"""


def test_changes_from_outside_while_the_task_is_resumed_and_paused(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    arguments = [str(tmp_path), uuid, backend, str(tmp_path / "stop")]
    started = [
        subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for program in (MOVER, CHANGER, CHANGER)
    ]
    try:
        said = [process.communicate(timeout=600)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [process.returncode for process in started] == [0, 0, 0]
    rounds = int(said[0])
    for answer in said[1:]:
        done, *problems = answer.splitlines()
        assert int(done) > 0
        assert not [problem for problem in problems if problem.startswith(("Damaged", "StorageUnavailable"))], problems
    assert TaskFolders(tmp_path).places(uuid) == [TaskPlace(tmp_path / "paused" / uuid)]
    assert aside(tmp_path) == []
    assert verify(OpenBase(tmp_path, settings_for(backend)), uuid) == []
    with TaskContextManager.resume(tmp_path, uuid, settings_for(backend)) as task:
        said_by_mover = [stored.message.content for stored in task.message_store.get_messages()][-rounds:]
        assert said_by_mover == [f"round {number}" for number in range(rounds)]


@pytest.mark.parametrize("is_moved", [True, False])
def test_what_failed_is_tried_again_where_the_task_was_moved_away_and_back(tmp_path: Path, is_moved: bool) -> None:
    uuid, folder = paused_task(tmp_path, "files")
    for place in (tmp_path / "running", folder.parent):
        os.utime(place, (0, 0))  # clocks of file systems stand still for milliseconds
    tried = []

    def attempt() -> str:
        tried.append(uuid)
        if len(tried) == 1:
            if is_moved:
                folder.rename(tmp_path / "running" / uuid).rename(folder)
            raise StorageUnavailable("io", path=folder, detail="disk I/O error")
        return "found"

    if is_moved:
        assert TaskFolders(tmp_path).where_it_lies(uuid, attempt) == "found"
    else:  # a disk that fails is not asked again
        with pytest.raises(StorageUnavailable):
            TaskFolders(tmp_path).where_it_lies(uuid, attempt)
    assert len(tried) == 1 + is_moved


# ---- what old versions left ------------------------------------------------------------------------------------------


def _empty(folder: Path) -> None:
    folder.mkdir(mode=0o700)


def _empty_database(folder: Path) -> None:
    _empty(folder)
    (folder / "context.db").touch(mode=0o600)


def _database_without_a_row(folder: Path) -> None:
    _empty(folder)
    open_task_store(folder, settings_for("sqlite"), epoch=1).claim()


def _leftovers(folder: Path) -> None:
    _empty(folder)
    for name in ("messages.jsonl", "writer.json", "current.jsonl", ".current.jsonl.0a1b2c3d", "request.json"):
        (folder / name).touch(mode=0o600)
    (folder / "metadata.json").write_text("{}")


HUSKS: dict[str, Callable[[Path], None]] = {
    "empty": _empty,
    "an empty file": _empty_database,
    "a database without a row": _database_without_a_row,
    "leftovers": _leftovers,
}


@pytest.fixture(params=HUSKS)
def haunted(request: pytest.FixtureRequest, tmp_path: Path, backend: str) -> str:
    """A paused task with a husk where running ones lie; returns its UUID."""
    uuid, _ = paused_task(tmp_path, backend)
    HUSKS[request.param](tmp_path / "running" / uuid)
    return uuid


def test_who_only_looks_passes_over_a_husk(tmp_path: Path, backend: str, haunted: str) -> None:
    base = OpenBase(tmp_path, settings_for(backend))
    with reading_task(base, haunted) as (store, _):
        assert store.count("messages") == 13
    assert [finding.kind for finding in examine(base)] == [("catalogue", "two_folders")]
    assert aside(tmp_path) == []


def test_who_resumes_or_changes_a_task_puts_the_husk_aside(tmp_path: Path, backend: str, haunted: str) -> None:
    base = OpenBase(tmp_path, settings_for(backend))
    change_view(base, haunted, "undo", made_by="test")
    assert aside(tmp_path) == [f"{haunted}.running"]
    with TaskContextManager.resume(tmp_path, haunted, settings_for(backend)) as task:
        assert task.message_store.add_message("user", "and on") == 14
    assert verify(base, haunted) == []


def test_the_doctor_puts_the_husk_aside(tmp_path: Path, backend: str, haunted: str) -> None:
    base = OpenBase(tmp_path, settings_for(backend))
    assert [(*finding.kind, finding.repair) for finding in repair(base)] == [("catalogue", "two_folders", "done")]
    assert [finding for finding in examine(base) if finding.task] == []
    assert aside(tmp_path) == [f"{haunted}.running"]


def worked(base: Path, uuid: str) -> TaskRow:
    """The task's row after a worker has had its way with the queue."""
    with closing(TaskQueue(base, {}, limits=QueueLimits(**LIMITS))) as queue:
        queue.resume(uuid)
    WorkerProcess(1, {}, base_dir=base, handler=HANDLER, limits=QueueLimits(**LIMITS), until_empty=True).run()
    return row_of(base, uuid)


def queued_before(base: Path, backend: str) -> tuple[str, Path]:
    """A paused task that the worker's handler has begun."""
    with closing(TaskQueue(base, settings_for(backend), limits=QueueLimits(**LIMITS))) as queue:
        uuid = queue.enqueue(TaskKey("cli", "o", "r", "t", "1"), prompt="steps 3 0")
    with TaskContextManager(base, None, settings_for(backend), uuid=uuid) as task:
        task.message_store.add_message("user", "step 1")
        task.stop()
    return uuid, base / "paused" / uuid


@pytest.mark.parametrize("husk", HUSKS)
def test_a_worker_puts_the_husk_aside_and_does_the_work(tmp_path: Path, backend: str, husk: str) -> None:
    uuid, _ = queued_before(tmp_path, backend)
    HUSKS[husk](tmp_path / "running" / uuid)
    row = worked(tmp_path, uuid)
    assert (row.status, row.attempts) == (TaskStatus.COMPLETED, 1)
    assert aside(tmp_path) == [f"{uuid}.running"]
    assert verify(OpenBase(tmp_path, settings_for(backend)), uuid) == []


def test_a_folder_whose_records_the_other_has_goes_aside_whole(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    (tmp_path / "running").mkdir(exist_ok=True)
    older = tmp_path / "running" / uuid
    shutil.copytree(folder, older)
    for number in (13, 12):
        edit_record(older, "messages", number, lambda line: None)
    with TaskContextManager.resume(tmp_path, uuid, settings_for(backend)) as task:
        assert task.message_store.add_message("user", "and on") == 14
    assert aside(tmp_path) == [f"{uuid}.running"]
    (kept,) = (tmp_path / "aside").iterdir()
    with closing(open_task_store(kept, settings_for(backend))) as store:
        assert store.count("messages") == 11


def _vacuum(base: OpenBase, uuid: str) -> None:
    assert vacuum_databases(base).left == {}


def _scan(base: OpenBase, uuid: str) -> None:
    scan_tasks(base, [uuid], fix=True)


def _anonymize(base: OpenBase, uuid: str) -> None:
    anonymize_task(base, uuid, names=["message"])


def _migrate(base: OpenBase, uuid: str) -> None:
    source = base.settings.context_storage.backend
    report = migrate_tasks(base.path, base.settings, tasks=[uuid], source=source, target=OTHER[source])
    assert [task.outcome for task in report.tasks] == ["moved"]


@pytest.mark.parametrize("act", [_vacuum, _scan, _anonymize, _migrate], ids=lambda act: act.__name__)
@pytest.mark.parametrize("is_in_place", [True, False], ids=["in place", "elsewhere"])
def test_nobody_who_owns_a_task_refuses_it_for_a_mere_beginning(
    tmp_path: Path, backend: str, act: Callable[[OpenBase, str], None], is_in_place: bool
) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    with TaskContextManager.resume(tmp_path, uuid, settings_for(backend)) as task:
        task.complete()
    folder, other = tmp_path / "completed" / uuid, tmp_path / "running" / uuid
    shutil.copytree(folder, other)
    for number in (13, 12):
        edit_record(other if is_in_place else folder, "messages", number, lambda line: None)
    with closing(OpenBase(tmp_path, load_settings(settings_for(backend)))) as base:
        act(base, uuid)
        with reading_task(base, uuid) as (store, _):
            assert store.count("messages") == 13
        found = verify(base, uuid)
        assert "two_histories" not in {finding.detail for finding in found}
        with base.own(uuid):
            assert (f"{uuid}.running" if is_in_place else f"{uuid}.completed") in aside(tmp_path)


def test_of_two_that_are_the_same_the_one_in_its_place_stays(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    shutil.copytree(folder, tmp_path / "running" / uuid)
    base = OpenBase(tmp_path, settings_for(backend))
    assert [finding.repair for finding in repair(base)] == ["done"]
    assert base.folders.places(uuid) == [TaskPlace(folder)]
    assert aside(tmp_path) == [f"{uuid}.running"]


@pytest.fixture
def divided(tmp_path: Path, backend: str) -> tuple[str, Path, Path]:
    """A task with two folders, each with a message that the other does not have."""
    uuid, folder = queued_before(tmp_path, backend)
    other = tmp_path / "running" / uuid
    shutil.copytree(folder, other)
    for place, said in ((folder, "here"), (other, "there")):
        opened = open_task_store(place, settings_for(backend))
        with closing(MessageStore(place, settings_for(backend), task_store=opened)) as store:
            store.add_message("user", said)
    return uuid, folder, other


def test_two_histories_are_left_to_a_person(tmp_path: Path, backend: str, divided: tuple[str, Path, Path]) -> None:
    uuid, folder, other = divided
    base = OpenBase(tmp_path, settings_for(backend))
    with refused(DamagedStore, "two_folders") as caught:
        TaskContextManager.resume(tmp_path, uuid, settings_for(backend))
    assert f"{folder} (2)" in str(caught.value)
    assert f"{other} (2)" in str(caught.value)
    with refused(DamagedStore, "two_folders"), reading_task(base, uuid):
        pass
    (finding,) = repair(base)
    assert (*finding.kind, finding.repair) == ("catalogue", "two_histories", "none")
    assert aside(tmp_path) == []
    assert row_of(tmp_path, uuid).lease_owner is None


def test_a_worker_lays_a_task_with_two_histories_down_until_a_person_has_chosen(
    tmp_path: Path, backend: str, divided: tuple[str, Path, Path]
) -> None:
    uuid, _, other = divided
    row = worked(tmp_path, uuid)
    assert (row.status, row.attempts, row.lease_owner) == (TaskStatus.PAUSED, 0, None)
    assert str(other) in str(row.error_message)
    other.rename(tmp_path.parent / f"{tmp_path.name}-out of the way")
    row = worked(tmp_path, uuid)
    assert (row.status, row.attempts) == (TaskStatus.COMPLETED, 1)


def test_a_second_folder_that_cannot_be_read_is_not_taken_for_a_husk(tmp_path: Path) -> None:
    uuid, _ = paused_task(tmp_path, "files")
    other = tmp_path / "running" / uuid
    other.mkdir()
    add_record(other, "messages", 1, b"nonsense")
    add_record(other, "messages", 2, b'{"seq":2,"role":"user","content":"x"}')
    with refused(DamagedStore, "two_folders"):
        TaskContextManager.resume(tmp_path, uuid, settings_for("files"))
    database = tmp_path / "running" / uuid / "context.db"
    shutil.rmtree(other)
    other.mkdir()
    database.write_bytes(b"nonsense" * 100)
    with refused(DamagedStore, "two_folders"):
        TaskContextManager.resume(tmp_path, uuid, settings_for("files"))
    database.unlink()
    with closing(apsw.Connection(str(database))) as connection:
        connection.execute("CREATE TABLE somebody_elses (x)")
    with refused(DamagedStore, "two_folders"):
        TaskContextManager.resume(tmp_path, uuid, settings_for("files"))
    assert aside(tmp_path) == []
