"""The history search: how long a query takes, what the index weighs, and what an append pays for it.

    python -m benchmarks.search [--messages 50000] [--queries 100] [--rows 0] [--rounds 40] [--folder FOLDER]
                                [--backend files|sqlite|postgres] [--database URL]

The messages are generated (about 500 bytes each, a thousand to a task): words as often as words of a language are,
names in snake and camel case, some Japanese. A query is three words of one message, neither the most frequent ones nor
unknown, as the caller of ``search_history`` sees it: with the look for news and with the excerpts. ``--messages
1000000`` is the size that the goal is about. ``--rows`` adds finished tasks to the catalogue, for the look when nothing
is new.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

from orihon import Message, MessageStore, TaskContextManager, TaskKey, search_history
from orihon.catalogue.connect import open_catalogue
from orihon.search import catch_up, rebuild_index
from orihon.search.query import tokens
from orihon.settings import Settings, load_settings
from orihon.store.record_codec import Said
from orihon.tasks.base import OpenBase

WANTED_MILLISECONDS = 50.0
WANTED_COST = 1.02
WANTED_SIZE = 1.2
_DATABASE = "postgresql://127.0.0.1:5432/test"
_TASK = 1000
_TURN = 10
_JAPANESE = ("設定を読む前にキャッシュが作られる", "移行計画を確認しました", "会議の記録", "テストが失敗します")
#: The ranks of words that people search for: not "the", and not what nobody has said.
_ASKED = slice(30, 20_000)


class Words:
    """A language of our own, with a few frequent words and many rare ones."""

    def __init__(self, count: int = 50_000, seed: int = 11) -> None:
        rng = random.Random(seed)
        letters = "etaoinshrdlucmfwypvbgk"
        self.words = list(dict.fromkeys("".join(rng.choices(letters, k=rng.randint(2, 9))) for _ in range(count)))
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(len(self.words))))
        self._rng = rng

    def message(self) -> str:
        said = self._rng.choices(self.words, cum_weights=self._weights, k=74)
        said[10] = "_".join(said[10:12])
        said[20] = said[20] + said[21].title()
        if self._rng.random() < 0.2:
            said[30] = self._rng.choice(_JAPANESE)
        return " ".join(said)

    def query(self, message: str) -> str:
        asked = set(self.words[_ASKED]).intersection(tokens(message))
        return " ".join(self._rng.sample(sorted(asked), 3))


def fill(base: Path, settings: Settings, words: Words, messages: int) -> tuple[int, list[str]]:
    """How many bytes were said, and some of it."""
    size, sample = 0, []
    for number in range(0, messages, _TASK):
        key = TaskKey("cli", "bench", "search", "issue", str(number))
        task = TaskContextManager(base, key, settings, inherit=False)
        said = [words.message() for _ in range(min(_TASK, messages - number))]
        task.message_store.task_store.append([Said(Message("user", text)) for text in said])
        task.stop()  # to write its last summary would take longer than all the rest
        task.catalogue.close()
        size += sum(len(text.encode()) for text in said)
        sample.append(said[len(said) // 2])
    return size, sample


def add_rows(base: Path, settings: Settings, rows: int) -> None:
    """Finished tasks that only the catalogue knows."""
    from benchmarks.catalogue import _SQLITE

    with open_catalogue(base, settings) as catalogue, catalogue._db.write() as statements:
        connection: Any = getattr(statements, "_connection")  # noqa: B009 - not typed for others
        connection.execute(_SQLITE.replace("> :tasks - 25000", "> :tasks"), {"tasks": rows, "boot": "none", "now": 0.0})


def timed(action: Any, rounds: int = 1) -> Iterator[float]:
    for _ in range(rounds):
        started = time.perf_counter()
        action()
        yield (time.perf_counter() - started) * 1000


def print_queries(base: Path, settings: Settings, words: Words, sample: list[str], queries: int) -> None:
    times, matches = [], []
    for number in range(queries):
        query = words.query(sample[number % len(sample)])
        started = time.perf_counter()
        results = search_history(base, settings, query)
        times.append((time.perf_counter() - started) * 1000)
        matches.append(results.matches)
        assert results.hits, query
    median, late = statistics.median(times), sorted(times)[int(len(times) * 0.95)]
    print(
        f"three words: median {median:.1f} ms, 95 % within {late:.1f} ms, {statistics.median(matches):.0f} matches "
        f"({'reached' if median <= WANTED_MILLISECONDS else 'MISSED'}: {WANTED_MILLISECONDS:.0f} ms)"
    )


def print_append_cost(folder: Path, rounds: int) -> None:
    """Ten messages in turn, in a folder that is searched after each turn and in one that is not."""
    settings = load_settings({}, environ={})
    words = Words()
    stores: list[tuple[Path, MessageStore]] = []
    for name in ("plain", "searched"):
        task = TaskContextManager(folder / name, TaskKey("cli", "b", "s", "issue", "1"), settings)
        stores.append((folder / name, task.message_store))
    times: dict[str, list[float]] = {"plain": [], "searched": []}
    for turn in range(rounds):
        for base, store in stores if turn % 2 else reversed(stores):
            said = [words.message() for _ in range(_TURN)]
            started = time.perf_counter()
            for text in said:
                store.add_message("user", text)
            times[base.name].append(time.perf_counter() - started)
            if base.name == "searched":
                catch_up(OpenBase(base, settings), seconds=60)
    cost = statistics.median(
        searched / plain for searched, plain in zip(times["searched"], times["plain"], strict=True)
    )
    print(f"an append beside an index: {cost:.3f} of one without (wanted: at most {WANTED_COST})")


def measure(base: Path, settings: Settings, options: argparse.Namespace) -> None:
    words = Words()
    started = time.perf_counter()
    size, sample = fill(base, settings, words, options.messages)
    seconds = time.perf_counter() - started
    print(f"{options.messages:,} messages of {size / options.messages:.0f} bytes in {seconds:.0f} s")
    if options.rows and settings.database.url is None:
        add_rows(base, settings, options.rows)
    started = time.perf_counter()
    rebuild_index(OpenBase(base, settings))
    seconds = time.perf_counter() - started
    print(f"index made in {seconds:.1f} s ({size / seconds / 1e6:.1f} MB/s)")
    if settings.database.url is None:
        weight = sum(path.stat().st_size for path in base.glob("search.db*")) / size
        print(f"index: {weight:.2f} of the text (wanted: at most {WANTED_SIZE})")
    idle = statistics.median(timed(lambda: catch_up(OpenBase(base, settings), seconds=60), 5))
    print(f"nothing new: {idle:.1f} ms, with {options.rows:,} more finished tasks in the catalogue")
    print_queries(base, settings, words, sample, options.queries)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--backend", choices=["files", "sqlite", "postgres"], default="files")
    parser.add_argument("--database", default=_DATABASE)
    options = parser.parse_args()
    storage = {"backend": options.backend, "durability": "os"}
    config: dict[str, Any] = {"context_storage": storage, "masking": {"enabled": False}}
    schema = f"orihon_bench_{secrets.token_hex(4)}"
    if options.backend == "postgres":
        config["database"] = {"url": options.database, "schema": schema}
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        measure(folder / "contexts", load_settings(config, environ={}), options)
        print_append_cost(folder, options.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if options.backend == "postgres":
            import psycopg

            with psycopg.connect(options.database, autocommit=True) as connection:
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


if __name__ == "__main__":
    main()
