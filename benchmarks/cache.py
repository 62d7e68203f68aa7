"""What a conversation costs with a prompt cache: real transcripts replayed turn by turn under different policies.

    ORIHON_BENCH_DATA=FOLDER python -m benchmarks.cache [--window 16000 --window 32000] [--model claude-sonnet-4-5]

FOLDER has `data/trajectories/*.jsonl`. Before each answer of the agent a request is made of the view; the beginning
that it has in common with the request before is read from the cache, the rest is written to it. Prints the cost of
all requests against never folding (as if the window had no end), how many requests did not fit the window, and how
much of what was appended the last request still showed word for word. No model is called: summaries are extractive.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from orihon import MessageStore
from orihon.compression.compressor import ContextCompressor
from orihon.compression.pages import Aim, FoldPlan, Pages
from orihon.compression.plain_history import read_transcript
from orihon.compression.strategies.summarize import Summarize
from orihon.settings import load_settings
from orihon.values.message.message import Message
from orihon.values.tokens.message_tokens import estimate_message
from orihon.values.tokens.prices import PriceList, Prices

FOLDER = "ORIHON_BENCH_DATA"
PRESETS = ("default", "coding-agent", "companion", "phases")
EVERY = (10, 30)


@dataclass
class Tally:
    """What one policy cost."""

    money: float = 0.0
    requests: int = 0
    refused: int = 0
    folds: int = 0
    read: int = 0
    cached: int = 0

    def request(self, total: int, common: int, window: int, prices: Prices) -> None:
        self.money += prices.of_tokens(total, common, 0)
        self.requests += 1
        self.refused += total > window
        self.read += total
        self.cached += common


class Policy(Protocol):
    """A view that messages are appended to."""

    def append(self, message: Message) -> None: ...

    def before_request(self) -> tuple[int, int]:
        """Do what the policy does now; tokens of the request, and how many of its first ones are as before."""

    def close(self) -> int:
        """How many times something was folded."""


@dataclass
class Trimming:
    """Drops the oldest messages when the window is full; never, when it has no end."""

    window: float
    sizes: list[tuple[int, bool]] = field(default_factory=list)  # tokens, and whether it is an answer of a tool
    head: int = 0
    dropped: int = 0
    sent: int = 0
    cuts: int = 0

    def append(self, message: Message) -> None:
        if message.role in ("system", "developer") and not self.sizes:
            self.head += estimate_message(message)
        else:
            self.sizes.append((estimate_message(message), message.role == "tool"))

    def before_request(self) -> tuple[int, int]:
        total = self.head + sum(size for size, _ in self.sizes[self.dropped :])
        before = self.dropped
        while total > self.window and self.dropped < len(self.sizes) - 1:
            total -= self.sizes[self.dropped][0]
            self.dropped += 1
            while self.dropped < len(self.sizes) - 1 and self.sizes[self.dropped][1]:  # no answer without its call
                total -= self.sizes[self.dropped][0]
                self.dropped += 1
        common = self.sent if self.dropped == before else self.head
        self.cuts += self.dropped != before
        self.sent = total
        return total, min(common, total)

    def close(self) -> int:
        return self.cuts


class Stored:
    """A real task store, folded by ``fold`` before each request."""

    def __init__(self, window: int, preset: str, fold: Callable[[MessageStore, int], object] | None = None) -> None:
        self._folder = tempfile.TemporaryDirectory()
        config = {
            "context_storage": {"durability": "os"},
            "masking": {"enabled": False},
            "compression": {"preset": preset},
            "llm": {"openai": {"context_length": window, "reserve_output": 0}},
        }
        self._store = MessageStore(Path(self._folder.name) / "task", config, context_length=window)
        self._compressor = ContextCompressor(message_store=self._store)
        self._fold = fold
        self._turn = 0
        self._sent: list[tuple[int, int, int, int]] = []
        self._sent_tokens = self._acts = 0

    def append(self, message: Message) -> None:
        self._store.task_store.append(message)

    def before_request(self) -> tuple[int, int]:
        self._turn += 1
        acts = self._store.task_store.count("compressions")
        if self._fold is None:
            self._compressor.compress_if_needed()
        else:
            self._fold(self._store, self._turn)
        total, common = self._store.get_current_token_count(), self._sent_tokens
        changed = self._store.task_store.count("compressions") != acts
        entries = self._entries() if changed or not self._sent else None
        if changed and entries is not None:
            common = _common(self._sent, entries)
        if entries is not None:
            self._sent = entries
        else:
            self._sent = self._sent + self._entries(len(self._sent))
        self._sent_tokens = total
        return total, common

    def _entries(self, known: int = 0) -> list[tuple[int, int, int, int]]:
        view = self._store.view()
        return [(one.start, one.end, one.fold.id if one.fold else 0, one.tokens) for one in view.entries[known:]]

    def close(self) -> int:
        acts = self._store.task_store.count("compressions")
        self._store.close()
        self._folder.cleanup()
        return acts


def _common(before: Sequence[tuple[int, ...]], now: Sequence[tuple[int, ...]]) -> int:
    tokens = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        tokens += new[-1]
    return tokens


def every(turns: int) -> Callable[[MessageStore, int], object]:
    """Folds everything but the newest ten messages every so many turns."""

    def fold(store: MessageStore, turn: int) -> None:
        if turn % turns == 0:
            pages = Pages(*store.task_store.pages())
            plan = Summarize(share=0.35).plan(pages, Aim(0))
            if isinstance(plan, FoldPlan):
                store.folding.compress(plan.folds, strategy="every")

    return fold


def policies(window: int) -> dict[str, Callable[[], Policy]]:
    rhythms = {f"every {turns} turns": partial(Stored, window, "coding-agent", every(turns)) for turns in EVERY}
    presets = {preset: partial(Stored, window, preset) for preset in PRESETS}
    endless, trimmed = partial(Trimming, float("inf")), partial(Trimming, window)
    return {"never folding": endless, "dropping the oldest": trimmed, **rhythms, **presets}


def replay(messages: Sequence[Message], policy: Policy, window: int, prices: Prices, tally: Tally) -> None:
    for message in messages:
        if message.role == "assistant":
            total, common = policy.before_request()
            tally.request(total, common, window, prices)
        policy.append(message)
    tally.folds += policy.close()


def transcripts(folder: Path) -> list[list[Message]]:
    found = []
    for path in sorted((folder / "data" / "trajectories").glob("*.jsonl")):
        chat = read_transcript(path.read_bytes())
        found.append([Message.from_chat(message).as_chat()[0] for message in chat])
    return found


def main(arguments: list[str]) -> int:
    if not (folder := os.environ.get(FOLDER)):
        print(f"{FOLDER} is not set: no transcripts to replay")
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cache")
    parser.add_argument("--window", type=int, action="append", help="tokens, may be given again (16000, 32000)")
    parser.add_argument("--model", default="claude-sonnet-4-5", help="whose prices (claude-sonnet-4-5)")
    options = parser.parse_args(arguments)
    prices = PriceList(load_settings({})).of("openai", options.model)
    if prices is None:
        parser.error(f"no prices are known of {options.model}")
    histories = transcripts(Path(folder))
    print(f"{len(histories)} transcripts; {options.model}: {prices}")
    for window in options.window or [16_000, 32_000]:
        print(f"\nwindow of {window:,} tokens")
        print(f"{'policy':<22}{'cost':>8}{'of never':>10}{'in cache':>10}{'refused':>9}{'folds':>7}")
        base: float | None = None
        for name, make in policies(window).items():
            tally = Tally()
            for history in histories:
                replay(history, make(), window, prices, tally)
            base = tally.money if base is None else base
            print(
                f"{name:<22}{tally.money:>8.2f}{tally.money / base:>10.2f}{tally.cached / tally.read:>10.2f}"
                f"{tally.refused:>9}{tally.folds:>7}",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
