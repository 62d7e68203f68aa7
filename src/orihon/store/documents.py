"""Derived documents of a task: kept to save work, checked when they are read, never missed when they are gone.

One of them are the exact token counts of a view, made when somebody asks. Only entries that have not been counted with
this tokenizer are tokenized; another tokenizer (a change of model) counts anew. The append path knows nothing of this.

Another are the heads of the streams, as they were attested last: the next time only what is new has to be read.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from typing import Any

from orihon.errors import OrihonError
from orihon.store.contract import OPEN_END, STREAMS, RecordStore, Stream
from orihon.store.reader import TaskReader
from orihon.store.record_check import StreamHead
from orihon.system import jsonio
from orihon.values.message.message import Message
from orihon.values.records import Fold
from orihon.values.tokens.message_tokens import count_message

logger = logging.getLogger("orihon.store")

_COUNTS = "counts"
_HEADS = "heads"


def save_document(records: RecordStore, name: str, document: Mapping[str, Any]) -> None:
    """Keep something derived that saves work later."""
    check = zlib.crc32(jsonio.encode(document))
    records.save(name, jsonio.encode({"check": check, "body": document}))


def load_document(records: RecordStore, name: str) -> dict[str, Any]:
    """What was kept; empty when it is missing or damaged, for it can be derived again."""
    raw = records.load(name)
    body = document_in(raw)
    if body is None:
        logger.warning("%s: %s is damaged and is made anew", records.folder.name, name)
    return body or {}


def is_usable(raw: bytes | None) -> bool:
    """Is a kept document what was kept, or none at all?"""
    return document_in(raw) is not None


def document_in(raw: bytes | None) -> dict[str, Any] | None:
    """What was kept in these bytes; ``None`` when they are damaged, empty when there are none."""
    if raw is None or raw == b"{}":  # nothing was kept, or it was dropped on purpose
        return {}
    try:
        document = jsonio.decode(raw)
        body = document["body"]
        is_whole = document["check"] == zlib.crc32(jsonio.encode(body))
    except (ValueError, KeyError, TypeError, OrihonError):
        return None
    return body if is_whole and isinstance(body, dict) else None


# ---- exact counts --------------------------------------------------------------------------------------------------


def exact_view_tokens(store: TaskReader, tokenizer: str) -> int:
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
        save_document(store.records, _COUNTS, {"tokenizer": tokenizer, "entries": counts})
    return sum(counts.values())


def _kept(store: TaskReader, tokenizer: str) -> dict[str, int]:
    document = load_document(store.records, _COUNTS)
    entries = document.get("entries")
    if document.get("tokenizer") != tokenizer or not isinstance(entries, dict):
        return {}
    return entries if all(type(count) is int for count in entries.values()) else {}


def _key(fold: Fold | None, record: dict[str, Any] | None) -> str:
    if fold is not None:
        return f"fold {fold.id}"
    assert record is not None
    return str(record["seq"])


# ---- heads of streams ------------------------------------------------------------------------------------------------

Heads = dict[Stream, StreamHead]


def kept_heads(records: RecordStore) -> Heads:
    """The heads that were kept; none where they are missing."""
    document = load_document(records, _HEADS)
    found = {stream: StreamHead.from_list(document.get(stream)) for stream in STREAMS}
    return {stream: head for stream, head in found.items() if head is not None}


def present_heads(records: RecordStore, known: Heads) -> Heads:
    """The heads as they are now, at the cost of what has come since those that are known."""
    heads: Heads = {}
    for stream in STREAMS:
        head = known.get(stream, StreamHead())
        head = head if head.count <= records.last(stream) else StreamHead()  # of another life
        head = head.after(records.read(stream, (head.count + 1, OPEN_END)))
        if head.count:
            heads[stream] = head
    return heads


def keep_heads(records: RecordStore, heads: Heads) -> None:
    """For the next time; inside ``change``."""
    save_document(records, _HEADS, {stream: head.as_list() for stream, head in heads.items()})
