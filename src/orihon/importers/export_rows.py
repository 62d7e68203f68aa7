"""The catalogue's row of a task that comes back from an export: told by the export, counted from the records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from orihon.catalogue import TaskRow
from orihon.catalogue.rows import IMPORT, IMPORTED_AT
from orihon.importers.identity import owned_by
from orihon.importers.ownership import ImportTarget
from orihon.importers.shapes import fields, words
from orihon.store.task_store import TaskStore
from orihon.system.clock import as_utc, utc_now
from orihon.tasks.owning import totals_of
from orihon.tasks.usage import record_usage_of_log
from orihon.values.task import FINISHED, TaskKey, TaskStatus

_TEXTS = ("llm_provider", "model", "error_message", "parent_uuid", "inherits_from", "source", "prompt")
_COUNTS = ("context_length", "llm_call_count", "tool_call_count", "total_tokens", "compression_count", "priority")
_LARGEST = 1 << 62


def key_of(told: Mapping[str, Any], user: str) -> TaskKey:
    """The task's key, as the task of ``user`` if one is given. ``InvalidInput`` when the export names no task."""
    return owned_by(TaskKey.from_dict({**told, "repository": told.get("repository") or ""}), user)


def row_of(told: Mapping[str, Any], uuid: str, store: TaskStore, place: ImportTarget, epoch: int, path: str) -> TaskRow:
    """The row. ``InvalidInput`` when the export names no task."""
    key = key_of(told, place.user)
    now = utc_now()
    created = _time(told.get("created_at")) or now
    origin = {"format": "orihon", "path": path, "uuid": told.get("uuid"), IMPORTED_AT: now}
    metadata = {**fields(told.get("metadata")), IMPORT: origin}
    texts = {name: words(told[name]) for name in _TEXTS if words(told.get(name))}
    counts = {name: told[name] for name in _COUNTS if _is_count(told.get(name))}
    correction = told.get("correction")
    return TaskRow.of(
        key,
        uuid,
        _status(told.get("status")),
        created_at=created,
        updated_at=now,
        started_at=_time(told.get("started_at")) or created,
        completed_at=_time(told.get("completed_at")),
        backend=place.settings.context_storage.backend,
        correction=float(correction) if isinstance(correction, int | float) and 0 < correction < 100 else 1.0,
        keep=told.get("keep") is True,
        metadata=metadata,
        epoch=epoch,
        **totals_of(store),
        **texts,
        **counts,
    )


def record_usage(place: ImportTarget, row: TaskRow) -> None:
    """What the models of a task have used, as its log tells; what a fork has copied is another task's."""
    here = place.base.folders.find(row.uuid)
    if here is None:
        return
    at = fields(row.metadata.get("forked_from")).get("at")
    with closing(place.base.read_store(here)) as store:
        record_usage_of_log(place.catalogue, store, row.uuid, after=at if isinstance(at, int) else 0)


def _status(told: object) -> TaskStatus:
    """What has ended stays so; what was archived is complete again; nobody works on anything else."""
    ended = {status.value: status for status in FINISHED}
    if told == TaskStatus.ARCHIVED.value:
        return TaskStatus.COMPLETED
    return ended.get(words(told), TaskStatus.PAUSED)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _time(value: object) -> str | None:
    try:
        return as_utc(words(value))
    except ValueError:
        return None
