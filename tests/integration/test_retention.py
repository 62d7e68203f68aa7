"""Old tasks: archived, removed with a tombstone left, kept; kills at every step; one ``maintain`` at a time."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from orihon import (
    TaskContextManager,
    archive_old_contexts,
    archive_task,
    delete_old_contexts,
    keep_task,
    maintain,
    restore_task,
    vacuum_databases,
)
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.rows import CLEANED
from orihon.drivers.postgres import postgres_of
from orihon.errors import DamagedStore, IllegalTransition, StateError, TaskBusy
from orihon.settings import Settings, load_settings
from orihon.store.copy import StoreContents, contents_of
from orihon.store.factory import open_for_reading
from orihon.store.postgres_moving import all_tasks
from orihon.tasks.base import OpenBase
from orihon.tasks.place import folders_of
from orihon.tasks.verify.verify import verify
from orihon.upkeep.doctor import examine
from orihon.upkeep.retention.vacuum import only_one
from orihon.values.task import TaskKey, TaskStatus, new_uuid
from tests.damage import start_task
from tests.helpers import SomeSteps, refused
from tests.integration.killing import Steps, killed_at
from tests.services import Database


@pytest.fixture(params=["files", "sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Each back end; where it is the database, the archive is where all machines see it."""
    config: dict[str, Any] = {"context_storage": {"backend": request.param, "blob_bytes": 1024}}
    if request.param == "postgres":
        database: Database = request.getfixturevalue("emptied_postgres")
        config |= {"database": database.settings, "archive": {"url": f"file://{tmp_path}/shelf"}}
    return load_settings(config)


def finished(base: Path, settings: Settings, end: str = "complete") -> str:
    task = start_task(base, settings, key=TaskKey("cli", "", "", "task", new_uuid()))
    task.fail("it broke") if end == "fail" else getattr(task, end)()
    return task.uuid


def row_of(base: Path, uuid: str, settings: Settings) -> TaskRow:
    with closing(open_catalogue(base, settings)) as catalogue:
        return catalogue.tasks.get(uuid)


def contents(base: Path, uuid: str, settings: Settings) -> StoreContents:
    place = folders_of(base, settings).find(uuid)
    assert place is not None
    with closing(open_for_reading(place.folder, settings)) as store:
        return contents_of(store)


def places_of(base: Path, tmp_path: Path, uuid: str, settings: Settings) -> set[str]:
    """Everywhere that something of a task is kept."""
    found = {
        path.relative_to(tmp_path).parts[-2] for path in tmp_path.rglob(f"*{uuid}*") if "scratch" not in path.parts
    }
    if settings.database.url is not None and any(name.startswith(uuid) for name in all_tasks(postgres_of(settings))):
        found.add("database")
    return found


def assert_tombstone(base: Path, tmp_path: Path, uuid: str, settings: Settings, before: TaskRow) -> None:
    row = row_of(base, uuid, settings)
    assert row.status is TaskStatus.ARCHIVED
    assert set(row.metadata) == {CLEANED}
    tombstone = row.metadata[CLEANED]
    assert tombstone["status"] == before.status.value
    assert "two steps were done" in tombstone["final_summary"]
    assert tombstone["bytes"] > 0
    figures = ("total_messages", "total_tokens", "llm_call_count", "total_tool_calls", "completed_at", "error_message")
    assert [getattr(row, name) for name in figures] == [getattr(before, name) for name in figures]
    assert places_of(base, tmp_path, uuid, settings) == set(), "nothing of it is left anywhere"
    assert verify(OpenBase(base, settings), uuid) == []
    for action in (restore_task, archive_task):
        with refused(IllegalTransition, "cleaned"):
            action(base, uuid, settings)


