"""What a store hands out after a crash, a take-over, or a file that somebody removed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orihon import Message, MessageStore, PlanningHistoryStore, ToolStore
from orihon.errors import IllegalFold, InvalidMessage, InvalidSettings, StaleWriter, StorageUnavailable
from orihon.settings import load_settings
from orihon.store.opening import open_task_store
from tests.helpers import refused

Opener = Callable[..., MessageStore]


@pytest.fixture(params=["files", "sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def leased(tmp_path: Path, backend: str) -> Opener:
    """A store with a lease's epoch, as a task manager opens it."""

    def opened(epoch: int) -> MessageStore:
        settings = load_settings({"context_storage": {"backend": backend}})
        store = open_task_store(tmp_path / "task", settings, key_file=tmp_path / "mask.key", epoch=epoch)
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
