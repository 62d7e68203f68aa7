"""When a view is compressed, and by what: the ladder and its presets.

A ladder is data: rungs, each with a usage, a number of entries or an event, and the strategies to use there. The
highest rung that a view has reached counts. ``coding-agent``, ``companion`` and ``phases`` are the ladders of the
first designs; ``default`` is ours. What is set explicitly wins over a preset. Decides nothing else: planning is done
in ``planner``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from orihon.settings import Settings
from orihon.settings.rungs import EVENTS, Rung
from orihon.values.tokens.tokens import Gauge

Measure = Literal["window", "budget"]

COMPLEXITY_THRESHOLDS = {"simple": 0.5, "medium": 0.7, "complex": 0.85}
_ALL = 1.0
_LAST_CALL = 0.95  # share of the budget at which a rung beyond its end is reached
_BELOW = 0.6  # share of a rung's usage to come down to where the usual target is no less than that usage


@dataclass(frozen=True, slots=True)
class Fullness:
    """How full a view is, by each measure that a rung may go by."""

    tokens: int  # corrected by what the provider reported
    entries: int
    window: int
    budget: int

    @property
    def usage(self) -> float:
        """The share of the budget that the view takes; above 1 it cannot be sent."""
        return self.tokens / self.budget


@dataclass(frozen=True, slots=True)
class Ladder:
    """Rungs, lowest first, and what their usage is a share of.

    A usage of 1 always means the whole budget. A rung below that is reached before it, however much of the window is
    kept free for the answer.
    """

    rungs: tuple[Rung, ...]
    of: Measure = "window"
    target: float = 0.5  # share to come down to where a rung names none
    summary_share: float | None = None  # of the folded messages that a summary has; unset: what the target leaves
    bends: bool = False  # whether newest messages that are too large for the target give way
    keeps_headings: bool = False  # sections under the well-known headings stay word for word
    limit: int | None = None  # tokens that the view may have, if fewer than the measure
    scale: float | None = None  # tokens that usages and targets are shares of instead

    def rung(self, fullness: Fullness) -> Rung | None:
        """The highest rung that the view has reached by usage or entries; of those that fold, if any does."""
        reached = [rung for rung in self.rungs if self._is_reached(rung, fullness)]
        folding = [rung for rung in reached if rung.strategies]
        return next(reversed(folding or reached), None)

    def height(self, fullness: Fullness) -> int:
        """How many rungs the view has climbed."""
        return sum(self._is_reached(rung, fullness) for rung in self.rungs)

    def rung_for(self, event: str) -> Rung | None:
        """The rung of an event."""
        return next((rung for rung in self.rungs if rung.event == event), None)

    def strongest(self) -> Rung:
        """What is done when somebody asks for a compression by hand: the last rung below the end of the budget."""
        folding = [rung for rung in self.rungs if rung.strategies and rung.event is None]
        below = [rung for rung in folding if rung.usage is None or rung.usage < _ALL]
        return replace((below or folding)[-1], economical=False)

    def marks(self, window: int, budget: int) -> tuple[float, ...]:
        """Where the rungs of usage are, as shares of the budget, lowest first."""
        empty = Fullness(0, 0, window, budget)
        found = (self._reached_at(rung, empty) for rung in self.rungs)
        return tuple(sorted({round(tokens / budget, 4) for tokens in found if tokens is not None}))

    def whole(self, fullness: Fullness) -> float:
        """The tokens that usages and targets are shares of."""
        if self.scale is not None:
            return self.scale
        measured = fullness.window if self.of == "window" else fullness.budget
        return measured if self.limit is None else min(measured, self.limit)

    def goal(self, rung: Rung, fullness: Fullness) -> int:
        """Tokens that the view should have after this rung, by the provider's measure.

        A rung of entries or an event may find little in the view: its target is a share of that then.
        """
        whole = self.whole(fullness)
        if rung.usage is None:
            whole = min(whole, fullness.tokens)
        share = self.target if rung.target is None else rung.target
        if rung.target is None and rung.usage is not None and share >= rung.usage:
            share = rung.usage * _BELOW
        return int(min(share * whole, self._end(fullness)))

    def _end(self, fullness: Fullness) -> int:
        return fullness.budget if self.limit is None else min(fullness.budget, self.limit)

    def _is_reached(self, rung: Rung, fullness: Fullness) -> bool:
        if rung.messages is not None:
            return fullness.entries > rung.messages
        wanted = self._reached_at(rung, fullness)
        if wanted is None:
            return False
        including = rung.including and rung.usage is not None and rung.usage < _ALL
        return fullness.tokens >= wanted if including else fullness.tokens > wanted

    def _reached_at(self, rung: Rung, fullness: Fullness) -> float | None:
        """The tokens at which a view reaches the rung; ``None`` where it is not reached by usage."""
        if rung.usage is None:
            return None
        if rung.usage >= _ALL:
            return self._end(fullness)
        wanted = round(rung.usage * self.whole(fullness), 6)  # 0.7 * (101 / 0.7) is a little more than 101
        return _LAST_CALL * fullness.budget if wanted >= fullness.budget and self.scale is None else wanted


def fullness_of(gauge: Gauge, view_tokens: int, entries: int) -> Fullness:
    """How full a view is; ``view_tokens`` as the log carries them."""
    return Fullness(gauge.correction.apply(view_tokens), entries, gauge.budget.window, gauge.budget.tokens)


# ---- presets -----------------------------------------------------------------------------------------------------

_FOLD = ("offload", "summarize")
_EVENT_RUNGS = tuple(Rung(event=event, strategies=_FOLD, economical=True) for event in EVENTS)


def _default(settings: Settings) -> Ladder:
    """Ours: what costs nothing first, nothing before it pays for the prompt cache that it breaks."""
    start = threshold_of(settings)
    return Ladder(
        (
            Rung(usage=start, strategies=_FOLD, economical=True),
            Rung(usage=max(start, 0.9), strategies=_FOLD),
            Rung(usage=_ALL, strategies=_FOLD),
            *_EVENT_RUNGS,
        ),
        target=0.3,
        bends=True,
    )


def _coding_agent(settings: Settings) -> Ladder:
    start = threshold_of(settings)
    return Ladder(
        (
            Rung(usage=start, strategies=("summarize",)),
            Rung(usage=_ALL, strategies=("summarize", "offload")),
        ),
        summary_share=settings.compression.summary_share,
    )


def _companion(settings: Settings) -> Ladder:
    memory = settings.memory
    start = _start(settings, memory.pruning_threshold, "memory.pruning_threshold")
    pruning = Rung(usage=start, strategies=("prune",), model=False)
    summarizing = Rung(usage=max(start, 0.9), strategies=("prune",)) if memory.enable_summarization else pruning
    return Ladder(
        (
            Rung(usage=min(0.6, start)),
            pruning,
            summarizing,
            Rung(usage=_ALL, strategies=("prune",), model=False),
        ),
        of="budget",
        target=min(memory.target_usage, start),
        limit=memory.max_tokens if settings.is_explicit("memory.max_tokens") else None,
    )


def _phases(settings: Settings) -> Ladder:
    start = _start(settings, 0.8)
    levels = ((start, "light"), (max(start, 0.9), "standard"), (max(start, 0.95), "aggressive"))
    return Ladder(
        (
            *(Rung(usage=usage, strategies=("sections",), level=level, including=True) for usage, level in levels),
            Rung(usage=_ALL, strategies=("sections", "offload", "summarize"), level="aggressive"),
            *(Rung(event=event, strategies=("sections",), level="standard", target=0.01) for event in EVENTS),
        ),
        of="budget",
        target=0.5,
        keeps_headings=True,
    )


_PRESETS = {"default": _default, "coding-agent": _coding_agent, "companion": _companion, "phases": _phases}


def ladder_of(settings: Settings) -> Ladder:
    """The ladder that the settings want."""
    compression = settings.compression
    ladder = _PRESETS[compression.preset](settings)
    if compression.ladder is not None:
        emergency = next(rung for rung in reversed(ladder.rungs) if rung.usage is not None)
        ladder = replace(ladder, rungs=_with_end(compression.ladder, emergency))
    if compression.token_threshold is not None:
        ladder = _from_tokens(ladder, compression.token_threshold)
    return ladder if compression.target is None else replace(ladder, target=compression.target)


def _with_end(rungs: tuple[Rung, ...], emergency: Rung) -> tuple[Rung, ...]:
    """The rungs, lowest first. A view beyond its budget cannot be sent: every ladder has a rung for that."""
    by_messages = sorted((rung for rung in rungs if rung.messages is not None), key=lambda rung: rung.messages or 0)
    by_usage = sorted((rung for rung in rungs if rung.usage is not None), key=lambda rung: rung.usage or 0.0)
    has_end = any(rung.usage == _ALL and rung.strategies for rung in by_usage)
    events = (rung for rung in rungs if rung.event is not None)
    return (*by_messages, *by_usage, *(() if has_end else (emergency,)), *events)


def _from_tokens(ladder: Ladder, tokens: int) -> Ladder:
    """The ladder stretched or shrunk so that its first rung that folds is reached at this number of tokens."""
    usages = (rung.usage for rung in ladder.rungs if rung.strategies)
    start = next((usage for usage in usages if usage is not None and usage < _ALL), None)
    if start is None:
        return replace(ladder, limit=tokens if ladder.limit is None else min(tokens, ladder.limit))
    return replace(ladder, scale=tokens / start)


def threshold_of(settings: Settings) -> float:
    """The share of the window at which folding begins: what is set, or what the task's complexity asks for."""
    return _start(settings, settings.compression.threshold)


def _start(settings: Settings, usual: float, key: str = "compression.threshold") -> float:
    """Where folding begins: the threshold or what ``key`` says if set, else by complexity, else as usual."""
    compression = settings.compression
    if settings.is_explicit("compression.threshold"):
        return compression.threshold
    if settings.is_explicit(key) or compression.task_complexity is None:
        return usual
    return COMPLEXITY_THRESHOLDS[compression.task_complexity]
