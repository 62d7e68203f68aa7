"""The index of the history search, and what others do to tasks: imports, archives, removal, repairs, clocks."""

from __future__ import annotations

import json
import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from orihon import (
    Message,
    TaskContextManager,
    TaskKey,
    archive_task,
    delete_old_contexts,
    import_transcripts,
    restore_task,
    search_history,
)
from orihon.catalogue.connect import open_catalogue
from orihon.runtime.queue import QueueLimits
from orihon.runtime.worker import WorkerProcess
from orihon.search.index import IndexProgress
from orihon.search.maintenance import open_index
from orihon.search.sqlite_index import FILE, index_turn
from orihon.settings import Settings, load_settings
from orihon.store.record_codec import Said
from orihon.tasks.base import OpenBase
from orihon.upkeep.doctor import examine, repair
from tests.helpers import raw_database

HANDLER = "tests.integration.worker_handlers:PromptHandler"
LATER = -1.0  # days: whatever has ended by tomorrow


@pytest.fixture
def settings() -> Settings:
    return load_settings({}, environ={})


def told(base: Path, settings: Settings, *said: str, number: str = "1") -> str:
    """A finished task in which this was said; its UUID."""
    with TaskContextManager(base, TaskKey("cli", "o", "r", "issue", number), settings) as task:
        task.message_store.task_store.append([Said(Message("user", text)) for text in said])
    return task.uuid


def found(base: Path, settings: Settings, query: str) -> list[tuple[str, int]]:
    return sorted((hit.uuid, hit.number) for hit in search_history(base, settings, query).hits)


def on_disk(base: Path) -> bytes:
    return b"".join(path.read_bytes() for path in base.glob("search.db*"))


# ---- tasks that come with times of their own -----------------------------------------------------------------------


def test_what_is_imported_is_found_at_once(base: Path, settings: Settings, tmp_path: Path) -> None:
    told(base, settings, "the valve")
    assert len(found(base, settings, "valve")) == 1
    transcript = tmp_path / "chat.json"
    transcript.write_text(json.dumps([{"role": "user", "content": "mend the turbine"}]), encoding="utf-8")
    os.utime(transcript, (1_700_000_000, 1_700_000_000))  # it ended years ago
    import_transcripts(base, settings, [transcript])
    assert len(found(base, settings, "turbine")) == 1


def test_a_row_that_the_doctor_has_made_is_found_at_once(base: Path, settings: Settings) -> None:
    uuid = told(base, settings, "the valve")
    told(base, settings, "the turbine", number="2")
    with raw_database(base / "tasks.db") as connection:
        row = connection.execute("SELECT updated_at FROM tasks WHERE uuid = ?", (uuid,)).fetchone()
        connection.execute("DELETE FROM tasks WHERE uuid = ?", (uuid,))
    assert row is not None
    assert found(base, settings, "valve") == []
    repair(OpenBase(base, settings))
    assert found(base, settings, "valve") == [(uuid, 1)]


def test_a_clock_that_was_set_back_hides_nothing(base: Path, settings: Settings) -> None:
    told(base, settings, "the valve")
    assert len(found(base, settings, "valve")) == 1
    ahead = (datetime.now(UTC) + timedelta(days=400)).isoformat(timespec="microseconds")
    with open_index(OpenBase(base, settings)) as index:
        index.note_progress("", IndexProgress(ahead, ahead))
    for number, word in (("2", "turbine"), ("3", "boiler")):
        told(base, settings, f"the {word}", number=number)
        assert len(found(base, settings, word)) == 1
    with open_index(OpenBase(base, settings)) as index:
        assert index.progress("").since < ahead


# ---- into archives and out of the world ----------------------------------------------------------------------------


def test_a_task_that_was_archived_before_anybody_searched_is_found(base: Path, settings: Settings) -> None:
    uuid = told(base, settings, "the valve")
    told(base, settings, "the turbine", number="2")
    archive_task(base, uuid, settings)
    (hit,) = search_history(base, settings, "valve").hits
    assert (hit.uuid, hit.status, hit.snippet) == (uuid, "archived", None)
    assert len(found(base, settings, "turbine")) == 1  # the others are not forgotten over it
    restore_task(base, uuid, settings)
    (hit,) = search_history(base, settings, "valve").hits
    assert hit.snippet is not None


