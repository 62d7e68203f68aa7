"""The final summary of a task: written by its model when there is one, else drawn from the view.

The view has everything, as itself or in its folds, and is bounded; the log is not.
"""

from __future__ import annotations

from orihon.compression.model.summarizer import LLMSummarizer
from orihon.compression.notes.extractor import summarize
from orihon.compression.pages import Pages
from orihon.compression.trust import Sources, quoted
from orihon.store.model_calls import keep_calls
from orihon.store.tail import Tail
from orihon.store.task_store import TaskStore
from orihon.values.records import ModelCall

FINAL_SUMMARY_TOKENS = 2000


def final_summary(pages: Pages, model: LLMSummarizer | None, window: int) -> str:
    """What was wanted, done, found and left open, for the next task on the same key."""
    head = pages.view.head
    most = min(FINAL_SUMMARY_TOKENS, window // 4)
    said, seqs = pages.messages[head:], [entry.start for entry in pages.view.entries[head:]]
    written = model.summarize(said, most, seqs=seqs) if model is not None else None
    drawn = written or summarize(said, most, count=pages.count, seqs=seqs)
    return quoted(drawn, Sources(said, ()))  # the next task reads it as the word of this one


def keep_final_summary(store: TaskStore, summary: str, calls: tuple[ModelCall, ...]) -> None:
    """Write ``final_summary.txt``, and the calls that no compression has a record of."""
    written = summary.encode("utf-8", "replace")

    def keep(_: Tail) -> None:
        store.records.keep_file("final_summary.txt", written)
        keep_calls(store, calls)

    store.change(keep)  # a writer that was replaced has nothing to say any more
