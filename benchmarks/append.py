"""How fast a message is stored, next to the bare limits and to a peer, on one disk in one run.

    python -m benchmarks.append [--dir DIR] [--rounds 40] [--durability full|os]

Every contender appends ten messages in turn, round after round; a ratio is the median over rounds of (limit / ours).
`growth` measures CPU per append on tmpfs around message 100 and around message 50,000.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from benchmarks.sample import contents
from orihon import MessageStore

Append = Callable[[str], object]
TURN = 10


def bare_jsonl(folder: Path, durable: bool) -> Append:
    fd = os.open(folder / "bare.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append(text: str) -> None:
        os.write(fd, (json.dumps({"role": "user", "content": text}, ensure_ascii=False) + "\n").encode())
        if durable:
            os.fsync(fd)

    return append


def bare_sqlite(folder: Path, durable: bool) -> Append:
    database = sqlite3.connect(folder / "bare.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")

    def append(text: str) -> None:
        body = json.dumps({"role": "user", "content": text}, ensure_ascii=False)
        database.execute("INSERT INTO messages (body) VALUES (?)", (body,))

    return append


def bare_apsw(folder: Path, durable: bool) -> Append:
    database = apsw.Connection(str(folder / "bare-apsw.db"))
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    database.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")

    def append(text: str) -> None:
        body = json.dumps({"role": "user", "content": text}, ensure_ascii=False)
        database.execute("INSERT INTO messages (body) VALUES (?)", (body,))

    return append


def ours(backend: str, guard: bool) -> Callable[[Path, bool], Append]:
    def make(folder: Path, durable: bool) -> Append:
        config = {
            "masking": {"enabled": guard},
            "context_storage": {"durability": "full" if durable else "os", "backend": backend},
        }
        store = MessageStore(folder / f"{backend}-{guard}", config)
        return lambda text: store.add_message("user", text)

    return make


def openai_agents(folder: Path, durable: bool) -> Append | None:
    try:
        from agents.memory import SQLiteSession  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    session: Any = SQLiteSession("bench", str(folder / "openai.db"))
    loop = asyncio.new_event_loop()
    return lambda text: loop.run_until_complete(session.add_items([{"role": "user", "content": text}]))


CONTENDERS: dict[str, Callable[[Path, bool], Append | None]] = {
    "bare JSONL": bare_jsonl,
    "orihon files": ours("files", guard=False),
    "orihon files, guard on": ours("files", guard=True),
    "bare SQLite (sqlite3)": bare_sqlite,
    "bare SQLite (apsw)": bare_apsw,
    "orihon sqlite": ours("sqlite", guard=False),
    "orihon sqlite, guard on": ours("sqlite", guard=True),
    "openai-agents SQLiteSession": openai_agents,
}


def throughput(folder: Path, rounds: int, durable: bool) -> None:
    texts = contents()
    touch_memory(folder, 1 << 30)
    appends = {name: append for name, make in CONTENDERS.items() if (append := make(folder, durable)) is not None}
    times: dict[str, list[float]] = {name: [] for name in appends}
    for append in appends.values():
        append("warm-up")
    for number in range(rounds):
        turn = texts[number * TURN % 100 : number * TURN % 100 + TURN]
        names = list(appends)
        for name in names[number % len(names) :] + names[: number % len(names)]:
            started = time.perf_counter()
            for text in turn:
                appends[name](text)
            times[name].append((time.perf_counter() - started) / TURN)
    print(
        f"append, durability {'full (one fsync each)' if durable else 'os (no fsync)'}, {rounds * TURN} messages each"
    )
    for name in times:
        print(f"  {name:<28} {statistics.median(times[name]) * 1e6:8.0f} µs")
    for limit, mine, floor in (
        ("bare JSONL", "orihon files", 0.9),
        ("bare JSONL", "orihon files, guard on", None),
        ("bare SQLite (sqlite3)", "orihon sqlite", 0.8),
        ("bare SQLite (apsw)", "orihon sqlite", 0.8),
        ("openai-agents SQLiteSession", "orihon files", 1.0),
        ("openai-agents SQLiteSession", "orihon sqlite", 1.0),
    ):
        if limit not in times:
            print(f"  {limit} is not installed (pip install openai-agents)")
            continue
        ratio = statistics.median(a / b for a, b in zip(times[limit], times[mine], strict=True))
        wanted = "" if floor is None else f"   (wanted: at least {floor})"
        print(f"  {mine} reaches {ratio:.2f} × {limit}{wanted}")


def growth(last: int) -> None:
    """CPU per append around message 100 and around message ``last``, on tmpfs, where fsync costs nothing."""
    texts = contents()
    for backend in ("files", "sqlite"):
        folder = Path(tempfile.mkdtemp(prefix="orihon-growth-", dir="/dev/shm"))
        touch_memory(folder, last * 60_000)
        append = ours(backend, guard=False)(folder, True)
        try:
            blocks: list[float] = []
            assert append is not None
            for _ in range(last // 100):
                started = time.process_time()
                for text in texts:
                    append(text)
                blocks.append((time.process_time() - started) / 100)
            early, late = statistics.median(blocks[1:21]), statistics.median(blocks[-20:])
            print(
                f"growth {backend}: {early * 1e6:.0f} µs CPU around message 100, {late * 1e6:.0f} µs at {last:,}: "
                f"{late / early:.2f} ×   (wanted: at most 1.2)"
            )
        finally:
            shutil.rmtree(folder)


def touch_memory(folder: Path, size: int) -> None:
    """On a virtual machine the first touch of a page is dear, whoever makes it: have it behind us."""
    block = b"x" * (1 << 20)
    with (folder / "touched").open("wb") as file:
        for _ in range(size >> 20):
            file.write(block)
    (folder / "touched").unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=Path("build"), help="a folder on the disk to measure")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--durability", choices=("full", "os"), default="full")
    parser.add_argument("--growth", type=int, default=50_000, help="messages of the growth run; 0 leaves it out")
    options = parser.parse_args()
    options.dir.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="orihon-append-", dir=options.dir))
    try:
        throughput(folder, options.rounds, options.durability == "full")
    finally:
        shutil.rmtree(folder)
    if options.growth:
        growth(options.growth)


if __name__ == "__main__":
    main()
