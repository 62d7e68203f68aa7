"""Changing the view of a task from outside its worker: a command line, a page.

Promises that such a change is fenced like any other: it is made under the task's lease, taken for the moment and given
back, and the task keeps the state and the place that it had. Where a live process owns the task the change joins it if
the back end takes several writers, and is refused otherwise. A task that is queued or finished is refused: what has
ended can be read, no longer changed. A mirrored task that another machine had last is fetched first, and the change is
in the mirror before the task is let go.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from orihon.audit.trail import audit_of
from orihon.catalogue import Catalogue, Lease, TaskRow
from orihon.errors import IllegalTransition, OrihonError, TaskBusy, TaskNotFound
from orihon.guard.logs import enter_task, leave_task
from orihon.notifications.outbox import Outbox
from orihon.settings import Settings
from orihon.store import MessageStore
from orihon.store.factory import open_for_reading
from orihon.store.task_store import TaskStore
from orihon.tasks.base import BaseFolder
from orihon.tasks.metrics import TaskCounts
from orihon.tasks.mirror import fetch_newer_mirror, mirror_change
from orihon.tasks.owning import TaskOpening
from orihon.values.task import TaskStatus
from orihon.values.tokens.tokens import Correction

logger = logging.getLogger("orihon.view_changes")

CHANGEABLE = frozenset((TaskStatus.RUNNING, TaskStatus.PAUSED, TaskStatus.WAITING))


@dataclass(frozen=True, slots=True)
class ChangingTask:
    """A task while its view is changed: its row, and its messages as their owner has them."""

    row: TaskRow
    messages: MessageStore
    outbox: Outbox  # where notices about it are put
    counts: TaskCounts  # what is done here, for the metrics


@contextmanager
def changing_task(base_dir: Path | str, uuid: str, settings: Settings) -> Iterator[ChangingTask]:
    """The task, to fold and unfold in this block; then its figures follow and it is let go."""
    with BaseFolder(Path(base_dir).absolute(), settings) as base, ExitStack() as at_end:
        catalogue, row = _registered(base, uuid)
        _refuse_unchangeable(row)
        enter_task(uuid)
        at_end.callback(leave_task, uuid)
        row, store = _opened(base, catalogue, uuid, at_end)
        audit_of(base.path, settings).watch(store, uuid)
        messages = MessageStore(store.records.folder, settings, task_store=store)
        messages.context_length = row.context_length or settings.context_length
        messages.correction = Correction(row.correction, int(row.correction != 1.0))
        before = store.count("compressions")
        counts = TaskCounts(catalogue, store, row.task_source)
        at_end.callback(counts.write)  # also what failed is counted
        yield ChangingTask(row, messages, Outbox(catalogue, base.path, settings), counts)
        made = [record for record in store.read("compressions", before + 1) if record["kind"] == "compress"]
        counts.summaries(sum(len(record["folds"]) for record in made))
        _write_figures(catalogue, row, store, len(made))


def check_changeable(base_dir: Path | str, uuid: str, settings: Settings) -> None:
    """Raises what ``changing_task`` would raise now: for whoever is about to ask a person for a long text."""
    with BaseFolder(Path(base_dir).absolute(), settings) as base:
        _, row = _registered(base, uuid)
        _refuse_unchangeable(row)
        here = base.folders.find(uuid)
        if here is None or not base.is_in_use(row):
            return
        with closing(open_for_reading(here, settings, name=uuid)) as store:
            if row.status is not TaskStatus.RUNNING or not store.records.many_writers:
                raise TaskBusy("view", uuid=uuid, owner=row.lease_owner, host=row.lease_host, pid=row.lease_pid)


def _registered(base: BaseFolder, uuid: str) -> tuple[Catalogue, TaskRow]:
    catalogue = base.open_catalogue()
    row = base.row(uuid)
    if catalogue is None or row is None:
        raise TaskNotFound("no_row" if base.folders.find(uuid) else "uuid", uuid=uuid)
    return catalogue, row


def _refuse_unchangeable(row: TaskRow) -> None:
    if row.status not in CHANGEABLE:
        raise IllegalTransition("unchangeable", uuid=row.uuid, status=row.status.value)


def _opened(base: BaseFolder, catalogue: Catalogue, uuid: str, at_end: ExitStack) -> tuple[TaskRow, TaskStore]:
    """The task's row and store; what ``at_end`` is given lets go of them."""
    fetch = partial(fetch_newer_mirror, base.settings)
    opening = _OpeningInPlace(catalogue, base.folders, base.settings, fetch=fetch)
    try:
        lease = catalogue.leases.acquire(uuid, seconds=base.settings.context_storage.lease_seconds)
    except TaskBusy as busy:
        row, store = opening.join(uuid, busy)
    else:
        with ExitStack() as on_failure:
            on_failure.callback(catalogue.leases.release, lease)
            row, store, lease = opening.own(lease)
            on_failure.pop_all()
        at_end.callback(catalogue.leases.release, lease)
        at_end.callback(lambda: mirror_change(base.settings, uuid, store.records.folder, lease.epoch))
    at_end.callback(store.close)
    return row, store


class _OpeningInPlace(TaskOpening):
    """Opens a task in the state that it has, and where tasks of that state lie."""

    def own(self, lease: Lease) -> tuple[TaskRow, TaskStore, Lease]:
        """With a lease: the store is claimed, and a former owner is refused from here on."""
        row = self._catalogue.tasks.get(lease.uuid)  # under the lease: its last owner may have ended it meanwhile
        _refuse_unchangeable(row)
        self._place_of(row, lease)  # another machine may have had it since
        here = self._folders.settle(row.uuid, row.status)
        self._refuse_lost_log(row, here)
        if here is None:
            raise TaskNotFound("no_folder", uuid=row.uuid, status=row.status.value)
        with ExitStack() as on_failure:
            store, lease = self._claimed(here, lease, on_failure)
            on_failure.pop_all()
        return self._catalogue.tasks.get(row.uuid), store, lease

    def join(self, uuid: str, busy: TaskBusy) -> tuple[TaskRow, TaskStore]:
        """Beside a live owner, with its epoch: when it is taken over, both are refused."""
        row = self._catalogue.tasks.get(uuid)
        here = self._folders.find(uuid)
        if row.status is TaskStatus.RUNNING and here is not None:
            store = self._store(here, uuid, row.epoch)
            if store.records.many_writers:
                return row, store
            store.close()
        raise TaskBusy("view", **busy.fields) from busy


def _write_figures(catalogue: Catalogue, row: TaskRow, store: TaskStore, compressions: int) -> None:
    """What ``orihon list`` shows. The change is made and recorded: nothing fails because of its figures."""
    try:
        tail = store.tail
        figures = {
            "total_messages": tail.seq,
            "total_summaries": store.count("summaries"),
            "view_tokens": tail.view_tokens,
        }
        if row.status is not TaskStatus.RUNNING:
            figures |= {"final_token_count": tail.view_tokens, "final_message_count": tail.view_entries}
        if compressions:
            catalogue.tasks.add_statistics(row.uuid, compressions=compressions, epoch=row.epoch)
        catalogue.tasks.set_totals(row.uuid, **figures, epoch=row.epoch)
    except OrihonError as error:
        logger.warning("%s: the statistics could not be written: %s", row.uuid, error)
