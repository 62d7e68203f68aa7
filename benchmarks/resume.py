"""Resume and first request: a long log and a short one with the same view.

    python -m benchmarks.resume [--long 100000] [--short 1000] [--view 200] [--repeats 9]

The time of a new process from opening the task to the finished request body, start-up of Python left out.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.sample import contents
from orihon import MessageStore, PlannedFold

CONFIG = {"masking": {"enabled": False}, "context_storage": {"durability": "os"}}


def build(folder: Path, backend: str, messages: int, view: int) -> None:
    """A log of ``messages`` whose view has ``view`` entries, folded a hundred messages at a time."""
    texts = [text[:4000] for text in contents()]
    store = MessageStore(folder, CONFIG, backend=backend)
    store.add_message("system", "You are a coding agent.")
    for number in range(2, messages + 1):
        store.add_message("user" if number % 2 else "assistant", texts[number % 100])
        if number % 1000 == 0 and number < messages:
            store.folding.compress([PlannedFold(2, number - 100, "What happened so far.")])
    entries = len(store.view().entries)
    if entries > view:
        last = messages - (view - 2)
        store.folding.compress([PlannedFold(2, last, "What happened so far, in short.")])
    assert len(store.view().entries) == view
    store.close()


def child(folder: Path, backend: str) -> None:
    started = time.perf_counter()
    store = MessageStore(folder, CONFIG, backend=backend)
    store.add_message("user", "go on")
    with store.get_current_context_file().open("rb") as lines:
        body = b'{"model":"m","messages":[' + b",".join(line.rstrip(b"\n") for line in lines) + b"]}"
    print(time.perf_counter() - started, len(json.loads(body)["messages"]))


def measure(folder: Path, backend: str) -> float:
    copy = folder.with_name(folder.name + "-copy")
    shutil.copytree(folder, copy)
    command = [sys.executable, "-m", "benchmarks.resume", "--child", str(copy), backend]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    shutil.rmtree(copy)
    return float(run.stdout.split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", type=int, default=100_000)
    parser.add_argument("--short", type=int, default=1_000)
    parser.add_argument("--view", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        child(Path(options.child[0]), options.child[1])
        return
    for backend in ("files", "sqlite"):
        folder = Path(tempfile.mkdtemp(prefix="orihon-resume-", dir="/dev/shm"))
        try:
            build(folder / "long", backend, options.long, options.view)
            build(folder / "short", backend, options.short, options.view)
            pairs = [
                (measure(folder / "long", backend), measure(folder / "short", backend)) for _ in range(options.repeats)
            ]
            ratio = statistics.median(long / short for long, short in pairs)
            long_time, short_time = (statistics.median(column) for column in zip(*pairs, strict=True))
            print(
                f"resume and first request, {backend}: {options.long:,} messages {long_time * 1e3:.1f} ms, "
                f"{options.short:,} messages {short_time * 1e3:.1f} ms: {ratio:.2f} ×   (wanted: at most 1.5)"
            )
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
