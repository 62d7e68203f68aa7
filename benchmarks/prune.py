"""Scoring and pruning of a long view: 10,000 messages of 2 kB.

    python -m benchmarks.prune [--messages 10000] [--bytes 2000] [--repeats 5]

Scoring alone, first without and then with kept content scores; then whole plans that halve the view, one for each way
of choosing what stays, and one that writes notices only.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import get_args

from benchmarks.sample import contents
from orihon.compression.importance import ContentScores, weigh
from orihon.compression.pages import Aim, FoldPlan, Pages
from orihon.compression.strategies.prune import Prune, PruneSelection
from orihon.values.message.message import Message
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.view import Entry, View

ROLES = ("user", "assistant", "user", "assistant", "tool")


def pages_of(messages: int, size: int, seed: int = 7) -> Pages:
    """A view of messages that are cut out of one long text with a name of its own in each line, so none are alike."""
    rng = random.Random(seed)
    lines = "".join(contents()).splitlines()
    text = "\n".join(f"{line} name_{rng.randrange(20_000)}" for line in lines)
    starts = (rng.randrange(len(text) - size) for _ in range(messages))
    said = [Message(ROLES[number % len(ROLES)], text[start : start + size]) for number, start in enumerate(starts)]
    entries = (Entry(seq, seq, one.role, estimate_message(one)) for seq, one in enumerate(said, 1))
    return Pages(View(tuple(entries)), said)


def score_all(pages: Pages, scores: ContentScores) -> None:
    content_score, total = scores.scorer(), len(pages.messages)
    for place, message in enumerate(pages.messages):
        weigh(content_score(message.text), message.role, place, total)


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--bytes", type=int, default=2_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    pages = pages_of(options.messages, options.bytes)
    kept = ContentScores()
    first = statistics.median(seconds(lambda: score_all(pages, ContentScores())) for _ in range(options.repeats))
    score_all(pages, kept)
    again = statistics.median(seconds(lambda: score_all(pages, kept)) for _ in range(options.repeats))
    print(
        f"scoring {options.messages:,} messages of {options.bytes:,} bytes: {first * 1e3:.0f} ms, "
        f"with kept content scores {again * 1e3:.1f} ms   (wanted: below 200)"
    )
    ways = [(name, Prune(name)) for name in get_args(PruneSelection)]
    for name, prune in [*ways, ("importance, notices only", Prune(emergency=True))]:
        fresh = Pages(pages.view, pages.messages)
        started = time.process_time()
        plan = prune.plan(fresh, Aim(fresh.tokens // 2))
        took = time.process_time() - started
        assert isinstance(plan, FoldPlan)
        print(
            f"a plan by {name}: {took:.2f} s, {len(plan.folds):,} folds, "
            f"{fresh.tokens:,} → {fresh.tokens_after(plan.folds):,} tokens   (wanted: below 3 s)"
        )


if __name__ == "__main__":
    main()
