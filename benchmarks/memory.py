"""Memory of a writer after many messages, against one that is idle and against a Python list.

    python -m benchmarks.memory [--messages 50000]

Each measurement is a process of its own; on tmpfs, for it is memory that is measured.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.sample import contents
from orihon import MessageStore


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def store_child(backend: str, messages: int, folder: Path) -> None:
    texts = contents()
    store = MessageStore(folder / "task", {"masking": {"enabled": False}, "context_storage": {"backend": backend}})
    for text in texts[:20]:
        store.add_message("user", text)
    for text in sorted(texts, key=len)[-2:]:  # an idle writer has seen a large message, too
        store.add_message("user", text)
    idle = resident()
    for number in range(messages):
        store.add_message("user", texts[number % 100])
    print(idle, resident())


def list_child(messages: int) -> None:
    texts = contents()
    idle = resident()
    history = [{"role": "user", "content": texts[number % 100][:-8] + f"{number:08d}"} for number in range(messages)]
    print(idle, resident() if history else 0)


def measure(*arguments: str) -> tuple[int, int]:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", "--child", *arguments], capture_output=True, text=True, check=True
    )
    idle, after = map(int, run.stdout.split())
    return idle, after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--child", nargs="*")
    options = parser.parse_args()
    if options.child:
        kind, messages, *rest = options.child
        list_child(int(messages)) if kind == "list" else store_child(kind, int(messages), Path(rest[0]))
        return
    idle, after = measure("list", str(options.messages))
    plain = after - idle
    print(f"memory after {options.messages:,} messages")
    print(f"  a Python list            {plain / 2**20:8.1f} MiB above idle")
    for backend in ("files", "sqlite"):
        folder = Path(tempfile.mkdtemp(prefix="orihon-memory-", dir="/dev/shm"))
        try:
            idle, after = measure(backend, str(options.messages), str(folder))
        finally:
            shutil.rmtree(folder)
        grown = after - idle
        print(
            f"  orihon {backend:<17} {grown / 2**20:8.1f} MiB above idle   (wanted: at most 8); "
            f"{100 * (1 - grown / plain):.1f} % less than the list"
        )


if __name__ == "__main__":
    main()
