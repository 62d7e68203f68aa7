"""Tasks exported from each back end: complete, whole or not at all, held by nobody, also while somebody writes."""

from __future__ import annotations

import base64
import io
import json
import stat
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon import archive_task, export_task, export_tasks, import_transcripts
from orihon.errors import DamagedStore, InvalidInput, StorageUnavailable, TaskNotFound
from orihon.runtime.queue import TaskQueue
from orihon.settings import Settings, load_settings
from orihon.store.contract import STREAMS
from orihon.store.factory import open_for_reading
from orihon.system import jsonio
from orihon.tasks.base import OpenBase
from orihon.tasks.context import TaskContextManager
from orihon.transfer.export import FORMS
from orihon.transfer.export import export as exporting
from orihon.transfer.export.story import OpenTask, opened_task
from orihon.values.message.message import Message
from orihon.values.records import ModelCall, Usage
from orihon.values.task import TaskKey
from tests.damage import BIG, KEY, edit_record, paused_task, settings_for, start_task
from tests.helpers import refused
from tests.services import Database

FILES = settings_for("files")


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "base"


@pytest.fixture(params=["files", "sqlite", "postgres"])
def settings(request: pytest.FixtureRequest) -> Settings:
    backend = str(request.param)
    if backend != "postgres":
        return settings_for(backend)
    database: Database = request.getfixturevalue("emptied_postgres")
    storage = {"backend": backend, "blob_bytes": 1024}
    return load_settings({"context_storage": storage, "database": database.settings}, environ={})


def lines_of(data: bytes) -> list[dict[str, Any]]:
    return [jsonio.decode(line) for line in data.splitlines()]


def exported(base: Path, task: str, settings: Settings, form: Any = "jsonl") -> bytes:
    stream = io.BytesIO()
    export_task(base, task, settings, form, stream)
    return stream.getvalue()


def test_json_lines_hold_everything_byte_for_byte(base: Path, settings: Settings) -> None:
    task = start_task(base, settings, uuid="abc-1")
    task.message_store.task_store.records.keep_file("outputs/read_file-0123abcd.txt", b"\xff raw")
    task.message_store.task_store.append(
        Message("assistant", "\ud800 1e400"), call=ModelCall("gpt-4o", Usage(7, 3, 2), 0.25)
    )
    task.stop()
    data = exported(base, "abc", settings)
    head, *lines = lines_of(data)
    with opened_task(OpenBase(base, settings), "abc-1") as opened:
        records = opened.records
        stored = {stream: list(records.read(stream)) for stream in STREAMS}
        assert [line["blob"] for line in lines if "blob" in line] == records.blob_digests() != []
        for line in lines:
            if "blob" in line:
                assert base64.b64decode(line["base64"]) == records.get_blob(line["blob"])
            elif "file" in line:
                assert base64.b64decode(line["base64"]) == records.kept_file(line["file"])
    assert {"metadata.json", "outputs/read_file-0123abcd.txt"} <= {line["file"] for line in lines if "file" in line}
    for stream in STREAMS:
        prefix = b'{"stream":"%s","record":' % stream.encode()
        raw = [line[len(prefix) : -1] for line in data.splitlines() if line.startswith(prefix)]
        assert raw == stored[stream]
        assert raw == [jsonio.encode(line["record"]) for line in lines if line.get("stream") == stream]
        assert head["contents"][stream] == len(raw)
    assert head["orihon_export"] == 1
    assert head["task"]["task_id"] == "27"
    assert head["task"]["status"] == "paused"
    assert not [name for name in head["task"] if name.startswith("lease_")]
    assert exported(base, "abc", settings) == data
    task.catalogue.close()


def test_chat_lines_are_the_messages_that_came_in(base: Path, settings: Settings) -> None:
    task = start_task(base, settings, uuid="abc-1")
    odd = {"role": "user", "content": [{"type": "text", "text": "x", "cache": {"a": 1}}], "custom": [2**70]}
    task.message_store.task_store.append(Message.from_chat(odd))
    task.stop()
    task.catalogue.close()
    found = lines_of(exported(base, "abc", settings, "chat"))
    assert len(found) == 14
    assert found[0] == {"role": "system", "content": "You are a careful agent."}
    assert found[12]["content"] == BIG
    assert found[13] == odd


def test_chat_lines_can_be_imported(base: Path, tmp_path: Path) -> None:
    paused_task(base, "files", uuid="abc-1")
    out = tmp_path / "talk.jsonl"
    export_task(base, "abc", FILES, "chat", out)
    report = import_transcripts(tmp_path / "there", FILES, [out])
    assert (report.is_clean, report.new_tasks) == (True, 1)
    assert exported(tmp_path / "there", report.tasks[0].uuid, FILES, "chat") == out.read_bytes()


