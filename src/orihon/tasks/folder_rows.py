"""Rows of the catalogue from the folders of tasks: for a folder that has none, and for all when ``tasks.db`` is gone.

A base whose ``tasks.db`` was lost (or cut to nothing) gets a new one when it is next opened. All of its tasks, packed
ones too (``transfer.archive.rows``), are in it before
anybody begins one there: else the next step of a task would begin a second one. A file beside it says that they are
being entered; whoever finds it goes on, or waits for the process that does.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue, TaskRow, UsageRow
from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import key_in, origin_in, read_metadata
from orihon.catalogue.sqlite_db import sign_of
from orihon.errors import DamagedStore, OrihonError, StorageError
from orihon.settings import Settings
from orihon.store.factory import open_for_reading, open_task_store
from orihon.store.kept_files import fields_in
from orihon.store.task_store import TaskStore
from orihon.system.clock import utc_now
from orihon.system.files import make_private_folder, open_private, wrapping
from orihon.system.holding import lock_file
from orihon.tasks.owning import totals_of
from orihon.tasks.place import TaskFolders, TaskPlace, reached_epoch
from orihon.tasks.task_name import is_id
from orihon.tasks.usage import usage_rows
from orihon.values.records import FINAL_SUMMARY, FORKED_FROM
from orihon.values.task import TaskKey, TaskStatus

logger = logging.getLogger("orihon.tasks")

#: So long whoever needs the catalogue waits for another process that makes it anew.
_ENTER_SECONDS = 300.0
#: Packed tasks, and how the files are called that describe them; see ``transfer.archive``.
_ARCHIVE, _DESCRIBED = "archive", (".json", ".note")
_STATUS_OF = {"running": TaskStatus.RUNNING, "paused": TaskStatus.PAUSED, "completed": TaskStatus.COMPLETED}


def is_lost(database: Path, folders: TaskFolders) -> bool:
    """Are there tasks, and no ``tasks.db``, or one that does not know them all yet?"""
    if not _is_new(database):
        return False
    with wrapping(database):
        listed = [path for ending in _DESCRIBED for path in (database.parent / _ARCHIVE).glob(f"*{ending}")]
        packed = any(is_id(path.stem) for path in listed)
    return packed or any(is_id(place.uuid) and not place.is_bare for place in folders.all())


def _is_new(database: Path) -> bool:
    with wrapping(database):
        return sign_of(database).exists() or not database.exists() or not database.stat().st_size


@contextmanager
def entering(database: Path) -> Iterator[bool]:
    """``tasks.db`` is opened in the block; ``True``: it is new, and what tasks there are have to be entered."""
    sign = sign_of(database)
    if not _is_new(database):
        yield False
        return
    make_private_folder(database.parent)
    with wrapping(sign):
        file = open_private(sign, os.O_RDWR | os.O_CREAT)
    try:
        lock_file(file, sign, seconds=_ENTER_SECONDS)
        yield True
        with wrapping(sign):
            sign.unlink(missing_ok=True)  # another one was faster
    finally:
        os.close(file)


def enter_folders(catalogue: Catalogue, folders: TaskFolders, settings: Settings) -> int:
    """A row for every folder that has none; returns how many that were."""
    entered = 0
    for place in folders.all():
        if is_id(place.uuid) and not place.is_bare and catalogue.tasks.find(place.uuid) is None:
            try:
                enter_folder(catalogue, place, settings)
            except OrihonError as error:  # whoever opens it is told; but it is known, and nobody begins it anew
                logger.warning("%s: only its name is in the catalogue: %s", place.uuid, error)
                catalogue.tasks.adopt(_row_by_name(place, settings))
            entered += 1
    return entered


def _row_by_name(place: TaskPlace, settings: Settings) -> TaskRow:
    """The row of a task whose log cannot be opened now, by what lies beside it."""
    metadata, epoch = {}, 0
    with suppress(OSError):
        metadata = fields_in((place.folder / METADATA).read_bytes()) or {}
    with suppress(StorageError):
        epoch = reached_epoch(place.folder)
    return _row_of(place.uuid, place, settings, metadata, _STATUS_OF[place.position], epoch=epoch)


def enter_folder(catalogue: Catalogue, place: TaskPlace, settings: Settings) -> None:
    """A row for a folder that has none."""
    row = row_from_folder(place, settings)
    used = usage_from_folder(place, settings, row)
    catalogue.tasks.adopt(with_calls(row, used))
    catalogue.usage.replace(row.uuid, used)


def owners_store(place: TaskPlace, settings: Settings, *, epoch: int | None = None) -> TaskStore:
    """A task's store as its owner opens it, but without the guard: nothing new comes in that it could mask."""
    unguarded = settings.replace(**{"masking.enabled": False})
    return open_task_store(place.folder, unguarded, epoch=epoch, name=place.uuid)


def row_from_folder(place: TaskPlace, settings: Settings) -> TaskRow:
    """The row of a task that only its folder tells about; ``TaskBusy`` while somebody writes there.

    Whether a finished task had failed the folder does not know; ``with_calls`` adds what its log says of its calls.
    """
    with closing(owners_store(place, settings)) as store:
        return row_of_store(store, place, settings, partial(_status, place))


def row_of_store(
    store: TaskStore, place: TaskPlace, settings: Settings, status: Callable[[TaskStore], TaskStatus]
) -> TaskRow:
    """The row of a task by its records, which lie in ``place``."""
    metadata = read_metadata(store.records) or {}
    epoch, _ = store.records.claim()
    return _row_of(store.name, place, settings, metadata, status(store), epoch=epoch, **_statistics(store))


def _row_of(
    uuid: str, place: TaskPlace, settings: Settings, metadata: Mapping[str, Any], status: TaskStatus, **figures: Any
) -> TaskRow:
    created = _moment(metadata.get("created_at")) or utc_now()
    if status is TaskStatus.COMPLETED:
        figures["completed_at"] = _last_change(place.folder)
    config = metadata.get("config")
    return TaskRow.of(
        key_in(dict(metadata)) or TaskKey("unknown", "", "", "task", uuid),
        uuid,
        status,
        created_at=created,
        started_at=created,
        updated_at=utc_now(),
        backend=place.backend(settings.context_storage.backend),
        metadata={name: metadata[name] for name in (FORKED_FROM,) if name in metadata} | origin_in(dict(metadata)),
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
    try:
        with closing(open_for_reading(place.folder, settings, name=place.uuid)) as store:
            return usage_of_store(store, row)
    except StorageError as error:
        logger.warning("%s: what its calls have used is not known: %s", place.uuid, error)
        return []


def usage_of_store(store: TaskStore, row: TaskRow) -> list[UsageRow]:
    """The same by its open log."""
    origin = row.metadata.get(FORKED_FROM)
    copied = origin.get("at") if isinstance(origin, dict) else None
    try:
        return usage_rows(store, row.uuid, after=copied if isinstance(copied, int) else 0)
    except (StorageError, KeyError, TypeError) as error:
        logger.warning("%s: what its calls have used is not known: %s", row.uuid, error)
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
