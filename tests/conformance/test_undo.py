"""Hundreds of random lives of a view: compress, undo and redo in any order come back byte for byte.

``--undo-tasks N`` makes the campaign longer.
"""

from __future__ import annotations

import random
import secrets
from pathlib import Path

from orihon import MessageStore
from orihon.compression.compressor import ContextCompressor
from orihon.settings.rungs import STRATEGIES
from tests.conformance.backends import BACKENDS

SEQUENCES_PER_TASK = 25
WORDS = (
    "parse_order",
    "orders/reader.py",
    "must stay",
    "エラー",
    "決定",
    "fails at line 41",
    "ok",
    "done",
    "next step",
)


def fill(store: MessageStore, rng: random.Random) -> None:
    store.add_message("system", "You are careful.")
    for turn in range(rng.randint(4, 10)):
        store.add_message("user", _said(rng, 6))
        call = {"id": f"call-{turn}", "function": {"name": "read_file", "arguments": "{}"}}
        store.add_message("assistant", _said(rng, 3), tool_calls=[call])
        store.add_message("tool", "\n".join(_said(rng, 8) for _ in range(rng.randint(1, 60))), "read_file")
        store.add_message("assistant", f"## Exploration\n{_said(rng, 40)}\n## Decisions\n{_said(rng, 3)}")


def _said(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(words)) + f" {rng.randint(0, 10_000)}"


def shown(store: MessageStore) -> bytes:
    return store.get_current_context_file().read_bytes()


def live(store: MessageStore, compressors: list[ContextCompressor], rng: random.Random) -> int:
    """Random steps, checked against a plain model of undo and redo; then everything is undone."""
    first = shown(store)
    done: list[bytes] = []  # the view before each compression that can be undone
    undone: list[bytes] = []  # the view after each that can be made again
    steps = 0
    for _ in range(rng.randint(3, 10)):
        act = rng.choice(["compress", "compress", "undo", "redo"])
        before = shown(store)
        if act == "compress":
            strategy = rng.choice([None, *STRATEGIES])
            result = rng.choice(compressors).compress(strategy=strategy, target=rng.choice([0.05, 0.3, 0.6]))
            if result.changed:
                done.append(before)
                undone.clear()
        elif act == "undo" and done:
            store.folding.undo()
            assert shown(store) == done.pop()
            undone.append(before)
        elif act == "redo" and undone:
            store.folding.redo()
            assert shown(store) == undone.pop()
            done.append(before)
        steps += shown(store) != before
    while done:
        store.folding.undo()
        assert shown(store) == done.pop()
    assert shown(store) == first
    return steps


def compressor(store: MessageStore, preset: str) -> ContextCompressor:
    config = {
        "llm": {"openai": {"context_length": 4000, "reserve_output": 100}},
        "compression": {"preset": preset, "keep_recent": 2},
    }
    return ContextCompressor(message_store=store, config=config)


def test_every_sequence_comes_back_byte_for_byte(kind: str, undo_tasks: int, tmp_path: Path) -> None:
    rng = random.Random(11)
    changed = 0
    for _ in range(undo_tasks):
        store = BACKENDS[kind].open(tmp_path / f"task-{secrets.token_hex(8)}", durability="os")
        fill(store, rng)
        config = {"llm": {"openai": {"context_length": 4000, "reserve_output": 100}}}
        compressors = [
            ContextCompressor(
                message_store=store, config={**config, "compression": {"preset": preset, "keep_recent": 2}}
            )
            for preset in ("default", "coding-agent", "companion", "phases")
        ]
        for _ in range(SEQUENCES_PER_TASK):
            changed += live(store, compressors, rng)
        store.close()
    assert changed > 2 * undo_tasks * SEQUENCES_PER_TASK, "most steps must have done something"
