"""Calls of models that no record of a task has: kept beside its records, for the sums of what was used."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from orihon.store.reader import TaskReader
from orihon.system import jsonio
from orihon.system.clock import utc_now
from orihon.values.records import ModelCall

logger = logging.getLogger("orihon.usage")

CALLS = "calls.json"
MADE_AT = "made_at"


def keep_calls(store: TaskReader, calls: Iterable[ModelCall]) -> None:
    """Keep calls that no record of the task has, beside it."""
    made = [{**call.as_dict(), MADE_AT: utc_now()} for call in calls]
    if made:
        store.records.keep_file(CALLS, jsonio.encode_pretty([*kept_calls(store), *made]))


def kept_calls(store: TaskReader) -> list[dict[str, Any]]:
    """The calls that were kept so, each with the time when it was made."""
    raw = store.records.kept_file(CALLS)
    try:
        return [] if raw is None else list(jsonio.decode(raw))
    except ValueError as error:  # figures: nothing else depends on them
        logger.warning("%s of %s cannot be read: %s", CALLS, store.name, error)
        return []
