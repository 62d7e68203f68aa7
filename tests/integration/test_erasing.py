"""A person is erased whatever their tasks are doing: at rest, in line, at work, packed in S3, in a busy index."""

from __future__ import annotations

import os
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from orihon import (
    TaskContextManager,
    archive_task,
    delete_old_contexts,
    erase_user,
    export_task,
    fork_task,
    import_transcripts,
    search_history,
    task_chain,
    task_overview,
)
from orihon.audit import acting_as, verify_audit
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.drivers.postgres import postgres_of
from orihon.errors import StorageUnavailable, TaskNotFound, Waiting
from orihon.llm.scripted import Reply
from orihon.runtime.handler import TaskHandler
from orihon.runtime.queue import TaskQueue
from orihon.runtime.tools import ToolBox
from orihon.runtime.worker import WorkerProcess
from orihon.search import maintenance as upkeep
from orihon.search.maintenance import open_index
from orihon.settings import Settings, load_settings
from orihon.tasks.approvals.answers import approve, pending
from orihon.tasks.base import OpenBase
from orihon.tasks.verify.verify import verify
from orihon.transfer.staging import IMPORT, StagedRecords, copy_task, open_unguarded
from orihon.values.task import TaskKey, new_uuid
from tests.helpers import refused
from tests.integration.agents import EffectServer, effects, world
from tests.integration.killing import ended
from tests.integration.object_server import Bucket
from tests.integration.run_supervisor import eventually
from tests.integration.test_privacy import CANARY, places_of, task_of
from tests.services import Database

ANN = "ann-7731"


