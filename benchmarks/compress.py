"""One compression of a long view without a model: how long planning and applying take, and how much memory.

    [ORIHON_BENCH_DATA=FOLDER] python -m benchmarks.compress [--messages 2000] [--tokens 500000] [--repeats 3]

The view is like a coding agent's: calls with their results, some thoughts, few users' wishes; no two lines are alike,
which is close to the worst case. With FOLDER (`data/trajectories/*.jsonl` in it) real transcripts come first.
It lies in a real store on tmpfs. Time is the best of some repetitions, each with a new compressor; after each the
compression is undone. Memory is what Python objects take at the peak, above what the open store has, measured in a
process of its own because measuring makes everything slower.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from orihon import MessageStore
from orihon.compression.compressor import ContextCompressor
from orihon.compression.planner import Draft

BACKENDS = ("files", "sqlite")
# A name, a strategy (none: the default preset's) and the share of the window to come down to (none: the preset's).
WAYS: tuple[tuple[str, str | None, float | None], ...] = (
    ("default preset", None, None),
    ("default preset to 10 %", None, 0.1),
    ("summarize", "summarize", None),
    ("prune", "prune", None),
    ("offload", "offload", None),
    ("sections", "sections", None),
)
FOLDER = "ORIHON_BENCH_DATA"
PER_TURN = 4  # messages
NOUNS = ("valve", "exporter", "report", "cache", "parser", "index", "settings", "queue", "worker", "token", "ledger")
VERBS = ("reads", "writes", "drops", "keeps", "moves", "counts", "loads", "checks", "opens", "closes", "splits")


@dataclass(frozen=True, slots=True)
class Took:
    """How long something took, in seconds."""

    cpu: float
    wall: float


def texts(turns: int, characters: int, seed: int = 7) -> Iterator[tuple[str, str, str, str]]:
    """For each turn a thought, a result, a thought and a longer result: together so many characters on average."""
    rng = random.Random(seed)
    for turn in range(turns):
        size = characters * rng.choice((1, 1, 2, 2, 4)) // 2
        wish = f"Next: {_line(rng)}\nNever touch src/{rng.choice(NOUNS)}_{turn}.py." if turn % 20 == 0 else _line(rng)
        explored = " ".join(_line(rng) for _ in range(5))
        thought = "\n\n".join(("## Research", explored, explored, "## Decisions", f"part_{turn}: {_line(rng)}"))
        yield wish, _rows(rng, size * 2 // 5), thought, _rows(rng, size * 3 // 5 - len(thought))


def _rows(rng: random.Random, size: int) -> str:
    rows: list[str] = []
    while size > 0:
        rows.append(_line(rng))
        size -= len(rows[-1]) + 1
    return "\n".join(rows)


def _line(rng: random.Random) -> str:
    one, other, verb = rng.choice(NOUNS), rng.choice(NOUNS), rng.choice(VERBS)
    large, small = rng.randrange(5000), rng.randrange(900)
    kinds = (
        f"src/{one}/{other}_{small}.py:{large}: the {other} {verb} {one}_{rng.randrange(5000)}",
        f"    def {verb}_{one}_{large}(self, {other}): return self.{other}_{small}.{verb}({one})",
        f"error: {one}_{large} has no attribute '{other}', it {verb} {small}",
        f"The {one} {verb} the {other} before {other}_{large} is there, {small} times.",
        f"{one} は {other}_{large} を読む前に作られるため、{small} 行目で失敗します。",
    )
    return rng.choice(kinds)


def fill(store: MessageStore, messages: int, tokens: int) -> int:
    """The view; returns the characters of its text."""
    store.add_message("system", "You are a careful agent.")
    said = 0
    turns = messages // PER_TURN
    for turn, (wish, first, thought, second) in enumerate(texts(turns, 37 * tokens // (10 * turns))):
        for place, (words, result) in enumerate(((wish, first), (thought, second))):
            name = f"call_{turn}_{place}"
            function = {"name": "run_shell", "arguments": f'{{"command": "show {name}"}}'}
            store.add_message("assistant", words, tool_calls=[{"id": name, "type": "function", "function": function}])
            store.add_message("tool", result, tool_call_id=name)
            said += len(words) + len(result)
    return said


def fill_with_transcripts(store: MessageStore, messages: int, tokens: int) -> int:
    """The same out of real transcripts, one after another."""
    from benchmarks.cache import transcripts

    said = 0
    store.add_message("system", "You are a careful agent.")
    histories = sorted(transcripts(Path(os.environ[FOLDER])), key=len)
    for number, history in enumerate(histories * 9):
        for message in history:
            if store.get_current_token_count() >= tokens and not store.task_store.tail.open_calls:
                return said
            calls = tuple(replace(call, id=f"{number}-{call.id}") for call in message.tool_calls)
            answers = None if message.tool_call_id is None else f"{number}-{message.tool_call_id}"
            store.task_store.append(replace(message, tool_calls=calls, tool_call_id=answers))
            said += len(message.text)
    return said


@contextmanager
def filled_store(
    backend: str, messages: int, tokens: int, fill: Callable[[MessageStore, int, int], int] = fill
) -> Iterator[tuple[MessageStore, int]]:
    folder = Path(tempfile.mkdtemp(prefix="orihon-compress-", dir="/dev/shm"))
    window = tokens * 12 // 10
    config = {
        "context_storage": {"backend": backend, "durability": "os"},
        "masking": {"enabled": True},
        "llm": {"openai": {"context_length": window, "reserve_output": window // 20}},
    }
    store = MessageStore(folder / "task", config)
    try:
        said = fill(store, messages, tokens)
        yield store, said
    finally:
        store.close()
        shutil.rmtree(folder)


def timed(work: Callable[[], object]) -> tuple[Took, object]:
    cpu, wall = time.process_time(), time.perf_counter()
    result = work()
    return Took(time.process_time() - cpu, time.perf_counter() - wall), result


def best(times: list[Took]) -> Took:
    return min(times, key=lambda took: took.cpu)


def measure_time(store: MessageStore, way: tuple[str, str | None, float | None], repeats: int) -> None:
    name, strategy, target = way
    planning, applying, line = [], [], ""
    for _ in range(repeats):
        compressor = ContextCompressor(message_store=store)
        took, planned = timed(lambda: compressor.preview(strategy=strategy, target=target))  # noqa: B023 - at once
        planning.append(took)
        if not isinstance(planned, Draft):
            print(f"  {name:<24} nothing to fold: {planned}")
            return
        took, _ = timed(lambda: compressor.apply(planned))  # noqa: B023 - at once
        applying.append(took)
        line = f"{planned.plan.strategy}, {len(planned.plan.folds):,} folds, to {planned.after_tokens:,} tokens"
        store.folding.undo()
    plan, apply = best(planning), best(applying)
    print(
        f"  {name:<24} plan {plan.cpu:.2f} s CPU, {plan.wall:.2f} s; apply {apply.cpu:.2f} s CPU, {apply.wall:.2f} s; "
        f"together {plan.cpu + apply.cpu:.2f} s CPU   (wanted: below 1 s)   {line}",
        flush=True,
    )


def measure_memory(backend: str, messages: int, tokens: int, way: tuple[str, str | None, float | None]) -> None:
    """Run in a process of its own."""
    name, strategy, target = way
    with filled_store(backend, messages, tokens) as (store, said):
        compressor = ContextCompressor(message_store=store)
        tracemalloc.start()
        planned = compressor.preview(strategy=strategy, target=target)
        plan_peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        if isinstance(planned, Draft):
            compressor.apply(planned)
        apply_peak = tracemalloc.get_traced_memory()[1]
        print(
            f"  {name:<24} peak {plan_peak / 2**20:.1f} MiB planning, {apply_peak / 2**20:.1f} MiB applying; "
            f"the text has {said / 2**20:.1f} MiB: {max(plan_peak, apply_peak) / said:.1f} ×   (wanted: about 2)",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=2_000)
    parser.add_argument("--tokens", type=int, default=500_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", nargs=2, metavar=("BACKEND", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        measure_memory(options.memory[0], options.messages, options.tokens, WAYS[int(options.memory[1])])
        return
    if FOLDER in os.environ:
        with filled_store("files", options.messages, options.tokens, fill_with_transcripts) as (store, said):
            entries, tokens = len(store.view().entries), store.get_current_token_count()
            print(f"real transcripts: {entries:,} messages, {tokens:,} tokens, {said:,} characters")
            for way in WAYS:
                measure_time(store, way, options.repeats)
    for backend in BACKENDS:
        with filled_store(backend, options.messages, options.tokens) as (store, said):
            entries, tokens = len(store.view().entries), store.get_current_token_count()
            print(f"{backend}: {entries:,} messages, {tokens:,} tokens, {said:,} characters")
            for way in WAYS:
                measure_time(store, way, options.repeats)
        for number in range(len(WAYS)):
            sizes = ["--messages", str(options.messages), "--tokens", str(options.tokens)]
            command = [sys.executable, "-m", "benchmarks.compress", "--memory", backend, str(number), *sizes]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
