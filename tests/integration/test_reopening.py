"""What a store hands out after a crash, a take-over, or a file that somebody removed."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from orihon import Message, MessageStore, PlanningHistoryStore, TaskContextManager, TaskKey, ToolStore
from orihon.errors import (
    IllegalFold,
    InvalidInput,
    InvalidMessage,
    InvalidSettings,
    StaleWriter,
    StorageUnavailable,
    ToolCallError,
)
from orihon.settings import load_settings
from orihon.store.factory import begin_folder, open_for_reading, open_task_store
from orihon.tasks.verify.verify import verify_task
from tests.helpers import Child, refused

Opener = Callable[..., MessageStore]


@pytest.fixture(params=["files", "sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def leased(tmp_path: Path, backend: str) -> Opener:
    """A store with a lease's epoch, as a task manager opens it."""

    def opened(epoch: int) -> MessageStore:
        settings = load_settings({"context_storage": {"backend": backend}})
        begin_folder(tmp_path / "task", settings)
        store = open_task_store(tmp_path / "task", settings, epoch=epoch)
        return MessageStore(tmp_path / "task", settings, task_store=store)

    return opened


def test_a_new_owner_that_has_not_written_yet_shuts_the_old_one_out(leased: Opener) -> None:
    old, new = leased(1), leased(2)
    old.add_message("user", "one")
    new.task_store.claim()
    with refused(StaleWriter, "taken_over"):
        old.add_message("user", "late")
    with refused(StaleWriter, "taken_over"):
        old.add_message("user", "later")
    assert old.count_messages() == 1
    assert new.add_message("user", "two") == 2


def test_a_reader_gets_the_view_that_the_log_says(tmp_path: Path) -> None:
    store = MessageStore(tmp_path / "task")
    store.add_message("user", "one")
    store.close()
    view = tmp_path / "task" / "current.jsonl"
    for left_behind in (b'{"role":"user","content":"never acknow', b'{"role":"user","content":"never acknowledged"}\n'):
        good = view.read_bytes()
        view.write_bytes(good + left_behind)
        again = MessageStore(tmp_path / "task")
        assert again.get_current_context_file().read_bytes() == good
        again.close()
        del again


def test_a_view_file_that_was_removed_is_made_again_and_kept_up(tmp_path: Path) -> None:
    store = MessageStore(tmp_path / "task")
    store.add_message("user", "one")
    (tmp_path / "task" / "current.jsonl").unlink()
    store.add_message("user", "two")
    for expected in (2, 3):
        assert len(store.get_current_context_file().read_bytes().splitlines()) == expected
        store.add_message("user", "more")


def test_a_message_of_several_records_is_stored_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MessageStore(tmp_path / "task")
    calls = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in ("a", "b")]
    store.add_message("assistant", None, tool_calls=calls)
    results = [{"type": "tool_result", "tool_use_id": name, "content": f"result {name}"} for name in ("a", "b")]
    message = Message.from_anthropic({"role": "user", "content": results})

    def fails(fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fails)
        with refused(StorageUnavailable, "io"):
            store.append(message)
    assert store.count_messages() == 1
    assert store.append(message) == 3


def test_stores_on_one_folder_share_a_writer_and_its_settings(tmp_path: Path, backend: str) -> None:
    config: dict[str, Any] = {"context_storage": {"backend": backend}, "masking": {"patterns": {"CODE": "code-[0-9]+"}}}
    store = MessageStore(tmp_path / "task", config)
    ToolStore(tmp_path / "task").add_tool_call("look", {"at": "code-77"}, "found code-77")
    assert "code-77" not in str(ToolStore(tmp_path / "task").get_tool_calls())
    with refused(InvalidSettings, "other_settings"):
        MessageStore(tmp_path / "task", {"masking": {"enabled": False}})
    store.close()


def test_many_threads_open_one_folder(tmp_path: Path, backend: str) -> None:
    stores: list[MessageStore] = []

    def work() -> None:
        store = MessageStore(tmp_path / "task", backend=backend)
        stores.append(store)
        store.add_message("user", "hello")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.count_messages() for store in stores] == [8] * 8


def test_a_task_with_plans_only_keeps_its_back_end(tmp_path: Path) -> None:
    plans = PlanningHistoryStore(tmp_path / "task")
    plans.add_plan("initial", "think")
    plans._store.close()
    del plans
    store = MessageStore(tmp_path / "task", backend="sqlite")
    assert PlanningHistoryStore(tmp_path / "task").count_plans() == 1
    store.close()


def test_wrong_types_are_refused_with_their_name(tmp_path: Path, backend: str) -> None:
    store: Any = MessageStore(tmp_path / "task", backend=backend)
    store.add_message("user", "one")
    for call in (
        lambda: store.create_summary("1", "2", "text"),
        lambda: store.create_summary(1, 1, None),
        lambda: store.folding.pin("x"),
        lambda: store.get_message("1"),
        lambda: store.add_message("user", "x", tool_call="ls"),
        lambda: ToolStore(tmp_path / "task").add_tool_call("ls", "-l"),  # type: ignore[arg-type]
    ):
        with refused(InvalidMessage, "wrong_type"):
            call()
    for value in (float("nan"), {1: "x"}):
        with refused(InvalidMessage, "not_json"):
            store.add_message("user", "x", odd=value)
    with refused(IllegalFold, "nothing"):
        store.folding.compress([])
    with refused(StorageUnavailable, "io"):
        store.recreate_current_context("text", tmp_path / "missing.jsonl")
    assert store.count_messages() == 1
    store.close()


