"""What the doctor can put right, one function for each kind of finding.

A repair runs while its task is held. What it cuts off or replaces is kept in ``aside/``; it removes only files that
nobody had finished. A kind of
finding that is not in ``REPAIRS`` needs a person, and its text says what to do.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from orihon.catalogue import Catalogue, TaskRow, UsageRow
from orihon.catalogue.grants import Tombstone
from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import write_metadata
from orihon.catalogue.rows import FOLDER_LOST
from orihon.errors import OrihonError, StorageError, TaskBusy, TaskNotFound
from orihon.guard import KEY_COPY, KEY_FILE, load_key
from orihon.search import rebuild_index
from orihon.search.maintenance import throw_away
from orihon.store.task_store import TaskStore
from orihon.system.clock import utc_now
from orihon.system.files import keep_aside, move_aside, remove_abandoned, remove_leftovers, wrapping
from orihon.tasks.base import OpenBase, remove_left
from orihon.tasks.folder_rows import enter_folder, owners_store, usage_from_folder
from orihon.tasks.owning import Ownership
from orihon.tasks.place import TaskPlace, reached_epoch
from orihon.tasks.verify.findings import Finding
from orihon.tasks.verify.folder import everything_in, open_to_others
from orihon.transfer.migrate import finish_moves
from orihon.upkeep.doctor.rebuild import count_calls, rescued_rows
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.doctor")

_AFTER_LOSS = {
    TaskStatus.RUNNING: TaskStatus.DEAD,
    TaskStatus.PAUSED: TaskStatus.FAILED,
    TaskStatus.WAITING: TaskStatus.FAILED,
}


@dataclass(frozen=True, slots=True)
class Operation:
    """One repair: what was found, where, and the task that is owned meanwhile, if any."""

    base: OpenBase
    finding: Finding
    owned: Ownership | None

    @property
    def uuid(self) -> str:
        return self.finding.task

    @property
    def catalogue(self) -> Catalogue:
        catalogue = self.base.open_catalogue(create=True, enter=False)
        assert catalogue is not None
        return catalogue

    @property
    def row(self) -> TaskRow:
        return self.catalogue.tasks.get(self.uuid)

    @property
    def place(self) -> TaskPlace:
        """Where the task lies."""
        found = self.base.folders.find(self.uuid)
        if found is None:
            raise TaskNotFound("uuid", uuid=self.uuid)
        return found

    @property
    def folder(self) -> Path:
        """The task's folder; the whole base folder when the finding is about no task."""
        return self.place.folder if self.uuid else self.base.path

    @property
    def epoch(self) -> int | None:
        return None if self.owned is None else self.owned.epoch

    @property
    def file(self) -> Path:
        """The file that the finding is about."""
        return self.folder / self.finding.where

    def owning(self) -> TaskStore:
        """The task's store, opened with the epoch of its owner."""
        return owners_store(self.place, self.base.settings, epoch=self.epoch)


# ---- the catalogue -------------------------------------------------------------------------------------------------


def make_catalogue(operation: Operation) -> None:
    """A new ``tasks.db``; the rows come from the folders, one by one."""
    operation.base.open_catalogue(create=True, enter=False)


def replace_catalogue(operation: Operation) -> None:
    """A new ``tasks.db`` with the rows that the damaged one still gives."""
    base = operation.base
    rows = _readable_rows(base)
    _refuse_owned(base.catalogue, rows)
    used = {row.uuid: _readable_usage(base, row) for row in rows}
    erased = _readable_tombstones(base)
    base.close_catalogue()
    kept = move_aside(base.database, base.path)
    for suffix in ("-wal", "-shm"):
        log = base.database.with_name(base.database.name + suffix)
        with wrapping(log):
            if log.exists():
                log.rename(kept.with_name(kept.name + suffix))
    catalogue = operation.catalogue
    for stone in erased:
        catalogue.tombstones.bury(stone.uuid, erased_by=stone.erased_by, at=stone.erased_at)
    for row in rows:
        try:
            catalogue.tasks.adopt(row)
            catalogue.usage.replace(row.uuid, used[row.uuid])
        except OrihonError as error:
            logger.warning("%s: its row could not be kept: %s", row.uuid, error)


