"""What a compression did, whichever way it was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from orihon.compression.pages import NothingToFold
from orihon.compression.planner import Draft
from orihon.values.records import Compression


@dataclass(frozen=True, slots=True)
class CompressionResult:
    """What a compression did; ``compression`` is ``None`` when no view was changed by it."""

    original_tokens: int
    compressed_tokens: int
    compression_ratio: float
    preserved_items: tuple[str, ...] = ()  # pinned lines, or protected sections, that are carried on word for word
    archived_path: Path | None = None
    text: str = ""
    folds: tuple[int, ...] = ()
    compression: int | None = None  # number of the record in the task's history
    strategy: str = ""
    goal: int | None = None  # tokens that were aimed at
    nothing: NothingToFold | None = None  # why nothing was folded

    @classmethod
    def of(cls, record: Compression, planned: Draft) -> CompressionResult:
        """What a plan has become."""
        return cls(
            original_tokens=record.before_tokens,
            compressed_tokens=record.after_tokens,
            compression_ratio=record.after_tokens / record.before_tokens if record.before_tokens else 1.0,
            preserved_items=planned.pinned_lines,
            text="\n\n".join(fold.text for fold in planned.plan.folds),
            folds=record.folds,
            compression=record.id,
            strategy=record.strategy,
            goal=planned.goal,
        )

    @property
    def changed(self) -> bool:
        """Whether a task's view is another one now, or (for a document) its text."""
        return self.compression is not None or (self.nothing is None and self.compressed_tokens < self.original_tokens)

    @property
    def over_goal(self) -> int:
        """By how many tokens the goal was missed."""
        return max(0, self.compressed_tokens - self.goal) if self.goal is not None else 0
