"""Rows of the catalogue made again: from what a damaged ``tasks.db`` still gives, and from the task folders.

Calls of models that a task's log has and the catalogue does not: a process died between writing the two.

Only calls that are missing count as wrong. Programs may report calls that no message came from, and the catalogue then
knows more than the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue, TaskRow, UsageRow
from orihon.catalogue.metadata import key_in, origin_in, read_metadata
from orihon.errors import DamagedStore, StorageError
from orihon.settings import Settings
from orihon.store.factory import open_for_reading, open_task_store
from orihon.store.task_store import TaskStore
from orihon.system.clock import utc_now
from orihon.system.files import wrapping
from orihon.tasks.base import OpenBase
from orihon.tasks.owning import totals_of
from orihon.tasks.place import TaskPlace
from orihon.tasks.usage import usage_rows
from orihon.tasks.verify.findings import Finding
from orihon.transfer.archive.work import FINAL_SUMMARY
from orihon.transfer.fork import FORKED_FROM
from orihon.values.task import TaskKey, TaskStatus

logger = logging.getLogger("orihon.doctor")

_STATUS_OF = {"running": TaskStatus.RUNNING, "paused": TaskStatus.PAUSED, "completed": TaskStatus.COMPLETED}


def owners_store(place: TaskPlace, settings: Settings, *, epoch: int | None = None) -> TaskStore:
    """A task's store as its owner opens it, but without the guard: nothing new comes in that it could mask."""
    unguarded = settings.replace(**{"masking.enabled": False})
    return open_task_store(place.folder, unguarded, epoch=epoch, name=place.uuid)


def row_from_folder(place: TaskPlace, settings: Settings) -> TaskRow:
    """The row of a task that only its folder tells about; ``TaskBusy`` while somebody writes there.

    Whether a finished task had failed the folder does not know; ``with_calls`` adds what its log says of its calls.
    """
    uuid = place.uuid
    with closing(owners_store(place, settings)) as store:
        metadata = read_metadata(store.records) or {}
        key = key_in(metadata) or TaskKey("unknown", "", "", "task", uuid)
        epoch, _ = store.records.claim()
        figures = _statistics(store)
        status = _status(place, store)
    created = _moment(metadata.get("created_at")) or utc_now()
    if status is TaskStatus.COMPLETED:
        figures["completed_at"] = _last_change(place.folder)
    config = metadata.get("config")
    return TaskRow.of(
        key,
        uuid,
        status,
        created_at=created,
        started_at=created,
        updated_at=utc_now(),
        backend=place.backend(settings.context_storage.backend),
        epoch=epoch,
        metadata={name: metadata[name] for name in (FORKED_FROM,) if name in metadata} | origin_in(metadata),
        **_model(config if isinstance(config, dict) else {}),
        **figures,
    )


def _status(place: TaskPlace, store: TaskStore) -> TaskStatus:
    """What the folder says by where it is; one that never moves has ended if it has its final summary."""
    if not place.is_in_database and not place.is_bare:
        return _STATUS_OF[place.position]
    return TaskStatus.PAUSED if store.records.kept_file(FINAL_SUMMARY) is None else TaskStatus.COMPLETED


def _statistics(store: TaskStore) -> dict[str, Any]:
    try:
        return {
            **totals_of(store),
            "tool_call_count": store.count("tools"),
            "compression_count": sum(record.get("kind") == "compress" for record in store.read("compressions")),
            "size_bytes": store.records.size(),
        }
    except DamagedStore as error:
        logger.warning("%s: the row is made without statistics: %s", store.name, error)
        return {}


def usage_from_folder(place: TaskPlace, settings: Settings, row: TaskRow) -> list[UsageRow]:
    """What the calls of a task have used, by its log; nothing where that cannot be read."""
    origin = row.metadata.get(FORKED_FROM)
    copied = origin.get("at") if isinstance(origin, dict) else None
    try:
        with closing(open_for_reading(place.folder, settings, name=place.uuid)) as store:
            return usage_rows(store, place.uuid, after=copied if isinstance(copied, int) else 0)
    except (StorageError, KeyError, TypeError) as error:
        logger.warning("%s: what its calls have used is not known: %s", place.uuid, error)
        return []


def with_calls(row: TaskRow, used: Iterable[UsageRow]) -> TaskRow:
    """The row with the figures of its calls."""
    calls = [(one.calls, one.input_tokens + one.output_tokens) for one in used]
    return replace(row, llm_call_count=sum(n for n, _ in calls), total_tokens=sum(tokens for _, tokens in calls))


def _model(config: Mapping[str, Any]) -> dict[str, Any]:
    kinds = {"llm_provider": str, "model": str, "context_length": int}
    return {name: config[name] for name, kind in kinds.items() if isinstance(config.get(name), kind)}


def _moment(value: object) -> str | None:
    """A time in the one form that the catalogue sorts by."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def _last_change(place: Path) -> str:
    """When something was last written to the history."""
    names = ("messages.jsonl", "context.db", FINAL_SUMMARY)
    with wrapping(place):
        times = [(place / name).stat().st_mtime for name in names if (place / name).exists()]
    moment = datetime.fromtimestamp(max(times), UTC) if times else datetime.now(UTC)
    return moment.isoformat(timespec="microseconds")


def rescued_rows(rows: Iterable[TaskRow]) -> list[TaskRow]:
    """What a damaged catalogue still gives, up to the first thing that cannot be read."""
    rescued: list[TaskRow] = []
    try:
        for row in rows:
            rescued.append(row)
    except StorageError as error:
        logger.warning("tasks.db could be read up to row %d only: %s", len(rescued), error)
    return rescued


_ANSWER = "answer"


def check_calls(base: OpenBase, row: TaskRow, place: TaskPlace) -> Iterator[Finding]:
    """What the catalogue lacks of a task's calls."""
    assert base.catalogue is not None  # the row came from there
    missing, _ = _missing(base.catalogue.usage.of_task(row.uuid), usage_from_folder(place, base.settings, row))
    if missing > 0:
        yield Finding("catalogue", "usage", "tasks.db", task=row.uuid, severity="warning", fields={"count": missing})


def count_calls(catalogue: Catalogue, row: TaskRow, place: TaskPlace, settings: Settings) -> None:
    """The answers as the log has them; of other calls the catalogue may know more."""
    known, told = catalogue.usage.of_task(row.uuid), usage_from_folder(place, settings, row)
    beside = [one for one in known if one.purpose != _ANSWER] or [one for one in told if one.purpose != _ANSWER]
    catalogue.usage.replace(row.uuid, [*(one for one in told if one.purpose == _ANSWER), *beside])
    calls, tokens = _missing(known, told)
    if calls > 0:
        catalogue.tasks.add_statistics(row.uuid, llm_calls=calls, tokens=max(tokens, 0))


def _missing(known: list[UsageRow], told: list[UsageRow]) -> tuple[int, int]:
    """Calls, and the tokens that they have read."""
    (calls, tokens), (known_calls, known_tokens) = _answers(told), _answers(known)
    return calls - known_calls, tokens - known_tokens


def _answers(rows: list[UsageRow]) -> tuple[int, int]:
    answers = [one for one in rows if one.purpose == _ANSWER]
    return sum(one.calls for one in answers), sum(one.input_tokens for one in answers)
