"""``SummaryStore``: the texts of all folds a task ever had, and summaries added by hand."""

from __future__ import annotations

from typing import Any

from orihon.store.side_store import SideStore
from orihon.system.clock import utc_now
from orihon.values.tokens.tokens import estimate


class SummaryStore(SideStore):
    """Summaries of one task, oldest first, numbered from 1."""

    def add_summary(
        self,
        summary: str | None = None,
        compressed_count: int = 0,
        tokens_saved: int | None = None,
        *,
        summary_text: str | None = None,
        start_seq: int | None = None,
        end_seq: int | None = None,
        original_tokens: int | None = None,
        summary_tokens: int | None = None,
    ) -> int:
        """Record a summary and return its id. This does not fold anything: see ``MessageStore.create_summary``."""
        text = summary if summary is not None else summary_text or ""
        size = estimate(text) if summary_tokens is None else summary_tokens
        before = (tokens_saved or 0) + size if original_tokens is None else original_tokens
        if start_seq is not None and end_seq is not None and not compressed_count:
            compressed_count = end_seq - start_seq + 1
        return self._store.add(
            "summaries",
            {
                "start_seq": start_seq,
                "end_seq": end_seq,
                "summary": text,
                "original_tokens": before,
                "summary_tokens": size,
                "ratio": round(size / before, 4) if before else 1.0,
                "compressed_message_count": compressed_count,
                "tokens_saved": before - size if tokens_saved is None else tokens_saved,
                "created_at": utc_now(),
            },
        )

    def get_latest_summary(self) -> dict[str, Any] | None:
        """The newest summary as it is stored; ``None`` when there is none."""
        last = self._store.count("summaries")
        return next(self._store.read("summaries", last, last), None) if last else None

    def get_summaries(self) -> list[dict[str, Any]]:
        """All of them."""
        return list(self._store.read("summaries"))

    def count_summaries(self) -> int:
        """How many there are."""
        return self._store.count("summaries")
