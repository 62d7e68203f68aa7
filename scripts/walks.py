"""Walks through the house: a message from each entrance to the disk and back, as the program really goes.

Plays each entrance in a temporary folder and notes, when the message reaches a file or leaves one, which functions of
ours lie on one another. ``docs/architecture.md`` shows it.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import httpx

import orihon
from orihon.cli.main import main
from orihon.llm.request_file import FileLines
from orihon.llm.scripted_dialects import Reply
from orihon.runtime.worker import WorkerProcess
from orihon.store.append_handle import AppendHandle
from orihon.store.jsonl import JsonlFile
from orihon.web.server import Listening

PACKAGE = Path(orihon.__file__).parent
#: By this the message is known, wherever it is.
_MARK = "the-message-on-its-way"
#: What lies round every command; it takes no part in the way of a message.
_AROUND = frozenset(("cli/main.py",))

#: The functions that lie on one another, the first caller first, each with its file.
Calls = tuple[tuple[str, str], ...]


@dataclass
class Walk:
    """The calls down to the write of the message, and down to the read of it."""

    writes: list[Calls] = field(default_factory=list)
    reads: list[Calls] = field(default_factory=list)

    def down(self) -> str:
        """The way in, file by file."""
        return _told(self.writes[0])

    def up(self) -> str:
        """The way back: what was called last gives first. A request to a model goes before what is read after it."""
        requested = [calls for calls in self.reads if calls[-1][0].startswith("llm/")]
        return _told((requested or self.reads)[-1][::-1])


@cache
def walks() -> dict[str, Walk]:
    """Every entrance with its walk."""
    entrances = {"library": _library, "import": _import, "worker": _worker, "page": _page}
    found = {}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORIHON_", "CONTEXT_STORAGE_"))}
    with patch.dict(os.environ, kept, clear=True):
        for name, play in entrances.items():
            found[name] = Walk()
            with tempfile.TemporaryDirectory() as folder:
                play(folder, found[name])
    return found


def _told(calls: Calls) -> str:
    """``file`` with its functions, ``→`` the next file."""
    steps: list[tuple[str, list[str]]] = []
    for place, name in calls:
        if steps and steps[-1][0] == place:
            steps[-1][1].append(name)
        else:
            steps.append((place, [name]))
    return " → ".join(f"`{place}` ({', '.join(dict.fromkeys(names))})" for place, names in steps)


# ---- watching ------------------------------------------------------------------------------------------------------


@contextmanager
def _noted(walk: Walk) -> Iterator[None]:
    """While the block runs, calls are noted where the message goes to a file or comes from one."""
    mark = _MARK.encode()

    def appending(really: Callable[..., None]) -> Callable[..., None]:
        def append(handle: AppendHandle, lines: Any, **how: Any) -> None:
            if any(mark in bytes(piece) for line in lines for piece in line):
                walk.writes.append((*_calls(sys._getframe(1)), ("store/append_handle.py", "append")))
            really(handle, lines, **how)

        return append

    def reading(really: Callable[..., Iterator[bytes]], place: str) -> Callable[..., Iterator[bytes]]:
        def read(*arguments: Any) -> Iterator[bytes]:
            for line in really(*arguments):
                if mark in line:
                    walk.reads.append((*_calls(sys._getframe(1)), (place, really.__name__)))
                yield line

        return read

    with (
        patch.object(AppendHandle, "append", appending(AppendHandle.append)),
        patch.object(JsonlFile, "read", reading(JsonlFile.read, "store/jsonl.py")),
        patch.object(FileLines, "joined", reading(FileLines.joined, "llm/request_file.py")),
    ):
        yield


def _calls(frame: FrameType | None) -> Calls:
    found: list[tuple[str, str]] = []
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        name = frame.f_code.co_name
        if path.is_relative_to(PACKAGE) and not name.startswith("<"):
            found.append((str(path.relative_to(PACKAGE)), name))
        frame = frame.f_back
    return tuple(step for step in reversed(found) if step[0] not in _AROUND)


# ---- the entrances -------------------------------------------------------------------------------------------------


def _library(folder: str, walk: Walk) -> None:
    with orihon.Base(f"{folder}/contexts") as base, base.task("hello") as task, _noted(walk):
        task.add("user", _MARK)
        task.messages()


def _import(folder: str, walk: Walk) -> None:
    transcript = Path(folder, "session.jsonl")
    said = [{"role": role, "content": _MARK} for role in ("user", "assistant")]
    transcript.write_text("".join(json.dumps(message) + "\n" for message in said), encoding="utf-8")
    with _noted(walk), redirect_stdout(io.StringIO()):
        for words in (("import", str(transcript)), ("view", "@last")):
            assert main(["--base-dir", f"{folder}/contexts", *words]) == 0, words


def _worker(folder: str, walk: Walk) -> None:
    """The model's answer is the message; the request after it takes it along."""
    base, key = f"{folder}/contexts", orihon.TaskKey("cli", "", "", "task", "1")
    answers = [Reply(_MARK, [("get_task_status", {})]), Reply("Done."), Reply(f"{_MARK}: begun and done.")]
    with orihon.ScriptedModel(answers) as model, _noted(walk):
        settings = {"llm": {"openai": {"base_url": model.base_url}}}
        queue = orihon.TaskQueue(base, settings)
        queue.enqueue(key, prompt="Begin.")
        queue.close()
        WorkerProcess("1", settings, base_dir=base, until_empty=True).run()


def _page(folder: str, walk: Walk) -> None:
    """A fold gets another text, and a message is looked at."""
    base, key = f"{folder}/contexts", orihon.TaskKey("cli", "", "", "task", "1")
    with orihon.TaskContextManager(base, key, uuid="shown") as task:
        for number in range(1, 4):
            task.message_store.add_message("user", f"message {number}")
        task.message_store.add_message("user", _MARK)
        task.message_store.create_summary(1, 3, "three messages")
        task.stop()
    with orihon.WebServer(base, orihon.load_settings({}, environ={}), Listening(port=0)) as server:
        server.start()
        site = f"http://127.0.0.1:{server.port}"
        with (
            _noted(walk),
            httpx.Client(base_url=site, headers={"Authorization": f"Bearer {server.token}"}, timeout=60) as client,
        ):
            client.post("/api/tasks/shown/edit", json={"fold": 1, "text": _MARK}).raise_for_status()
            client.get("/tasks/shown").raise_for_status()
