"""Opening a task: its row, the checks, its folder, its store, in an order that a failure leaves nothing half done.

Everything that can refuse comes first. A task that cannot be opened keeps its status and its place; one that could
not be stored is never registered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from orihon.catalogue import Catalogue, Lease, TaskRow
from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import write_metadata
from orihon.errors import DamagedStore, IllegalTransition, StaleWriter, StorageUnavailable
from orihon.guard.masking.key_fields import refuse_secret_in
from orihon.settings import Settings
from orihon.store.factory import open_for_reading, open_task_store
from orihon.store.task_store import TaskStore
from orihon.tasks.place import SCRATCH, TaskFolders
from orihon.tasks.quotas import admission, check_new_task
from orihon.values.task import TaskKey, TaskStatus, check_change

logger = logging.getLogger("orihon.context")


class TaskOpening:
    """Opens tasks below one base folder."""

    def __init__(
        self,
        catalogue: Catalogue,
        folders: TaskFolders,
        settings: Settings,
        *,
        fetch: Callable[[Lease, Path | None, Path], bool] | None = None,
    ) -> None:
        """``fetch`` makes the folder of a task that another machine had meanwhile, if there is a mirror of it."""
        self._catalogue = catalogue
        self._folders = folders
        self._settings = settings
        self._fetch = fetch
        self._is_fetched = False

    def find_or_register(self, uuid: str, key: TaskKey | None, is_resumed: bool | None, **columns: Any) -> TaskRow:
        """The row of the task; a new one when there is none, a key is given and no old task is insisted on.

        ``columns`` are what a new row says besides.
        """
        row = self._catalogue.tasks.find(uuid)
        if row is not None:
            if is_resumed is False:
                raise IllegalTransition("exists", uuid=uuid, status=row.status.value)
            return row
        if is_resumed or key is None:
            return self._catalogue.tasks.get(uuid)  # raises: there is no such task
        check_new_task(self._catalogue, self._settings, key.user)
        # Makes nothing, but refuses a back end or a guard that cannot be had.
        with closing(self._store(self._folders.new_place(uuid), uuid)) as store:
            refuse_secret_in(key, store.redactor)
        return self._catalogue.tasks.register(
            key,
            uuid,
            status=TaskStatus.RUNNING,
            admit=admission(self._settings, key.user),
            **self._means(),
            **columns,
        )

    def _means(self) -> dict[str, Any]:
        """What the settings say a task is worked on with."""
        return {
            "llm_provider": self._settings.llm.provider,
            "model": self._settings.model,
            "context_length": self._settings.context_length,
            "backend": self._settings.context_storage.backend,
        }

    def open(self, lease: Lease) -> tuple[TaskRow, TaskStore, Lease]:
        """The task's row and claimed store, once it is running and its folder lies where running tasks do.

        The lease comes back with a higher epoch where the folder demanded one.
        """
        # Read under the lease: the one that was found before it may have been changed by the last owner.
        row = self._catalogue.tasks.get(lease.uuid)
        if row.status is not TaskStatus.RUNNING:
            self._refuse_finished(row)
        here = self._place_of(row, lease)
        self._refuse_lost_log(row, here)
        with ExitStack() as on_failure:
            store, lease = self._claimed(here or self._folders.create(row.uuid), lease, on_failure)
            if row.status is not TaskStatus.RUNNING:
                row = self._catalogue.tasks.change_status(row.uuid, TaskStatus.RUNNING, epoch=lease.epoch)
            if row.model is None:  # queued by somebody who did not know what would work on it
                row = self._catalogue.tasks.update(row.uuid, epoch=lease.epoch, **self._means())
            self._settle(row, store)
            if store.records.kept_file(METADATA) is None:
                write_metadata(store.records, row, self._settings)
            on_failure.pop_all()
        return row, store, lease

    def _claimed(self, folder: Path, lease: Lease, on_failure: ExitStack) -> tuple[TaskStore, Lease]:
        """The store, claimed with the lease.

        A store that was opened on the folder alone raises the folder's epoch and not the catalogue's: then the lease
        follows, once, for the catalogue and nobody else says who owns the task.
        """
        store = self._store(folder, lease.uuid, lease.epoch)
        on_failure.callback(store.close)
        try:
            store.claim()
        except StaleWriter as refusal:
            if refusal.reason != "taken_over":
                raise
            store.close()
            lease = self._catalogue.leases.raise_epoch(lease, above=refusal.fields["epoch"])
            on_failure.callback(self._catalogue.leases.release, lease)
            store = self._store(folder, lease.uuid, lease.epoch)
            on_failure.callback(store.close)
            store.claim()
        return store, lease

    def _place_of(self, row: TaskRow, lease: Lease) -> Path | None:
        """Where the task lies; ``None`` for one that nobody has worked on.

        A task of this catalogue may have been another machine's: then it is fetched from its mirror, or refused where
        there is none. To begin it anew would give it two histories.
        """
        here, place = self._folders.find(row.uuid), self._folders.new_place(row.uuid)
        if lease.epoch <= 1 or self._settings.database.url is None or (here or place).parent.name == SCRATCH:
            return here
        if self._fetch is not None and self._fetch(lease, here, place):
            logger.info("%s: fetched from its mirror", row.uuid)
            self._is_fetched = True
            return place
        if here is None and row.model is not None:
            raise StorageUnavailable("elsewhere", uuid=row.uuid)
        return here

    def _store(self, folder: Path, uuid: str, epoch: int | None = None) -> TaskStore:
        key_file = self._folders.base_dir / "mask.key"
        return open_task_store(folder, self._settings, key_file=key_file, epoch=epoch, name=uuid)

    def _refuse_finished(self, row: TaskRow) -> None:
        try:
            check_change(row.status, TaskStatus.RUNNING)
        except IllegalTransition:
            # A crash may have come between the end of the task and its folder's move.
            self._folders.settle(row.uuid, row.status)
            raise

    def _refuse_lost_log(self, row: TaskRow, folder: Path | None) -> None:
        stored = 0 if folder is None else self._count_messages(folder)
        if stored >= row.total_messages:
            return
        may_lose = self._is_fetched or self._settings.context_storage.durability == "os"
        if folder is None or not may_lose or row.status is not TaskStatus.RUNNING:
            where = folder or self._folders.new_place(row.uuid)
            raise DamagedStore("log_lost", path=where, stored=stored, known=row.total_messages)
        # Its owner has crashed, and the settings leave it to the operating system or the mirror what survives that.
        logger.warning("%s: %d of %d messages have survived", row.uuid, stored, row.total_messages)

    def _count_messages(self, folder: Path) -> int:
        """By a look that changes nothing: a claim would already put things right that a person should see first."""
        with closing(open_for_reading(folder, self._settings)) as store:
            return store.count("messages")

    def _settle(self, row: TaskRow, store: TaskStore) -> None:
        """Move the folder to where running tasks lie; the store, already claimed, follows it."""
        if self._folders.is_settled(store.records.folder, row.status):
            return
        store.close()
        store.records.moved_to(self._folders.settle(row.uuid, TaskStatus.RUNNING) or store.records.folder)
        store.claim()
