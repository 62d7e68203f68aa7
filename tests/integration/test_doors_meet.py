"""A folder that a program names itself is a task of a base like any other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from orihon import Base, MessageStore, TaskContextManager, TaskKey, TaskStatus
from tests.conformance.child import ROOT

SECRET = "sk-proj-" + "Ab3dEf6hIj9kLm2nOp5qRs8tUv1wXy4z" * 2


def said(store: MessageStore) -> list[str]:
    return [stored.message.text for stored in store.get_messages()]


@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_folder_is_a_task_of_the_base_above_it(tmp_path: Path, backend: str) -> None:
    store = MessageStore(tmp_path / "contexts" / "hello", backend=backend)
    store.add_message("user", f"the key is {SECRET}")
    with Base(tmp_path / "contexts") as base:
        (listed,) = base.tasks().tasks
        assert (listed.row.uuid, listed.row.status) == ("hello", TaskStatus.RUNNING)
        assert base.is_in_use(listed.row)
        store.close()
        row = base.tasks().tasks[0].row
        assert (row.status, row.total_messages, base.is_in_use(row)) == (TaskStatus.PAUSED, 1, False)
        assert base.verify("hello") == []
        assert [hit.uuid for hit in base.search("key").hits] == ["hello"]
        assert base.doctor() == []
        with base.task("hello") as task:
            task.add("user", f"again {SECRET}")
            first, second = (stored.message.text.split()[-1] for stored in task.log())
            assert first == second, "one secret, one placeholder"
        assert (tmp_path / "contexts" / "completed" / "hello").is_dir()
    assert len(said(MessageStore(tmp_path / "contexts" / "hello", backend=backend))) == 2, "wherever it lies now"
    assert sorted(path.name for path in (tmp_path / "contexts").glob("*key*")) == ["mask.key", "mask.key.copy"]


def test_the_same_folder_by_the_other_door(tmp_path: Path) -> None:
    store = MessageStore(tmp_path / "hello")
    for number in range(81):
        store.add_message("user", f"message {number}")
    store.close()
    key = TaskKey("github", "me", "project", "issue", "27")
    with TaskContextManager(tmp_path, key, uuid="hello") as ctx:
        assert ctx.message_store.count_messages() == 81


def test_a_folder_in_a_project_is_a_base_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print()")
    store = MessageStore(tmp_path / "notes")
    store.add_message("user", "hello")
    store.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["main.py", "notes"], "nothing is written beside it"
    with Base(tmp_path / "notes") as base:
        assert [one.row.uuid for one in base.tasks().tasks] == ["notes"]
        assert base.verify("notes") == []
        assert base.doctor() == []
        with base.task("notes") as task:
            task.add("user", "more")
        assert base.tasks().tasks[0].row.status is TaskStatus.COMPLETED
    assert said(MessageStore(tmp_path / "notes")) == ["hello", "more"]


def test_folders_of_before_are_adopted(tmp_path: Path) -> None:
    base = tmp_path / "contexts"
    for name in ("one", "two"):
        store = MessageStore(base / name)
        store.add_message("user", name)
        store.close()
    for path in base.glob("tasks.db*"):
        path.unlink()
    with Base(base) as opened:
        assert "missing" in {finding.detail for finding in opened.doctor()}
        assert {finding.repair for finding in opened.doctor(repair=True)} == {"done"}
        assert sorted(one.row.uuid for one in opened.tasks().tasks) == ["one", "two"]
        assert opened.doctor() == []


def test_a_program_that_just_ends_leaves_its_task_at_rest(tmp_path: Path) -> None:
    program = "import sys; from orihon import MessageStore; MessageStore(sys.argv[1]).add_message('user', 'x')"
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "contexts" / "a")], check=True, cwd=ROOT)
    with Base(tmp_path / "contexts") as base:
        row = base.tasks().tasks[0].row
        assert (row.status, row.total_messages) == (TaskStatus.PAUSED, 1)


def test_two_programs_at_one_folder(tmp_path: Path) -> None:
    """With a back end for several writers both write; the first has the lease."""
    first = MessageStore(tmp_path / "a", backend="sqlite")
    first.add_message("user", "one")
    program = (
        "import sys; from orihon import MessageStore; store = MessageStore(sys.argv[1], backend='sqlite');"
        "store.add_message('user', 'two'); store.close()"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "a")], check=True, cwd=ROOT)
    first.add_message("user", "three")
    assert said(first) == ["one", "two", "three"]
    first.close()


def test_stores_that_are_made_before_anything_is_written_belong_to_one_base(tmp_path: Path) -> None:
    stores = [MessageStore(tmp_path / "c" / name) for name in ("a", "b")]
    for store in stores:
        store.add_message("user", "1")
        store.close()
    with Base(tmp_path / "c") as base:
        assert sorted(one.row.uuid for one in base.tasks().tasks) == ["a", "b"]
    assert not (tmp_path / "c" / "b" / "tasks.db").exists()


def test_a_folder_that_happens_to_be_called_running_is_no_base(tmp_path: Path) -> None:
    (tmp_path / "running").mkdir()
    (tmp_path / "running" / "shoes.txt").write_text("red")
    store = MessageStore(tmp_path / "running" / "hello")
    store.add_message("user", "1")
    store.close()
    assert [path.name for path in tmp_path.iterdir()] == ["running"]
