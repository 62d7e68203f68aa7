"""What a compressor is given and gives back: the task that it keeps small, the scope of a compression, its result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from orihon.compression.model.call import ChatClient, LLMClientProtocol
from orihon.compression.pages import NothingToFold
from orihon.compression.planner import Draft
from orihon.notifications.notifier import Outbox
from orihon.system.counters import Counts
from orihon.texts import text
from orihon.values.records import Compression, ModelCall
from orihon.values.view import SeqRange

if TYPE_CHECKING:
    from orihon.catalogue import Lease
    from orihon.store import TaskMessages


@dataclass(frozen=True, slots=True)
class CompressionScope:
    """What a compression is about; an empty scope is the view as a whole."""

    span: SeqRange | None = None  # only these messages, however new they are
    checkpoint: str = ""  # the checkpoint that was approved
    archived_to: str = ""  # the file with the whole text; folds refer to it

    def outside(self, last_seq: int) -> tuple[SeqRange, ...]:
        """The runs of the log that are to be left alone."""
        if self.span is None:
            return ()
        first, last = self.span
        runs = ((1, first - 1), (last + 1, last_seq))
        return tuple((start, end) for start, end in runs if start <= end)


WHOLE_VIEW = CompressionScope()


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
    by_hand: tuple[str, ...] = ()  # sentences on settings that could not hold

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
            by_hand=planned.by_hand,
        )

    @property
    def changed(self) -> bool:
        """Whether a task's view is another one now, or (for a document) its text."""
        return self.compression is not None or (self.nothing is None and self.compressed_tokens < self.original_tokens)

    @property
    def reason(self) -> str:
        """Why nothing was folded, or which numbers set by hand could not hold; empty when there is nothing to say."""
        if self.nothing is None:
            return " ".join(self.by_hand)
        return "; ".join((text(f"nothing.{self.nothing.reason.value}"), *self.nothing.by_hand))

    @property
    def tokens_saved(self) -> int:
        """By how many tokens the view, or the document, is smaller."""
        return self.original_tokens - self.compressed_tokens

    @property
    def over_goal(self) -> int:
        """By how many tokens the goal was missed."""
        return max(0, self.compressed_tokens - self.goal) if self.goal is not None else 0


class SummaryCalls(Protocol):
    """The calls of models beside the conversation."""

    def summarised(self, call: ModelCall, *, epoch: int) -> None:
        """One was made."""

    def take_summaries(self) -> tuple[ModelCall, ...]:
        """Those since the last time."""


class FoldedTask(Protocol):
    """An open task, as its compressor sees it."""

    @property
    def uuid(self) -> str:
        """Its name."""

    @property
    def lease(self) -> Lease:
        """By which it is owned."""

    @property
    def message_store(self) -> TaskMessages:
        """Its log and its view."""

    @property
    def outbox(self) -> Outbox:
        """Where notices are put that must not be lost."""

    @property
    def llm_client(self) -> LLMClientProtocol | ChatClient | None:
        """The model that works on it."""

    @property
    def model(self) -> str:
        """That model's name."""

    @property
    def calls(self) -> SummaryCalls:
        """What calls of models have used."""

    @property
    def counts(self) -> Counts:
        """What has happened, for the metrics."""

    def count_compression(self, folds: int) -> None:
        """Folds were made."""

    def update_statistics(self, *, llm_calls: int = 0, tokens: int = 0) -> None:
        """Calls of models were made."""