def _refuse_owned(catalogue: Catalogue | None, rows: list[TaskRow]) -> None:
    """A process that works by the old file would go on with it, unseen by the new one."""
    for row in rows:
        if catalogue is not None and catalogue.leases.is_held(row):
            left = catalogue.leases.seconds_left(row)
            owner = {"owner": row.lease_owner, "host": row.lease_host, "pid": row.lease_pid, "seconds_left": left}
            raise TaskBusy("lease", uuid=row.uuid, **owner)


def _readable_rows(base: OpenBase) -> list[TaskRow]:
    try:
        base.open_catalogue()
    except StorageError:
        return []
    return rescued_rows(base.rows())


def _readable_tombstones(base: OpenBase) -> list[Tombstone]:
    """What was erased must not come back with a new catalogue."""
    try:
        return [] if base.catalogue is None else base.catalogue.tombstones.all()
    except StorageError as error:
        logger.warning("names of erased tasks are lost with the catalogue: %s", error)
        return []


def _readable_usage(base: OpenBase, row: TaskRow) -> list[UsageRow]:
    """What the damaged catalogue still knows of a task's calls, or else its log."""
    try:
        assert base.catalogue is not None  # the row came from there
        return base.catalogue.usage.of_task(row.uuid)
    except StorageError:
        place = base.folders.find(row.uuid)
        return [] if place is None else usage_from_folder(place, base.settings, row)


def adopt_folder(operation: Operation) -> None:
    """A row for a folder that has none."""
    enter_folder(operation.catalogue, operation.place, operation.base.settings)


def finish_move(operation: Operation) -> None:
    """The row follows the records into the database."""
    if operation.uuid not in finish_moves(operation.base.path, operation.base.settings):
        raise TaskNotFound("no_row", uuid=operation.uuid)


def unite_folders(operation: Operation) -> None:
    """One folder for the task: the one that holds all the others do; those are put aside."""
    row = operation.base.row(operation.uuid)
    operation.base.folders.unite(operation.uuid, TaskStatus.RUNNING if row is None else row.status)


def settle_folder(operation: Operation) -> None:
    """The catalogue decides where the folder lies."""
    assert operation.owned is not None
    operation.base.folders.settle(operation.uuid, operation.row.status, still=operation.owned.renew)


def note_loss(operation: Operation) -> None:
    """The history is gone; the row stays, with its figures, and says so. But a take-over may have been broken off."""
    if operation.base.folders.put_back(operation.uuid) is not None:
        return
    row = operation.row
    after = _AFTER_LOSS.get(row.status)
    if after is not None:
        cause, epoch = operation.finding.cause, operation.epoch
        operation.catalogue.tasks.change_status(row.uuid, after, error_message=cause, epoch=epoch)
    operation.catalogue.tasks.update(row.uuid, metadata={**row.metadata, FOLDER_LOST: utc_now()})


def forget_loss(operation: Operation) -> None:
    """The folder is back."""
    metadata = {name: value for name, value in operation.row.metadata.items() if name != FOLDER_LOST}
    operation.catalogue.tasks.update(operation.uuid, metadata=metadata)


def release_lease(operation: Operation) -> None:
    """Taking hold of the task has taken the dead owner's lease away; letting go of it leaves none.

    Who died may have been about to take the task over, with its folder in hand.
    """
    assert operation.owned is not None
    operation.base.folders.put_back(operation.uuid)


def catch_up_epoch(operation: Operation) -> None:
    """A lease with an epoch that the folder does not refuse."""
    reached = reached_epoch(operation.folder)
    if operation.owned is not None and operation.owned.epoch < reached:
        operation.owned.raise_epoch(reached)


def count_again(operation: Operation) -> None:
    operation.catalogue.statistics.rebuild_rollups()


def count_calls_again(operation: Operation) -> None:
    """What the models have used, by the log."""
    count_calls(operation.catalogue, operation.row, operation.place, operation.base.settings)


def make_index_anew(operation: Operation) -> None:
    """The index of the history search: it holds nothing that the logs do not have."""
    throw_away(operation.base)
    rebuild_index(operation.base)


