"""Encryption at rest: nothing plain on the disk, whatever a task does; and everything still works."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from orihon import (
    archive_task,
    delete_old_contexts,
    export_task,
    fork_task,
    import_transcripts,
    restore_task,
    search_history,
)
from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.rows import CLEANED
from orihon.drivers.objects import ObjectStorage
from orihon.errors import KeyUnavailable
from orihon.llm.clients import get_llm_client
from orihon.llm.scripted import Reply, ScriptedModel, ScriptedRequest
from orihon.runtime.queue import QueueLimits, TaskQueue
from orihon.settings import Settings
from orihon.store.factory import open_for_reading
from orihon.tasks.approvals.answers import approve
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.mirror.mirror import Mirror
from orihon.tasks.verify.verify import verify
from orihon.transfer.backup import VaultKey, backup, restore_backup
from orihon.transfer.migrate import migrate_tasks
from orihon.upkeep.doctor import repair
from orihon.upkeep.keys import erase_key, keys_overview
from orihon.values.task import TaskStatus
from tests.sealing import (
    CANARY,
    JAPANESE_CANARY,
    KEY,
    SAID,
    ask,
    files_with,
    holds,
    rows_with,
    sealed_settings,
    start_sealed,
    write_key,
)
from tests.services import Database


class Place:
    """A base folder whose tasks are sealed, and the database where it has one."""

    def __init__(self, folder: Path, settings: Settings, database: Database | None) -> None:
        self.base = folder / "contexts"
        self.folder = folder
        self.settings = settings
        self.database = database

    def leaks(self) -> list[str]:
        """Where the canary can be read."""
        rows = [] if self.database is None else rows_with(self.database, CANARY, JAPANESE_CANARY)
        return files_with(self.base, CANARY, JAPANESE_CANARY) + rows

    def log(self, uuid: str) -> list[object]:
        """What the messages of a task say."""
        with OpenBase(self.base, self.settings) as base:
            folder = base.folders.find(uuid)
            assert folder is not None
        with closing(open_for_reading(folder.folder, self.settings, name=uuid)) as store:
            assert store.records.is_sealed
            return [(one.seq, one.message.to_chat()) for one in store.messages()]


@pytest.fixture(params=["files", "sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    database = request.getfixturevalue("emptied_postgres") if request.param == "postgres" else None
    shelf = {"url": f"file://{tmp_path}/shelf"}
    settings = sealed_settings(write_key(tmp_path / "master"), request.param, database, archive=shelf)
    return Place(tmp_path, settings, database)


def test_nothing_plain_is_ever_written(place: Place) -> None:
    queue = TaskQueue(place.base, place.settings)
    uuid = queue.enqueue(KEY, prompt=SAID)
    with closing(queue):
        assert queue.catalogue.tasks.get(uuid).prompt == SAID
        queue.cancel(uuid)
    asking = start_sealed(place.base, place.settings, "asking-1")
    assert place.leaks() == []  # while it is at work
    ask(asking)
    approve(OpenBase(place.base, place.settings), "asking-1", by="ana", reason=SAID)
    task = TaskContextManager.resume(place.base, "asking-1", place.settings)
    assert any(SAID in str(message) for message in task.message_store.get_messages_for_llm())
    task.complete()
    start_sealed(place.base, place.settings, "failed-1").fail(SAID)
    with open_catalogue(place.base, place.settings) as catalogue:
        assert catalogue.tasks.get("failed-1").error_message == SAID
        catalogue.tasks.update("failed-1", metadata={"title": SAID})
        assert catalogue.tasks.get("failed-1").metadata == {"title": SAID}
    assert place.leaks() == []
    assert verify(OpenBase(place.base, place.settings), "asking-1") == []
    assert verify(OpenBase(place.base, place.settings), "failed-1") == []


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_failed_attempt_leaves_nothing_plain(attempts: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What broke often quotes what was said: the row has it sealed, and the log not at all."""
    place = Place(tmp_path, sealed_settings(write_key(tmp_path / "master")), None)
    with closing(TaskQueue(place.base, place.settings, limits=QueueLimits(max_attempts=attempts))) as queue:
        uuid = queue.enqueue(KEY, prompt=SAID)
        task = queue.dequeue()
        assert task is not None
        assert queue.nack(task, f"it broke: {SAID}") is (TaskStatus.DEAD if attempts == 1 else TaskStatus.QUEUED)
        assert SAID in str(queue.catalogue.tasks.get(uuid).error_message)
    assert ("dead" if attempts == 1 else "attempt 1 failed") in caplog.text
    assert CANARY not in caplog.text
    assert place.leaks() == []


