"""How long the commands take that people type all day, over very many tasks and in a very long log.

python -m benchmarks.terminal [--tasks 100000] [--messages 100000] [--repeats 5]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.catalogue import sqlite
from benchmarks.start import wall
from orihon import TaskContextManager, TaskKey
from orihon.settings import load_settings
from orihon.store.record_codec import Said
from orihon.values.message.message import Message
from tests.helpers import raw_database

ORIHON = str(Path(sys.executable).with_name("orihon"))
AT_ONCE = 1000


def long_task(base: Path, messages: int) -> str:
    """A task with a long log."""
    settings = load_settings({"masking": {"enabled": False}}, environ={})
    with TaskContextManager(base, TaskKey("bench", "", "", "log", "1"), settings) as task:
        store = task.message_store.task_store
        for start in range(0, messages, AT_ONCE):
            roles = ("user", "assistant")
            texts = (f"Message {seq} of a long log. " * 12 for seq in range(start, min(start + AT_ONCE, messages)))
            store.append([Said(Message(roles[number % 2], said)) for number, said in enumerate(texts)])
        return task.uuid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        many, long = Path(folder, "many"), Path(folder, "long")
        many.mkdir()
        with sqlite(many, given.tasks), raw_database(many / "tasks.db") as connection:
            connection.execute(
                "UPDATE tasks SET size_bytes = 100000 + abs(random()) % 1000000 WHERE status <> 'queued'"
            )
        long.mkdir()
        there, here = ["--base-dir", str(many)], ["--base-dir", str(long)]
        uuid = long_task(long, given.messages)
        rows = {
            f"orihon list, {given.tasks:,} tasks": ([*there, "list"], 500),
            f"orihon stats --summary, {given.tasks:,} tasks": ([*there, "stats", "--summary"], 500),
            f"orihon list --search, {given.tasks:,} tasks": ([*there, "list", "--search", "nowhere"], 500),
            f"orihon show --last 50 of {given.messages:,}": ([*here, "show", uuid, "--last", "50"], 300),
        }
        for name, (arguments, wanted) in rows.items():
            took = wall([ORIHON, *arguments], given.repeats)
            print(f"{name:50} {took * 1e3:6.0f} ms   (wanted: under {wanted})")


if __name__ == "__main__":
    main()
