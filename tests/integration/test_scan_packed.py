"""``orihon scan`` on packed tasks: looked into, and mended by being unpacked, redacted and packed again."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import (
    TaskContextManager,
    anonymize_task,
    archive_task,
    delete_old_contexts,
    restore_task,
    scan_tasks,
    search_history,
)
from orihon.audit import AuditFilter, audit_records
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.drivers.objects import FolderStorage
from orihon.errors import StorageUnavailable, TaskNotFound
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings
from orihon.store.redaction_traces import REPACKING, Begun
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.transfer.archive.work import Work
from orihon.upkeep.scan import Scanned
from orihon.values.task import TaskKey, TaskStatus
from tests.acceptance.test_cli import run
from tests.integration.killing import count_changes, killed_at_change
from tests.integration.test_scan import KEY, SECRET, config, leaky_task, places_with_the_secret, settings_of
from tests.sealing import sealed_settings, write_key

__all__ = ["config"]

#: So many moments for each back end, spread over the whole run.
MOMENTS = 10


@pytest.fixture
def shelved(config: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    """The settings of a back end, with archives where all machines see them."""
    return {**config, "archive": {"url": f"file://{tmp_path}/shelf"}}


def leaky_archive(base: Path, config: dict[str, Any]) -> str:
    """A task with a secret that was written, ended and packed before anybody masked."""
    uuid = leaky_task(base, config)
    unmasked = settings_of(config, masking=False)
    with TaskContextManager.resume(base, uuid, unmasked) as context:
        context.complete()
    archive_task(base, uuid, unmasked)
    return uuid


def row_of(base: Path, uuid: str, settings: Settings) -> TaskRow:
    with OpenBase(base, settings) as folder:
        folder.open_catalogue()
        row = folder.row(uuid)
    assert row is not None
    return row


def unpacked_secrets(base: Path, uuid: str, config: dict[str, Any]) -> list[str]:
    """Where the secret is once the packed task is a task again: compression hides it from a plain search."""
    restore_task(base, uuid, settings_of(config, masking=True))
    return places_with_the_secret(base, config)


def test_a_packed_task_is_looked_into_and_stays_packed(tmp_path: Path, shelved: dict[str, Any]) -> None:
    base = tmp_path / "base"
    uuid = leaky_archive(base, shelved)
    settings = settings_of(shelved, masking=True)
    [packed] = (tmp_path / "shelf").rglob("*.tar.zst")
    before = packed.read_bytes()
    [found] = scan_tasks(base, settings)
    places = {(hit.where, hit.number) for hit in found.hits}
    assert {("messages", 2), ("messages", 4), ("summaries", 1), ("tools", 1), ("catalogue", 0)} <= places
    assert (found.is_fixed, found.left_out) == (False, None)
    assert packed.read_bytes() == before
    assert row_of(base, uuid, settings).status is TaskStatus.ARCHIVED
    assert [path.name for path in (base / "archive").iterdir()] == [f"{uuid}.note"], "it is not fetched"


def test_a_fix_packs_the_task_again_without_the_secret(tmp_path: Path, shelved: dict[str, Any]) -> None:
    base = tmp_path / "base"
    uuid = leaky_archive(base, shelved)
    settings = settings_of(shelved, masking=True)
    [fixed] = scan_tasks(base, settings, fix=True)
    assert (fixed.is_fixed, fixed.left_out) == (True, None)
    row = row_of(base, uuid, settings)
    assert row.status is TaskStatus.ARCHIVED
    assert SECRET not in str(row.metadata)
    redacted = audit_records(base, settings, AuditFilter(action="redact"))
    assert [(one.task, one.result) for one in redacted] == [(uuid, "begun"), (uuid, "ok")]
    assert places_with_the_secret(base, shelved) == []
    assert not (base / "repacking.json").exists()
    [again] = scan_tasks(base, settings)
    assert again == Scanned(uuid)
    assert unpacked_secrets(base, uuid, shelved) == []
    assert verify(OpenBase(base, settings), uuid) == []


def test_a_packed_task_without_a_secret_is_not_packed_again(tmp_path: Path, shelved: dict[str, Any]) -> None:
    base = tmp_path / "base"
    settings = settings_of(shelved, masking=True)
    with TaskContextManager(base, KEY, settings, uuid="clean-1") as context:
        context.message_store.add_message("user", "task-12 は完了")
        context.complete()
    archive_task(base, "clean-1", settings)
    before = {path: path.read_bytes() for path in (tmp_path / "shelf").rglob("*") if path.is_file()}
    assert scan_tasks(base, settings, fix=True) == [Scanned("clean-1")]
    assert {path: path.read_bytes() for path in (tmp_path / "shelf").rglob("*") if path.is_file()} == before


def test_a_packed_task_that_cannot_be_read_is_named_and_the_others_are_mended(tmp_path: Path) -> None:
    base, config = tmp_path / "base", {"context_storage": {"backend": "files"}}
    uuid = leaky_archive(base, config)
    settings = settings_of(config, masking=True)
    with TaskContextManager(base, TaskKey("test", "a", "b", "issue", "2"), settings, uuid="damaged-1") as context:
        context.message_store.add_message("user", "hello")
        context.complete()
    archive_task(base, "damaged-1", settings)
    (base / "archive" / "damaged-1.tar.zst").write_bytes(b"no archive")
    scanned = {one.task: one for one in scan_tasks(base, settings, fix=True)}
    assert scanned[uuid].is_fixed
    assert scanned["damaged-1"].left_out == "unreadable"
    assert "damaged-1" in scanned["damaged-1"].reason
    done = run("--base-dir", base, "scan")
    assert (done.code, "damaged-1: packed in an archive that cannot be read" in done.out) == (1, True)


def test_archives_on_this_disk_of_tasks_for_the_database_are_left_packed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Unpacked, they would go into the database and could not be packed here again."""
    base, database = tmp_path / "base", request.getfixturevalue("postgres").settings
    shared = {"database": database, "context_storage": {"backend": "files"}}
    uuid = leaky_archive(base, shared)
    moved = settings_of({"database": database, "context_storage": {"backend": "postgres"}}, masking=True)
    [left] = scan_tasks(base, moved, fix=True)
    assert (left.is_fixed, left.left_out) == (False, "archived")
    assert left.hits
    assert row_of(base, uuid, moved).status is TaskStatus.ARCHIVED