@pytest.mark.parametrize("is_on", [True, False], ids=["on", "switched off"])
def test_a_request_and_a_kept_answer_leave_nothing_plain(place: Place, is_on: bool) -> None:
    seen: list[list[str]] = []

    def answered(request: ScriptedRequest) -> Reply:
        assert SAID in str(request.body)
        seen.append(place.leaks())
        return Reply(SAID)

    with ScriptedModel([answered]) as model:
        provider = {"base_url": model.base_url, "model": "gpt-4o", "api_key": "k"}
        llm = {"provider": "openai", "openai": provider, "cache": True}
        backend = place.settings.context_storage.backend
        settings = sealed_settings(place.settings.encryption.key, backend, place.database, llm=llm)
        for uuid in ("first-1", "second-1"):  # the second one gets the answer that was kept for the first
            start_sealed(place.base, settings, uuid).stop()
            in_force = settings.replace(**{"encryption.enabled": is_on})
            task = TaskContextManager.resume(place.base, uuid, in_force)
            client = get_llm_client(in_force, task_ctx=task)
            text, *_ = client.get_response()
            assert text == SAID
            task.stop()
    assert seen == [[]]
    assert place.leaks() == []


def test_a_fork_has_a_key_of_its_own(place: Place) -> None:
    start_sealed(place.base, place.settings, "old-1").stop()
    new = fork_task(place.base, "old-1", place.settings.replace(**{"encryption.enabled": False}), 11, name="new-1")
    assert place.log(new) == place.log("old-1")[:11]
    assert verify(OpenBase(place.base, place.settings), new) == []
    assert erase_key(OpenBase(place.base, place.settings), "old-1")
    assert len(place.log(new)) == 11
    assert place.leaks() == []


def test_an_archive_is_packed_sealed_and_comes_back(place: Place) -> None:
    start_sealed(place.base, place.settings, "done-1").complete()
    said = place.log("done-1")
    archive_task(place.base, "done-1", place.settings)
    (packed,) = (place.folder / "shelf" / "archive").glob("*.tar.zst")
    raw = zstandard.ZstdDecompressor().stream_reader(packed.read_bytes()).read()
    assert b"sealed.json" in raw
    assert not holds(raw, CANARY, JAPANESE_CANARY)
    assert place.leaks() == []
    restore_task(place.base, "done-1", place.settings)
    assert place.log("done-1") == said
    assert verify(OpenBase(place.base, place.settings), "done-1") == []


def test_search_reads_what_it_may_not_index(place: Place) -> None:
    start_sealed(place.base, place.settings, "done-1").complete()
    found = search_history(place.base, place.settings, CANARY)
    assert {(hit.uuid, hit.kind) for hit in found.hits} >= {("done-1", "message"), ("done-1", "plan")}
    assert CANARY in (found.hits[0].snippet or pytest.fail("no text")).text
    assert search_history(place.base, place.settings, f"{CANARY} -look", kinds=["tool"]).hits == ()
    assert search_history(place.base, place.settings, JAPANESE_CANARY, kinds=["plan"]).matches == 1
    assert place.leaks() == []


