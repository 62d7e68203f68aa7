"""Finished tasks into their archive and back: folder and S3, crashes at every step, two machines, damage."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, archive_old, archive_task, restore_task
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.tasks import Tasks
from orihon.errors import DamagedStore, IllegalTransition, StorageUnavailable, TaskBusy, TaskNotFound
from orihon.settings import Settings, load_settings
from orihon.store.factory import open_for_reading
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.upkeep.doctor import examine
from orihon.values.task import TaskKey, TaskStatus, new_uuid
from tests import commands
from tests.conformance.child import ROOT
from tests.damage import BACKENDS
from tests.helpers import refused
from tests.integration.archive_child import DIED
from tests.integration.object_server import CREDENTIALS, Bucket

ARCHIVE_STEPS = ("packed", "stored", "put away", "noted", "marked", "moved away")
RESTORE_STEPS = ("verified", "unpacked", "marked", "taken off")


@pytest.fixture(params=["local", "file", "s3"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """Settings for each place where archives can be."""
    if request.param == "local":
        return {}
    if request.param == "file":
        return {"archive": {"url": f"file://{tmp_path}/shelf"}}
    bucket: Bucket = request.getfixturevalue("bucket")
    return {"archive": bucket.archive}


def finished(base: Path, config: dict[str, Any], end: str = "complete", messages: int = 5) -> str:
    """A task that has come to its end."""
    task = TaskContextManager(base, TaskKey("cli", "", "", "task", new_uuid()), config)
    for number in range(messages):
        task.message_store.add_message("user" if number % 2 == 0 else "assistant", f"message {number}")
    task.tool_store.add_tool_call("t", {"a": 1}, "result")
    if end == "fail":
        task.fail("it broke")
    else:
        getattr(task, end)()
    return task.uuid


def row_of(base: Path, uuid: str, settings: Settings) -> TaskRow:
    with closing(open_catalogue(base, settings)) as catalogue:
        return catalogue.tasks.get(uuid)


def files_of(folder: Path) -> dict[str, bytes]:
    """What people keep; a database may be laid out anew."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("context.db")
    }


def log_of(folder: Path, settings: Settings) -> list[str | None]:
    with closing(open_for_reading(folder, settings)) as store:
        return [stored.message.content for stored in store.messages()]


def assert_sound(base: Path, uuid: str, settings: Settings) -> None:
    assert [finding.kind for finding in verify(OpenBase(base, settings), uuid)] == []


def leftovers(base: Path) -> list[str]:
    return [path.name for place in ("archive", "completed") for path in (base / place).glob(".*")]


# ---- there and back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
def test_a_task_goes_into_its_archive_and_comes_back_as_it_was(
    base: Path, config: dict[str, Any], backend: str, end: str
) -> None:
    config = {**config, "context_storage": {"backend": backend}}
    settings = load_settings(config)
    uuid = finished(base, config, end)
    before, row = files_of(base / "completed" / uuid), row_of(base, uuid, settings)
    task = archive_task(base, uuid, settings)
    assert (task.uuid, task.status, task.key) == (uuid, row.status.value, f"archive/{uuid}.tar.zst")
    assert not (base / "completed" / uuid).exists()
    archived = row_of(base, uuid, settings)
    assert (archived.status, archived.size_bytes) == (TaskStatus.ARCHIVED, task.bytes)
    assert examine(OpenBase(base, settings)) == [], "an archived task is no finding"
    assert archive_task(base, uuid, settings) == task, "a second run finds the work done"
    folder = restore_task(base, uuid, settings)
    assert folder == base / "completed" / uuid
    assert files_of(folder) == before
    after = row_of(base, uuid, settings)
    assert row.size_bytes, "known since the task has ended"
    assert after.size_bytes == task.content_bytes
    assert (after.status, after.completed_at, after.error_message, after.metadata) == (
        row.status,
        row.completed_at,
        row.error_message,
        row.metadata,
    )
    with refused(IllegalTransition, "not_archived"):
        restore_task(base, uuid, settings)
    assert_sound(base, uuid, settings)
    assert leftovers(base) == []
    assert archive_task(base, uuid, settings).contents == task.contents, "and in again"


def test_a_restored_task_can_be_worked_on_and_archived_anew(base: Path, config: dict[str, Any]) -> None:
    settings = load_settings(config)
    uuid = finished(base, config, "fail")
    first = archive_task(base, uuid, settings)
    restore_task(base, uuid, settings)
    with closing(open_catalogue(base, settings)) as catalogue:
        catalogue.tasks.change_status(uuid, TaskStatus.QUEUED)
    with TaskContextManager(base, uuid=uuid, config=config) as task:
        task.message_store.add_message("user", "once more")
    second = archive_task(base, uuid, settings)
    assert second.contents != first.contents
    assert log_of(restore_task(base, uuid, settings), settings)[-1] == "once more"


