"""Ladders and views for the tests of the ladder."""

from __future__ import annotations

from typing import Any

from orihon.compression.ladder import Fullness, Ladder, ladder_of
from tests.configurations import load

PRESETS = ("default", "coding-agent", "companion", "phases")


def ladder(preset: str = "default", memory: dict[str, Any] | None = None, **compression: object) -> Ladder:
    return ladder_of(load({"compression": {"preset": preset, **compression}, "memory": memory or {}}))


def full(tokens: int, *, window: int = 1000, budget: int | None = None, entries: int = 1) -> Fullness:
    return Fullness(tokens, entries, window, window if budget is None else budget)


def begins(made: Ladder, *, window: int = 100_000, budget: int | None = None) -> int:
    """The most tokens at which nothing is folded yet."""
    at = (full(tokens, window=window, budget=budget) for tokens in range(window + 2))
    return next(now.tokens for now in at if (rung := made.rung(now)) is not None and rung.strategies) - 1
