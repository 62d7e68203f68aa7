"""Exact token counts of a view, made when somebody asks and kept in a derived document.

Only entries that have not been counted with this tokenizer are tokenized; another tokenizer (a change of model)
counts anew. The append path knows nothing of this.
"""

from __future__ import annotations

from typing import Any

from orihon.store.documents import load_document, save_document
from orihon.store.task_store import TaskStore
from orihon.values.message.message import Message
from orihon.values.records import Fold
from orihon.values.tokens.message_tokens import count_message

_DOCUMENT = "counts"


def exact_view_tokens(store: TaskStore, tokenizer: str) -> int:
    """Tokens of the request that the view makes."""
    kept = _kept(store, tokenizer)
    counts: dict[str, int] = {}
    for fold, record in store.walk():
        key = _key(fold, record)
        count = kept.get(key)
        if count is None:
            count = count_message(Message.from_chat(store.view_message(fold, record)), tokenizer)
        counts[key] = count
    if counts.keys() != kept.keys():
        save_document(store.records, _DOCUMENT, {"tokenizer": tokenizer, "entries": counts})
    return sum(counts.values())


def _kept(store: TaskStore, tokenizer: str) -> dict[str, int]:
    document = load_document(store.records, _DOCUMENT)
    return document["entries"] if document.get("tokenizer") == tokenizer else {}


def _key(fold: Fold | None, record: dict[str, Any] | None) -> str:
    if fold is not None:
        return f"fold {fold.id}"
    assert record is not None
    return str(record["seq"])
