"""The front door: a Base, its Tasks, and the same for async programs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orihon import Base, Task, TaskContextManager, TaskKey, TaskQueue, TaskStatus, aio
from orihon.errors import (
    BudgetExceeded,
    InvalidId,
    InvalidInput,
    InvalidMessage,
    StorageUnavailable,
    TaskBusy,
    ToolCallError,
)
from orihon.tasks.owning import Ownership, TaskOpening
from tests.services import Database

SMALL = {"llm": {"provider": "openai", "openai": {"context_length": 4000}}}


def fill(task: Task, count: int = 60) -> None:
    task.add("system", "You mend programs.")
    for number in range(count):
        said = f"Step {number}: module_{number}.py has {number} lines. " * 8
        task.add("user" if number % 2 == 0 else "assistant", said)


def test_a_task_is_added_to_and_sent(tmp_path: Path) -> None:
    with Base(tmp_path / "contexts") as base, base.task("me/project#27", title="Mend it") as task:
        assert not (tmp_path / "elsewhere").exists()
        assert task.add("user", "Fix the failing test") == 1
        assert task.append({"role": "assistant", "content": "Which one?"}) == 2
        assert task.messages() == [
            {"role": "user", "content": "Fix the failing test"},
            {"role": "assistant", "content": "Which one?"},
        ]
        assert (task.title, task.status) == ("Mend it", TaskStatus.RUNNING)
        assert task.key.repository == "me/project"
        assert [stored.seq for stored in task.log()] == [1, 2]
    with Base(tmp_path / "contexts") as base:
        (listed,) = base.tasks(status="completed").tasks
        assert listed.row.uuid == task.uuid
        assert base.verify("me/project#27") == []
        assert [hit.uuid for hit in base.search("failing").hits] == [task.uuid]
        assert base.overview("#27").uuid == task.uuid


def test_opening_makes_nothing(tmp_path: Path) -> None:
    base = Base(tmp_path / "contexts")
    assert base.tasks().tasks == ()
    assert not (tmp_path / "contexts").exists()


def test_the_unfinished_task_of_a_key_is_gone_on_with(tmp_path: Path) -> None:
    with Base(tmp_path) as base:
        first = base.task("hello")
        first.add("user", "one")
        assert base.task("hello") is first, "it is open here"
        first.stop()
        again = base.task("hello")
        assert (again.uuid, again.messages()) == (first.uuid, [{"role": "user", "content": "one"}])
        again.complete()
        new = base.task("hello")
        assert new.uuid != first.uuid
        new.complete()
        assert base.task().uuid not in (first.uuid, new.uuid)


def test_what_a_killed_program_left_is_taken_over(tmp_path: Path) -> None:
    program = (
        "import os, sys; from orihon import Base\n"
        "task = Base(sys.argv[1]).task('github:me/project#27'); task.add('user', 'begun'); print(task.uuid); "
        "sys.stdout.flush(); os._exit(9)"
    )
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 9
    with Base(tmp_path) as base, base.task("me/project#27") as task:
        assert task.uuid == run.stdout.strip()
        assert task.messages() == [{"role": "user", "content": "begun"}]
        with pytest.raises(TaskBusy):
            Base(tmp_path).task(TaskKey("github", "me", "project", "issue", "27"))


def test_a_view_is_folded_before_it_is_sent(tmp_path: Path) -> None:
    with Base(tmp_path, **SMALL) as base:
        task = base.task("long")
        fill(task, 300)
        assert task.usage > 1
        sent = task.messages()
        assert task.usage <= 1
        assert sent[0] == {"role": "system", "content": "You mend programs."}
        assert len(task.compressions()) == 1
        task.undo()
        assert task.usage > 1
        task.redo()
        assert task.messages() == sent


def test_what_cannot_fit_is_said(tmp_path: Path) -> None:
    with Base(tmp_path, SMALL) as base, pytest.raises(BudgetExceeded), base.task("large") as task:
        task.add("system", "word " * 20_000)
        task.messages()


def test_a_view_is_changed_and_looked_at(tmp_path: Path) -> None:
    with Base(tmp_path) as base:
        task = base.task("view")
        fill(task)
        task.pin(3)
        planned = task.preview("summarize")
        result = task.compress("summarize")
        assert result.changed
        assert planned.after_tokens == result.compressed_tokens  # type: ignore[union-attr]
        fold = result.folds[0]
        task.edit(fold, "Everything was looked at.")
        assert any("Everything was looked at." in str(message["content"]) for message in task.messages())
        newest = task.compressions()[-1].folds[0]
        task.unfold(newest)
        assert len(task.messages()) == 61
        seen = task.view(at=5)
        assert seen.seq == 5  # type: ignore[union-attr]
        task.rewind(5)
        forked = task.fork(4)
        task.stop()
        other = base.task(forked)
        assert len(other.log()) == 4
        other.cancel()


@pytest.mark.parametrize(
    ("given", "role", "calls"),
    [
        ({"role": "user", "content": "hello"}, "user", 0),
        (SimpleNamespace(model_dump=lambda: {"role": "assistant", "content": "yes", "refusal": None}), "assistant", 0),
        (
            {
                "choices": [
                    {
                        "message": {
                            "role": "assistant",
                            "content": None,
                            "tool_calls": [
                                {"id": "a", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
                            ],
                        }
                    }
                ],
                "usage": {"prompt_tokens": 10, "completion_tokens": 2},
            },
            "assistant",
            1,
        ),
        (
            {
                "type": "message",
                "role": "assistant",
                "stop_reason": "tool_use",
                "model": "m",
                "id": "x",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "tool_use", "id": "a", "name": "ls", "input": {}},
                ],
            },
            "assistant",
            1,
        ),
        ({"type": "function_call", "call_id": "a", "name": "ls", "arguments": "{}"}, "assistant", 1),
    ],
)
def test_messages_come_in_any_form(tmp_path: Path, given: Any, role: str, calls: int) -> None:
    with Base(tmp_path) as base:
        task = base.task()
        task.append(given)
        (stored,) = task.log()
        assert (stored.message.role, len(stored.message.tool_calls)) == (role, calls)


def test_bad_input_is_refused_and_nothing_written(tmp_path: Path) -> None:
    with Base(tmp_path) as base:
        task = base.task("x")
        with pytest.raises(InvalidMessage, match="model_dump"):
            task.append(3)  # type: ignore[arg-type]
        assert task.log() == []
        with pytest.raises(InvalidInput, match=r"base\.task"):
            Task(TaskKey("local", "", "", "task", "1")).add("user", "x")
    with pytest.raises(StorageUnavailable):
        Base("postgresql://127.0.0.1:1/none", {"context_storage": {"db_timeout": 1}}).tasks()


def test_a_task_names_itself_as_the_queue_does() -> None:
    key = {"task_source": "github", "owner": "me", "repo": "p", "task_type": "issue", "task_id": "3"}
    task = Task(key)
    assert (task.get_uuid(), task.get_task_key()["repo"]) == (None, "p")


def test_jobs_of_a_base(tmp_path: Path) -> None:
    with Base(tmp_path) as base:
        uuid = base.enqueue("me/project#1", "Do it")
        assert base.pause(uuid).requested == "pause"
        assert base.cancel(uuid).status is TaskStatus.CANCELLED
        with base.task("done") as task:
            task.add("user", "x")
        assert base.costs().lines == ()
        assert base.statistics()["tasks"]["completed"] == 1
        assert base.doctor() == []
        assert base.chain(task.uuid or "")[0].uuid == task.uuid
        assert base.archive("@last:completed").uuid == task.uuid
        base.unarchive(task.uuid or "")
        assert base.pending() == []
        assert base.storage().tasks == 2


def test_in_a_database(postgres: Database) -> None:
    config = {"database": {"schema": postgres.schema}}
    with Base(postgres.url, config) as base, base.task("kept") as task:
        task.add("user", "in the database")
        assert base.settings.context_storage.backend == "postgres"
        assert task.messages() == [{"role": "user", "content": "in the database"}]


def test_a_program_that_closes_nothing_hears_nothing_of_connections(postgres: Database) -> None:
    program = f"""
