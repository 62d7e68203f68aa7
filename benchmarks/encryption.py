"""What encryption at rest costs an append with fsync, and a read: sealed and plain side by side, on every back end.

    python -m benchmarks.encryption [--dir DIR] [--rounds 60] [--database postgresql://127.0.0.1:5432/test]

Messages are of the lengths that agents have. Sealed and plain take turns, round after round, in an order that changes;
the ratio is the median over rounds of plain time to sealed time: 0.8 means that a sealed append is at four fifths of
the speed of a plain one. Without a database at that address `postgres` is left out.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.append import touch_memory
from benchmarks.sample import contents
from orihon import MessageStore
from orihon.settings import Settings, load_settings

TURN = 20
KEY = "ORIHON_BENCHMARK_KEY"
WAYS = ("plain", "sealed")


def settings_for(backend: str, way: str, database: dict[str, str] | None) -> Settings:
    config: dict[str, Any] = {"context_storage": {"backend": backend, "durability": "full"}}
    if way == "sealed":
        config["encryption"] = {"enabled": True, "key": f"env:{KEY}"}
    if backend == "postgres":
        config["database"] = database
    return load_settings(config, environ={})


def measured(folder: Path, backend: str, rounds: int, database: dict[str, str] | None) -> None:
    """One back end."""
    stores = {}
    for way in WAYS:
        place = folder / backend / "running" / f"{way}-{secrets.token_hex(4)}"
        stores[way] = MessageStore(place, settings_for(backend, way, database))
        stores[way].add_message("system", "You are a careful programmer.")
    texts = contents()
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(rounds):
        some = [texts[(number * TURN + place) % len(texts)] for place in range(TURN)]
        for way in WAYS if number % 2 else WAYS[::-1]:
            started = time.perf_counter()
            for text in some:
                stores[way].add_message("user", text)
            times[way].append(time.perf_counter() - started)
    ratio = statistics.median(plain / sealed for plain, sealed in zip(times["plain"], times["sealed"], strict=True))
    plain, sealed = (statistics.median(times[way]) / TURN * 1e6 for way in WAYS)
    reading = {way: read(stores[way]) for way in WAYS}
    print(
        f"  {backend:<9} append {plain:7.0f} µs plain, {sealed:7.0f} µs sealed: {ratio:.2f} × (wanted: at least 0.80)"
        f"   read {reading['plain']:6.1f} µs plain, {reading['sealed']:6.1f} µs sealed a message"
    )
    for store in stores.values():
        store.close()


def read(store: MessageStore) -> float:
    """Microseconds to read one message of the log, the best of a few times through all of it."""
    count = store.count_messages()
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        for _message in store.get_messages():
            pass
        best = min(best, time.perf_counter() - started)
    return best / count * 1e6


@contextmanager
def schema_in(url: str) -> Iterator[dict[str, str] | None]:
    """A schema of its own, gone afterwards; ``None`` where no server answers."""
    try:
        import psycopg

        connection = psycopg.connect(url, autocommit=True, connect_timeout=3)
    except Exception as error:
        print(f"  postgres  left out: {type(error).__name__}")
        yield None
        return
    name = f"orihon_bench_{secrets.token_hex(4)}"
    try:
        yield {"url": url, "schema": name}
    finally:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
        connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--dir", type=Path, help="where the tasks are written; a temporary folder unless told")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--database", default="postgresql://127.0.0.1:5432/test")
    options = parser.parse_args()
    os.environ[KEY] = secrets.token_hex(32)
    folder = Path(tempfile.mkdtemp(prefix="orihon-bench-", dir=options.dir))
    touch_memory(folder, 256 << 20)
    print("encryption at rest, with fsync:")
    try:
        for backend in ("files", "sqlite"):
            measured(folder, backend, options.rounds, None)
        with schema_in(options.database) as database:
            if database is not None:
                measured(folder, "postgres", options.rounds, database)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
