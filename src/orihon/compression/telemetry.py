"""Telemetry of a compression: how long it took, whether it failed, a span of it, what its model used, its log.

A failure is an error that came out of it, or a model that was asked for a text and gave none that could be used (the
view was then folded without it). ``archives/compression_log.json`` has every compression of a task for people and
programs. It is derived from the records of the task, which are the truth: what a crash kept from being written down is
made up for with the next entry, and a log that cannot be read is made anew.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from orihon.compression.contract import CompressionResult, CompressionScope
from orihon.compression.model.call import OnAnswer
from orihon.drivers.tracing import Tracing
from orihon.errors import OrihonError
from orihon.store.contract import RecordStore
from orihon.store.task_store import TaskStore
from orihon.system import jsonio
from orihon.system.counters import COMPRESSION_FAILURES, COMPRESSION_SECONDS, Counts
from orihon.values.records import REWIND, Compression, ModelCall

if TYPE_CHECKING:
    from orihon.compression.contract import FoldedTask

logger = logging.getLogger("orihon.compression")


class ObservedCompression:
    """What has come of a compression that is measured."""

    def __init__(self) -> None:
        self.result: CompressionResult | None = None
        self.model_failure: str | None = None


@contextmanager
def compression_telemetry(counts: Counts, tracing: Tracing, trigger: str, task: str) -> Iterator[ObservedCompression]:
    """Measures the compression that the block makes: duration, failures, and a span with its result."""
    observed = ObservedCompression()
    started = time.monotonic()
    with tracing.compression(trigger, task) as span:
        try:
            yield observed
        except Exception:
            counts.add(COMPRESSION_FAILURES, reason="error")
            raise
        finally:
            counts.observe(COMPRESSION_SECONDS, time.monotonic() - started)
        if observed.model_failure is not None:
            counts.add(COMPRESSION_FAILURES, reason="model")
        result = observed.result
        if result is not None:
            span.set(
                {
                    "orihon.compression.strategy": result.strategy,
                    "orihon.compression.folds": len(result.folds),
                    "orihon.compression.before_tokens": result.original_tokens,
                    "orihon.compression.after_tokens": result.compressed_tokens,
                    "orihon.compression.model_failure": observed.model_failure,
                }
            )


def counting_answers(task_ctx: FoldedTask | None, client: object) -> OnAnswer | None:
    """Writes down what the answers of a client have used that does not belong to the task, and so cannot do it itself.

    Another model than the task's may write its summaries; it is counted by the name that its answers have.
    """
    if task_ctx is None or getattr(client, "task_ctx", None) is not None:
        return None

    def count(answer: object) -> None:
        usage = answer.get("usage") if isinstance(answer, Mapping) else None
        if not isinstance(answer, Mapping) or not isinstance(usage, Mapping):
            return
        call = ModelCall.of(str(answer.get("model") or ""), usage)
        try:
            task_ctx.update_statistics(llm_calls=1, tokens=0 if call.usage is None else call.usage.input)
            task_ctx.calls.summarised(call, epoch=task_ctx.lease.epoch)
        except OrihonError as error:  # the summary is there all the same
            logger.warning("%s: a call for a summary could not be counted: %s", task_ctx.uuid, error)

    return count


COMPRESSION_LOG = "archives/compression_log.json"


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
    store.change(lambda tail: store.records.keep_file(COMPRESSION_LOG, body))


def read_compression_log(records: RecordStore) -> list[dict[str, Any]]:
    """The entries so far."""
    try:
        found: list[dict[str, Any]] = jsonio.decode(records.kept_file(COMPRESSION_LOG) or b'{"compressions":[]}')[
            "compressions"
        ]
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
