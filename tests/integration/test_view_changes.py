"""Changing a task's view from outside its worker: whose lease it takes, what it leaves, what it refuses."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from orihon import MessageStore
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_catalogue
from orihon.compression.compressor import ContextCompressor
from orihon.compression.planner import Draft
from orihon.errors import DamagedStore, IllegalTransition, NothingToUndo, StaleWriter, TaskBusy, TaskNotFound
from orihon.store.factory import open_for_reading
from orihon.system.counters import SUMMARIES
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.tasks.editing import changing_task, check_changeable
from orihon.tasks.verify.verify import verify
from orihon.tasks.view_reader import reading_view
from orihon.values.task import TaskStatus
from tests.damage import BACKENDS, KEY, edit_record, killed_task, paused_task, settings_for, start_task, tear
from tests.helpers import refused


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def row_of(base: Path, backend: str, uuid: str) -> TaskRow:
    with open_catalogue(base, settings_for(backend)) as catalogue:
        return catalogue.tasks.get(uuid)


def undo(base: Path, backend: str, uuid: str) -> None:
    with changing_task(OpenBase(base, settings_for(backend)), uuid) as task:
        task.messages.folding.undo(made_by="test")


def test_a_dead_owners_task_stays_running_and_is_put_right(tmp_path: Path, backend: str) -> None:
    uuid = killed_task(tmp_path, backend)
    if backend == "files":
        tear(tmp_path / "running" / uuid)
    undo(tmp_path, backend, uuid)
    row = row_of(tmp_path, backend, uuid)
    assert (row.status, row.lease_owner, row.view_tokens) == (TaskStatus.RUNNING, None, 413)
    assert verify(OpenBase(tmp_path, settings_for(backend)), uuid) == []
    with TaskContextManager.resume(tmp_path, uuid, settings_for(backend)) as task:
        assert task.message_store.compressions()[-1].made_by == "test"
        assert len(task.message_store.get_messages_for_llm()) == 11


def test_a_waiting_task_keeps_waiting(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    task.update_status(TaskStatus.WAITING)
    undo(tmp_path, backend, task.uuid)
    assert row_of(tmp_path, backend, task.uuid).status is TaskStatus.WAITING
    assert (tmp_path / "paused" / task.uuid).is_dir()


def test_the_window_and_correction_are_the_tasks_own(tmp_path: Path, backend: str) -> None:
    task = start_task(tmp_path, backend)
    task.change_model("gpt-4o", 20_000)
    task.report_usage({"prompt_tokens": 810}, request_tokens=405)
    usage = task.usage
    task.stop()
    with changing_task(OpenBase(tmp_path, settings_for(backend)), task.uuid) as changing:
        assert changing.messages.gauge.usage(405) == usage
    with reading_view(OpenBase(tmp_path, settings_for(backend)), task.uuid) as view:
        assert view.figures().usage == usage


def test_a_folder_that_a_crash_left_elsewhere_is_moved_first(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    folder.rename(tmp_path / "running" / uuid)
    undo(tmp_path, backend, uuid)
    assert folder.is_dir()
    assert verify(OpenBase(tmp_path, settings_for(backend)), uuid) == []


def test_a_folder_that_was_opened_alone_has_a_higher_epoch(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    for _ in range(3):
        with closing(MessageStore(folder, settings_for(backend))) as alone:
            alone.add_message("user", "alone")
    undo(tmp_path, backend, uuid)
    assert row_of(tmp_path, backend, uuid).lease_owner is None
    assert verify(OpenBase(tmp_path, settings_for(backend)), uuid) == []


def test_a_change_that_fails_lets_the_task_go(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    before = row_of(tmp_path, backend, uuid)
    with refused(NothingToUndo, "no_fold"), changing_task(OpenBase(tmp_path, settings_for(backend)), uuid) as task:
        task.messages.folding.unfold(99)
    after = row_of(tmp_path, backend, uuid)
    assert (after.status, after.lease_owner, after.view_tokens) == (before.status, None, before.view_tokens)
    TaskContextManager.resume(tmp_path, uuid, settings_for(backend)).stop()


def test_a_change_that_is_taken_over_is_refused(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    with pytest.raises(StaleWriter), changing_task(OpenBase(tmp_path, settings_for(backend)), uuid) as changing:
        worker = TaskContextManager.resume(tmp_path, uuid, settings_for(backend), take_over=True)
        changing.messages.folding.undo()
    assert len(worker.message_store.get_messages_for_llm()) == 8
    worker.message_store.add_message("user", "the worker goes on")
    worker.stop()


def test_a_live_owner_is_joined_only_where_several_may_write(tmp_path: Path, backend: str) -> None:
    worker = start_task(tmp_path, backend)
    if backend == "files":
        with refused(TaskBusy, "view") as caught:
            undo(tmp_path, backend, worker.uuid)
        assert worker.lease.owner in str(caught.value)
        with refused(TaskBusy, "view"):
            check_changeable(OpenBase(tmp_path, settings_for(backend)), worker.uuid)
    else:
        check_changeable(OpenBase(tmp_path, settings_for(backend)), worker.uuid)
        undo(tmp_path, backend, worker.uuid)
        assert worker.message_store.get_current_token_count() == 413
    row = row_of(tmp_path, backend, worker.uuid)
    assert (row.lease_owner, row.epoch) == (worker.lease.owner, worker.lease.epoch)
    worker.message_store.add_message("user", "the worker goes on")
    worker.stop()
    assert verify(OpenBase(tmp_path, settings_for(backend)), worker.uuid) == []


def test_somebody_who_holds_a_paused_task_is_not_joined(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    with open_catalogue(tmp_path, settings_for(backend)) as catalogue:
        lease = catalogue.leases.acquire(uuid)
        with refused(TaskBusy, "view"):
            undo(tmp_path, backend, uuid)
        with refused(TaskBusy, "view"):
            check_changeable(OpenBase(tmp_path, settings_for(backend)), uuid)
        catalogue.leases.release(lease)
    check_changeable(OpenBase(tmp_path, settings_for(backend)), uuid)
    undo(tmp_path, backend, uuid)


@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_what_has_ended_is_not_changed(tmp_path: Path, backend: str, end: str) -> None:
    task = start_task(tmp_path, backend)
    getattr(task, end)()
    epoch = row_of(tmp_path, backend, task.uuid).epoch
    with refused(IllegalTransition, "unchangeable"):
        undo(tmp_path, backend, task.uuid)
    with refused(IllegalTransition, "unchangeable"):
        check_changeable(OpenBase(tmp_path, settings_for(backend)), task.uuid)
    assert row_of(tmp_path, backend, task.uuid).epoch == epoch, "its lease was not even taken"


def test_what_has_not_begun_is_not_changed(tmp_path: Path, backend: str) -> None:
    with open_catalogue(tmp_path, settings_for(backend)) as catalogue:
        catalogue.tasks.register(KEY, "queued-1", status=TaskStatus.QUEUED)
    with refused(IllegalTransition, "unchangeable"):
        undo(tmp_path, backend, "queued-1")
    with refused(TaskNotFound, "no_folder"), reading_view(OpenBase(tmp_path, settings_for(backend)), "queued-1"):
        pass
    with refused(TaskNotFound, "uuid"):
        undo(tmp_path, backend, "nobody")
    with open_catalogue(tmp_path, settings_for(backend)) as catalogue:
        catalogue.tasks.register(KEY, "empty-1", status=TaskStatus.RUNNING)
    with refused(TaskNotFound, "no_folder"):
        undo(tmp_path, backend, "empty-1")
    assert row_of(tmp_path, backend, "empty-1").lease_owner is None


def test_a_log_that_has_lost_messages_is_left_as_it_is(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    edit_record(folder, "messages", 13, lambda line: None)
    with refused(DamagedStore, "log_lost"):
        undo(tmp_path, backend, uuid)
    assert row_of(tmp_path, backend, uuid).lease_owner is None


def test_an_edited_text_is_masked(tmp_path: Path, backend: str) -> None:
    uuid, folder = paused_task(tmp_path, backend)
    with changing_task(OpenBase(tmp_path, settings_for(backend)), uuid) as task:
        task.messages.folding.edit(2, "the key is sk-ant-api03-" + "aB3dE6gH9jK2" * 6)
    with closing(open_for_reading(folder, settings_for(backend))) as store:
        assert b"sk-ant-api03-aB3d" not in b"".join(store.view_lines())


def test_a_reading_is_the_view_of_one_moment(tmp_path: Path, backend: str) -> None:
    worker = start_task(tmp_path, backend)
    with reading_view(OpenBase(tmp_path, settings_for(backend)), worker.uuid) as view:
        worker.message_store.add_message("user", "later")
        worker.message_store.folding.undo()
        assert view.figures().entries == 8
        assert [shown.entry.start for shown in view.entries()] == [1, 2, 8, 9, 10, 11, 12, 13]
    worker.stop()


def test_what_is_folded_from_outside_is_counted_like_what_the_task_folds_itself(tmp_path: Path, backend: str) -> None:
    uuid, _ = paused_task(tmp_path, backend)
    before = counted_folds(tmp_path, backend)
    with changing_task(OpenBase(tmp_path, settings_for(backend)), uuid) as task:
        for number in range(30):
            task.messages.add_message("user", f"{number} " + "words that say nothing " * 50)
        compressor = ContextCompressor(message_store=task.messages, outbox=task.outbox, counts=task.counts)
        planned = compressor.preview(strategy="summarize", target=0.1)
        assert isinstance(planned, Draft)
        folds = len(compressor.apply(planned).folds)
        task.messages.folding.undo()
        folds += len(compressor.compress(strategy="summarize", target=0.1).folds)
    assert folds
    after = counted_folds(tmp_path, backend)
    assert (after[0] - before[0], after[1] - before[1]) == (2, folds)


def counted_folds(base: Path, backend: str) -> tuple[int, int]:
    """Compressions and folds, as the metrics have them."""
    with open_catalogue(base, settings_for(backend)) as catalogue:
        folds = sum(value for name, value in catalogue.counters.all().items() if name.startswith(SUMMARIES))
        return catalogue.counters.counted("")["compressions"], folds
