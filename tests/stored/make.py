"""Makes the samples of stored tasks that every later version must read: ``python -m tests.stored.make VERSION``.

``sealed-v1`` is a version, too: of what encryption at rest writes.

Run once for a new format; the samples of earlier versions are never made again. Databases are kept under another
name (``context.db.sample``), so that nobody mistakes them for live ones.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from orihon import MessageStore, PlannedFold, TaskContextManager, TaskKey, export_task, load_settings
from orihon.catalogue.connect import open_catalogue
from orihon.catalogue.outbox import NewNotice
from orihon.values.task import TaskStatus

HERE = Path(__file__).parent
PICTURE = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAA" * 40
MASTER_KEY = "a" * 64
QUEUED = "00000000-0000-4000-8000-000000000003"
UUIDS = {"files": "00000000-0000-4000-8000-000000000001", "sqlite": "00000000-0000-4000-8000-000000000002"}


def make(folder: Path, backend: str) -> None:
    """One finished task with everything in it: tool calls, an image, folds, an undo, pins, plans."""
    config = {"context_storage": {"backend": backend}}
    key = TaskKey("github", "me", "project", "issue", "27", "me")
    ctx = TaskContextManager(folder, key, config, uuid=UUIDS[backend])
    store = ctx.message_store
    store.add_message("system", "You are careful. 注意深く作業してください。")
    store.add_message("user", [{"type": "text", "text": "See:"}, {"type": "image_url", "image_url": {"url": PICTURE}}])
    for number in range(3):
        call = {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": "read", "arguments": '{"path":"a.py"}'},
        }
        store.add_message("assistant", None, tool_calls=[call])
        store.add_message("tool", f"line {number}\0 \ud800 \x1b[31mred\x1b[0m", tool_call_id=f"call_{number}")
        ctx.tool_store.add_tool_call("read", {"path": "a.py"}, f"line {number}", duration_ms=1.5)
    store.add_message("assistant", "Done with the first part.", reasoning_content="because")
    store.add_message("user", "Rule: no tabs.\nGo on.")
    store.folding.pin(10, "Rule: no tabs.", made_by="me")
    store.folding.compress([PlannedFold(3, 6, "Read a.py twice."), PlannedFold(8, 8, "line 2 …", "preview")])
    store.folding.undo()
    store.folding.redo()
    store.create_summary(3, 8, "Read a.py three times.")
    ctx.planning_store.add_plan("initial", {"steps": ["read", "change"]})
    ctx.complete()
    ctx.catalogue.close()


def make_sealed(folder: Path) -> None:
    """A sealed store of its own, with a blob and a fold; its master key is ``MASTER_KEY``."""
    os.environ["SAMPLE_KEY"] = MASTER_KEY
    encryption = {"enabled": True, "key": "env:SAMPLE_KEY"}
    store = MessageStore(folder, load_settings({"context_storage": {"blob_bytes": 1024}, "encryption": encryption}))
    store.add_message("system", "You are a careful agent.")
    for number in range(3):
        store.add_message("user", f"question {number}: なぜ")
        store.add_message("assistant", "long answer " * (200 if number == 2 else 1))
    store.folding.compress([PlannedFold(2, 3, "the first question was answered")])
    store.close()
    for name in ("writer.json", "writer.lock", "mask.key", "mask.key.copy"):
        (folder / name).unlink()


def make_sealed_export(file: Path) -> None:
    """A task as ``orihon export`` writes one that is sealed, under the same master key."""
    os.environ["SAMPLE_KEY"] = MASTER_KEY
    settings = load_settings({"encryption": {"enabled": True, "key": "env:SAMPLE_KEY"}})
    with tempfile.TemporaryDirectory() as base:
        with TaskContextManager(
            base, TaskKey("github", "o", "r", "issue", "1", "ana"), settings, uuid="left-1"
        ) as task:
            task.message_store.add_message("user", "question: なぜ")
        export_task(base, "left-1", settings, "jsonl", file, force=True)


def make_sealed_base(folder: Path) -> None:
    """A base folder with a sealed task for each back end, one that waits in the queue, and a notice."""
    os.environ["SAMPLE_KEY"] = MASTER_KEY
    for backend, uuid in UUIDS.items():
        config = {"context_storage": {"backend": backend}, "encryption": {"enabled": True, "key": "env:SAMPLE_KEY"}}
        ctx = TaskContextManager(folder, TaskKey("github", "me", "project", "issue", "27", "me"), config, uuid=uuid)
        ctx.message_store.add_message("user", f"question in {backend}: なぜ")
        ctx.message_store.add_message("assistant", "answer")
        ctx.fail(f"it broke in {backend}")
        ctx.catalogue.close()
    settings = load_settings({"encryption": {"enabled": True, "key": "env:SAMPLE_KEY"}})
    with open_catalogue(folder, settings) as catalogue:
        key = TaskKey("github", "me", "project", "issue", "28", "me")
        catalogue.tasks.register(
            key, QUEUED, status=TaskStatus.QUEUED, prompt="the prompt: なぜ", metadata={"title": "the title"}
        )
        catalogue.outbox.add(NewNotice("sample", "paused", "info", QUEUED, {"title": "the title"}))


def tidy(folder: Path) -> None:
    """Databases get another name; what is only of this machine goes."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.suffix == ".db":
            path.rename(path.with_name(path.name + ".sample"))
        elif path.name.startswith("mask.key") or path.name.endswith(("-wal", "-shm", ".lock")):
            path.unlink()
    for empty in ("running", "paused"):
        shutil.rmtree(folder / empty, ignore_errors=True)


def main() -> None:
    if sys.argv[1].startswith("sealed"):
        make_sealed_base(HERE / sys.argv[1] / "base")
        tidy(HERE / sys.argv[1] / "base")
        make_sealed(HERE / sys.argv[1] / "task")
        make_sealed_export(HERE / sys.argv[1] / "export.jsonl")
        return
    for backend in UUIDS:
        folder = HERE / sys.argv[1] / backend
        make(folder, backend)
        tidy(folder)


if __name__ == "__main__":
    main()