def test_a_program_may_change_its_directory(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = MessageStore("task", backend=backend)
    store.add_message("user", "hello")
    ctx = TaskContextManager(
        "contexts", TaskKey("local", "me", "r", "issue", "1"), {"context_storage": {"backend": backend}}
    )
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert store.add_message("user", "B" * (2 << 20)) == 2
    assert len(store.get_messages_for_llm()) == 2
    ctx.planning_store.add_plan("initial", "go")
    ctx.complete()
    assert ctx.context_dir == tmp_path / "contexts" / "completed" / ctx.uuid
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.fixture
def no_garbage_collected() -> Iterator[None]:
    """No line of ours runs because something that another test has left behind is tidied up."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collected")
def test_an_interrupt_anywhere_in_an_append_leaves_the_store_usable(tmp_path: Path, backend: str) -> None:
    """A trace function raises at one line after another, as a signal handler would."""
    store = MessageStore(tmp_path / "task", backend=backend, config={"context_storage": {"durability": "os"}})
    store.add_message("user", "first")

    class Interrupt(BaseException):
        pass

    def interrupted(line: int) -> bool:
        seen = 0

        def trace(frame: Any, event: str, argument: object) -> Any:
            nonlocal seen
            if "orihon" in frame.f_code.co_filename and event == "line":
                seen += 1
                if seen == line:
                    raise Interrupt
            return trace

        sys.settrace(trace)
        try:
            store.add_message("user", "perhaps")
        except Interrupt:
            return True
        finally:
            sys.settrace(None)
        return False

    line = 1
    while interrupted(line):
        seq = store.add_message("user", "surely")
        assert store.count_messages() == seq
        assert store.get_message(seq).message.text == "surely"
        line += 1
    assert line > 50
    assert verify_task(store.task_store, in_use=True) == []
    store.close()


def test_a_fork_while_another_thread_writes_does_not_hang_the_child(tmp_path: Path, backend: str) -> None:
    program = """
import os, sys, threading
from orihon import MessageStore
from orihon.errors import TaskBusy
store = MessageStore(sys.argv[1], backend=sys.argv[2])
store.add_message("user", "first")
stop = threading.Event()
def write():
    while not stop.is_set():
        store.add_message("user", "more")
thread = threading.Thread(target=write)
thread.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        try:
            store.add_message("user", "from the child")
        except TaskBusy:
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
"""
    command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path / "task"), backend]
    subprocess.run(command, check=True, timeout=240)


def test_a_writer_that_is_stopped_while_it_waits_for_the_disk_can_be_taken_over(tmp_path: Path) -> None:
    """The lock is not held over the fsync, where a busy writer spends its time."""
    program = """
import os, sys
from orihon.settings import load_settings
from orihon import MessageStore
from orihon.store.factory import open_for_reading, open_task_store
from pathlib import Path
folder, settings = Path(sys.argv[1]), load_settings({})
task = open_task_store(folder, settings, epoch=1)
store = MessageStore(folder, settings, task_store=task)
store.add_message("user", "first")
real = os.fsync
def waits(fd):
    print("waiting", flush=True)
    sys.stdin.readline()
    real(fd)
os.fsync = waits
store.add_message("user", "in flight")
os.fsync = real
try:
    store.add_message("user", "late")
except Exception as error:
    print(type(error).__name__, flush=True)
"""
    folder = tmp_path / "task"
    folder.mkdir()
    words = [sys.executable, "-c", program, str(folder)]
    with Child(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        settings = load_settings({"context_storage": {"db_timeout": 60}})
        task = open_task_store(folder, settings, epoch=2)
        store = MessageStore(folder, settings, task_store=task)
        assert store.add_message("user", "taken over") == 3
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "StaleWriter\n"
    assert [stored.message.text for stored in store.get_messages()] == ["first", "in flight", "taken over"]
    store.close()


def test_only_an_assistant_calls_tools(tmp_path: Path) -> None:
    store = MessageStore(tmp_path / "task")
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    with refused(ToolCallError, "not_assistant"):
        store.add_message("user", "x", tool_calls=[call])
    for bad in (5, "a\0b"):
        with pytest.raises(InvalidInput):
            MessageStore(bad)  # type: ignore[arg-type]


def test_undo_passes_over_what_a_pin_has_undone(tmp_path: Path, backend: str) -> None:
    store = MessageStore(tmp_path / "task", backend=backend)
    for number in range(8):
        store.add_message("user", f"message {number}")
    store.create_summary(1, 3, "first")
    store.create_summary(5, 7, "second")
    store.folding.pin(6)
    record = store.folding.undo()
    assert record.parent == 1
    assert store.view().folds == ()
    store.close()


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_looking_at_a_folder_that_has_moved_away_makes_no_second_one(tmp_path: Path, backend: str) -> None:
    gone = tmp_path / "running" / "task"
    with refused(StorageUnavailable, "gone"):
        open_for_reading(gone, load_settings({"context_storage": {"backend": backend}}))
    assert not gone.exists()