@pytest.mark.parametrize("form", ["gzip", "bzip2", "xz"])
def test_the_format_can_be_changed_and_old_archives_still_open(base: Path, form: str) -> None:
    uuid = finished(base, {})
    archive_task(base, uuid, load_settings({"archive": {"format": form}}))
    restore_task(base, uuid, load_settings({}))
    assert_sound(base, uuid, load_settings({}))


def test_only_finished_tasks_are_archived(base: Path) -> None:
    settings = load_settings({})
    with TaskContextManager(base, TaskKey("cli", "", "", "task", "1"), {}) as running:
        with refused(TaskBusy, "lease"):
            archive_task(base, running.uuid, settings)
        running.message_store.add_message("user", "hi")
        running.stop()
        with refused(IllegalTransition, "change"):
            archive_task(base, running.uuid, settings)
        with refused(IllegalTransition, "not_archived"):
            restore_task(base, running.uuid, settings)
    with refused(TaskNotFound, "uuid"):
        archive_task(base, new_uuid(), settings)
    assert not list((base / "archive").glob("*"))


def test_an_end_that_nobody_was_told_of_is_not_archived_away(base: Path) -> None:
    settings = load_settings({})
    uuid = finished(base, {})
    with closing(open_catalogue(base, settings)) as catalogue:
        assert catalogue.queue.request(uuid, "tell", TaskStatus.COMPLETED)
    with refused(IllegalTransition, "untold"):
        archive_task(base, uuid, settings)
    assert archive_old(base, settings, days=0).archived == []


# ---- old ones ------------------------------------------------------------------------------------------------------


def test_old_tasks_are_archived_and_kept_ones_are_not(base: Path, config: dict[str, Any]) -> None:
    settings = load_settings(config)
    ended, kept, failed = finished(base, config), finished(base, config), finished(base, config, "fail")
    with closing(open_catalogue(base, settings)) as catalogue:
        catalogue.tasks.update(kept, keep=True)
    assert archive_old(base, settings).archived == [], "none of them is seven days old"
    run = archive_old(base, settings, days=0)
    assert {task.uuid for task in run.archived} == {ended, failed}
    assert run.left == {}
    assert row_of(base, kept, settings).status is TaskStatus.COMPLETED
    assert archive_old(base, settings.replace(**{"archive.threshold_days": 0, "archive.enabled": False})).archived == []


def test_one_task_that_cannot_be_archived_does_not_keep_the_others(base: Path) -> None:
    settings = load_settings({})
    spoilt, sound = finished(base, {}), finished(base, {})
    (base / "completed" / spoilt / "link").symlink_to("/etc/passwd")
    run = archive_old(base, settings, days=0)
    assert [task.uuid for task in run.archived] == [sound]
    assert [(uuid, error.reason) for uuid, error in run.left.items()] == [(spoilt, "not_packable")]
    assert row_of(base, spoilt, settings).status is TaskStatus.COMPLETED


# ---- crashes -------------------------------------------------------------------------------------------------------


