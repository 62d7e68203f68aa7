"""What sources hear of ends that come in nobody's hands, and what is not a task's fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orihon.catalogue import TaskRow
from orihon.errors import InvalidSettings
from orihon.llm.scripted import Fault, Reply, ScriptedModel, Slow
from orihon.runtime.handler import TaskHandler, open_context
from orihon.runtime.queue import QueuedTask, QueueLimits, TaskQueue
from orihon.runtime.sources.folder import FolderSource
from orihon.runtime.worker import WorkerProcess
from orihon.values.task import TaskKey, TaskStatus
from tests.helpers import refused
from tests.integration.agents import config, with_summaries, world
from tests.integration.run_supervisor import put, workers


class _Inbox:
    """A folder with one claimed task, and a queue that has it."""

    def __init__(self, folder: Path, model: ScriptedModel, **sections: Any) -> None:
        self.folder = folder / "inbox"
        self.folder.mkdir()
        (self.folder / "tidy.md").write_text("# Tidy up\n\nPlease.\n")
        source = FolderSource(self.folder, settle_seconds=0)
        (found,) = source.poll()
        assert source.claim(found)
        self.config = config(model.base_url, sources={"folder": str(self.folder)}, **sections)
        self.queue = TaskQueue(folder / "base", self.config)
        self.uuid = self.queue.enqueue(found.key, source="folder")

    def work(self) -> TaskStatus:
        # A handler that is too late in stopping would end this process: however slow the machine, it is not too late.
        limits = replace(QueueLimits.of(self.queue.settings), drain_seconds=3600.0)
        worker = WorkerProcess("1", self.config, base_dir=self.queue.base_dir, limits=limits, until_empty=True)
        worker.run()
        return self.queue.catalogue.tasks.get(self.uuid).status

    @property
    def comments(self) -> str:
        return (self.folder / "tidy.comments.md").read_text()


def test_a_source_hears_of_a_cancel_before_the_work_began(tmp_path: Path) -> None:
    with ScriptedModel([]) as model:
        inbox = _Inbox(tmp_path, model)
        inbox.queue.cancel(inbox.uuid)
        assert inbox.work() is TaskStatus.CANCELLED
        assert "Cancelled." in inbox.comments
        assert [path.parent.name for path in inbox.folder.rglob("tidy.md")] == ["failed"]
        assert inbox.queue.catalogue.tasks.get(inbox.uuid).requested is None
        inbox.work()
        assert inbox.comments.count("Cancelled.") == 1


def test_a_source_hears_that_the_time_was_over(tmp_path: Path) -> None:
    with ScriptedModel(with_summaries([Slow(60, Reply("Done."))])) as model:
        inbox = _Inbox(tmp_path, model, multiprocess={"process_timeout": 0.5, "drain_seconds": 0.6})
        assert inbox.work() is TaskStatus.FAILED
        assert "process_timeout" in inbox.comments
        assert (inbox.folder / "failed" / "tidy.md").exists()


class _Mute:
    """A handler whose sources cannot be told anything."""

    def __init__(self, *_: object) -> None:
        """Whatever the settings."""

    def handle(self, task: QueuedTask, should_stop: object) -> None:
        """Done at once."""

    def tell_end(self, row: TaskRow) -> bool:
        raise ConnectionError("nobody there")


def test_a_source_that_cannot_be_told_ends_no_worker_and_stays_to_be_told(tmp_path: Path) -> None:
    queue = TaskQueue(tmp_path, {})
    cancelled = queue.enqueue(TaskKey("cli", "", "", "task", "1"), source="elsewhere")
    queue.cancel(cancelled)
    other = queue.enqueue(TaskKey("cli", "", "", "task", "2"))
    WorkerProcess("1", {}, base_dir=tmp_path, handler=f"{__name__}:_Mute", until_empty=True).run()
    assert queue.catalogue.tasks.get(other).status is TaskStatus.COMPLETED
    assert [row.uuid for row in queue.catalogue.queue.untold_ends()] == [cancelled]
    queue.retry(cancelled)
    assert queue.catalogue.queue.untold_ends() == []
    queue.close()


def test_the_end_of_a_task_without_a_source_is_nobodys_business(tmp_path: Path) -> None:
    with world(tmp_path, []) as made:
        uuid = made.put()
        assert made.queue.cancel(uuid).requested is None
        assert made.queue.catalogue.queue.untold_ends() == []


def test_what_is_said_after_a_retry_is_not_taken_for_what_was_said_before(tmp_path: Path) -> None:
    faults = [Fault(401, "wrong key"), Fault(403, "no longer")]
    with ScriptedModel(with_summaries(faults)) as model:
        inbox = _Inbox(tmp_path, model)
        assert inbox.work() is TaskStatus.FAILED
        inbox.queue.retry(inbox.uuid)
        assert inbox.work() is TaskStatus.FAILED
        assert inbox.comments.count("The work has failed") == 2


# --- Settings ---


def test_workers_without_a_key_touch_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    queue = TaskQueue(tmp_path, {})
    uuids = [put(queue, "Do it.", number) for number in range(3)]
    handler = "orihon.runtime.handler:TaskHandler"
    with workers(queue, 1, config={"llm": {"provider": "openai"}}, handler=handler, until_empty=True) as started:
        assert started.wait() == 2
    rows = [queue.catalogue.tasks.get(uuid) for uuid in uuids]
    assert {(row.status, row.attempts) for row in rows} == {(TaskStatus.QUEUED, 0)}
    with refused(InvalidSettings, "no_api_key"):
        TaskHandler.check_settings(queue.settings)
    queue.close()


def test_a_task_does_not_need_the_sources_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with world(tmp_path, [Reply("Done.")], {"sources": {"github": {"repositories": ["a/b"]}}}) as made:
        made.put()
        assert made.work() is TaskStatus.COMPLETED
        made.put(number="2", source="github", prompt="")
        assert made.work() is TaskStatus.QUEUED  # the token may still come


# --- An answer that was cut off ---


def test_an_answer_whose_cut_is_in_the_log_goes_on_after_a_crash(tmp_path: Path) -> None:
    with world(tmp_path, [Reply("and the second.")]) as made:
        uuid = made.put()
        context = open_context(made.claimed(), tmp_path, made.settings)
        for role, said in (("system", "Work."), ("user", "Do it.")):
            context.message_store.add_message(role, said)
        context.message_store.add_message("assistant", "The first half", finish_reason="length")
        context.stop()
        made.queue.resume(uuid)
        assert made.work() is TaskStatus.COMPLETED
        roles = [stored.message.role for stored in made.messages(uuid)]
        assert roles == ["system", "user", "assistant", "user", "assistant"]