# ---- tombstones ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_cleaned_task_leaves_its_statistics_and_its_final_summary(
    base: Path, tmp_path: Path, settings: Settings, is_packed: bool
) -> None:
    uuid, young = finished(base, settings), finished(base, settings)
    row = row_of(base, uuid, settings)
    if is_packed:
        archive_task(base, uuid, settings)
    else:
        keep_task(base, young, settings)
    with closing(open_catalogue(base, settings)) as catalogue:
        counted = sum(catalogue.statistics.count_by_status().values())
    if is_packed:
        keep_task(base, young, settings)
    run = delete_old_contexts(base, settings, days=0)
    assert [task.uuid for task in run.tasks] == [uuid]
    assert run.left == {}
    assert run.bytes_before > run.bytes_after == 0
    assert sum(run.counts_after.values()) == counted, "no row is lost"
    assert_tombstone(base, tmp_path, uuid, settings, row)
    assert row_of(base, young, settings).status is TaskStatus.COMPLETED
    assert [finding.kind for finding in examine(OpenBase(base, settings))] == []
    assert delete_old_contexts(base, settings, days=0).tasks == [], "a tombstone is not cleaned again"


def test_a_kill_at_any_step_of_cleanup_leaves_a_whole_task_or_a_tombstone(
    base: Path, tmp_path: Path, settings: Settings, some_steps: SomeSteps
) -> None:
    finished(base, settings)
    steps = Steps().hear(lambda: delete_old_contexts(base, settings, days=0))
    assert {"marked", "moved away", "taken off", "removed", "cleaned"} <= set(steps)
    cases = [(step, False) for step in steps] + [(step, True) for step in steps if step != "moved away"]
    for step, is_packed in some_steps(cases):
        uuid = finished(base, settings, "fail")
        before, row = contents(base, uuid, settings), row_of(base, uuid, settings)
        if is_packed:
            archive_task(base, uuid, settings)
        assert killed_at(step, lambda: delete_old_contexts(base, settings, days=0)), step
        if _is_whole(base, uuid, settings):
            restore_task(base, uuid, settings)
            assert contents(base, uuid, settings) == before, step
            assert row_of(base, uuid, settings).status is row.status
            assert killed_at(step, lambda: delete_old_contexts(base, settings, days=0))
        run = delete_old_contexts(base, settings, days=0)
        assert run.left == {}, step
        assert_tombstone(base, tmp_path, uuid, settings, row)


def _is_whole(base: Path, uuid: str, settings: Settings) -> bool:
    """Is the task where it was, or packed with its description?"""
    shelf = Path(settings.archive.url.removeprefix("file://")) if settings.archive.url else base
    return folders_of(base, settings).find(uuid) is not None or (shelf / "archive" / f"{uuid}.json").exists()


def test_a_packed_task_whose_archive_is_somewhere_else_is_no_tombstone(base: Path, tmp_path: Path) -> None:
    settings = load_settings({"archive": {"url": f"file://{tmp_path}/shelf"}})
    uuid = finished(base, settings)
    archive_task(base, uuid, settings)
    run = delete_old_contexts(base, load_settings({}), days=0)
    assert [(name, type(error)) for name, error in run.left.items()] == [(uuid, DamagedStore)]
    restore_task(base, uuid, settings)


# ---- what is not touched -------------------------------------------------------------------------------------------