def test_words_of_other_packed_tasks_are_still_found_after_a_fix(tmp_path: Path) -> None:
    base, config = tmp_path / "base", {"context_storage": {"backend": "files"}, "search": {"archived": True}}
    settings = settings_of(config, masking=True)
    with TaskContextManager(base, TaskKey("test", "a", "b", "issue", "2"), settings, uuid="other-1") as context:
        context.message_store.add_message("user", "about wombats")
        context.complete()
    archive_task(base, "other-1", settings)
    uuid = leaky_archive(base, config)
    assert [hit.uuid for hit in search_history(base, settings, "wombats").hits] == ["other-1"]
    scan_tasks(base, settings, fix=True)
    assert [hit.uuid for hit in search_history(base, settings, "wombats").hits] == ["other-1"]
    assert {hit.uuid for hit in search_history(base, settings, "noted").hits} == {uuid}
    assert places_with_the_secret(base, config) == []


def test_words_of_a_packed_task_stay_when_its_row_alone_is_mended(tmp_path: Path) -> None:
    base, config = tmp_path / "base", {"context_storage": {"backend": "files"}, "search": {"archived": True}}
    settings = settings_of(config, masking=True)
    with TaskContextManager(base, KEY, settings, uuid="other-1") as context:
        context.message_store.add_message("user", "about wombats")
        context.complete()
    archive_task(base, "other-1", settings)
    metadata = row_of(base, "other-1", settings).metadata
    with open_catalogue(base, settings) as catalogue:
        catalogue.tasks.update("other-1", metadata={**metadata, "title": f"with {SECRET}"})
    [fixed] = scan_tasks(base, settings, fix=True)
    assert ({hit.where for hit in fixed.hits}, fixed.is_fixed) == ({"catalogue"}, True)
    assert [hit.uuid for hit in search_history(base, settings, "wombats").hits] == ["other-1"]
    assert places_with_the_secret(base, config) == []


def test_a_description_that_could_not_be_removed_is_not_passed_over(tmp_path: Path) -> None:
    """Beside a packed task that is gone it would keep the task from ever being packed again."""
    base, config = tmp_path / "base", {"context_storage": {"backend": "files"}}
    uuid, settings = leaky_archive(base, config), settings_of(config, masking=True)
    delete = FolderStorage.delete
    refused: list[str] = []

    def delete_but_once(storage: FolderStorage, key: str) -> None:
        if key.endswith(".json") and not refused:
            refused.append(key)
            raise StorageUnavailable("denied", path=key, detail="-")
        delete(storage, key)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FolderStorage, "delete", delete_but_once)
        [fixed] = scan_tasks(base, settings, fix=True)
    assert refused
    assert (fixed.is_fixed, fixed.left_out, fixed.reason) == (True, None, "")
    assert row_of(base, uuid, settings).status is TaskStatus.ARCHIVED
    assert unpacked_secrets(base, uuid, config) == []