@pytest.mark.parametrize("clear", [False, True])
def test_an_export_is_plain_only_where_that_was_asked_for_and_comes_back_sealed(
    place: Place, tmp_path: Path, clear: bool
) -> None:
    start_sealed(place.base, place.settings, "done-1").complete()
    said = place.log("done-1")
    export_task(place.base, "done-1", place.settings, "jsonl", tmp_path / "out.jsonl", clear=clear)
    assert (CANARY in (tmp_path / "out.jsonl").read_text()) is clear
    assert place.leaks() == []
    other = Place(tmp_path / "other", place.settings, place.database)
    if place.database is not None:
        from tests.services import empty

        empty(place.database)
    import_transcripts(other.base, other.settings, [tmp_path / "out.jsonl"])
    assert other.log("done-1") == said
    assert other.leaks() == []
    assert sorted(path.name for path in (other.base / "keys").glob("*.json")) in ([], ["catalogue.json", "done-1.json"])


@pytest.mark.parametrize(("here", "there"), [("files", "sqlite"), ("sqlite", "postgres"), ("postgres", "files")])
def test_a_task_moves_between_back_ends_and_stays_sealed(
    here: str, there: str, tmp_path: Path, emptied_postgres: Database
) -> None:
    source = write_key(tmp_path / "master")
    databases = {"postgres": emptied_postgres}
    before = Place(tmp_path, sealed_settings(source, here, databases.get(here)), emptied_postgres)
    start_sealed(before.base, before.settings, "moving-1").stop()
    said = before.log("moving-1")
    with_both = sealed_settings(source, here, databases.get(here) or databases.get(there))
    off = with_both.replace(**{"encryption.enabled": False})  # what is sealed stays sealed
    report = migrate_tasks(before.base, off, source=here, target=there)
    assert [one.outcome for one in report.tasks] == ["moved"]
    after = Place(tmp_path, sealed_settings(source, there, databases.get(there)), emptied_postgres)
    assert after.log("moving-1") == said
    assert verify(OpenBase(after.base, after.settings), "moving-1") == []
    assert after.leaks() == []


def test_a_backup_has_the_keys_and_nothing_plain(tmp_path: Path) -> None:
    place = Place(tmp_path, sealed_settings(write_key(tmp_path / "master"), "files"), None)
    start_sealed(place.base, place.settings, "done-1").complete()
    said = place.log("done-1")
    backup(OpenBase(place.base, place.settings), tmp_path / "vault")
    assert files_with(tmp_path / "vault", CANARY, JAPANESE_CANARY) == []
    folder = tmp_path / "again" / "contexts"
    restore_backup(tmp_path / "vault", folder, place.settings, key=VaultKey.of_base(place.base))
    again = Place(tmp_path / "again", place.settings, None)
    assert again.log("done-1") == said
    assert again.leaks() == []


def test_plain_tasks_and_sealed_ones_lie_side_by_side(tmp_path: Path) -> None:
    settings = sealed_settings(write_key(tmp_path / "master"))
    plain = settings.replace(**{"encryption.enabled": False})
    base = tmp_path / "contexts"
    start_sealed(base, plain, "plain-1").stop()
    start_sealed(base, settings, "sealed-1").stop()
    with TaskContextManager.resume(base, "plain-1", settings) as task:
        task.message_store.add_message("user", "still plain")
        assert not task.task_store.records.is_sealed
        assert task.message_store.get_current_context_file().exists()
    with TaskContextManager.resume(base, "sealed-1", plain) as task:
        task.message_store.add_message("user", SAID)
        assert task.task_store.records.is_sealed
        with pytest.raises(KeyUnavailable, match="not written to a file"):
            task.message_store.get_current_context_file()
    leaking = {name.split("/")[2] for name in files_with(base, CANARY) if name.startswith("./completed/")}
    assert leaking == {"plain-1"}


