"""``archives/compression_log.json``: every compression of a task for people and programs, as one small document.

Derived from the records of the task, which are the truth: what a crash kept from being written down is made up for
with the next entry, and a log that cannot be read is made anew.
"""

from __future__ import annotations

from typing import Any

from orihon.compression.scope import CompressionScope
from orihon.store.contract import RecordStore
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.values.records import REWIND, Compression

NAME = "archives/compression_log.json"


def log_compression(store: TaskStore, made: Compression, scope: CompressionScope) -> None:
    """Add a compression, and those before it that are missing."""
    entries = read_compression_log(store.records)
    known = max((entry["compression"] for entry in entries), default=0)
    for fields in store.read("compressions", known + 1, made.id):
        record = Compression.from_record(fields)
        if record.kind == "compress" and record.strategy != REWIND:
            entries.append(_entry(record, scope if record.id == made.id else CompressionScope()))
    body = jsonio.encode_pretty({"compressions": entries})
    # Inside a change: a writer that was replaced has nothing to say any more.
    store.change(lambda tail: store.records.keep_file(NAME, body))


def read_compression_log(records: RecordStore) -> list[dict[str, Any]]:
    """The entries so far."""
    try:
        found: list[dict[str, Any]] = jsonio.decode(records.kept_file(NAME) or b'{"compressions":[]}')["compressions"]
        return [entry for entry in found if type(entry["compression"]) is int]
    except (ValueError, KeyError, TypeError):
        return []


def _entry(record: Compression, scope: CompressionScope) -> dict[str, Any]:
    return {
        "timestamp": record.created_at,
        "trigger": record.trigger,
        "checkpoint": scope.checkpoint,
        "level": record.level,
        "strategy": record.strategy,
        "original_tokens": record.before_tokens,
        "compressed_tokens": record.after_tokens,
        "archived_to": scope.archived_to.rpartition("/")[2],  # beside this log
        "compression": record.id,
    }