def test_only_old_finished_tasks_that_nobody_wants_to_keep_are_dealt_with(base: Path, settings: Settings) -> None:
    kept, cancelled, failed = (
        finished(base, settings),
        finished(base, settings, "cancel"),
        finished(base, settings, "fail"),
    )
    keep_task(base, kept, settings)
    paused = start_task(base, settings, key=TaskKey("cli", "", "", "task", "paused"))
    paused.stop()
    running = start_task(base, settings, key=TaskKey("cli", "", "", "task", "running"))
    assert delete_old_contexts(base, settings).tasks == [], "none of them is thirty days old"
    assert archive_old_contexts(base, settings).tasks == []
    would = delete_old_contexts(base, settings, days=0, dry_run=True)
    assert {task.uuid for task in would.tasks} == {cancelled, failed}
    assert would.bytes_before > 0
    assert would.counts_before == would.counts_after
    assert {row_of(base, uuid, settings).status for uuid in (cancelled, failed)} == {
        TaskStatus.CANCELLED,
        TaskStatus.FAILED,
    }
    done = maintain(base, settings, days=0, archive_days=0)
    assert {task.uuid for task in done.deleted.tasks} == {cancelled, failed}
    assert done.archived.tasks == [], "what is removed is not packed before"
    assert done.is_complete
    assert row_of(base, kept, settings).status is TaskStatus.COMPLETED
    assert row_of(base, paused.uuid, settings).status is TaskStatus.PAUSED
    running.message_store.add_message("user", "still here")
    running.close()
    keep_task(base, kept, settings, keep=False)
    assert [task.uuid for task in archive_old_contexts(base, settings, days=0).tasks] == [kept]


def test_an_imported_task_is_as_old_as_its_stay(base: Path, settings: Settings) -> None:
    uuid = finished(base, settings)
    long_ago = "2020-01-01T00:00:00.000000+00:00"
    with closing(open_catalogue(base, settings)) as catalogue:
        row = catalogue.tasks.get(uuid)
        origin = {"format": "claude-code", "at": row.updated_at}
        catalogue.tasks.update(uuid, metadata={**row.metadata, "import": origin})
        assert delete_old_contexts(base, settings).tasks == []
        assert [task.uuid for task in delete_old_contexts(base, settings, days=0, dry_run=True).tasks] == [uuid]
        catalogue.tasks.update(uuid, metadata={**row.metadata, "import": {**origin, "at": long_ago}})
    assert [task.uuid for task in delete_old_contexts(base, settings, days=0).tasks] == [uuid]


def test_a_task_that_a_live_process_owns_is_left(base: Path) -> None:
    settings = load_settings({})
    uuid, other = finished(base, settings), finished(base, settings)
    with closing(open_catalogue(base, settings)) as catalogue:
        lease = catalogue.leases.acquire(uuid)
        for dry_run in (True, False):
            run = delete_old_contexts(base, settings, days=0, dry_run=dry_run)
            assert [task.uuid for task in run.tasks] == [other]
            assert [type(error) for error in run.left.values()] == [TaskBusy]
        catalogue.leases.release(lease)
    assert [task.uuid for task in delete_old_contexts(base, settings, days=0).tasks] == [uuid]


def test_a_task_that_ran_again_since_it_was_listed_is_not_removed(base: Path) -> None:
    settings = load_settings({})
    uuid = finished(base, settings, "fail")

    def run_again() -> None:
        with closing(open_catalogue(base, settings)) as catalogue:
            catalogue.tasks.change_status(uuid, TaskStatus.QUEUED)
        with TaskContextManager(base, uuid=uuid, config=settings) as task:
            task.message_store.add_message("user", "once more")

    first = finished(base, settings, "fail")  # the newest is dealt with first
    run = delete_old_contexts(base, settings, days=0, progress=lambda done, _: run_again() if done == 1 else None)
    assert [task.uuid for task in run.tasks] == [first]
    assert row_of(base, uuid, settings).status is TaskStatus.COMPLETED
    assert verify(OpenBase(base, settings), uuid) == []


def test_tasks_that_nobody_ever_opened_are_no_trouble(base: Path) -> None:
    settings = load_settings({})
    finished(base, settings)
    with closing(open_catalogue(base, settings)) as catalogue:
        queued = catalogue.tasks.register(TaskKey("cli", "", "", "task", "1"), new_uuid(), status=TaskStatus.QUEUED)
        catalogue.tasks.change_status(queued.uuid, TaskStatus.CANCELLED)
    done = maintain(base, settings, days=0, archive_days=0)
    assert done.is_complete
    assert len(done.deleted.tasks) == 1


