"""Whether it pays to divide the messages into partitions: appends to one table and to divided ones, all of them full.

    python -m benchmarks.partitions [--rows 1000000] [--rounds 60]

A PostgreSQL is started for the purpose and gone afterwards. Each variant is a schema of its own whose table of messages
is divided by the hash of the task; all three take turns, ten appends at a time. The server does not wait for the disk,
so that the difference is the tables'.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import psycopg

from orihon import MessageStore
from tests.private_postgres import private_postgres

PARTITIONS = (0, 16, 64)
TURN = 10
TEXT = "The test fails because the cache is filled before the settings are read; I move the call down. " * 5


def opened(url: str, folder: Path, parts: int, rows: int) -> MessageStore:
    """A task among ``rows`` messages of others, 100 to a task."""
    schema = f"parts_{parts}"
    config = {"database": {"url": url, "schema": schema}, "masking": {"enabled": False}}
    MessageStore(folder / "first", config).add_message("user", "makes the tables")
    with psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}") as session:
        if parts:
            session.execute("DROP TABLE message_records")
            session.execute(
                "CREATE TABLE message_records (task bigint NOT NULL, id bigint NOT NULL, record text NOT NULL,"
                " PRIMARY KEY (task, id)) PARTITION BY HASH (task)"
            )
            for number in range(parts):
                session.execute(
                    f"CREATE TABLE message_records_{number} PARTITION OF message_records"
                    f" FOR VALUES WITH (MODULUS {parts}, REMAINDER {number})".encode()
                )
        session.execute(
            "INSERT INTO message_records SELECT 1000 + n / 100, n %% 100, repeat('x', 300)"
            " FROM generate_series(1, %s) AS n",
            (rows,),
        )
        session.execute("VACUUM ANALYZE message_records")
    store = MessageStore(folder / f"task-{parts}", config)
    for _ in range(2 * TURN):  # statements are prepared after a few
        store.add_message("user", TEXT)
    return store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    if not (list(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or shutil.which("initdb")):
        print("left out, PostgreSQL's server programs (initdb, pg_ctl) are not installed")
        return
    times: dict[int, list[float]] = {parts: [] for parts in PARTITIONS}
    with private_postgres() as server, tempfile.TemporaryDirectory(prefix="orihon-partitions-") as name:
        stores = {parts: opened(server.url, Path(name), parts, options.rows) for parts in PARTITIONS}
        for number in range(options.rounds):
            for parts in PARTITIONS[:: 1 if number % 2 else -1]:
                started = time.perf_counter()
                for _ in range(TURN):
                    stores[parts].add_message("user", TEXT)
                times[parts].append((time.perf_counter() - started) / TURN)
    plain = statistics.median(times[0])
    print(f"append among {options.rows:,} messages, {options.rounds * TURN} each")
    for parts, found in times.items():
        median = statistics.median(found)
        print(f"  {f'{parts} partitions' if parts else 'one table':<14} {median * 1e6:6.0f} µs  {median / plain:.2f} ×")


if __name__ == "__main__":
    main()
