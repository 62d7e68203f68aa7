"""Requests to a task in the queue: pause, resume, cancel, retry.

A task that nobody works on is changed at once. One that a worker holds gets the request written in its row; one that
some other live program holds is refused (``TaskBusy``). A request that comes too late, because the task changed
meanwhile, is decided again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from orihon.audit import audited
from orihon.catalogue import Catalogue, Lease, TaskRow
from orihon.catalogue.queue import TELL
from orihon.catalogue.rows import FRESH_START, SPENT, fresh_start
from orihon.errors import StaleWriter, StateError
from orihon.settings import Settings
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskFolders
from orihon.values.task import FINISHED, TaskStatus, check_change

logger = logging.getLogger("orihon.queue")

_TRIES = 10


class QueueRequests:
    """The part of the queue that takes requests."""

    base: OpenBase
    base_dir: Path
    catalogue: Catalogue
    folders: TaskFolders
    settings: Settings

    def cancel(self, uuid: str) -> TaskRow:
        """Give a task up; while a worker holds it, ``requested`` says so until the worker sees it."""
        return self._request("cancel", uuid, self._cancel)

    def pause(self, uuid: str) -> TaskRow:
        """Let a task rest. A queued one is held back, a running one is paused by its worker."""
        return self._request("pause", uuid, self._pause)

    def resume(self, uuid: str) -> TaskRow:
        """Let the next worker go on with a task that was paused or held back."""
        return self._request("resume", uuid, self._resume)

    def retry(self, uuid: str) -> TaskRow:
        """Put a failed, cancelled or dead task in line again, with all its attempts and limits before it."""
        with audited(self.base_dir, self.settings, "retry", uuid):
            return self._retried(self.catalogue.tasks.get(uuid))

    # ---- how -------------------------------------------------------------------------------------------------------

    def _request(self, action: str, uuid: str, act: Callable[[TaskRow], bool]) -> TaskRow:
        with audited(self.base_dir, self.settings, action, uuid):
            return self._settled(uuid, act)

    def _retried(self, row: TaskRow) -> TaskRow:
        uuid = row.uuid
        check_change(row.status, TaskStatus.QUEUED)
        calls, tokens = self.catalogue.statistics.family_usage(uuid)
        fresh = {"llm_calls": calls, "tokens": tokens, "tool_calls": row.tool_call_count}
        metadata = {name: value for name, value in row.metadata.items() if name != SPENT}
        fresh["round"] = fresh_start(row)["round"] + 1
        self.catalogue.tasks.update(uuid, metadata={**metadata, FRESH_START: fresh})
        self.catalogue.queue.forgive_attempt(uuid, all_of_them=True)
        return self.catalogue.tasks.change_status(uuid, TaskStatus.QUEUED)

    def _settled(self, uuid: str, act: Callable[[TaskRow], bool]) -> TaskRow:
        """Act on the task as it is, again when it was changed meanwhile."""
        for _ in range(_TRIES):
            try:
                if act(self.catalogue.tasks.get(uuid)):
                    break
            except StaleWriter:  # a worker claimed it this moment
                continue
        return self.catalogue.tasks.get(uuid)

    def _cancel(self, row: TaskRow) -> bool:
        if self._with_worker(row):
            return self.catalogue.queue.request(row.uuid, "cancel", row.status)
        return self._conclude(row, TaskStatus.CANCELLED)

    def _pause(self, row: TaskRow) -> bool:
        if row.status is TaskStatus.QUEUED or self._with_worker(row):
            return self.catalogue.queue.request(row.uuid, "pause", row.status)
        if row.status is TaskStatus.PAUSED:
            return self.catalogue.queue.request(row.uuid, None, row.status)
        return self._conclude(row, TaskStatus.PAUSED)

    def _resume(self, row: TaskRow) -> bool:
        if row.status is TaskStatus.QUEUED or self._with_worker(row):
            return row.requested != "pause" or self.catalogue.queue.request(row.uuid, None, row.status)
        if row.status is TaskStatus.PAUSED:
            return self.catalogue.queue.request(row.uuid, "resume", row.status)
        if row.status is not TaskStatus.RUNNING:
            check_change(row.status, TaskStatus.RUNNING)
        self._conclude(row, TaskStatus.PAUSED)
        return False  # paused now: look again

    def _conclude(self, row: TaskRow, status: TaskStatus, message: str | None = None) -> bool:
        """End or pause a task that nobody works on; ``TaskBusy`` when somebody does."""
        check_change(row.status, status)
        with self.base.own(row.uuid) as owned:
            if owned.row().status is not row.status:
                return False
            self._change(row.uuid, owned.lease, status, message)
        self._leave_word(row, status)
        if status is TaskStatus.CANCELLED:
            self._cancel_children(row.uuid)
        return True

    def _cancel_children(self, uuid: str) -> None:
        """What was a part of the work is given up with it."""
        for child in self.catalogue.tasks.children(uuid):
            if child.status not in FINISHED:
                try:
                    self._conclude(child, TaskStatus.CANCELLED)
                except StateError as error:  # somebody is at it, and finds out that its parent is gone
                    logger.warning("%s: %s", child.uuid, error)

    def _leave_word(self, row: TaskRow, status: TaskStatus) -> None:
        """A worker tells the source how the task has ended; nobody here may know the way there."""
        if row.source and status in FINISHED:
            self.catalogue.queue.request(row.uuid, TELL, status)

    def _change(self, uuid: str, lease: Lease, status: TaskStatus, message: str | None = None) -> TaskStatus:
        """Change the status of a task that is held, move its folder, let it go."""
        has_folder = bool(self.folders.places(uuid))
        self.catalogue.tasks.change_status(
            uuid, status, epoch=lease.epoch, error_message=message, keep_lease=has_folder
        )
        if has_folder:
            self._let_go(uuid, lease, status)
        return status

    def _let_go(self, uuid: str, lease: Lease, status: TaskStatus) -> None:
        """Bring the folder to its place and release the lease, also when the folder cannot be moved."""
        try:
            self.folders.settle(uuid, status, still=lambda: self.catalogue.leases.renew(lease))
        finally:
            self.catalogue.leases.release(lease)

    def _with_worker(self, row: TaskRow) -> bool:
        """Is a live worker at it? Another program's task is not for requests, which that program would not see."""
        return row.status is TaskStatus.RUNNING and row.claimed and self.catalogue.leases.is_held(row)
