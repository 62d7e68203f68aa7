"""Rows of packed tasks for a catalogue that was made anew: a task in the archive is known again, and can come back.

Each one is unpacked for a moment beside the archive, proven by its description, and read as its folder would be. One
that cannot be read now (the storage is away, the packed file is damaged) is known by its UUID: whoever wants it back is
told what is wrong with it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from orihon.catalogue import Catalogue, TaskRow, UsageRow
from orihon.errors import OrihonError
from orihon.settings import Settings
from orihon.store.factory import backend_of
from orihon.store.task_store import TaskStore
from orihon.system.clock import utc_now
from orihon.system.files import staged_folder
from orihon.tasks.folder_rows import row_of_store, usage_of_store, with_calls
from orihon.tasks.place import TaskPlace
from orihon.tasks.task_name import is_id
from orihon.transfer.archive.archive_store import FOLDER, NOTE, ArchivedTask, Shelf
from orihon.transfer.archive.work import ARCHIVED, shelf_of, shortened_summary
from orihon.transfer.staging import open_unguarded
from orihon.values.records import FINAL_SUMMARY
from orihon.values.task import TaskKey, TaskStatus

logger = logging.getLogger("orihon.archive")


def enter_archives(catalogue: Catalogue, base: Path, settings: Settings) -> int:
    """A row for every packed task of this base that has none; returns how many that were."""
    here = settings.replace(**{"archive.url": None})
    entered = 0
    for ending, where in ((".json", here), (NOTE, settings)):
        for path in sorted((base / FOLDER).glob(f"*{ending}")):
            if is_id(path.stem) and catalogue.tasks.find(path.stem) is None:
                entered += _enter(catalogue, base, where, path.stem)
    return entered


def _enter(catalogue: Catalogue, base: Path, settings: Settings, uuid: str) -> bool:
    task: ArchivedTask | None = None
    used: list[UsageRow] = []
    try:
        shelf = shelf_of(base, settings)
        task = shelf.find(uuid)
        if task is None:
            return False  # a note of what was taken off since
        with _unpacked(shelf, task, base, settings) as (place, store):
            row, used = _row_and_usage(place, store, settings)
            summary = shortened_summary(store.records.kept_file(FINAL_SUMMARY))
    except OrihonError as error:
        logger.warning("%s: only that it is archived is in the new catalogue: %s", uuid, error)
        row, summary = _bare_row(uuid), ""
    catalogue.tasks.adopt(_archived(row, task, summary))
    catalogue.usage.replace(uuid, used)
    return True


@contextmanager
def _unpacked(
    shelf: Shelf, task: ArchivedTask, base: Path, settings: Settings
) -> Iterator[tuple[TaskPlace, TaskStore]]:
    hidden = f".{task.uuid}.{secrets.token_hex(4)}"  # what is left of it the next step of the task removes
    packed = base / FOLDER / f"{hidden}.packed"
    with staged_folder(base / FOLDER / f"{hidden}.folder") as folder:
        try:
            shelf.unpack(task, packed, folder)
            with closing(open_unguarded(folder, settings, backend_of(folder, "files"), task.uuid)) as store:
                yield TaskPlace(folder), store
        finally:
            packed.unlink(missing_ok=True)


def _row_and_usage(place: TaskPlace, store: TaskStore, settings: Settings) -> tuple[TaskRow, list[UsageRow]]:
    row = row_of_store(store, place, settings, lambda _: TaskStatus.COMPLETED)
    used = usage_of_store(store, row)
    return with_calls(row, used), used


def _bare_row(uuid: str) -> TaskRow:
    now = utc_now()
    key = TaskKey("unknown", "", "", "task", uuid)
    return TaskRow.of(key, uuid, TaskStatus.COMPLETED, created_at=now, updated_at=now, completed_at=now)


def _archived(row: TaskRow, task: ArchivedTask | None, summary: str) -> TaskRow:
    if task is None:
        return replace(row, status=TaskStatus.ARCHIVED)
    metadata = {**row.metadata, ARCHIVED: {**task.as_dict(), "final_summary": summary}}
    # When it ended is not told; it was not before that.
    packed = replace(row, status=TaskStatus.ARCHIVED, metadata=metadata)
    return replace(packed, completed_at=task.created_at, size_bytes=task.bytes)
