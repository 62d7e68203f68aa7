"""Derived documents of a task: kept to save work, checked when they are read, never missed when they are gone."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from typing import Any

from orihon.store.contract import RecordStore
from orihon.system import jsonio

logger = logging.getLogger("orihon.store")


def save_document(records: RecordStore, name: str, document: Mapping[str, Any]) -> None:
    """Keep something derived that saves work later."""
    check = zlib.crc32(jsonio.encode(document))
    records.save(name, jsonio.encode({"check": check, "body": document}))


def load_document(records: RecordStore, name: str) -> dict[str, Any]:
    """What was kept; empty when it is missing or damaged, for it can be derived again."""
    raw = records.load(name)
    if raw is None or raw == b"{}":  # nothing was kept, or it was dropped on purpose
        return {}
    try:
        document = jsonio.decode(raw)
        body: dict[str, Any] = document["body"]
        if document["check"] == zlib.crc32(jsonio.encode(body)):
            return body
    except (ValueError, KeyError, TypeError):
        pass
    logger.warning("%s: %s is damaged and is made anew", records.folder.name, name)
    return {}