@pytest.fixture(params=["files", "sqlite", "postgres"])
def sections(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each back end."""
    storage = {"context_storage": {"backend": request.param, "blob_bytes": 1024}}
    if request.param != "postgres":
        return storage
    database: Database = request.getfixturevalue("emptied_postgres")
    return storage | {"database": database.settings}


@pytest.fixture
def settings(sections: dict[str, Any]) -> Settings:
    return load_settings(sections)


def row_of(base: Path, settings: Settings, uuid: str) -> TaskRow | None:
    with closing(open_catalogue(base, settings)) as catalogue:
        return catalogue.tasks.find(uuid)


def waiting_task(base: Path, settings: Settings) -> str:
    """Somebody is asked whether it may go on."""
    task = task_of(ANN, base, settings)
    with pytest.raises(Waiting):
        task.checkpoint("concept", f"Shall {CANARY} be so?")
    task.close()
    return task.uuid


def forked_task(base: Path, settings: Settings) -> str:
    task = task_of(ANN, base, settings)
    task.stop()
    return fork_task(base, task.uuid, settings, 3)


def part_of(base: Path, settings: Settings, parent: str) -> str:
    """A child task, as a parent starts one for a part of its work."""
    child = new_uuid()
    with closing(open_catalogue(base, settings)) as catalogue:
        catalogue.tasks.register(TaskKey("cli", "", "", "subtask", child, ANN), child, parent_uuid=parent)
    task = TaskContextManager(base, None, settings, uuid=child, is_resumed=True)
    task.message_store.add_message("user", CANARY)
    task.stop()
    return child


def test_in_whatever_state_a_task_is_and_wherever_it_lies(
    base: Path, sections: dict[str, Any], bucket: Bucket, tmp_path: Path
) -> None:
    settings = load_settings(sections | {"archive": {**bucket.archive, "mirror_every": 2}})
    queue = TaskQueue(base, settings)
    packed, cleaned = task_of(ANN, base, settings), task_of(ANN, base, settings)
    packed.complete()
    cleaned.complete()
    archive_task(base, packed.uuid, settings)
    assert delete_old_contexts(base, settings, days=0).tasks
    packed = task_of(ANN, base, settings)
    packed.fail(CANARY)
    archive_task(base, packed.uuid, settings)
    asking = waiting_task(base, settings)
    forked = forked_task(base, settings)
    child = part_of(base, settings, asking)
    queued = queue.enqueue(TaskKey("cli", "", "", "task", "q", ANN), prompt=CANARY)
    held_back = queue.enqueue(TaskKey("cli", "", "", "task", "p", ANN), prompt=CANARY)
    queue.pause(held_back)
    queue.close()
    assert search_history(base, settings, CANARY).hits
    kept = task_of("ben", base, settings, canary="another-77123")
    kept.complete()
    archive_task(base, kept.uuid, settings)
    before = bucket.keys()
    assert any(packed.uuid in name for name in before)
    assert any(asking in name for name in before) is (sections["context_storage"]["backend"] != "postgres")
    assert [one.uuid for one in pending(OpenBase(base, settings))] == [asking]

    erasure = erase_user(base, settings, ANN)

    assert erasure.is_complete, erasure
    assert {packed.uuid, cleaned.uuid, asking, forked, child, queued, held_back} <= set(erasure.tasks)
    assert places_of(CANARY, tmp_path, settings) == []
    assert places_of(ANN, tmp_path, settings) == []
    after = bucket.keys()
    assert after
    assert [name for name in after if kept.uuid not in name] == []
    assert pending(OpenBase(base, settings)) == []
    with refused(TaskNotFound, "uuid"):
        approve(OpenBase(base, settings), asking, by="boss")
    assert verify_audit(base, settings).is_sound


def with_effects(settings: Settings, base_dir: Path) -> TaskHandler:
    return TaskHandler(settings, base_dir, toolbox=ToolBox([EffectServer(base_dir)]))


def test_a_worker_that_has_the_task_is_waited_for_and_stops(base: Path, sections: dict[str, Any]) -> None:
    """One that cannot stop yet keeps its task, and the answer says whose it is; the next run finishes."""
    steps = [Reply(calls=[("effects_write", {"text": CANARY})]) for _ in range(3)]
    with world(base, steps, sections) as made:
        uuid = made.put(CANARY)
        (base / "hold").touch()
        process = WorkerProcess("1", made.settings, base_dir=base, handler=f"{__name__}:with_effects", until_empty=True)
        worker = threading.Thread(target=process.run)
        worker.start()
        try:
            eventually(lambda: effects(base))
            early = erase_user(base, made.settings, "me", wait=0.0)
            assert (early.tasks, early.is_complete, early.names) == ((), False, 0)
            ((task, reason),) = early.failed
            assert task == uuid
            assert (made.queue.catalogue.tasks.get(uuid).lease_owner or "nobody") in reason
            assert made.queue.catalogue.tombstones.find(uuid) is None
            threading.Timer(0.5, (base / "hold").unlink).start()
            done = erase_user(base, made.settings, "me", wait=120.0)
        finally:
            (base / "hold").unlink(missing_ok=True)
            worker.join(120)
        assert done.is_complete, done
        assert done.tasks == (uuid,)
        assert len(effects(base)) == 1  # nothing was begun after it was asked to stop
        (base / "effects").unlink()
    assert places_of(CANARY, base, made.settings) == []


def test_a_program_that_has_the_task_open_keeps_it_and_is_named(base: Path, settings: Settings) -> None:
    """It sees no wishes: what it writes must not go into nothing."""
    task, other = task_of(ANN, base, settings), task_of(ANN, base, settings)
    other.complete()
    done = erase_user(base, settings, ANN, wait=0.0)
    assert done.tasks == (other.uuid,)
    ((uuid, reason),) = done.failed
    assert uuid == task.uuid
    assert f"process {os.getpid()}" in reason
    task.message_store.add_message("user", "goes on")
    task.stop()
    assert erase_user(base, settings, ANN).tasks == (task.uuid,)


def test_who_has_inherited_from_an_erased_task_keeps_what_is_theirs(base: Path, settings: Settings) -> None:
    given = task_of(ANN, base, settings)
    given.complete()
    heir = TaskContextManager(
        base, TaskKey("github", "me", "project", "issue", "9", "ben"), settings, inherit_from=given.uuid
    )
    inherited = heir.get_inheritance_context()
    assert inherited is not None
    heir.message_store.add_message("user", "go on")
    assert erase_user(base, settings, ANN).is_complete
    heir.message_store.add_message("assistant", "done")
    heir.complete()
    assert [str(found) for found in verify(OpenBase(base, settings), heir.uuid)] == []
    seen = task_overview(base, heir.uuid, settings)
    assert [stored.message.text for stored in seen.last_messages][-1] == "done"
    assert [link.uuid for link in task_chain(base, heir.uuid, settings)] == [heir.uuid]


def test_records_that_no_row_knows_of_are_not_passed_over(base: Path, settings: Settings) -> None:
    """As a fork leaves them that is killed just before its row is written."""
    task = task_of(ANN, base, settings)
    task.stop()
    new = new_uuid()

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orihon.catalogue.tasks.Tasks.adopt", die)
        patch.setattr("orihon.transfer.fork._Fork.remove", die)
        with pytest.raises(KeyboardInterrupt):
            fork_task(base, task.uuid, settings, 3, name=new)
    done = erase_user(base, settings, ANN)
    assert done.is_complete, done
    assert set(done.tasks) == {task.uuid, new}
    assert places_of(CANARY, base, settings) == []
    with closing(open_catalogue(base, settings)) as catalogue:
        assert {stone.uuid for stone in catalogue.tombstones.all()} == {task.uuid, new}


def test_a_copy_that_died_in_the_database_goes_with_its_user(base: Path, emptied_postgres: Database) -> None:
    settings = load_settings(
        {"context_storage": {"backend": "postgres"}, "database": emptied_postgres.settings}, environ={}
    )
    task = task_of(ANN, base, settings)
    task.stop()
    with OpenBase(base, settings) as opened:
        staged = StagedRecords(opened.folders, postgres_of(settings), new_uuid(), IMPORT)
        here = opened.folders.in_database(task.uuid)
        with (
            closing(opened.read_store(here)) as source,
            closing(open_unguarded(staged.folder, settings, "postgres", "copy", epoch=1)) as copy,
        ):
            copy_task(source, copy)
    assert staged.is_there()
    assert erase_user(base, settings, ANN).is_complete
    assert not staged.is_there()
    assert places_of(CANARY, base, settings) == []


def unlisted_tasks(base: Path, settings: Settings, number: int) -> list[str]:
    """Tasks that have lost their rows."""
    tasks = [task_of(ANN, base, settings) for _ in range(number)]
    for task in tasks:
        task.stop()
    with closing(apsw.Connection(str(base / "tasks.db"))) as connection:
        connection.execute("DELETE FROM tasks")
    return [task.uuid for task in tasks]


def test_a_removal_that_died_after_the_description_went_is_finished(base: Path) -> None:
    settings = load_settings({"context_storage": {"backend": "files"}}, environ={})
    [uuid] = unlisted_tasks(base, settings, 1)
    assert erase_user(base, settings, ANN, dry_run=True).tasks == (uuid,)
    rmtree = shutil.rmtree

    def die(place: Path, **_: object) -> None:
        (place / "metadata.json").unlink()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orihon.upkeep.privacy.erase.shutil.rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            erase_user(base, settings, ANN)
    assert shutil.rmtree is rmtree
    assert places_of(CANARY, base, settings)
    assert erase_user(base, settings, ANN).tasks == (uuid,)
    assert places_of(CANARY, base, settings) == []


def test_records_without_a_row_that_cannot_be_removed_are_told_and_keep_no_others(base: Path) -> None:
    settings = load_settings({"context_storage": {"backend": "files"}}, environ={})
    uuids = unlisted_tasks(base, settings, 2)
    rmtree = shutil.rmtree
    refused_places: list[str] = []

    def refuse_once(place: Path, **options: Any) -> None:
        if not refused_places:
            refused_places.append(place.name)
            raise PermissionError(13, "denied", str(place))
        rmtree(place, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orihon.upkeep.privacy.erase.shutil.rmtree", refuse_once)
        done = erase_user(base, settings, ANN)
    assert ([task for task, _ in done.failed], done.is_complete) == (refused_places, False)
    assert {*done.tasks, *refused_places} == set(uuids)
    assert erase_user(base, settings, ANN).is_complete
    assert places_of(CANARY, base, settings) == []


def test_what_a_fork_that_died_has_left_goes_when_it_is_known_to_be_dead(base: Path) -> None:
    settings = load_settings({"context_storage": {"backend": "files"}}, environ={})
    task = task_of(ANN, base, settings)
    task.stop()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orihon.transfer.fork._Fork._counted", lambda *_: os._exit(9))
        child = os.fork()
        if not child:
            fork_task(base, task.uuid, settings, 3)
            os._exit(1)
        assert os.waitstatus_to_exitcode(ended(child)) == 9
    [left] = (base / "paused").glob(".*.fork")
    done = erase_user(base, settings, ANN)
    assert (done.tasks, [place for place, _ in done.left]) == ((task.uuid,), ["unfinished"])
    assert str(left) in done.left[0][1]
    os.utime(left, (0, 0))
    assert erase_user(base, settings, ANN).is_complete
    assert places_of(CANARY, base, settings) == []


def test_an_export_does_not_bring_an_erased_task_back(base: Path, settings: Settings, tmp_path: Path) -> None:
    task = task_of(ANN, base, settings)
    task.complete()
    out = tmp_path / "task.jsonl"
    export_task(base, task.uuid, settings, "jsonl", out)
    assert erase_user(base, settings, ANN).is_complete
    report = import_transcripts(base, settings, [out])
    assert not report.tasks
    assert [problem.cause for problem in report.problems] == ["export_erased"]
    assert task.uuid in report.problems[0].said
    assert places_of(CANARY, base, settings) == []


@pytest.fixture
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "_WAIT", 0.1)


@pytest.mark.usefixtures("no_patience")
def test_words_that_cannot_be_taken_out_of_the_index_now_are_told_and_go_with_the_next_run(
    base: Path, settings: Settings
) -> None:
    with acting_as(ANN):
        task = task_of(ANN, base, settings)
    task.complete()
    assert search_history(base, settings, CANARY).hits
    with closing(open_index(OpenBase(base, settings))) as index, index.turn(5.0) as is_ours:
        assert is_ours
        stuck = erase_user(base, settings, ANN, wait=0.0)
    assert stuck.tasks == ()
    assert [uuid for uuid, _ in stuck.failed] == [task.uuid]
    assert [place for place, _ in stuck.left] == ["search"]
    assert stuck.names == 0
    assert row_of(base, settings, task.uuid) is not None  # or no later run would know of it
    done = erase_user(base, settings, ANN)
    assert done.is_complete, done
    assert done.names
    assert places_of(CANARY, base, settings) == []
    assert not search_history(base, settings, CANARY).hits


@pytest.mark.usefixtures("no_patience")
def test_traces_that_are_left_when_all_tasks_are_gone_are_told_too(base: Path, settings: Settings) -> None:
    with acting_as(ANN):
        task_of(ANN, base, settings).complete()
    search_history(base, settings, CANARY)
    with closing(open_index(OpenBase(base, settings))) as index:
        real = upkeep.erase_traces

        def late(folder: Any, seconds: float) -> None:
            with index.turn(5.0):
                real(folder, 0.0)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("orihon.upkeep.privacy.erase.erase_traces", late)
            stuck = erase_user(base, settings, ANN)
    assert (len(stuck.tasks), stuck.failed, [place for place, _ in stuck.left]) == (1, (), ["search"])
    done = erase_user(base, settings, ANN)
    assert (done.tasks, done.is_complete) == ((), True)
    assert done.names
    assert places_of(CANARY, base, settings) == []


@pytest.mark.parametrize("file", ["tasks.db", "search.db"])
def test_a_reader_that_keeps_a_log_from_being_emptied_is_told(base: Path, tmp_path: Path, file: str) -> None:
    settings = load_settings({"context_storage": {"backend": "files"}})
    task_of(ANN, base, settings).complete()
    search_history(base, settings, CANARY)
    with closing(apsw.Connection(str(base / file))) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        stuck = erase_user(base, settings.replace(**{"context_storage.db_timeout": 0.5}), ANN, wait=0.0)
        assert [place for place, _ in stuck.left] == [{"tasks.db": "catalogue", "search.db": "search"}[file]]
        assert str(StorageUnavailable("log_in_use", path=base / file)) == stuck.left[0][1]
    done = erase_user(base, settings, ANN)
    assert done.is_complete, done
    assert places_of(CANARY, tmp_path, settings) == []
    assert places_of(ANN, tmp_path, settings) == []