def test_markdown_tells_everything_once(base: Path, settings: Settings) -> None:
    task = start_task(base, settings, uuid="abc-1")
    task.stop()
    task.catalogue.close()
    told = exported(base, "abc", settings, "markdown").decode()
    assert told.startswith("# github:owner/repo\\#27 (paused)\n")
    for words in ("> You are a careful agent.", "## Plans", "→ **read\\_file** call\\_3", "Fold 2: messages 2 to 7"):
        assert told.count(words) == 1, words
    assert told.index("Fold 2") < told.index("> Step 0") < told.index("> Step 1") < told.index("end of fold 2")
    assert told.index("end of fold 2") < told.index("> Step 2")
    assert "In the view it is shortened (fold 3)" in told
    assert "> the first step was done" in told.split("## Summaries that are not in the view")[1]
    assert told.count(BIG) == 2, "the result in the log, and the record of a call that belongs to no message"
    assert "| 2 | compress |" in told


def test_a_file_is_whole_private_and_never_replaced_by_mistake(base: Path, tmp_path: Path) -> None:
    paused_task(base, "files", uuid="abc-1")
    out = tmp_path / "out.jsonl"
    made = export_task(base, "abc", FILES, "jsonl", out)
    assert made.as_dict() == {"task": "abc-1", "format": "jsonl", "file": str(out), "bytes": out.stat().st_size}
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    out.write_text("mine")
    with refused(InvalidInput, "file_exists"):
        export_task(base, "abc", FILES, "jsonl", out)
    assert out.read_text() == "mine"
    export_task(base, "abc", FILES, "chat", out, force=True)
    assert len(out.read_bytes().splitlines()) == 13
    (tmp_path / "folder").mkdir()
    assert export_task(base, "abc", FILES, "html", tmp_path / "folder").file == tmp_path / "folder" / "abc-1.html"
    with refused(InvalidInput, "no_folder_for"):
        export_task(base, "abc", FILES, "jsonl", tmp_path / "nowhere" / "out.jsonl")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "folder", "out.jsonl"]


def test_what_cannot_be_read_leaves_nothing_half_written(base: Path, tmp_path: Path) -> None:
    _, folder = paused_task(base, "files", uuid="abc-1")
    old = tmp_path / "old.html"
    old.write_text("old")
    edit_record(folder, "messages", 9, lambda line: b'{"seq":9}')
    for form in ("html", "markdown", "chat"):
        with pytest.raises(DamagedStore):
            export_task(base, "abc", FILES, form, old, force=True)
    assert old.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "old.html"]


def test_another_that_comes_first_is_not_replaced(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paused_task(base, "files", uuid="abc-1")
    out = tmp_path / "out.jsonl"
    found = Path.hardlink_to

    def slow(self: Path, target: Path) -> None:
        out.write_text("theirs")
        found(self, target)

    monkeypatch.setattr(Path, "hardlink_to", slow)
    with refused(InvalidInput, "file_exists"):
        export_task(base, "abc", FILES, "jsonl", out)
    assert out.read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "out.jsonl"]


def test_many_tasks_and_those_that_are_not_here(base: Path, tmp_path: Path) -> None:
    for number in (1, 2, 3):
        paused_task(base, "files", uuid=f"task-{number}", key=TaskKey("cli", "", "", "job", str(number)))
    with TaskContextManager(base, KEY, FILES, uuid="task-4") as task:
        task.complete()
    archive_task(base, "task-4", FILES)
    with closing(TaskQueue(base, FILES)) as queue:
        queue.enqueue(TaskKey("cli", "", "", "job", "5"))
    (tmp_path / "pages").mkdir()
    run = export_tasks(base, None, FILES, "html", tmp_path / "pages")
    assert [one.task for one in run.exported] == ["task-1", "task-2", "task-3"]
    assert list(run.failed) == ["task-4"]
    assert "unarchive" in run.failed["task-4"]
    again = export_tasks(base, ["task-1"], FILES, "html", f"{tmp_path}/pages/")
    assert "--force" in again.failed["task-1"]
    stream = io.BytesIO()
    assert list(export_tasks(base, None, FILES, "jsonl", stream).failed) == ["task-4"]
    heads = [line["task"]["uuid"] for line in lines_of(stream.getvalue()) if "orihon_export" in line]
    assert heads == ["task-1", "task-2", "task-3"]
    with refused(InvalidInput, "one_file_each"):
        export_tasks(base, None, FILES, "markdown", tmp_path / "all.md")
    with refused(InvalidInput, "export_form"):
        export_task(base, "task-1", FILES, "pdf")  # type: ignore[arg-type]
    with refused(TaskNotFound, "packed"):
        export_task(base, "task-4", FILES, "html", io.BytesIO())


@pytest.mark.parametrize("form", FORMS)
def test_a_lost_catalogue_hides_no_task(base: Path, form: Any) -> None:
    paused_task(base, "files", uuid="abc-1")
    for file in base.glob("tasks.db*"):
        file.unlink()
    data = exported(base, "abc", FILES, form)
    assert b"Step 3" in data
    if form == "jsonl":
        assert lines_of(data)[0]["task"]["repo"] == "repo"
    elif form != "chat":
        assert b"github:owner/repo" in data