def heal_mask_key(operation: Operation) -> None:
    """The key or its copy from the other one; where both are lost a new key, and so new placeholders."""
    base = operation.base.path
    if operation.finding.detail == "lost":
        for path in filter(os.path.lexists, (base / KEY_FILE, base / KEY_COPY)):
            move_aside(path, base)
    load_key(base)


# ---- the task's folder ---------------------------------------------------------------------------------------------


def put_aside(operation: Operation) -> None:
    """A file that should not be there."""
    move_aside(operation.file, operation.folder)


def remove_left_over(operation: Operation) -> None:
    """Unfinished files, all of them: nothing in them was ever acknowledged."""
    if operation.uuid:
        remove_leftovers(operation.folder)
        return
    for path in operation.base.leftovers(in_tasks=False):
        remove_left(path)


def remove_request(operation: Operation) -> None:
    """A request whose call is over: all that it says is in the log."""
    remove_abandoned(operation.file)


def close_to_others(operation: Operation) -> None:
    """Folders 0700, files 0600."""
    paths = everything_in(operation.folder) if operation.uuid else operation.base.files()
    for exposed in open_to_others(paths):
        with wrapping(exposed.path):
            exposed.path.chmod(exposed.wanted)


def rewrite_metadata(operation: Operation) -> None:
    """``metadata.json`` from the row."""
    folder = operation.folder
    if os.path.lexists(folder / METADATA):
        move_aside(folder / METADATA, folder)
    with closing(operation.owning()) as store:
        write_metadata(store.records, operation.row, operation.base.settings)


def derive_again(operation: Operation) -> None:
    """Claim the task as a writer does: that cuts torn tails off, keeps them aside, and makes the view file anew."""
    with closing(operation.owning()) as store:
        store.change(lambda tail: store.save_index())


def replace_view(operation: Operation) -> None:
    """The same; what stands in the file's place is put aside first."""
    put_aside(operation)
    derive_again(operation)


def drop_document(operation: Operation) -> None:
    """A document that cannot be used; it is made when somebody needs it."""
    with closing(operation.owning()) as store:
        name = operation.finding.where
        if raw := store.records.load(name):
            keep_aside(operation.folder, f"{name}.json", raw)
        store.records.save(name, b"{}")


def count_view_again(operation: Operation) -> None:
    """The same, without what the wrong counters are kept in."""
    with closing(operation.owning()) as store:
        store.records.save("index", b"{}")
    derive_again(operation)


Repair = Callable[[Operation], None]

REPAIRS: Mapping[tuple[str, str], Repair] = {
    ("catalogue", "missing"): make_catalogue,
    ("catalogue", "damaged"): replace_catalogue,
    ("catalogue", "two_folders"): unite_folders,
    ("catalogue", "no_row"): adopt_folder,
    ("catalogue", "half_moved"): finish_move,
    ("catalogue", "no_folder"): note_loss,
    ("catalogue", "found_again"): forget_loss,
    ("catalogue", "misplaced"): settle_folder,
    ("catalogue", "lease"): release_lease,
    ("catalogue", "epoch"): catch_up_epoch,
    ("catalogue", "rollups"): count_again,
    ("catalogue", "usage"): count_calls_again,
    ("search", "damaged"): make_index_anew,
    ("mask_key", "damaged"): heal_mask_key,
    ("mask_key", "lost"): heal_mask_key,
    ("base", "temporary"): remove_left_over,
    ("base", "permissions"): close_to_others,
    ("folder", "writer"): put_aside,
    ("folder", "digests"): put_aside,
    ("folder", "request"): remove_request,
    ("folder", "temporary"): remove_left_over,
    ("folder", "permissions"): close_to_others,
    ("folder", "no_metadata"): rewrite_metadata,
    ("folder", "metadata"): rewrite_metadata,
    ("folder", "other_key"): rewrite_metadata,
    ("stream", "torn"): derive_again,
    ("view", "counters"): count_view_again,
    ("view", "lines"): derive_again,
    ("view", "unknown_lines"): derive_again,
    ("view", "document"): drop_document,
    ("view", "missing"): derive_again,
    ("view", "no_file"): replace_view,
}
