"""Writers made to be killed. Starting Python takes too long to do it for every kill, so one process forks them.

Run as ``python -m tests.stress.writers``; each line of the input, ``KIND FOLDER SEED``, starts a writer. Everything
comes back on the output: ``pid N`` when it has been started, ``ack SEQ HASH`` and ``fold ID`` when the store has
acknowledged something, ``dead`` when the writer is gone.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import random
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from orihon import MessageStore
from orihon.errors import OrihonError
from orihon.guard import Redactor
from orihon.guard.masking.rules import built_in_finders
from orihon.store.contract import Pieces, Stream
from orihon.store.files import FilesRecords
from orihon.store.task_store import TaskStore
from orihon.system.files import make_private_folder
from orihon.values.view import foldable_runs
from tests.conformance.backends import BACKENDS


class HastyRecords(FilesRecords):
    """The control: acknowledges at once and writes later. A test that does not catch this one proves nothing."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._waiting: list[tuple[Any, ...]] = []

    def append(self, stream: Stream, first: int, records: Sequence[Pieces], view_lines: Sequence[bytes] = ()) -> None:
        self._waiting.append((stream, first, records, view_lines))
        if len(self._waiting) == 7:
            for arguments in self._waiting:
                super().append(*arguments)
            self._waiting.clear()


def open_hastily(folder: Path) -> MessageStore:
    make_private_folder(folder)
    return MessageStore(folder, task_store=TaskStore(HastyRecords(folder), Redactor(b"", enabled=False)))


KINDS: dict[str, Callable[[Path], MessageStore]] = {
    **{name: backend.open for name, backend in BACKENDS.items()},
    "hasty": open_hastily,
}


def digest(text: str | None) -> str:
    """What stands for a message in an acknowledgement."""
    return hashlib.sha256(str(text).encode()).hexdigest()[:16]


def say(line: str) -> None:
    """One line, in one piece: several processes share the pipe."""
    os.write(1, line.encode() + b"\n")


def write(store: MessageStore, chance: random.Random, *, folds: bool) -> None:
    """A life of appends and folds; only a kill ends it."""
    for call_id in list(store.task_store.tail.open_calls):
        append(store, "tool", "interrupted", tool_call_id=call_id)
    while True:
        append(store, "user", f"question {chance.random()} " + "あ" * chance.randrange(2_000))
        if chance.random() < 0.3:
            use_tools(store, chance)
        if folds and chance.random() < 0.2:
            fold(store, chance)


def append(store: MessageStore, role: str, text: str, **fields: Any) -> None:
    say(f"ack {store.add_message(role, text, **fields)} {digest(text)}")


def use_tools(store: MessageStore, chance: random.Random) -> None:
    ids = [f"call-{chance.getrandbits(60)}" for _ in range(chance.randrange(1, 4))]
    calls = [{"id": call_id, "type": "function", "function": {"name": "ls", "arguments": "{}"}} for call_id in ids]
    append(store, "assistant", "let me see", tool_calls=calls)
    for call_id in ids:
        append(store, "tool", f"output of {call_id} " * chance.randrange(1, 200), tool_call_id=call_id)


def fold(store: MessageStore, chance: random.Random) -> None:
    """Fold something, or take the last fold back."""
    try:
        if chance.random() < 0.3:
            change = store.folding.undo()
            say(f"fold {change.id}")
        elif runs := foldable_runs(store.view()):
            start, end = chance.choice(runs)
            store.create_summary(start, end, f"summary of {start} to {end}")
            say(f"fold {store.task_store.count('compressions')}")
    except OrihonError:
        return  # nothing to undo


def main() -> None:
    """Fork a writer for every line, and say when it is dead."""
    for name in ("sqlite", "postgres"):
        importlib.import_module(f"orihon.store.{name}")  # once, and not in every writer
    built_in_finders(email=False, ssn=False)  # likewise
    for line in sys.stdin:
        kind, folder, seed = line.split()
        writer = os.fork()
        if writer == 0:
            try:
                write(KINDS[kind](Path(folder)), random.Random(int(seed)), folds=kind != "hasty")
            except Exception:
                traceback.print_exc()
            os._exit(1)
        say(f"pid {writer}")
        _, status = os.waitpid(writer, 0)
        say("dead" if os.WIFSIGNALED(status) else "failed")


if __name__ == "__main__":
    main()