@pytest.mark.parametrize("form", FORMS)
def test_memory_follows_the_largest_message_not_the_log(base: Path, form: Any, tmp_path: Path) -> None:
    settings = load_settings({"context_storage": {"durability": "os"}, "masking": {"enabled": False}}, environ={})
    task = TaskContextManager(base, KEY, settings, uuid="long")
    line = "words and more words, ``` <&> " * 1_000
    for _ in range(80):
        task.message_store.add_message("user", line)
    task.stop()
    task.catalogue.close()
    exported(base, "long", settings, form)  # modules are loaded now
    tracemalloc.start()
    size = export_task(base, "long", settings, form, tmp_path / "out").bytes
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size > 80 * len(line)
    assert peak < 25 * len(line)


@pytest.fixture
def busy(base: Path) -> Iterator[str]:
    """A task to which somebody adds messages and folds without a pause."""
    settings = load_settings({"context_storage": {"durability": "os"}}, environ={})
    task = TaskContextManager(base, KEY, settings, uuid="busy")
    ended = threading.Event()
    store = task.message_store

    def work() -> None:
        done = 0
        while not ended.is_set():
            last = store.add_message("user", "message")
            if last - done > 6:
                store.create_summary(done + 1, last - 2, f"up to {last - 2}")
                done = last - 2

    writer = threading.Thread(target=work)
    writer.start()
    yield task.uuid
    ended.set()
    writer.join()
    task.stop()
    task.catalogue.close()


def test_a_task_that_grows_is_exported_as_of_one_moment(base: Path, busy: str) -> None:
    for _ in range(15):
        head, *lines = lines_of(exported(base, busy, FILES))
        streams = {stream: [one["record"] for one in lines if one.get("stream") == stream] for stream in STREAMS}
        assert {stream: len(records) for stream, records in streams.items()}.items() <= head["contents"].items()
        for record in streams["compressions"]:
            assert max(record["visible"], default=0) <= len(streams["summaries"])
        for record in streams["summaries"]:
            assert record["end_seq"] <= len(streams["messages"])
        assert exported(base, busy, FILES, "markdown").decode().count("### 1 · ") <= 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("backend", ["files", "sqlite"])
def test_a_folder_that_moves_meanwhile_is_found_again(
    base: Path, tmp_path: Path, backend: str, form: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    uuid, folder = paused_task(base, backend)
    settings = settings_for(backend)
    whole = exported(base, uuid, settings, form)
    writer = exporting._WRITERS[form]

    def moving(opened: OpenTask) -> Iterator[bytes]:
        if folder.exists():
            folder.rename(base / "completed" / folder.name)
        return writer(opened)

    (base / "completed").mkdir(exist_ok=True)
    monkeypatch.setitem(exporting._WRITERS, form, moving)
    export_task(base, uuid, settings, form, tmp_path / "out")
    assert not folder.exists()
    assert (tmp_path / "out").read_bytes() == whole


def test_many_tasks_tell_how_far_they_are(base: Path, tmp_path: Path) -> None:
    for uuid in ("abc-1", "abc-2"):
        paused_task(base, "files", uuid=uuid)
    told: list[tuple[int, int]] = []
    export_tasks(base, None, FILES, "jsonl", tmp_path, progress=lambda done, of: told.append((done, of)))
    assert told == [(0, 2), (1, 2)]


def test_a_stream_that_has_begun_is_not_begun_anew(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uuid, folder = paused_task(base, "files")

    def moving(opened: OpenTask) -> Iterator[bytes]:
        yield b"begun"
        folder.rename(folder.with_name("elsewhere"))
        yield from opened.records.read("messages")

    monkeypatch.setitem(exporting._WRITERS, "jsonl", moving)
    stream = io.BytesIO()
    with refused(StorageUnavailable, "gone"):
        export_task(base, uuid, FILES, "jsonl", stream)
    assert stream.getvalue() == b"begun"


def test_tool_records_are_found_by_their_call(base: Path) -> None:
    task = TaskContextManager(base, KEY, FILES, uuid="abc-1")
    store = task.message_store
    for turn in range(3):
        call = {"id": f"c{turn}", "type": "function", "function": {"name": "run", "arguments": json.dumps({"n": turn})}}
        store.add_message("assistant", None, tool_calls=[call])
        status = "error" if turn == 1 else None
        task.tool_store.add_tool_call("run", {}, "ok", status=status, duration_ms=10 + turn, call_id=f"c{turn}")
        store.add_message("tool", f"result {turn}", tool_call_id=f"c{turn}")
    task.tool_store.add_tool_call("never told", {}, "x", call_id="elsewhere")
    task.complete()
    task.catalogue.close()
    told = exported(base, "abc", FILES, "markdown").decode()
    for turn, status in enumerate(("success", "error", "success")):
        assert f"c{turn} · {status} · {10 + turn} ms" in told
    page = exported(base, "abc", FILES, "html").decode()
    assert page.count('class="outcome failed"') == 1
    assert page.count('class="outcome fine"') == 2
    with closing(open_for_reading(base / "completed" / "abc-1", FILES)) as reader:
        assert reader.count("tools") == 4
