"""Tasks in the database into their archive and back: crashes at every step, another machine, other back ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import archive_old, archive_old_contexts, archive_task, restore_task
from orihon.catalogue.connect import open_catalogue
from orihon.drivers.postgres import postgres_of
from orihon.errors import IllegalTransition, StaleWriter
from orihon.settings import Settings, load_settings
from orihon.store.copy import StoreContents, contents_of
from orihon.store.factory import open_for_reading, open_task_store
from orihon.store.postgres_moving import all_tasks
from orihon.tasks.base import OpenBase
from orihon.tasks.place import reached_epoch
from orihon.upkeep.doctor import examine
from orihon.values.message.message import Message
from orihon.values.task import TaskStatus
from tests.damage import start_task
from tests.helpers import refused
from tests.integration.killing import killed_at
from tests.integration.test_archive import assert_sound, leftovers, row_of
from tests.services import Database, own_schema

ARCHIVE_STEPS = ("exported", "packed", "stored", "put away", "noted", "marked", "moved away")
RESTORE_STEPS = ("verified", "copied", "unpacked", "marked", "taken off")


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    yield from own_schema()


@pytest.fixture
def config(database: Database, tmp_path: Path) -> dict[str, Any]:
    return {
        "database": database.settings,
        "context_storage": {"backend": "postgres", "blob_bytes": 1024},
        "archive": {"url": f"file://{tmp_path}/shelf"},
    }


@pytest.fixture
def settings(config: dict[str, Any]) -> Settings:
    return load_settings(config)


@pytest.fixture
def alone(emptied_postgres: Database, config: dict[str, Any]) -> Settings:
    """The same for tests that look at all tasks."""
    return load_settings({**config, "database": emptied_postgres.settings})


def finished(base: Path, settings: Settings) -> str:
    """A task with a bit of everything that has come to its end."""
    task = start_task(base, settings)
    task.complete()
    return task.uuid


def contents(base: Path, uuid: str, settings: Settings) -> StoreContents:
    """What is in the database."""
    with closing(open_for_reading(base / "scratch" / uuid, settings)) as store:
        return contents_of(store)


def is_in_database(uuid: str, settings: Settings) -> bool:
    """Is there anything of the task, also under another name?"""
    return any(name.startswith(uuid) for name in all_tasks(postgres_of(settings)))


def test_a_task_goes_from_the_database_into_its_archive_and_comes_back_as_it_was(base: Path, alone: Settings) -> None:
    settings = alone
    uuid = finished(base, settings)
    before, row = contents(base, uuid, settings), row_of(base, uuid, settings)
    former = open_task_store(base / "scratch" / uuid, settings, epoch=row.epoch)
    former.claim()
    task = archive_task(base, uuid, settings)
    assert (task.status, task.key) == ("completed", f"archive/{uuid}.tar.zst")
    assert not is_in_database(uuid, settings)
    assert not (base / "scratch" / uuid).exists()
    assert row_of(base, uuid, settings).status is TaskStatus.ARCHIVED
    assert [finding.kind for finding in examine(OpenBase(base, settings))] == []
    assert archive_task(base, uuid, settings) == task, "a second run finds the work done"
    with refused(StaleWriter, "moved"):  # whoever worked on it when it went
        former.append(Message("user", "too late"))
    assert restore_task(base, uuid, settings) == base / "scratch" / uuid
    assert contents(base, uuid, settings) == before
    after = row_of(base, uuid, settings)
    assert (after.status, after.completed_at, after.metadata, after.backend) == (
        row.status,
        row.completed_at,
        row.metadata,
        "postgres",
    )
    with refused(StaleWriter, "taken_over"):
        former.append(Message("user", "too late"))
    former.close()
    with refused(IllegalTransition, "not_archived"):
        restore_task(base, uuid, settings)
    assert_sound(base, uuid, settings)
    assert leftovers(base) == []
    assert archive_task(base, uuid, settings).contents == task.contents, "and in again"


def test_old_tasks_in_the_database_are_archived(base: Path, alone: Settings) -> None:
    uuid = finished(base, alone)
    run = archive_old(base, alone, days=0)
    assert [task.uuid for task in run.archived] == [uuid]
    assert run.left == {}


def test_a_task_in_the_database_is_not_put_on_the_disk_of_one_machine(base: Path, alone: Settings) -> None:
    settings = alone.replace(**{"archive.url": None})
    uuid = finished(base, settings)
    with refused(IllegalTransition, "archive_local"):
        archive_task(base, uuid, settings)
    assert {name: error.reason for name, error in archive_old(base, settings, days=0).left.items()} == {
        uuid: "archive_local"
    }
    for dry_run in (True, False):
        run = archive_old_contexts(base, settings, days=0, dry_run=dry_run)
        assert ([task.uuid for task in run.tasks], [*run.left]) == ([], [uuid])
    assert row_of(base, uuid, settings).status is TaskStatus.COMPLETED
    assert not list((base / "archive").glob("*"))
    local = settings.replace(**{"context_storage.backend": "files"})
    assert archive_task(base, finished(base, local), local).place == str(base), "a folder is on one disk anyway"
    assert_sound(base, uuid, settings)


@pytest.mark.parametrize("step", ARCHIVE_STEPS)
def test_a_crash_while_archiving_loses_nothing(base: Path, settings: Settings, step: str) -> None:
    uuid = finished(base, settings)
    before = contents(base, uuid, settings)
    assert killed_at(step, lambda: archive_task(base, uuid, settings))
    assert is_in_database(uuid, settings) == (step != "moved away")
    if step in ("exported", "packed", "stored"):  # it is not in the archive yet
        with refused(IllegalTransition, "not_archived"):
            restore_task(base, uuid, settings)
    else:
        restore_task(base, uuid, settings)
    assert contents(base, uuid, settings) == before, "a crash can be answered by restoring"
    assert row_of(base, uuid, settings).status is TaskStatus.COMPLETED
    assert killed_at(step, lambda: archive_task(base, uuid, settings))
    archive_task(base, uuid, settings)
    assert not is_in_database(uuid, settings), "and by going on"
    assert row_of(base, uuid, settings).status is TaskStatus.ARCHIVED
    assert leftovers(base) == []
    restore_task(base, uuid, settings)
    assert contents(base, uuid, settings) == before
    assert_sound(base, uuid, settings)


@pytest.mark.parametrize("step", RESTORE_STEPS)
def test_a_crash_while_restoring_loses_nothing_and_the_next_run_goes_on(
    base: Path, settings: Settings, step: str
) -> None:
    uuid = finished(base, settings)
    before = contents(base, uuid, settings)
    archive_task(base, uuid, settings)
    epoch = row_of(base, uuid, settings).epoch
    assert killed_at(step, lambda: restore_task(base, uuid, settings))
    restore_task(base, uuid, settings)
    assert contents(base, uuid, settings) == before
    row = row_of(base, uuid, settings)
    assert (row.status, row.metadata) == (TaskStatus.COMPLETED, {})
    assert row.epoch > epoch
    assert_sound(base, uuid, settings)
    assert leftovers(base) == []
    assert [name for name in all_tasks(postgres_of(settings)) if name.startswith(uuid)] == [uuid]


def test_a_half_restored_task_is_not_left_in_the_database(base: Path, settings: Settings) -> None:
    uuid = finished(base, settings)
    archive_task(base, uuid, settings)
    assert killed_at("copied", lambda: restore_task(base, uuid, settings))
    assert is_in_database(uuid, settings)
    archive_task(base, uuid, settings)
    assert not is_in_database(uuid, settings)
    assert leftovers(base) == []


@pytest.mark.parametrize("kind", ["file", "s3"])
def test_another_machine_restores_what_the_first_one_archived(
    base: Path, tmp_path: Path, config: dict[str, Any], kind: str, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "second").mkdir()
    archive = config["archive"] if kind == "file" else request.getfixturevalue("bucket").archive
    settings = load_settings({**config, "archive": archive})
    uuid = finished(base, settings)
    before = contents(base, uuid, settings)
    archive_task(base, uuid, settings)
    restore_task(tmp_path / "second", uuid, settings)
    assert contents(base, uuid, settings) == before, "for both"
    assert_sound(base, uuid, settings)
    archive_task(tmp_path / "second", uuid, settings)
    restore_task(base, uuid, settings)
    assert contents(tmp_path / "second", uuid, settings) == before
    assert leftovers(base) == leftovers(tmp_path / "second") == []


def test_a_task_from_the_database_becomes_a_folder_where_the_settings_want_folders(
    base: Path, settings: Settings
) -> None:
    uuid = finished(base, settings)
    before = contents(base, uuid, settings)
    archive_task(base, uuid, settings)
    local = settings.replace(**{"context_storage.backend": "files"})
    folder = restore_task(base, uuid, local)
    assert folder == base / "completed" / uuid
    with closing(open_for_reading(folder, local)) as store:
        assert contents_of(store) == before
    row = row_of(base, uuid, local)
    assert (row.status, row.backend) == (TaskStatus.COMPLETED, "files")
    assert reached_epoch(folder) == row.epoch, "former owners are refused"
    assert_sound(base, uuid, local)
    assert not is_in_database(uuid, settings)


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_folder_becomes_a_task_in_the_database_where_the_settings_want_that(
    base: Path, settings: Settings, backend: str
) -> None:
    local = settings.replace(**{"context_storage.backend": backend})
    uuid = finished(base, local)
    folder = base / "completed" / uuid
    (folder / "aside").mkdir(exist_ok=True)
    (folder / "aside" / "messages.jsonl.torn").write_text("half a record")
    with closing(open_for_reading(folder, local)) as store:
        before = contents_of(store)
    with closing(open_catalogue(base, local)) as catalogue:
        reached = catalogue.leases.raise_epoch(catalogue.leases.acquire(uuid), above=40)
        catalogue.leases.release(reached)
    archive_task(base, uuid, local)
    assert restore_task(base, uuid, settings) == base / "scratch" / uuid
    assert not folder.exists()
    assert contents(base, uuid, settings) == before
    assert row_of(base, uuid, settings).backend == "postgres"
    assert_sound(base, uuid, settings)
    kept = [path.read_text() for path in (base / "aside").glob(f"{uuid}.archive.*/aside/messages.jsonl.torn")]
    assert kept == ["half a record"], "what was put aside for people is not thrown away"


def test_records_that_reached_a_higher_epoch_than_their_row_raise_it(base: Path, settings: Settings) -> None:
    uuid = finished(base, settings)
    with closing(open_task_store(base / "scratch" / uuid, settings, epoch=70)) as ahead:
        ahead.claim()
    archive_task(base, uuid, settings)
    assert row_of(base, uuid, settings).epoch > 70
    restore_task(base, uuid, settings)
    behind = open_task_store(base / "scratch" / uuid, settings, epoch=70)
    with closing(behind), refused(StaleWriter, "taken_over"):
        behind.claim()
