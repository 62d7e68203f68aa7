"""The final summary of a task: written by its model when there is one, else drawn from the view.

The view has everything, as itself or in its folds, and is bounded; the log is not.
"""

from __future__ import annotations

from orihon.compression.extractive.extractor import summarize
from orihon.compression.model.summarizer import LLMSummarizer
from orihon.compression.pages import Pages

FINAL_SUMMARY_TOKENS = 2000


def final_summary(pages: Pages, model: LLMSummarizer | None, window: int) -> str:
    """What was wanted, done, found and left open, for the next task on the same key."""
    head = pages.view.head
    most = min(FINAL_SUMMARY_TOKENS, window // 4)
    said, seqs = pages.messages[head:], [entry.start for entry in pages.view.entries[head:]]
    written = model.summarize(said, most, seqs=seqs) if model is not None else None
    return written or summarize(said, most, count=pages.count, seqs=seqs)