def test_a_task_that_is_tried_again_after_a_run_has_died_is_mended_and_stays_unpacked(tmp_path: Path) -> None:
    base, config = tmp_path / "base", {"context_storage": {"backend": "files"}}
    unmasked, settings = (settings_of(config, masking=on) for on in (False, True))
    uuid = leaky_task(base, config)
    with TaskContextManager.resume(base, uuid, unmasked) as context:
        context.fail("no luck")
    archive_task(base, uuid, unmasked)

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Work, "_take_off", die)
        with pytest.raises(KeyboardInterrupt):
            scan_tasks(base, settings, fix=True)
    with closing(TaskQueue(base, settings)) as queue:
        queue.retry(uuid)
    [fixed] = scan_tasks(base, settings, fix=True)
    assert (fixed.is_fixed, fixed.left_out) == (True, "unpacked")
    assert places_with_the_secret(base, config) == []
    assert not list((base / "archive").iterdir())
    [again] = scan_tasks(base, settings, fix=True)
    assert again == Scanned(uuid)


def test_two_runs_do_not_lose_each_others_notes(tmp_path: Path) -> None:
    one, two = Begun(tmp_path, REPACKING), Begun(tmp_path, REPACKING)
    one.add("task-1")
    two.add("task-2")
    assert Begun(tmp_path, REPACKING).tasks == {"task-1", "task-2"}
    one.forget(["task-1"])
    assert (one.tasks, two.tasks, Begun(tmp_path, REPACKING).tasks) == (set(), {"task-2"}, {"task-2"})
    two.forget(["task-2"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_fix_that_is_killed_can_be_done_again(tmp_path: Path, backend: str) -> None:
    config: dict[str, Any] = {"context_storage": {"backend": backend, "blob_bytes": 4096}}
    settings = settings_of(config, masking=True)
    uuid = leaky_archive(tmp_path / "leaky", config)

    def copy(name: str) -> Path:
        return Path(shutil.copytree(tmp_path / "leaky", tmp_path / name))

    whole = copy("whole")
    changes = count_changes(lambda: scan_tasks(whole, settings, fix=True))
    assert changes > MOMENTS
    for moment in range(1, changes, max(1, changes // MOMENTS)):
        base = copy(f"killed-{moment}")
        assert killed_at_change(moment, lambda base=base: scan_tasks(base, settings, fix=True))  # type: ignore[misc]
        scan_tasks(base, settings, fix=True)
        assert row_of(base, uuid, settings).status is TaskStatus.ARCHIVED, moment
        assert unpacked_secrets(base, uuid, config) == [], moment
        assert [one for one in verify(OpenBase(base, settings), uuid) if one.severity != "warning"] == [], moment


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_sealed_packed_task_is_mended(tmp_path: Path, backend: str) -> None:
    base = tmp_path / "base"
    source = write_key(tmp_path / "master.key")
    unmasked, masked = (sealed_settings(source, backend, masking={"enabled": on}) for on in (False, True))
    with TaskContextManager(base, KEY, unmasked, uuid="sealed-1") as context:
        context.message_store.add_message("user", f"use {SECRET}")
        context.complete()
    archive_task(base, "sealed-1", unmasked)
    [fixed] = scan_tasks(base, masked, fix=True)
    assert ("messages", 1) in {(hit.where, hit.number) for hit in fixed.hits}
    assert fixed.is_fixed
    assert scan_tasks(base, masked) == [Scanned("sealed-1")]


def test_the_row_of_a_task_whose_records_are_gone_is_looked_at(tmp_path: Path) -> None:
    base, config = tmp_path / "base", {"context_storage": {"backend": "files"}}
    uuid = leaky_archive(base, config)
    unmasked, settings = settings_of(config, masking=False), settings_of(config, masking=True)
    delete_old_contexts(base, unmasked, days=0)
    [found] = scan_tasks(base, settings)
    assert {hit.where for hit in found.hits} == {"catalogue"}
    [fixed] = scan_tasks(base, settings, fix=True)
    assert fixed.is_fixed
    assert places_with_the_secret(base, config) == []
    assert row_of(base, uuid, settings).status is TaskStatus.ARCHIVED


def test_a_packed_task_is_not_made_anonymous(tmp_path: Path) -> None:
    base, config = tmp_path / "base", {"context_storage": {"backend": "files"}}
    uuid = leaky_archive(base, config)
    with pytest.raises(TaskNotFound):
        anonymize_task(base, settings_of(config, masking=True), uuid)
