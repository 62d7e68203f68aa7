"""Real tasks, and real damage to them: what a crash, a bad disk or a text editor leaves behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw

from orihon.settings import Settings, load_settings
from orihon.store.contract import Stream
from orihon.store.record_check import checked, decode_record
from orihon.system import jsonio
from orihon.tasks.context import TaskContextManager
from orihon.values.task import TaskKey
from orihon.values.view import PlannedFold

BACKENDS = ("files", "sqlite")
KEY = TaskKey("github", "owner", "repo", "issue", "27", "user")
BIG = "data " * 300  # larger than the blob size below

_CHECK = re.compile(rb'(?<=[0-9],)"crc32":"[0-9a-f]{8}",')
_TABLES: dict[Stream, str] = {
    "messages": "message_records",
    "summaries": "summary_records",
    "tools": "tool_records",
    "planning": "plan_records",
    "compressions": "compression_records",
    "checkpoints": "checkpoint_records",
}


def settings_for(backend: str) -> Settings:
    return load_settings({"context_storage": {"backend": backend, "blob_bytes": 1024}}, environ={})


def start_task(
    base: Path, backend: str | Settings, *, uuid: str | None = None, key: TaskKey = KEY
) -> TaskContextManager:
    """A running task with a bit of everything: tool pairs, a blob, folds, an undo, pins, plans."""
    settings = settings_for(backend) if isinstance(backend, str) else backend
    task = TaskContextManager(base, key, settings, uuid=uuid)
    store = task.message_store
    store.add_message("system", "You are a careful agent.")
    for turn in range(4):
        store.add_message("user", f"Step {turn}: 次の手順です")
        call = {"id": f"call_{turn}", "type": "function", "function": {"name": "read_file", "arguments": "{}"}}
        store.add_message("assistant", None, tool_calls=[call])
        store.add_message("tool", BIG if turn == 3 else f"output {turn}", tool_call_id=f"call_{turn}")
    task.tool_store.add_tool_call("read_file", {"path": "a.py"}, BIG)
    task.planning_store.add_plan("initial", {"steps": ["look", "write"]})
    store.create_summary(2, 4, "the first step was done")
    store.folding.compress([PlannedFold(2, 7, "two steps were done"), PlannedFold(10, 10, "output …", "preview")])
    store.folding.undo()
    store.folding.redo()
    store.folding.pin(8)
    return task


def paused_task(base: Path, backend: str, *, uuid: str | None = None, key: TaskKey = KEY) -> tuple[str, Path]:
    """A task at rest, and its folder."""
    task = start_task(base, backend, uuid=uuid, key=key)
    task.stop()
    task.catalogue.close()
    return task.uuid, task.context_dir


def read_record(folder: Path, stream: Stream, number: int) -> bytes:
    """A record as it is stored."""
    if not (folder / "context.db").exists():
        return (folder / f"{stream}.jsonl").read_bytes().splitlines()[number - 1].rstrip(b" ")
    with closing(apsw.Connection(str(folder / "context.db"))) as connection:
        record = connection.execute(f"SELECT record FROM {_TABLES[stream]} WHERE id = ?", (number,)).get
        return str(record).encode()


def edit_record(folder: Path, stream: Stream, number: int, change: Callable[[bytes], bytes | None]) -> None:
    """Put what ``change`` makes of it in the place of a record; ``None`` takes the record out."""
    if not (folder / "context.db").exists():
        path = folder / f"{stream}.jsonl"
        lines: list[bytes | None] = [*path.read_bytes().splitlines()]
        lines[number - 1] = change((lines[number - 1] or b"").rstrip(b" "))
        path.write_bytes(b"".join(line + b"\n" for line in lines if line is not None))
        return
    table, database = _TABLES[stream], folder / "context.db"
    record = read_record(folder, stream, number)
    new = change(record)
    with closing(apsw.Connection(str(database))) as connection:
        if new is None:
            connection.execute(f"DELETE FROM {table} WHERE id = ?", (number,))
            return
        if is_json(new):
            connection.execute(f"UPDATE {table} SET record = ? WHERE id = ?", (new.decode(), number))
            return
    # SQLite refuses what is not JSON: this is what a bad disk does.
    whole = database.read_bytes()
    assert whole.count(record) == 1
    database.write_bytes(whole.replace(record, new.ljust(len(record))[: len(record)]))


def is_json(line: bytes) -> bool:
    try:
        jsonio.decode(line)
    except ValueError:
        return False
    return True


def add_record(folder: Path, stream: Stream, number: int, record: bytes) -> None:
    """One more record, written by nobody we know."""
    if not (folder / "context.db").exists():
        with (folder / f"{stream}.jsonl").open("ab") as file:
            file.write(record + b"\n")
        return
    with closing(apsw.Connection(str(folder / "context.db"))) as connection:
        connection.execute(f"INSERT INTO {_TABLES[stream]} (id, record) VALUES (?, ?)", (number, record.decode()))


def with_fields(**fields: object) -> Callable[[bytes], bytes]:
    """An editor that changes fields of a record, and its check with them, as a mistake of a program would."""
    return lambda line: checked(jsonio.encode({**decode_record(line), **fields}))


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """The same for an editor that puts one text in the place of another."""
    return lambda line: checked(_CHECK.sub(b"", line, count=1).replace(old, new))


def tear(folder: Path, stream: Stream = "messages") -> bytes:
    """Begin a record as a writer does that dies in mid-write (``files`` only)."""
    torn = b'{"seq":99,"role":"user","content":"never fini'
    with (folder / f"{stream}.jsonl").open("ab") as file:
        file.write(torn)
    return torn


def killed_task(base: Path, backend: str) -> str:
    """A task whose process was killed while it worked; returns its UUID."""
    program = (
        "import os, signal, sys; from pathlib import Path; from tests.damage import start_task;"
        "task = start_task(Path(sys.argv[1]), sys.argv[2]); print(task.uuid, flush=True);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, str(base), backend],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    return ended.stdout.strip()