def test_each_machine_deals_with_the_folders_that_it_has(base: Path, tmp_path: Path, postgres: Database) -> None:
    settings = load_settings(
        {
            "database": postgres.settings,
            "context_storage": {"backend": "files"},
            "archive": {"url": f"file://{tmp_path}/shelf"},
        }
    )
    uuid, other = finished(base, settings), tmp_path / "second"
    row = row_of(base, uuid, settings)
    other.mkdir()
    done = maintain(other, settings, days=0, archive_days=0)
    assert (done.deleted.tasks, done.archived.tasks, done.is_complete) == ([], [], True), "its folder is not here"
    assert killed_at("marked", lambda: delete_old_contexts(base, settings, days=0))
    with closing(open_catalogue(base, settings)) as catalogue:  # as if the first machine had another name
        marked = catalogue.tasks.get(uuid).metadata
        catalogue.tasks.update(uuid, metadata={"cleaning": {**marked["cleaning"], "host": "first"}})
    assert delete_old_contexts(other, settings, days=0).tasks == [], "and nobody says that it is gone while it is not"
    assert (base / "completed" / uuid).exists()
    assert [task.uuid for task in delete_old_contexts(base, settings, days=0).tasks] == [uuid]
    assert_tombstone(base, tmp_path, uuid, settings, row)


# ---- one at a time -------------------------------------------------------------------------------------------------


def test_two_machines_never_maintain_at_once(base: Path, tmp_path: Path, settings: Settings) -> None:
    finished(base, settings)
    other = base
    if settings.database.url is not None:  # another base folder, the same database
        other = tmp_path / "second"
        other.mkdir()
    with only_one(base, settings), refused(StateError, "maintained"):
        maintain(other, settings)
    assert maintain(other, settings).is_complete


def test_the_lock_is_gone_with_the_process_that_had_it(base: Path, settings: Settings) -> None:
    finished(base, settings)
    assert killed_at("marked", lambda: maintain(base, settings, days=0))
    assert maintain(base, settings, days=0).is_complete


# ---- room ----------------------------------------------------------------------------------------------------------


def test_vacuum_gives_room_back_and_harms_nobody(base: Path, settings: Settings) -> None:
    uuid = finished(base, settings)
    before = contents(base, uuid, settings)
    place = base / "completed" / uuid / "context.db"
    for path in (place, base / "tasks.db"):
        if path.exists():
            with closing(apsw.Connection(str(path))) as connection:
                connection.execute("CREATE TABLE filler (body); INSERT INTO filler VALUES (zeroblob(500000))")
                connection.execute("DROP TABLE filler")
    dry = vacuum_databases(base, settings, dry_run=True)
    assert dry.databases > 0
    run = vacuum_databases(base, settings)
    assert run.left == {}
    if settings.database.url is None:
        assert run.bytes_after < run.bytes_before
        assert run.bytes_after <= dry.bytes_after
        assert vacuum_databases(base, settings).databases == 0, "there is no room left to give back"
    assert contents(base, uuid, settings) == before
    assert examine(OpenBase(base, settings)) == []


def test_workers_go_on_while_the_catalogue_is_vacuumed(base: Path) -> None:
    settings = load_settings({})
    finished(base, settings)
    over = threading.Event()
    registered: list[str] = []

    def work() -> None:
        with closing(open_catalogue(base, settings)) as catalogue:
            while not over.is_set():
                row = catalogue.tasks.register(
                    TaskKey("cli", "", "", "task", "1"), new_uuid(), status=TaskStatus.QUEUED
                )
                registered.append(row.uuid)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(5):
            assert vacuum_databases(base, settings).left == {}
    finally:
        over.set()
        worker.join(timeout=240)
    with closing(open_catalogue(base, settings)) as catalogue:
        assert all(catalogue.tasks.find(uuid) is not None for uuid in registered)
    assert examine(OpenBase(base, settings)) == []
