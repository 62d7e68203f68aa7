"""One task on its way: its lease, its records, its row, in an order that a crash at any moment does no harm.

1. The lease is taken and the row marked: nobody claims the task, nobody opens it.
2. The source is claimed with a higher epoch than the catalogue knows: nobody writes there any more.
3. The copy is made where it does not count, and proven.
4. One rename makes it count.
5. The row follows: its back end, its epoch, its catalogue, with its notices; then the mark goes.
6. What is left of the source is put away.

Until 4 the task is at the source, from then on at the target. A second run sees which of them counts and goes on.
"""

from __future__ import annotations

import logging
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Literal

from orihon.catalogue import Catalogue, Lease, TaskRow
from orihon.catalogue.rows import FOLDER_LOST
from orihon.errors import DamagedStore, StateError, TaskBusy, TaskNotFound
from orihon.tasks.owning import Ownership
from orihon.tasks.place import TaskPlace
from orihon.transfer.migrate.rows import (
    carry_notices,
    give_up,
    hand_over,
    is_marked,
    mark,
    refuse_twin,
    settle_twin,
    unmark,
)
from orihon.transfer.migrate.transfers import Transfer
from orihon.transfer.staging import copy_task, fence
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.migration")


class Move:
    """A task whose row is in ``catalogue`` and shall be in ``home``."""

    def __init__(self, uuid: str, transfer: Transfer, catalogue: Catalogue, home: Catalogue) -> None:
        self._uuid = uuid
        self._transfer = transfer
        self._catalogue = catalogue
        self._home = home
        self._owned: Ownership | None = None
        self._epoch = 0  # that the records have reached
        self._look(transfer.find(uuid))

    def _look(self, place: TaskPlace | None) -> None:
        self._place = place
        self._held_by = None if place is None else place.backend()
        self._is_switched = self._held_by == self._transfer.target

    @property
    def _crosses(self) -> bool:
        return self._catalogue is not self._home

    def outlook(self) -> Literal["moved", "row", "finished"] | None:
        """What ``run`` would do; ``None`` when there is nothing to do. Raises what would keep it from that."""
        row = self._row()
        if self._held_by not in (None, self._transfer.source, self._transfer.target):
            return None  # somewhere else altogether
        if self._held_by is None:
            self._refuse_lost(row)
            if not self._crosses:
                return "finished" if is_marked(row) else None
        elif self._held_by == self._transfer.target and self._is_done(row):
            return None
        if self._catalogue.leases.is_held(row):
            left = self._catalogue.leases.seconds_left(row)
            owner = {"owner": row.lease_owner, "host": row.lease_host, "pid": row.lease_pid, "seconds_left": left}
            raise TaskBusy("lease", uuid=self._uuid, **owner)
        if self._crosses:
            refuse_twin(row, self._home)
        if self._held_by is None:
            return "row"
        return "moved" if self._held_by == self._transfer.source else "finished"

    def _is_done(self, row: TaskRow) -> bool:
        is_known = row.backend == self._transfer.target and not is_marked(row)
        return is_known and not self._crosses and self._transfer.is_tidy(self._uuid)

    def run(self) -> None:
        """Move the task."""
        seconds = self._transfer.settings.context_storage.lease_seconds
        if self._crosses:
            place = None if self._place is None else self._place.position
            self._catalogue = settle_twin(self._uuid, self._catalogue, self._home, place, seconds)
        owned = self._owned = Ownership.take(self._catalogue, self._uuid, seconds)
        _reached(self._uuid, "held")
        with ExitStack() as at_end:
            at_end.callback(self._let_go)
            owned.keep()
            row = mark(self._catalogue, owned.lease)
            _reached(self._uuid, "marked")
            self._transfer.folders.put_copies_aside(self._uuid, row.status)
            self._look(self._transfer.find(self._uuid))
            if self._place is not None:
                if self._held_by == self._transfer.source:
                    self._move_records(self._place.folder, row)
                else:
                    self._catch_up(self._place.folder)
            owned.rest()
            self._move_row(self._raised(owned))
            self._transfer.tidy(self._uuid)
            _reached(self._uuid, "tidied")

    # ---- records -----------------------------------------------------------------------------------------------

    def _move_records(self, place: Path, row: TaskRow) -> None:
        transfer, uuid = self._transfer, self._uuid
        with closing(transfer.store(place, uuid, transfer.source)) as source:
            # An epoch that nobody else knows yet.
            self._epoch = fence(source, row.epoch + 1, lambda met: met + 1)
            _reached(uuid, "sealed")
            with closing(transfer.new_copy(uuid, self._epoch)) as copy:
                copy_task(source, copy, sound=True, reached=lambda step: _reached(uuid, step))
        transfer.switch(uuid, place, row.status)
        self._is_switched = True
        _reached(uuid, "switched")
        self._look(transfer.find(uuid))
        if self._place is not None:
            self._catch_up(self._place.folder)  # its key hears that it counts

    def _catch_up(self, place: Path) -> None:
        """The task is where it should be: the row may not know how far its epoch went on the way."""
        with closing(self._transfer.store(place, self._uuid, self._transfer.target)) as store:
            self._epoch, _ = store.records.claim()

    # ---- the row -----------------------------------------------------------------------------------------------

    def _row(self) -> TaskRow:
        row = self._catalogue.tasks.find(self._uuid)
        if row is None:
            raise TaskNotFound("no_row", uuid=self._uuid)
        return row

    def _refuse_lost(self, row: TaskRow) -> None:
        if row.total_messages and row.status is not TaskStatus.ARCHIVED and FOLDER_LOST not in row.metadata:
            raise DamagedStore("log_lost", path=self._transfer.base, stored=0, known=row.total_messages)

    def _raised(self, owned: Ownership) -> Lease:
        """The lease with the epoch that the records have reached."""
        if self._epoch > owned.epoch:
            owned.raise_epoch(self._epoch - 1)
        return owned.lease

    def _move_row(self, lease: Lease) -> None:
        uuid, backend = self._uuid, None if self._held_by is None else self._transfer.target
        if not self._crosses:
            if backend is not None:
                self._catalogue.tasks.update(uuid, epoch=lease.epoch, backend=backend)
                _reached(uuid, "row_updated")
            unmark(self._catalogue, uuid)
            self._catalogue.leases.release(lease)
            _reached(uuid, "unmarked")
            return
        hand_over(self._catalogue, self._home, lease, backend)
        _reached(uuid, "row_copied")
        carry_notices(self._catalogue, self._home, uuid)
        give_up(self._catalogue, lease)
        _reached(uuid, "row_removed")
        unmark(self._home, uuid)
        _reached(uuid, "unmarked")

    def _let_go(self) -> None:
        """At the end, whatever came of it: nobody holds the task, and where it can be worked on it is not marked."""
        if self._owned is None:
            return
        self._owned.rest()
        if self._catalogue.tasks.find(self._uuid) is None:
            return  # the row is in its new catalogue only
        if not (self._crosses and self._is_switched):  # or workers would look for its records in vain
            unmark(self._catalogue, self._uuid)
        with suppress(StateError):  # taken over
            self._raised(self._owned)
            self._owned.release()
        if self._crosses and not self._is_switched and is_marked(copy := self._home.tasks.find(self._uuid)):
            assert copy is not None
            self._home.tasks.remove(copy.uuid, epoch=copy.epoch, requested=copy.requested)


def _reached(uuid: str, step: str) -> None:
    logger.debug("%s: %s", uuid, step)