def test_archives_stay_out_of_the_index_if_so_wished(base: Path) -> None:
    settings = load_settings({"search": {"archived": False}}, environ={})
    uuid = told(base, settings, "the valve")
    archive_task(base, uuid, settings)
    assert not (base / FILE).exists()
    assert found(base, settings, "valve") == []
    restore_task(base, uuid, settings)
    assert found(base, settings, "valve") == [(uuid, 1)]


@pytest.mark.parametrize("trouble", ["newer", "not a file"])
def test_an_index_that_cannot_be_used_keeps_nobody_from_archiving(
    base: Path, settings: Settings, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    uuid = told(base, settings, "the valve")
    if trouble == "newer":
        with raw_database(base / FILE) as connection:
            connection.execute("PRAGMA user_version = 99")
    else:
        (base / FILE).mkdir()
    archive_task(base, uuid, settings)
    assert "the search index cannot be used" in caplog.text
    assert delete_old_contexts(base, settings, LATER).tasks[0].uuid == uuid


def test_what_is_removed_leaves_no_word_on_the_disk(base: Path, settings: Settings) -> None:
    gone = told(base, settings, "the zephyrine valve")
    told(base, settings, "the turbine", number="2")
    assert len(found(base, settings, "zephyrine")) == 1
    assert b"zephyrine" in on_disk(base)
    with raw_database(base / "tasks.db") as connection:
        connection.execute("UPDATE tasks SET completed_at = '2020-01-01T00:00:00+00:00' WHERE uuid = ?", (gone,))
    assert [task.uuid for task in delete_old_contexts(base, settings, 30).tasks] == [gone]
    assert b"zephyrine" not in on_disk(base)
    assert found(base, settings, "valve") == []
    assert len(found(base, settings, "turbine")) == 1


def test_what_is_removed_while_another_process_reads_goes_with_the_next_search(
    base: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("orihon.search.maintenance._WAIT", 0.0)
    told(base, settings, "the valve")
    assert len(found(base, settings, "valve")) == 1
    with index_turn(base, 1):
        delete_old_contexts(base, settings, LATER)
    assert found(base, settings, "valve") == []
    with open_index(OpenBase(base, settings)) as index:
        assert index.count() == 0


# ---- what stands in the way ----------------------------------------------------------------------------------------


def test_the_doctor_leaves_a_newer_index_alone(base: Path, settings: Settings) -> None:
    told(base, settings, "the valve")
    assert len(found(base, settings, "valve")) == 1
    with raw_database(base / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    (finding,) = examine(OpenBase(base, settings))
    assert (finding.kind, finding.severity, finding.repair) == (("search", "unusable"), "warning", "none")
    assert [finding.repair for finding in repair(OpenBase(base, settings))] == ["none"]


def test_an_idle_worker_leaves_the_index_alone_if_so_wished(base: Path) -> None:
    config = {"search": {"idle": False}}
    told(base, load_settings(config, environ={}), "the valve")
    worker = WorkerProcess(1, config, base_dir=base, handler=HANDLER, limits=QueueLimits(poll_interval=0.01))
    working = threading.Thread(target=worker.run)
    working.start()
    with open_catalogue(base, load_settings({}, environ={})) as catalogue:
        give_up = time.monotonic() + 60
        while [row.state for row in catalogue.workers.all(60)] != ["idle"] and time.monotonic() < give_up:
            time.sleep(0.01)
    time.sleep(0.2)  # many times what it waits between two looks at the queue
    worker.stop()
    working.join()
    assert not (base / FILE).exists()


# ---- what is found -------------------------------------------------------------------------------------------------


def test_results_that_are_json_are_found_by_their_words(base: Path, settings: Settings) -> None:
    with TaskContextManager(base, TaskKey("cli", "o", "r", "issue", "1"), settings) as task:
        call: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        task.message_store.add_message("assistant", None, tool_calls=[call])
        answer = json.dumps({"output": "first\nturbine\tboiler", "where": "日本"})  # with escapes
        task.message_store.add_message("tool", answer, tool_call_id="c1")
        task.tool_store.add_tool_call("look", {}, answer)
    for word in ("turbine", "boiler", "日本"):
        assert [hit.number for hit in search_history(base, settings, word, kinds=["message"]).hits] == [2]
        assert [hit.number for hit in search_history(base, settings, word, kinds=["tool"]).hits] == [1]


def test_the_end_of_a_very_long_text_is_found(base: Path, settings: Settings) -> None:
    told(base, settings, "beginning " + "so it goes on " * 80_000 + "Traceback: the turbine")
    assert len(found(base, settings, "beginning traceback turbine")) == 1
