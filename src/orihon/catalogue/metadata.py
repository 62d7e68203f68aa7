"""``metadata.json``: what a task's folder knows about the task by itself.

Written once, when the folder is made. The catalogue can be rebuilt from it, and it from the catalogue. Of a task that
was imported it says so: what others have written is not inherited from, whatever becomes of the catalogue.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from orihon.catalogue import TaskRow
from orihon.catalogue.rows import CONTINUED, IMPORT, IMPORTED_AT
from orihon.errors import InvalidInput
from orihon.settings import Settings
from orihon.store.contract import RecordStore
from orihon.store.kept_files import fields_in, stamped
from orihon.system.clock import process_identity
from orihon.system.files import keep_aside
from orihon.values.task import TaskKey

logger = logging.getLogger("orihon.context")

NAME = "metadata.json"


def write_metadata(records: RecordStore, row: TaskRow, settings: Settings) -> None:
    """The file for a task, from its row in the catalogue."""
    records.keep_file(NAME, stamped(metadata_of(row, settings)))


def metadata_of(row: TaskRow, settings: Settings) -> dict[str, Any]:
    """What the file says."""
    me = process_identity()
    return {
        "uuid": row.uuid,
        "task_key": row.key.as_dict(),
        "task_type": row.key.combined_type,
        "task_identifier": row.key.identifier,
        "repository": row.key.repository,
        "user": row.key.user,
        "created_at": row.created_at,
        "process_id": me.pid,
        "hostname": me.host,
        "config": {
            "llm_provider": row.llm_provider,
            "model": row.model,
            "context_length": row.context_length,
            "compression_threshold": settings.compression.threshold,
            "backend": row.backend,
        },
        **origin_in(row.metadata),
    }


def origin_in(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """That a task was imported, from what kind of file and when, so far as a row or a folder says it."""
    origin = metadata.get(IMPORT)
    if origin is None:
        return {}
    told = origin if isinstance(origin, dict) else {}
    return {IMPORT: {name: told[name] for name in ("format", IMPORTED_AT, CONTINUED) if name in told}}


def restore_metadata(records: RecordStore, row: TaskRow, settings: Settings) -> None:
    """The file for an opened task where it is missing or damaged; what stood there is kept aside."""
    raw = records.kept_file(NAME)
    if raw is not None:
        if is_about(read_metadata(records) or {}, row.uuid):
            return
        kept = keep_aside(records.folder, NAME, raw)
        logger.warning("%s: %s was damaged; it is made anew, and kept in %s", row.uuid, NAME, kept)
    write_metadata(records, row, settings)


def read_metadata(records: RecordStore) -> dict[str, Any] | None:
    """What the file says, empty when it is damaged; ``None`` when it is missing."""
    raw = records.kept_file(NAME)
    if raw is None:
        return None
    return fields_in(raw) or {}


def is_about(metadata: dict[str, Any], uuid: str) -> bool:
    """Does the file say whose task this is, and that it is this one?"""
    return metadata.get("uuid") == uuid and key_in(metadata) is not None


def key_in(metadata: dict[str, Any]) -> TaskKey | None:
    """The task's key as its folder knows it."""
    key = metadata.get("task_key")
    try:
        return TaskKey.from_dict({**key, "user": metadata.get("user")}) if isinstance(key, dict) else None
    except InvalidInput:
        return None