from orihon.drivers.postgres.pool import Postgres
Postgres({postgres.url!r}, {postgres.schema!r}).open()
pool = Postgres({postgres.url!r}, {postgres.schema!r})
pool.open()
"""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")


def test_the_same_for_async_programs(tmp_path: Path) -> None:
    async def program() -> list[dict[str, Any]]:
        async with aio.Base(tmp_path) as base, await base.task("hello") as task:
            await task.add("user", "Hello")
            assert task.uuid
            assert task.usage < 1
            found = await base.tasks()
            assert len(found.tasks) == 1
            messages: list[dict[str, Any]] = await task.messages()
            return messages

    assert asyncio.run(program()) == [{"role": "user", "content": "Hello"}]
    with Base(tmp_path) as base:
        assert base.tasks().tasks[0].row.status is TaskStatus.COMPLETED
        for name in ("task", "tasks", "search", "doctor"):
            assert asyncio.iscoroutinefunction(getattr(aio.Base, name))


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_what_was_dequeued_here_is_opened_by_its_names(tmp_path: Path, backend: str) -> None:
    config = {"context_storage": {"backend": backend}}
    queue = TaskQueue(tmp_path, config)
    uuid = queue.enqueue(TaskKey("github", "me", "project", "issue", "27"), prompt="Do it")
    task = queue.dequeue()
    assert task is not None
    with TaskContextManager(tmp_path, task_key=task.get_task_key(), config=config, uuid=task.get_uuid()) as ctx:
        ctx.message_store.add_message("user", task.prompt)
    assert queue.ack(task) is TaskStatus.COMPLETED
    assert queue.catalogue.tasks.get(uuid).total_messages == 1
    queue.close()


def test_threads_that_ask_for_one_key_get_one_task(tmp_path: Path) -> None:
    base, found = Base(tmp_path), list[str | None]()
    start = threading.Barrier(5)

    def ask() -> None:
        start.wait()
        found.append(base.task("one").uuid)

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 5
    assert len(set(found)) == 1
    base.task("dropped").add("user", "1")
    assert base.task("dropped").add("user", "2") == 2, "a handle that was dropped is still this program's"
    base.task("one").complete()
    base.task("dropped").complete()


def test_who_opens_a_task_does_not_wait_for_who_opens_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, is_opening, may_go_on = Base(tmp_path), threading.Event(), threading.Event()
    opens = TaskOpening.to_run

    def to_run(self: TaskOpening, owned: Ownership) -> Any:
        if owned.row().key.task_id == "slow":
            is_opening.set()
            assert may_go_on.wait(600)
        return opens(self, owned)

    monkeypatch.setattr(TaskOpening, "to_run", to_run)
    slow = threading.Thread(target=lambda: base.task("slow").close())
    slow.start()
    assert is_opening.wait(600)
    quick = threading.Thread(target=lambda: base.task("quick").close(), daemon=True)
    quick.start()
    quick.join(600)
    assert not quick.is_alive()
    may_go_on.set()
    slow.join()
    assert {row.key.task_id for row in base.needed_catalogue().tasks.running()} == {"slow", "quick"}
    base.close()


def test_a_new_task_waits_for_the_disk_with_its_first_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sync = os.fsync

    def fsync(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        sync(fd)

    base = Base(tmp_path)
    base.task("first").close()  # makes what every base has
    monkeypatch.setattr(os, "fsync", fsync)
    task = base.task("second", title="of two")
    assert synced == []
    task.add("user", "Hello")
    needed = {"metadata.json", "writer.json", "messages.jsonl", task.context.uuid, "running"}
    assert set(synced) == needed, "all that the record stands on, names included"
    assert len(synced) == len(needed)
    synced.clear()
    task.add("user", "Again")
    assert synced == ["messages.jsonl"]
    assert task.row.metadata["title"] == "of two"
    task.complete()
    base.close()


def test_a_message_of_several_parts_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    def results(second: str) -> dict[str, Any]:
        parts = [{"type": "tool_result", "tool_use_id": name, "content": "r"} for name in ("a1", second)]
        return {"role": "user", "content": parts}

    with Base(tmp_path) as base:
        task = base.task("parts")
        calls: list[dict[str, Any]] = [
            {"type": "tool_use", "id": name, "name": "t", "input": {}} for name in ("a1", "a2")
        ]
        task.append({"role": "assistant", "content": calls})
        with pytest.raises(ToolCallError):
            task.append(results("typo"))
        assert len(task.log()) == 1
        assert task.append(results("a2")) == 3


def test_a_name_that_may_be_several_tasks_is_not_guessed(tmp_path: Path) -> None:
    with Base(tmp_path) as base:
        for user in ("alice", "bob"):
            base.task("o/r#1", user=user).add("user", user)
        with pytest.raises(InvalidId, match="o/r#1"):
            base.task("o/r#1")
        with pytest.raises(InvalidMessage):
            base.task(5)  # type: ignore[arg-type]
        done = base.task("w")
        done.complete()
        assert base.task(done.key).uuid != done.uuid


def test_a_call_that_nobody_waits_for_keeps_no_program(tmp_path: Path) -> None:
    async def program() -> int:
        async with aio.Base(tmp_path) as base:
            task = await base.task("x")
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(task.ask("May I?", wait=True), 0.3)
            return len((await base.tasks()).tasks)

    assert asyncio.run(program()) == 1
