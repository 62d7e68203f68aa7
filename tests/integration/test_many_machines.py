"""Several machines, each with a base folder of its own and nothing in common but a database and an object storage."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orihon import TaskContextManager, Waiting
from orihon.errors import StaleWriter, StorageUnavailable
from orihon.runtime.handler import open_context
from orihon.runtime.queue import TaskQueue
from orihon.runtime.worker import WorkerProcess
from orihon.settings import load_settings
from orihon.tasks.approvals.answers import approve, reject
from orihon.tasks.base import OpenBase
from orihon.tasks.editing import changing_task
from orihon.tasks.verify.verify import verify
from orihon.upkeep.doctor import examine
from orihon.values.task import TaskKey, TaskStatus
from orihon.values.view import PlannedFold
from tests.conformance.child import ROOT
from tests.helpers import refused
from tests.integration.run_supervisor import put
from tests.integration.worker_handlers import HANDLER
from tests.services import Database

KEY = TaskKey("github", "owner", "repo", "issue", "27")

#: A machine that dies without a word: its lease is another machine's, so only time ends it.
DYING = """
import json, os, signal, sys
from orihon import TaskContextManager
from orihon.values.task import TaskKey
base, config, key, count = json.loads(sys.argv[1])
context = TaskContextManager(base, TaskKey(*key), config)
for number in range(count):
    context.message_store.add_message("user", f"message {number}")
