"""How fast a message is stored in PostgreSQL, next to a bare insert of the same row, and what a request costs.

    python -m benchmarks.postgres [--url postgresql://127.0.0.1:5432/test] [--rounds 60] [--durability full|os]

Both append ten messages in turn, round after round, on the same server and with the same text; the ratio is the median
over rounds of (bare / ours). Round trips are counted in the driver's own trace of what goes over the wire.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import psycopg

from benchmarks.sample import contents
from orihon import MessageStore
from orihon.drivers.postgres import postgres_of

TURN = 10
ENTRIES = 200
REQUESTS = 20
Append = Callable[[str], object]


def bare(url: str, schema: str, durable: bool) -> Append:
    connection = psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}")
    connection.execute(f"SET synchronous_commit = {'on' if durable else 'off'}")
    connection.execute(
        "CREATE TABLE bare (task bigint NOT NULL, id bigint NOT NULL, record text NOT NULL, PRIMARY KEY (task, id))"
    )
    number = 0
    known = {"timestamp": "2026-01-01T00:00:00.000000Z", "tokens": 1000, "epoch": 1, "digest": "sha256:" + "0" * 81}

    def append(text: str) -> None:
        nonlocal number
        number += 1
        record = json.dumps({"seq": number, "role": "user", "content": text, **known}, ensure_ascii=False)
        connection.execute("INSERT INTO bare (task, id, record) VALUES (%s, %s, %s)", (1, number, record))

    return append


def config(url: str, schema: str, durable: bool) -> dict[str, object]:
    return {
        "masking": {"enabled": False},
        "database": {"url": url, "schema": schema},
        "context_storage": {"durability": "full" if durable else "os"},
    }


def appends(store: MessageStore, url: str, schema: str, rounds: int, durable: bool) -> None:
    texts = contents()
    runs: dict[str, Append] = {
        "bare psycopg": bare(url, schema, durable),
        "orihon postgres": lambda text: store.add_message("user", text),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for append in runs.values():
        for text in texts[:TURN]:  # statements are prepared after a few
            append(text)
    for number in range(rounds):
        turn = texts[number * TURN % 100 : number * TURN % 100 + TURN]
        for name in list(runs)[:: 1 if number % 2 else -1]:
            started = time.perf_counter()
            for text in turn:
                runs[name](text)
            times[name].append((time.perf_counter() - started) / TURN)
    print(f"append, durability {'full' if durable else 'os'}, {rounds * TURN} messages each")
    for name in times:
        print(f"  {name:<18} {statistics.median(times[name]) * 1e6:8.0f} µs")
    ratio = statistics.median(a / b for a, b in zip(*times.values(), strict=True))
    print(f"  orihon postgres reaches {ratio:.2f} × bare psycopg   (wanted: at least 0.7)")


def request(folder: Path, url: str, schema: str) -> None:
    writer = MessageStore(folder / "requested", config(url, schema, True))
    texts = contents()
    for number in range(ENTRIES + 9):
        writer.add_message("user", texts[number % len(texts)])
    writer.create_summary(2, 11, "what was said at the beginning")
    for _ in range(TURN):  # statements are prepared after a few
        assert len(writer.get_messages_for_llm()) == ENTRIES
    times = []
    with traced(writer) as trips:
        for _ in range(REQUESTS):
            started = time.perf_counter()
            writer.get_messages_for_llm()
            times.append(time.perf_counter() - started)
        each = trips() / REQUESTS
    print(
        f"request from a view of {ENTRIES} entries: {each:g} round trip, {statistics.median(times) * 1000:.1f} ms"
        "   (wanted: 1 round trip)"
    )


@contextmanager
def traced(store: MessageStore) -> Iterator[Callable[[], int]]:
    """How often the connection of the pool has waited for the server inside the block."""
    pool = postgres_of(store.settings)
    connection = pool.take()
    pool.give_back(connection)  # the next one to be taken
    with tempfile.TemporaryFile() as trace:
        connection.pgconn.trace(trace.fileno())
        yield lambda: count_trips(trace)
        connection.pgconn.untrace()


def count_trips(trace: BinaryIO) -> int:
    """A Sync ends what is asked in one go."""
    trace.seek(0)
    return sum(line.split(b"\t")[1:2] == [b"F"] and b"Sync" in line for line in trace)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="postgresql://127.0.0.1:5432/test", help="a database to measure in")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--durability", choices=("full", "os"), default="full")
    options = parser.parse_args()
    try:
        psycopg.connect(options.url, connect_timeout=3).close()
    except psycopg.OperationalError:
        print(f"left out, there is no PostgreSQL at {options.url}")
        return
    schema = f"orihon_bench_{secrets.token_hex(4)}"
    durable = options.durability == "full"
    try:
        with tempfile.TemporaryDirectory(prefix="orihon-postgres-") as folder:
            store = MessageStore(Path(folder) / "appended", config(options.url, schema, durable))
            appends(store, options.url, schema, options.rounds, durable)
            request(Path(folder), options.url, schema)
    finally:
        with psycopg.connect(options.url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


if __name__ == "__main__":
    main()
