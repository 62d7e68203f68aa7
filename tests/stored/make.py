"""Makes the samples of stored tasks that every later version must read: ``python -m tests.stored.make VERSION``.

Run once for a new format; the samples of earlier versions are never made again. Databases are kept under another
name (``context.db.sample``), so that nobody mistakes them for live ones.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from orihon import PlannedFold, TaskContextManager, TaskKey

HERE = Path(__file__).parent
PICTURE = "data:image/png;base64," + "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAA" * 40
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


def main() -> None:
    for backend in UUIDS:
        folder = HERE / sys.argv[1] / backend
        make(folder, backend)
        for path in [path for path in folder.rglob("*") if path.is_file()]:
            if path.suffix == ".db":
                path.rename(path.with_name(path.name + ".sample"))
            elif path.name == "mask.key" or path.name.endswith(("-wal", "-shm")):
                path.unlink()
        for empty in ("running", "paused"):
            shutil.rmtree(folder / empty, ignore_errors=True)


if __name__ == "__main__":
    main()
