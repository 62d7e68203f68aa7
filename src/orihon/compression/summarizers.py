"""The model that writes a task's summaries, made ready for its client.

One summarizer for each client and window: it remembers a call that still hangs, so that the next compression does not
ask once more. What its answers have used is written down for a client that does not do so itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from orihon.compression.model.summarizer import ChatClient, LLMClientProtocol, LLMSummarizer
from orihon.compression.telemetry import counting_answers
from orihon.settings import Settings

if TYPE_CHECKING:
    from orihon.compression.folded_task import FoldedTask


class Summarizers:
    """Summarizers by the settings of one task."""

    def __init__(self, settings: Settings, task_ctx: FoldedTask | None) -> None:
        self._settings = settings
        self._task_ctx = task_ctx
        self._last: tuple[object, LLMSummarizer | None] | None = None

    def of(self, client: LLMClientProtocol | ChatClient | None, window: int) -> LLMSummarizer | None:
        """The one that writes folds; none without a client."""
        key = client, window
        if self._last is None or self._last[0] != key:
            self._last = key, self.with_prompt(self._settings.compression.summary_prompt, client, window)
        return self._last[1]

    def with_prompt(
        self, prompt: str | None, client: LLMClientProtocol | ChatClient | None, window: int
    ) -> LLMSummarizer | None:
        """A new one that is asked in other words."""
        wanted = self._settings.compression
        if client is None:
            return None
        return LLMSummarizer(
            client,
            window=wanted.summary_window or window,
            prompt=prompt,
            retries=wanted.summary_retries,
            timeout=wanted.summary_timeout,
            on_answer=counting_answers(self._task_ctx, client),
        )