def test_what_a_sealed_task_says_stays_sealed_when_new_ones_are_plain(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Its row is written anew, its notices and its end come later: the catalogue goes on sealing, no log tells it."""
    start_sealed(place.base, place.settings, "sealed-1").stop()
    start_sealed(place.base, place.settings, "sealed-2", replace(KEY, task_id="28")).stop()
    plain = place.settings.replace(**{"encryption.enabled": False})
    with TaskContextManager.resume(place.base, "sealed-1", plain) as task:
        ask(task)
    with TaskContextManager.resume(place.base, "sealed-2", plain) as task:
        task.fail(f"it broke: {SAID}")
    assert place.leaks() == []
    assert "failed" in caplog.text
    assert CANARY not in caplog.text
    with open_catalogue(place.base, plain) as catalogue:
        assert catalogue.tasks.get("sealed-2").error_message == f"it broke: {SAID}"


def test_a_plain_task_is_sealed_by_a_fork_and_by_a_move_into_the_database(
    tmp_path: Path, emptied_postgres: Database
) -> None:
    source = write_key(tmp_path / "master")
    place = Place(tmp_path, sealed_settings(source), None)
    plain = place.settings.replace(**{"encryption.enabled": False})
    start_sealed(place.base, plain, "plain-1").stop()
    assert len(place.log(fork_task(place.base, "plain-1", place.settings, 11, name="fork-1"))) == 11
    assert [name for name in place.leaks() if "fork-1" in name] == []
    migrate_tasks(place.base, sealed_settings(source, "postgres", emptied_postgres), source="files", target="postgres")
    moved = Place(tmp_path, sealed_settings(source, "postgres", emptied_postgres), emptied_postgres)
    assert len(moved.log("plain-1")) == 11
    assert rows_with(emptied_postgres, CANARY, JAPANESE_CANARY) == []


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_lost_catalogue_is_rebuilt_from_sealed_tasks(backend: str, tmp_path: Path) -> None:
    place = Place(tmp_path, sealed_settings(write_key(tmp_path / "master"), backend), None)
    start_sealed(place.base, place.settings, "done-1").complete()
    for path in place.base.glob("tasks.db*"):
        path.unlink()
    found = repair(OpenBase(place.base, place.settings))
    assert found
    assert all(finding.repair == "done" for finding in found)
    with open_catalogue(place.base, place.settings) as catalogue:
        row = catalogue.tasks.get("done-1")
    assert (row.status, row.total_messages) == (TaskStatus.COMPLETED, 11)
    assert place.leaks() == []


def test_a_task_whose_records_are_removed_has_no_key_left(place: Place) -> None:
    start_sealed(place.base, place.settings, "old-1").complete()
    start_sealed(place.base, place.settings, "shredded-1").complete()
    assert erase_key(OpenBase(place.base, place.settings), "shredded-1")
    delete_old_contexts(place.base, place.settings, 0)
    with open_catalogue(place.base, place.settings) as catalogue:
        assert all(CLEANED in catalogue.tasks.get(uuid).metadata for uuid in ("old-1", "shredded-1"))
    assert keys_overview(OpenBase(place.base, place.settings)).erased == 2
    assert place.leaks() == []


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_mirror_holds_nothing_plain_and_comes_back(backend: str, tmp_path: Path) -> None:
    shelf = {"url": f"file://{tmp_path}/shelf", "mirror_every": 1}
    place = Place(tmp_path, sealed_settings(write_key(tmp_path / "master"), backend, archive=shelf), None)
    task = start_sealed(place.base, place.settings, "task-1")
    said = place.log("task-1")
    task.stop()
    assert files_with(tmp_path / "shelf", CANARY, JAPANESE_CANARY) == []
    shutil.rmtree(place.base / "paused" / "task-1")
    Mirror(ObjectStorage.of(place.settings), "task-1").fetch(place.base / "paused" / "task-1")
    assert place.log("task-1") == said
    assert place.leaks() == []
