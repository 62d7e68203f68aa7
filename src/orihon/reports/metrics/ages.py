"""How long ago tasks last stored something durably, seen from outside and without opening them.

In a folder the files tell, in a database the time of the newest message. For who watches tasks at work; a task that has
stored nothing yet has no age.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from orihon.drivers.postgres import postgres_of
from orihon.settings import Settings
from orihon.tasks.base import OpenBase

_PLACE = "running"
_FILES = ("messages.jsonl", "tools.jsonl", "compressions.jsonl", "context.db", "context.db-wal")


def write_ages(base: OpenBase, uuids: Iterable[str]) -> dict[str, float]:
    """Seconds since each of these running tasks last stored something."""
    now = time.time()
    ages: dict[str, float] = {}
    elsewhere: list[str] = []
    for uuid in uuids:
        written = _written(base.path / _PLACE / uuid)
        if written is None:
            elsewhere.append(uuid)
        else:
            ages[uuid] = max(now - written, 0.0)
    if elsewhere and base.settings.database.url is not None:
        ages |= _in_database(base.settings, elsewhere)
    return ages


def _written(folder: Path) -> float | None:
    times: list[float] = []
    for name in _FILES:
        with suppress(OSError):
            times.append((folder / name).stat().st_mtime)
    return max(times, default=None)


def _in_database(settings: Settings, uuids: list[str]) -> dict[str, float]:
    from orihon.drivers.postgres.statements import statements

    sql = statements("orihon.store", "postgres_writes.sql")["last_writes"]
    found = postgres_of(settings).patiently(lambda connection: connection.execute(sql, {"uuids": uuids}).fetchall())
    now = datetime.now(UTC)
    return {
        uuid: max((now - datetime.fromisoformat(written)).total_seconds(), 0.0)
        for uuid, written in found
        if written is not None
    }
