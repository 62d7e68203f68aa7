"""A task at a glance, its messages as they come, and the picture of the storage; on every back end."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from orihon import archive_task, delete_old_contexts, follow_messages, storage_summary, task_overview
from orihon.catalogue import Catalogue
from orihon.classic.tools.context_stats import print_statistics_report
from orihon.errors import InvalidInput
from orihon.reports.overview import inherited_by
from orihon.reports.storage import SizeGroup, collect_global_statistics, task_size
from orihon.settings import Settings, load_settings
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.reader import Choice, chosen_messages, chosen_records, reading_task
from orihon.values.task import TaskKey, TaskStatus
from tests.conformance.backends import BACKENDS
from tests.damage import KEY, settings_for, start_task
from tests.helpers import refused

PATIENCE = 60.0


@pytest.fixture
def settings(kind: str) -> Settings:
    config = BACKENDS[kind].config()
    config["context_storage"] |= {"blob_bytes": 1_000}
    return load_settings(config, environ={})


@pytest.fixture
def task(tmp_path: Path, settings: Settings) -> Iterator[TaskContextManager]:
    # A key of its own: on a server others' tasks stand beside it, and what is finished on the same key is inherited.
    task = start_task(tmp_path, settings, key=replace(KEY, task_id=secrets.token_hex(4)))
    yield task
    if task.catalogue.tasks.get(task.uuid).status is TaskStatus.RUNNING:
        task.stop()
    task.catalogue.close()


# ---- at a glance ---------------------------------------------------------------------------------------------------


def test_a_task_at_work(tmp_path: Path, settings: Settings, task: TaskContextManager) -> None:
    task.tool_store.add_tool_call("read_file", {"path": "b.py"}, None, "no such file")
    found = task_overview(tmp_path, task.uuid[:9], settings, last=3)
    assert (found.uuid, found.records, found.children, found.inherited) == (task.uuid, "here", (), None)
    assert found.row is not None
    assert found.row.status is TaskStatus.RUNNING
    assert [one.seq for one in found.last_messages] == [11, 12, 13]
    assert found.figures is not None
    assert (found.figures.messages, found.figures.summaries, found.figures.plans) == (13, 3, 1)
    assert (found.figures.tools, found.figures.tool_errors, found.figures.compressions) == (2, 1, 5)
    assert found.figures.view.entries == 8
    assert found.figures.bytes > 1_500


def test_what_a_task_has_inherited_and_its_parts(tmp_path: Path) -> None:
    settings = settings_for("files")
    first = start_task(tmp_path, settings)
    first.complete()
    second = start_task(tmp_path, settings)
    second.catalogue.tasks.register(TaskKey("cli", "", "", "subtask", "part"), "part-1", parent_uuid=second.uuid)
    found = task_overview(tmp_path, second.uuid, settings)
    assert found.inherited is not None
    assert (found.inherited.final_summary, found.inherited.plans) == (True, 1)
    assert [child.uuid for child in found.children] == ["part-1"]
    given = inherited_by(OpenBase(tmp_path, settings), second.uuid)
    assert given is not None
    assert given.uuid == first.uuid
    second.complete()
    archive_task(tmp_path, first.uuid, settings)
    assert inherited_by(OpenBase(tmp_path, settings), second.uuid) is None
    packed = task_overview(tmp_path, first.uuid, settings)
    assert (packed.records, packed.figures, packed.last_messages) == ("archived", None, ())
    assert task_overview(tmp_path, "part-1", settings).records == "none"
    second.catalogue.close()
    first.catalogue.close()


def test_a_task_that_was_cleaned_up_has_its_row_and_summary_left(tmp_path: Path) -> None:
    settings = settings_for("files")
    task = start_task(tmp_path, settings)
    task.complete()
    task.catalogue.close()
    delete_old_contexts(tmp_path, settings, 0)
    found = task_overview(tmp_path, task.uuid, settings)
    assert found.records == "removed"
    assert found.row is not None
    assert found.final_summary != ""


def test_a_task_without_a_catalogue(tmp_path: Path) -> None:
    settings = settings_for("files")
    task = start_task(tmp_path, settings)
    task.stop()
    task.catalogue.close()
    (tmp_path / "tasks.db").write_bytes(b"rubbish" * 1000)
    found = task_overview(tmp_path, task.uuid, settings)
    assert (found.row, found.records) == (None, "here")


# ---- some of its records -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "seqs"),
    [
        (Choice(), list(range(1, 14))),
        (Choice.parse("3-5"), [3, 4, 5]),
        (Choice.parse("12-"), [12, 13]),
        (Choice.parse("-2"), [1, 2]),
        (Choice.parse("4"), [4]),
        (Choice.parse("90-"), []),
        (Choice.parse(newest=2), [12, 13]),
        (Choice.parse(newest=99), list(range(1, 14))),
        (Choice.parse("-7", newest=2), [6, 7]),
        (Choice.parse(role="tool"), [4, 7, 10, 13]),
        (Choice.parse(role="tool", newest=2), [10, 13]),
        (Choice.parse("-9", role="tool", newest=1), [7]),
        (Choice.parse(role="nobody", newest=3), []),
    ],
)
def test_messages_by_number_and_role(
    tmp_path: Path, settings: Settings, task: TaskContextManager, choice: Choice, seqs: list[int]
) -> None:
    with reading_task(OpenBase(tmp_path, settings), task.uuid) as (store, _):
        assert [one.seq for one in chosen_messages(store, choice)] == seqs


def test_other_records_by_number(tmp_path: Path, settings: Settings, task: TaskContextManager) -> None:
    with reading_task(OpenBase(tmp_path, settings), task.uuid) as (store, _):
        numbers = {
            run: [record["id"] for record in chosen_records(store, "summaries", Choice.parse(run, newest=2))]
            for run in ("1-", "-2", "7-")
        }
    assert numbers == {"1-": [2, 3], "-2": [1, 2], "7-": []}


@pytest.mark.parametrize("run", ["", "-", "a-b", "5-3", "0", "1-2-3", "9" * 40])
def test_what_is_no_range_is_refused(run: str) -> None:
    with refused(InvalidInput, "range"):
        Choice.parse(run)


# ---- as they come --------------------------------------------------------------------------------------------------


def test_messages_are_told_as_they_come_until_the_task_is_over(
    tmp_path: Path, settings: Settings, task: TaskContextManager
) -> None:
    told: list[int] = []
    heard = threading.Condition()

    def listen() -> None:
        for stored in follow_messages(tmp_path, task.uuid, settings, after=11):
            with heard:
                told.append(stored.seq)
                heard.notify_all()

    listener = threading.Thread(target=listen)
    listener.start()

    def wait_for(count: int) -> None:
        with heard:
            assert heard.wait_for(lambda: len(told) >= count, PATIENCE), told

    wait_for(2)
    for number in range(3):
        task.message_store.add_message("user", f"one more {number}")
        wait_for(3 + number)
    task.stop()  # its folder moves
    resumed = TaskContextManager.resume(tmp_path, task.uuid, settings)
    resumed.message_store.add_message("user", "and another one")
    wait_for(6)
    resumed.message_store.add_message("user", "the last one")
    resumed.complete()
    listener.join(PATIENCE)
    assert not listener.is_alive()
    assert told == list(range(12, 19))
    resumed.catalogue.close()


# ---- the storage ---------------------------------------------------------------------------------------------------


def test_the_picture_of_the_storage(tmp_path: Path) -> None:
    settings = settings_for("files")
    for uuid in ("packed-1", "cleaned-1", "done-1", "old-1"):
        start_task(tmp_path, settings, uuid=uuid).complete()
    archive_task(tmp_path, "packed-1", settings)
    with Catalogue(tmp_path / "tasks.db") as catalogue:
        for uuid in ("packed-1", "done-1", "old-1"):
            catalogue.tasks.update(uuid, keep=True)
        delete_old_contexts(tmp_path, settings, 0)
        catalogue.tasks.register(KEY, "queued-1", status=TaskStatus.QUEUED)
    running = start_task(tmp_path, settings, uuid="running-1", key=TaskKey("cli", "", "", "task", "x", "ben"))
    found = storage_summary(tmp_path, settings)
    assert found.tasks == 6
    assert found.unmeasured == 0
    assert (found.active.tasks, found.archived.tasks, found.cleaned) == (4, 1, SizeGroup(1, 0))
    assert found.old == SizeGroup(0, 0)
    assert 0 < found.archived.bytes < found.active.bytes
    assert found.bytes == found.active.bytes + found.archived.bytes
    assert {one.uuid for one in found.biggest} == {"running-1", "done-1", "old-1", "packed-1"}
    assert [one.bytes for one in found.biggest] == sorted((one.bytes for one in found.biggest), reverse=True)
    assert found.by_status == {"archived": 2, "completed": 2, "queued": 1, "running": 1}
    assert list(found.by_user) == ["user", "ben"]
    assert found.by_repository["owner/repo"]["tasks"] == 5
    assert found.messages_per_task > 0
    everything_is_old = settings.replace(**{"retention.days": 0})
    assert storage_summary(tmp_path, everything_is_old).old.tasks == 3
    running.stop()
    running.catalogue.close()


def test_a_task_of_every_back_end_is_measured(tmp_path: Path, settings: Settings, task: TaskContextManager) -> None:
    with OpenBase(tmp_path, settings) as base:
        assert (task_size(base, task.uuid) or 0) > 1_500, "the blob alone"
        assert task_size(base, "nobody") is None


def test_the_same_by_the_names_of_the_first_design(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = settings_for("files")
    assert collect_global_statistics(tmp_path, settings)["avg_compression_ratio"] == 0
    start_task(tmp_path, settings, uuid="packed-1").complete()
    archive_task(tmp_path, "packed-1", settings)
    folded = start_task(tmp_path, settings, uuid="folded-1")
    folded.stop()
    found = collect_global_statistics(tmp_path, settings)
    assert (found["total_contexts"], found["total_messages"]) == (2, storage_summary(tmp_path, settings).messages)
    assert found["contexts_by_status"] == {"active": 1, "archived": 1, "deleted": 0}
    assert found["total_size_mb"] == sum(one["size_mb"] for one in found["top_memory_consumers"]) > 0
    folds = folded.summary_store.get_summaries()
    before, after = (sum(fold[name] for fold in folds) for name in ("original_tokens", "summary_tokens"))
    assert found["avg_compression_ratio"] == after / before > 0
    assert (list(found["by_user"]), list(found["by_repo"])) == (["user"], ["owner/repo"])
    print_statistics_report(tmp_path, settings)
    assert "folded-1" in capsys.readouterr().out


def test_an_empty_base_folder(tmp_path: Path) -> None:
    found = storage_summary(tmp_path, settings_for("files"))
    assert (found.tasks, found.bytes, found.biggest, found.messages_per_task) == (0, 0, (), 0.0)
    assert list(tmp_path.iterdir()) == []