def child(base: Path, uuid: str, action: str, config: dict[str, Any]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.integration.archive_child", base, uuid, action, json.dumps(config)]
    environment = {**os.environ, **CREDENTIALS}
    return subprocess.Popen(
        [str(word) for word in command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )


def dies(base: Path, uuid: str, action: str, config: dict[str, Any], step: str) -> bool:
    """Did a process that archives or restores the task end after this step?"""
    command = ["-m", "tests.integration.archive_child", str(base), uuid, action, json.dumps(config), step]
    code, _, _ = commands.ended(command, {**os.environ, **CREDENTIALS}, 300, ROOT)
    return code == DIED


@pytest.mark.parametrize("step", ARCHIVE_STEPS)
def test_a_crash_while_archiving_loses_nothing_and_the_next_run_goes_on(
    base: Path, config: dict[str, Any], step: str
) -> None:
    settings = load_settings(config)
    uuid = finished(base, config)
    log = log_of(base / "completed" / uuid, settings)
    assert dies(base, uuid, "archive", config, step)
    archive_task(base, uuid, settings)
    assert row_of(base, uuid, settings).status is TaskStatus.ARCHIVED
    assert not (base / "completed" / uuid).exists()
    assert leftovers(base) == []
    assert log_of(restore_task(base, uuid, settings), settings) == log
    assert row_of(base, uuid, settings).status is TaskStatus.COMPLETED
    assert_sound(base, uuid, settings)


@pytest.mark.parametrize("step", ARCHIVE_STEPS)
def test_a_crash_while_archiving_can_be_answered_by_restoring(base: Path, config: dict[str, Any], step: str) -> None:
    settings = load_settings(config)
    uuid = finished(base, config, "fail")
    log = log_of(base / "completed" / uuid, settings)
    assert dies(base, uuid, "archive", config, step)
    if step in ("packed", "stored"):  # it is not in the archive yet
        with refused(IllegalTransition, "not_archived"):
            restore_task(base, uuid, settings)
    else:
        restore_task(base, uuid, settings)
    assert log_of(base / "completed" / uuid, settings) == log
    assert row_of(base, uuid, settings).status is TaskStatus.FAILED
    assert_sound(base, uuid, settings)
    assert leftovers(base) == []


@pytest.mark.parametrize("step", RESTORE_STEPS)
def test_a_crash_while_restoring_loses_nothing_and_the_next_run_goes_on(
    base: Path, config: dict[str, Any], step: str
) -> None:
    settings = load_settings(config)
    uuid = finished(base, config)
    log = log_of(base / "completed" / uuid, settings)
    archive_task(base, uuid, settings)
    assert dies(base, uuid, "restore", config, step)
    assert log_of(restore_task(base, uuid, settings), settings) == log
    row = row_of(base, uuid, settings)
    assert (row.status, row.metadata) == (TaskStatus.COMPLETED, {})
    assert_sound(base, uuid, settings)
    assert leftovers(base) == []
    archive_task(base, uuid, settings)


def test_two_processes_that_archive_one_task_do_not_fight(base: Path, config: dict[str, Any]) -> None:
    settings = load_settings(config)
    uuid = finished(base, config, messages=400)
    both = [child(base, uuid, "archive", config) for _ in range(2)]
    outcomes = [json.loads(one.communicate(timeout=300)[0]) for one in both]
    done = [outcome for outcome in outcomes if "error" not in outcome]
    assert done, outcomes
    assert all(outcome == done[0] for outcome in done)
    assert [outcome["reason"] for outcome in outcomes if "error" in outcome] in ([], ["lease"])
    restore_task(base, uuid, settings)
    assert_sound(base, uuid, settings)


def test_two_machines_with_the_same_task_agree_and_with_another_one_say_so(
    base: Path, tmp_path: Path, bucket: Bucket
) -> None:
    config = {"archive": bucket.archive}
    settings = load_settings(config)
    uuid = finished(base, config)
    shutil.copytree(base, tmp_path / "same")
    shutil.copytree(base, tmp_path / "other")
    with (tmp_path / "other" / "completed" / uuid / "final_summary.txt").open("a") as file:
        file.write("something else")
    first = archive_task(base, uuid, settings)
    assert archive_task(tmp_path / "same", uuid, settings) == first
    with refused(DamagedStore, "archive_differs") as caught:
        archive_task(tmp_path / "other", uuid, settings)
    assert bucket.url in str(caught.value)
    assert (tmp_path / "other" / "completed" / uuid / "messages.jsonl").exists(), "its folder stays"
    assert row_of(tmp_path / "other", uuid, settings).status is TaskStatus.COMPLETED
    bucket.client().delete_object(Bucket=bucket.name, Key=f"some/prefix/archive/{uuid}.json")
    with refused(DamagedStore, "archive_differs"):  # also without a description, by what is in it
        archive_task(tmp_path / "other", uuid, settings)


def test_a_task_that_is_taken_up_meanwhile_keeps_its_folder(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_settings({})
    uuid = finished(base, {}, "fail")
    change = Tasks.change_status

    def retried_first(self: Tasks, *args: Any, **kwargs: Any) -> TaskRow:
        monkeypatch.setattr(Tasks, "change_status", change)
        change(self, uuid, TaskStatus.QUEUED)
        return change(self, *args, **kwargs)

    monkeypatch.setattr(Tasks, "change_status", retried_first)
    with refused(IllegalTransition, "change"):
        archive_task(base, uuid, settings)
    assert (base / "completed" / uuid / "messages.jsonl").exists()
    assert list((base / "archive").iterdir()) == []


# ---- the storage says no -------------------------------------------------------------------------------------------


def test_a_storage_that_is_away_or_missing_leaves_the_task_alone(base: Path, bucket: Bucket) -> None:
    uuid = finished(base, {})
    before = files_of(base / "completed" / uuid)
    away = {"archive": {"url": bucket.url, "endpoint": "http://127.0.0.1:9"}}
    missing = {"archive": {"url": "s3://orihon-no-such-bucket", "endpoint": bucket.endpoint}}
    for config, reason in ((away, "object_unreachable"), (missing, "no_bucket")):
        with refused(StorageUnavailable, reason):
            archive_task(base, uuid, load_settings(config))
        assert files_of(base / "completed" / uuid) == before
        assert row_of(base, uuid, load_settings({})).status is TaskStatus.COMPLETED
        assert leftovers(base) == []
    archive_task(base, uuid, load_settings({"archive": bucket.archive}))
    with refused(StorageUnavailable, "object_unreachable"):
        restore_task(base, uuid, load_settings(away))
    restore_task(base, uuid, load_settings({"archive": bucket.archive}))
    assert files_of(base / "completed" / uuid) == before


def test_a_changed_object_is_not_restored(base: Path, bucket: Bucket) -> None:
    settings = load_settings({"archive": bucket.archive})
    uuid = finished(base, {})
    task = archive_task(base, uuid, settings)
    key = f"some/prefix/{task.key}"
    client = bucket.client()
    data = bytearray(client.get_object(Bucket=bucket.name, Key=key)["Body"].read())
    data[len(data) // 2] ^= 1
    client.put_object(Bucket=bucket.name, Key=key, Body=bytes(data))
    with refused(DamagedStore, "archive"):
        restore_task(base, uuid, settings)
    assert not (base / "completed" / uuid).exists()
    assert row_of(base, uuid, settings).status is TaskStatus.ARCHIVED
    assert leftovers(base) == []
    client.delete_object(Bucket=bucket.name, Key=key)
    with refused(StorageUnavailable, "object_gone"):
        restore_task(base, uuid, settings)


def test_an_archive_that_was_exchanged_with_its_description_is_refused(base: Path) -> None:
    """The two agree with each other; the catalogue knows better."""
    settings = load_settings({})
    uuid, other = finished(base, {}), finished(base, {}, messages=7)
    genuine, foreign = archive_task(base, uuid, settings), archive_task(base, other, settings)
    places = [base / "archive" / f"{uuid}.json", base / genuine.key]
    kept = [place.read_bytes() for place in places]
    places[0].write_text(json.dumps({**foreign.as_dict(), "uuid": uuid, "key": genuine.key}))
    shutil.copyfile(base / foreign.key, places[1])
    with refused(DamagedStore, "archive"):
        restore_task(base, uuid, settings)
    assert not (base / "completed" / uuid).exists()
    assert leftovers(base) == []
    for place, data in zip(places, kept, strict=True):
        place.write_bytes(data)
    assert len(log_of(restore_task(base, uuid, settings), settings)) == 5


def test_an_archive_that_is_somewhere_else_is_named(base: Path, bucket: Bucket) -> None:
    uuid = finished(base, {})
    archive_task(base, uuid, load_settings({"archive": bucket.archive}))
    for action in (restore_task, archive_task):
        with refused(DamagedStore, "no_archive") as caught:
            action(base, uuid, load_settings({}))
        assert bucket.url in str(caught.value)


def test_a_description_that_makes_no_sense_is_damage(base: Path) -> None:
    settings = load_settings({})
    uuid = finished(base, {})
    archive_task(base, uuid, settings)
    path = base / "archive" / f"{uuid}.json"
    sound = json.loads(path.read_text())
    for change in (
        {"uuid": "other"},
        {"bytes": -1},
        {"format": "zip"},
        {"status": "?"},
        {"key": "archive/../x"},
        {"members": "1"},
    ):
        path.write_text(json.dumps({**sound, **change}))
        with refused(DamagedStore, "archive"):
            restore_task(base, uuid, settings)
    for broken in ("", "[]", "{}", "{"):
        path.write_text(broken)
        with refused(DamagedStore, "archive"):
            restore_task(base, uuid, settings)
    path.write_text(json.dumps(sound))
    restore_task(base, uuid, settings)


def test_a_large_task_goes_up_in_parts(base: Path, bucket: Bucket) -> None:
    settings = load_settings({"archive": bucket.archive})
    uuid = finished(base, {})
    blob = os.urandom(18 << 20)
    (base / "completed" / uuid / "blobs").mkdir()
    (base / "completed" / uuid / "blobs" / "large").write_bytes(blob)
    archive_task(base, uuid, settings)
    assert sorted(bucket.keys()) == [f"archive/{uuid}.json", f"archive/{uuid}.tar.zst"]
    assert (restore_task(base, uuid, settings) / "blobs" / "large").read_bytes() == blob
    assert bucket.keys() == []


def test_the_lease_is_given_back(base: Path) -> None:
    settings = load_settings({})
    uuid = finished(base, {})
    archive_task(base, uuid, settings)
    with OpenBase(base, settings) as folder:
        folder.open_catalogue()
        row = folder.row(uuid)
        assert row is not None
        assert row.lease_owner is None