print(context.uuid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def config(postgres: Database) -> dict[str, Any]:
    return {"database": postgres.settings}


@pytest.fixture
def mirrored(config: dict[str, Any], tmp_path: Path) -> dict[str, Any]:
    storage = {"url": f"file://{tmp_path}/shelf", "mirror_every": 2}
    return config | {"context_storage": {"backend": "files"}, "archive": storage}


def filled(base: Path, config: dict[str, Any]) -> TaskContextManager:
    context = TaskContextManager(base, KEY, config)
    context.message_store.add_message("system", "You are careful.")
    for number in range(8):
        context.message_store.add_message("user", f"message {number} " + "word " * 50)
    context.message_store.folding.compress([PlannedFold(2, 5, "four messages")])
    return context


def view(context: TaskContextManager) -> bytes:
    return context.message_store.get_current_context_file().read_bytes()


def findings(base: Path, uuid: str, config: dict[str, Any]) -> list[str]:
    settings = load_settings(config)
    found = [*verify(OpenBase(base, settings), uuid), *examine(OpenBase(base, settings))]
    return [finding.cause for finding in found if finding.severity != "warning"]


def test_a_paused_task_goes_on_at_the_same_view_on_another_machine(tmp_path: Path, config: dict[str, Any]) -> None:
    here = filled(tmp_path / "a", config)
    seen = view(here)
    here.stop()
    there = TaskContextManager.resume(tmp_path / "b", here.uuid, config)
    assert view(there) == seen
    there.message_store.folding.undo()
    there.message_store.add_message("assistant", "done")
    there.complete()
    assert not list((tmp_path / "a").glob("*/*/current.jsonl"))  # nothing of the task stays behind
    assert findings(tmp_path / "a", here.uuid, config) == []
    assert findings(tmp_path / "b", here.uuid, config) == []


def test_the_next_task_inherits_what_another_machine_finished(tmp_path: Path, config: dict[str, Any]) -> None:
    first = filled(tmp_path / "a", config)
    first.planning_store.add_plan("initial", "read, then write")
    first.complete()
    second = TaskContextManager(tmp_path / "b", KEY, config)
    inherited = second.get_inheritance_context()
    assert inherited is not None
    assert inherited.uuid == first.uuid
    second.create_initial_context_with_inheritance("You are careful.")
    assert "read, then write" in list(second.message_store.get_messages())[-1].message.text
    second.cancel()


def test_an_owner_whose_task_was_taken_over_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    here = filled(tmp_path / "a", config)
    there = TaskContextManager.resume(tmp_path / "b", here.uuid, config, take_over=True)
    with pytest.raises(StaleWriter):
        here.message_store.add_message("user", "too late")
    there.message_store.add_message("user", "in time")
    assert there.message_store.count_messages() == 10
    there.stop()


def test_a_task_queued_here_is_claimed_there(tmp_path: Path, config: dict[str, Any]) -> None:
    here, there = TaskQueue(tmp_path / "a", config), TaskQueue(tmp_path / "b", config)
    uuid = here.enqueue(KEY, prompt="Do it.")
    task = there.dequeue()
    assert task is not None
    assert (task.uuid, task.prompt) == (uuid, "Do it.")
    assert here.dequeue() is None
    assert there.ack(task) is TaskStatus.COMPLETED
    assert here.catalogue.tasks.get(uuid).status is TaskStatus.COMPLETED
    here.close()
    there.close()


def test_a_mirrored_task_goes_on_without_its_disk(tmp_path: Path, mirrored: dict[str, Any]) -> None:
    here = filled(tmp_path / "a", mirrored)
    seen = view(here)
    here.stop()
    there = TaskContextManager.resume(tmp_path / "b", here.uuid, mirrored)
    assert view(there) == seen
    assert there.context_dir.is_relative_to(tmp_path / "b" / "running")
    there.complete()


def test_a_task_comes_back_to_the_machine_that_had_it_first(tmp_path: Path, mirrored: dict[str, Any]) -> None:
    """Once it went on from its old folder, and the mirror lost what the other machine had added."""
    here = filled(tmp_path / "a", mirrored)
    here.stop()
    there = TaskContextManager.resume(tmp_path / "b", here.uuid, mirrored)
    there.message_store.add_message("assistant", "from the other machine")
    there.message_store.folding.compress([PlannedFold(6, 8, "three more")])
    seen = view(there)
    there.stop()
    back = TaskContextManager.resume(tmp_path / "a", here.uuid, mirrored)
    assert view(back) == seen
    back.message_store.add_message("user", "and home again")
    back.stop()
    last = TaskContextManager.resume(tmp_path / "c", here.uuid, mirrored)
    assert [stored.message.text for stored in last.message_store.get_messages()][-2:] == [
        "from the other machine",
        "and home again",
    ]
    last.complete()
    assert findings(tmp_path / "c", here.uuid, mirrored) == []


def test_a_machine_without_the_files_begins_no_second_history(tmp_path: Path, config: dict[str, Any]) -> None:
    local = config | {"context_storage": {"backend": "files"}}
    here = filled(tmp_path / "a", local)
    here.stop()
    with refused(StorageUnavailable, "elsewhere"):
        TaskContextManager.resume(tmp_path / "b", here.uuid, local)
    again = TaskContextManager.resume(tmp_path / "a", here.uuid, local)
    assert again.message_store.count_messages() == 9
    again.complete()


def test_a_worker_without_the_files_gives_the_task_back(tmp_path: Path, config: dict[str, Any]) -> None:
    """Once it failed there until it was dead, although the other machine could have gone on."""
    local = config | {"context_storage": {"backend": "files"}}
    here, there = TaskQueue(tmp_path / "a", local), TaskQueue(tmp_path / "b", local)
    uuid = put(here, "steps 3 0.0")
    claimed = here.dequeue()
    assert claimed is not None
    context = open_context(claimed, tmp_path / "a", here.settings)
    context.message_store.add_message("user", "step 1")
    context.stop()
    here.ack(claimed, stopped=True)
    here.resume(uuid)
    worker = WorkerProcess("b", local, base_dir=tmp_path / "b", handler=HANDLER)
    task = there.dequeue()
    assert task is not None
    worker._work(task)
    row = here.catalogue.tasks.get(uuid)
    assert (row.status, row.attempts) == (TaskStatus.QUEUED, 0)
    assert row.available_at is not None
    here.close()
    there.close()
    worker.queue.close()


def test_a_machine_that_died_loses_what_it_had_not_mirrored_and_nothing_else(
    tmp_path: Path, mirrored: dict[str, Any]
) -> None:
    parts = [KEY.task_source, KEY.owner, KEY.repo, KEY.task_type, KEY.task_id]
    plan = json.dumps([str(tmp_path / "a"), mirrored, parts, 5])
    died = subprocess.run([sys.executable, "-c", DYING, plan], cwd=ROOT, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    uuid = died.stdout.strip()
    (tmp_path / "a").rename(tmp_path / "lost")
    there = TaskContextManager.resume(tmp_path / "b", uuid, mirrored)
    kept = [stored.message.text for stored in there.message_store.get_messages()]
    assert kept == [f"message {number}" for number in range(4)]
    there.message_store.add_message("user", "we go on")
    there.complete()


# ---- people --------------------------------------------------------------------------------------------------------


def test_an_answer_is_in_the_mirror_before_its_task_goes_on(tmp_path: Path, mirrored: dict[str, Any]) -> None:
    here = filled(tmp_path / "a", mirrored)
    with pytest.raises(Waiting):
        here.checkpoint("plan", "Shall I?")
    approve(OpenBase(tmp_path / "a", load_settings(mirrored)), here.uuid, by="ann", reason="Go ahead.")
    shutil.rmtree(tmp_path / "a")  # the machine is lost before anybody has opened the task again
    with TaskContextManager.resume(tmp_path / "b", here.uuid, mirrored) as there:
        assert there.checkpoint("plan", "Shall I?").by == "ann"
        assert b"Go ahead." in view(there)
    assert findings(tmp_path / "b", here.uuid, mirrored) == []


def test_a_change_from_outside_is_made_on_any_machine_and_known_on_the_others(
    tmp_path: Path, mirrored: dict[str, Any]
) -> None:
    settings = load_settings(mirrored)
    here = filled(tmp_path / "a", mirrored)
    with pytest.raises(Waiting):
        here.checkpoint("plan", "Shall I?")
    (tmp_path / "b").mkdir()
    reject(
        OpenBase(tmp_path / "b", settings), here.uuid, by="bob", reason="Not yet."
    )  # whose base folder has never seen it
    with changing_task(OpenBase(tmp_path / "b", settings), here.uuid) as task:
        task.messages.folding.undo()
        changed = list(task.messages.task_store.view_lines())
    with TaskContextManager.resume(tmp_path / "a", here.uuid, mirrored) as again:
        assert view(again).splitlines() == changed
        assert again.checkpoint("plan", "Shall I?").reason == "Not yet."
    assert findings(tmp_path / "a", here.uuid, mirrored) == []


def test_a_change_that_cannot_be_mirrored_is_made_and_told(
    tmp_path: Path, mirrored: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    here = filled(tmp_path / "a", mirrored)
    here.stop()
    shelf = tmp_path / "shelf"
    shelf.rename(tmp_path / "away")
    shelf.write_bytes(b"")  # where the storage should be
    with changing_task(OpenBase(tmp_path / "a", load_settings(mirrored)), here.uuid) as task:
        task.messages.folding.undo()
    assert "not mirrored" in caplog.text
    shelf.unlink()
    (tmp_path / "away").rename(shelf)
    with TaskContextManager.resume(tmp_path / "a", here.uuid, mirrored) as again:
        assert len(again.message_store.view().entries) == 9
