"""Changing the view of a task from outside its worker: a command line, a page.

Promises that such a change is fenced like any other: it is made under the task's lease, taken for the moment and given
back, and the task keeps the state and the place that it had. Where a live process owns the task the change joins it if
the back end takes several writers, and is refused otherwise. A task that is queued or finished is refused: what has
ended can be read, no longer changed. A mirrored task that another machine had last is fetched first, and the change is
in the mirror before the task is let go.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from orihon.catalogue import TaskRow
from orihon.errors import IllegalTransition, TaskBusy
from orihon.guard.logs import enter_task, leave_task
from orihon.notifications.notifier import Outbox
from orihon.store import TaskMessages
from orihon.store.task_store import TaskStore
from orihon.tasks.base import OpenBase
from orihon.tasks.metrics import TaskCounts
from orihon.tasks.mirror import fetch_newer_mirror, mirror_change
from orihon.tasks.owning import TaskOpening, write_statistics
from orihon.values.task import TaskStatus
from orihon.values.tokens.tokens import Correction

CHANGEABLE = frozenset((TaskStatus.RUNNING, TaskStatus.PAUSED, TaskStatus.WAITING))


@dataclass(frozen=True, slots=True)
class ChangingTask:
    """A task while its view is changed: its row, and its messages as their owner has them."""

    row: TaskRow
    messages: TaskMessages
    outbox: Outbox  # where notices about it are put
    counts: TaskCounts  # what is done here, for the metrics


@contextmanager
def changing_task(base: OpenBase, uuid: str) -> Iterator[ChangingTask]:
    """The task, to fold and unfold in this block; then its figures follow and it is let go."""
    catalogue, row = base.registered(uuid)
    _refuse_unchangeable(row)
    with ExitStack() as at_end:
        enter_task(uuid)
        at_end.callback(leave_task, uuid)
        row, store = _opened(base, uuid, at_end)
        base.audit.watch(store, uuid)
        messages = TaskMessages(store, base.settings)
        messages.context_length = row.context_length or base.settings.context_length
        messages.correction = Correction.stored(row.correction)
        before = store.count("compressions")
        counts = TaskCounts(catalogue, store, row.task_source)
        at_end.callback(counts.write)  # also what failed is counted
        yield ChangingTask(row, messages, Outbox(catalogue, base.path, base.settings), counts)
        made = [record for record in store.read("compressions", before + 1) if record["kind"] == "compress"]
        counts.summaries(sum(len(record["folds"]) for record in made))
        is_at_rest = row.status is not TaskStatus.RUNNING
        write_statistics(catalogue, row, store, compressions=len(made), final=is_at_rest)


def check_changeable(base: OpenBase, uuid: str) -> None:
    """Raises what ``changing_task`` would raise now: for whoever is about to ask a person for a long text."""
    _, row = base.registered(uuid)
    _refuse_unchangeable(row)
    here = base.folders.find(uuid)
    if here is None or not base.is_in_use(row):
        return
    if row.status is not TaskStatus.RUNNING or here.backend(base.settings.context_storage.backend) == "files":
        raise TaskBusy("view", uuid=uuid, owner=row.lease_owner, host=row.lease_host, pid=row.lease_pid)


def _refuse_unchangeable(row: TaskRow) -> None:
    if row.status not in CHANGEABLE:
        raise IllegalTransition("unchangeable", uuid=row.uuid, status=row.status.value)


def _opened(base: OpenBase, uuid: str, at_end: ExitStack) -> tuple[TaskRow, TaskStore]:
    """The task's row and store, owned or shared with its owner; what ``at_end`` is given lets go of them."""
    opening = TaskOpening(base, fetch=partial(fetch_newer_mirror, base.settings))
    try:
        owned = base.own(uuid)
    except TaskBusy as busy:
        _, row = base.registered(uuid)
        joined = opening.beside_owner(row)
        if joined is None:
            raise TaskBusy("view", **busy.fields) from busy
        store = joined
    else:
        at_end.enter_context(owned)
        _refuse_unchangeable(owned.row())  # under the lease: its last owner may have ended it meanwhile
        row, store = opening.in_place(owned)
        at_end.callback(lambda: mirror_change(base.settings, base.folders.find(uuid), owned.epoch))
    at_end.callback(store.close)
    return row, store
