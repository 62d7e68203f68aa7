"""What a compressor uses of the task that it keeps within its window, besides the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from orihon.compression.model.summarizer import ChatClient, LLMClientProtocol
from orihon.notifications.outbox import Outbox
from orihon.system.counters import Counts
from orihon.values.records import ModelCall

if TYPE_CHECKING:
    from orihon.catalogue import Lease
    from orihon.store import MessageStore


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
    def message_store(self) -> MessageStore:
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
