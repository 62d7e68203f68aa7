"""How long costs and metrics take over very many tasks, and what counting costs an append.

python -m benchmarks.figures [--tasks 100000] [--appends 20000]
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.catalogue import sqlite
from orihon.reports.costs import GROUPS, cost_report
from orihon.reports.metrics import MetricsServer
from orihon.settings import load_settings
from orihon.system.counters import MODEL_CALLS, Counts
from tests.helpers import raw_database

MODELS = ("gpt-4o", "claude-sonnet-4-5", "a-model-without-a-price")
REPEATS = 5


def used(base: Path) -> None:
    """One or two days of calls for every task."""
    shuffled = random.Random(1)
    with raw_database(base / "tasks.db") as connection, connection:
        for number, (uuid,) in enumerate(connection.execute("SELECT uuid FROM tasks").fetchall()):
            for month in range(9, 10 + number % 2):
                connection.execute(
                    "INSERT INTO usage (uuid, day, model, provider, calls, input_tokens, cached_tokens, output_tokens, "
                    "saved_tokens) VALUES (?, ?, ?, 'openai', 10, 100000, 80000, 5000, 30000)",
                    (uuid, f"2026-{month:02d}-{1 + number % 28:02d}", shuffled.choice(MODELS)),
                )


def median(action: Callable[[], object]) -> float:
    """Milliseconds."""
    took = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        took.append(time.perf_counter() - started)
    return 1000 * statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--appends", type=int, default=20_000)
    given = parser.parse_args()
    settings = load_settings({}, environ={})
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        with sqlite(base, given.tasks):
            pass
        used(base)
        for by in GROUPS:
            took = median(lambda by=by: cost_report(base, settings, by, limit=50))  # type: ignore[misc]
            print(f"costs by {by:12} {took:8.1f} ms   ({given.tasks:,} tasks)")
        with MetricsServer(base, settings) as server:
            print(f"a scrape              {median(server.text):8.1f} ms   (wanted: under 100)")
    counts = Counts()
    started = time.perf_counter()
    for _ in range(given.appends):
        counts.add(MODEL_CALLS, model="gpt-4o", purpose="answer")
    each = (time.perf_counter() - started) / given.appends
    print(f"one count             {each * 1e6:8.2f} µs")


if __name__ == "__main__":
    main()
