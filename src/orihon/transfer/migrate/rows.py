"""The row of a task that is being moved, and its notices: out of the line, and at last in the other catalogue.

``requested`` of the row says so, with what was requested before behind it (``migrate:resume``): no worker claims such
a task, and a crash forgets nothing. Between two catalogues the row is first in the old one, then in both, then in the
new one only, and marked all that time; so at no moment can two workers have the task.

A notice that is still to be sent is first held in the new catalogue, then taken out of the old one as it was read
there, then released. So only one of the two can ever send it, whenever the process is killed, and a second run goes
on. What is being sent in this moment is left until its sender has said what became of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from orihon.catalogue import Catalogue, Lease, TaskRow
from orihon.catalogue.outbox import NoticeRow
from orihon.catalogue.rows import IN_MOVE
from orihon.errors import IllegalTransition, StaleWriter, TaskBusy
from orihon.tasks.owning import Ownership
from orihon.values.task import folder

logger = logging.getLogger("orihon.migration")

_ATTEMPTS = 5
_PAGE = 500
_PATIENCE, _PAUSE = 6.0, 0.1  # seconds; a receiver has five to answer
_NOT_MEANT_SECONDS = 3600.0  # as with the first webhook of a catalogue


def is_marked(row: TaskRow | None) -> bool:
    """Is a move of this task under way, or was it interrupted?"""
    return row is not None and (row.requested or "").startswith(IN_MOVE)


def wish(row: TaskRow) -> str | None:
    """What was requested of the task before it was marked."""
    requested = row.requested or ""
    return requested.removeprefix(IN_MOVE) or None if requested.startswith(IN_MOVE) else row.requested


def mark(catalogue: Catalogue, lease: Lease) -> TaskRow:
    """Take a task whose lease is ours out of the line; ``TaskBusy`` when a worker was quicker."""
    row = catalogue.tasks.get(lease.uuid)
    if not is_marked(row):
        catalogue.queue.request(
            row.uuid, f"{IN_MOVE}{row.requested or ''}", row.status, over=False, instead_of=row.requested
        )
        row = catalogue.tasks.get(lease.uuid)
    if row.epoch != lease.epoch or not is_marked(row):
        unmark(catalogue, lease.uuid)
        raise TaskBusy("claimed", uuid=row.uuid, owner=row.lease_owner or "-")
    return row


def unmark(catalogue: Catalogue, uuid: str) -> None:
    """The row as it was, where it is."""
    for _ in range(_ATTEMPTS):  # its status may change while we look
        row = catalogue.tasks.find(uuid)
        if row is None or not is_marked(row):
            return
        if catalogue.queue.request(uuid, wish(row), row.status, over=False, instead_of=row.requested):
            return


def refuse_twin(row: TaskRow, home: Catalogue) -> None:
    """A second row, in the catalogue that the task goes to, must be the same task's and nobody's."""
    twin = home.tasks.find(row.uuid)
    if twin is None or is_marked(twin):
        return
    if twin.key != row.key:
        raise IllegalTransition("two_rows", uuid=row.uuid, here=row.key.label, there=twin.key.label)
    if home.leases.is_held(twin):
        left = home.leases.seconds_left(twin)
        owner = {"owner": twin.lease_owner, "host": twin.lease_host, "pid": twin.lease_pid, "seconds_left": left}
        raise TaskBusy("lease", uuid=row.uuid, **owner)


def settle_twin(uuid: str, source: Catalogue, home: Catalogue, place: str | None, seconds: float) -> Catalogue:
    """One row for a task that has two; returns the catalogue that has it. ``place``: where its records lie.

    The older catalogue is right, unless somebody has gone on with the task by the other one.
    """
    row, twin = source.tasks.get(uuid), home.tasks.find(uuid)
    if twin is None or is_marked(twin):
        return source
    refuse_twin(row, home)
    is_moved = place == folder(twin.status) != folder(row.status)
    went_on = twin.hostname is not None and twin.total_messages > row.total_messages
    right, wrong = (home, source) if is_moved or went_on else (source, home)
    owned = Ownership.take(wrong, uuid, seconds)  # its row goes, and the lease with it
    dropped = mark(wrong, owned.lease)
    wrong.tasks.remove(uuid, epoch=owned.epoch, requested=dropped.requested)
    logger.warning("%s: had two rows; the one that said %s is dropped", uuid, dropped.status.value)
    return right


def hand_over(source: Catalogue, target: Catalogue, lease: Lease, backend: str | None) -> None:
    """A marked row from one catalogue to another; it is marked there, too. ``backend``: where its records are now."""
    row = source.tasks.get(lease.uuid)
    if row.epoch != lease.epoch:
        raise StaleWriter("lease", uuid=row.uuid, epoch=lease.epoch, current=row.epoch)
    known = target.tasks.find(row.uuid)
    if is_marked(known):
        assert known is not None
        target.tasks.remove(known.uuid, epoch=known.epoch, requested=known.requested)  # of a move that was interrupted
    elif known is not None:
        raise IllegalTransition("two_rows", uuid=row.uuid, here=row.key.label, there=known.key.label)
    # A retry waits on the clock of its catalogue; ``available_at`` says the same on everybody's.
    target.tasks.adopt(replace(row, backend=backend or row.backend, retry_due=None, retry_boot=None))
    target.usage.replace(row.uuid, source.usage.of_task(row.uuid))


def give_up(source: Catalogue, lease: Lease) -> None:
    """Out of the old catalogue; refused when somebody has taken the task there in spite of the mark."""
    row = source.tasks.get(lease.uuid)
    if not is_marked(row) or not source.tasks.remove(row.uuid, epoch=lease.epoch, requested=row.requested):
        raise StaleWriter("lease", uuid=row.uuid, epoch=lease.epoch, current=row.epoch)


def carry_notices(source: Catalogue, home: Catalogue, task: str) -> None:
    """The notices of one task, but for those that are being sent now."""
    _carry(source, home, task)


def carry_the_rest(source: Catalogue, home: Catalogue) -> None:
    """The notices of all tasks that have left the old catalogue; when none is left there, those of no task, too."""
    give_up = time.monotonic() + _PATIENCE
    _carry(source, home, None)
    while (left := source.outbox.count_left()) and time.monotonic() < give_up:
        time.sleep(_PAUSE)
        _carry(source, home, None)
    for row in _pages(lambda after: home.outbox.held(after=after, limit=_PAGE)):
        if not source.outbox.has_event(row.event):  # of a run that was interrupted
            home.outbox.release(row.event)
    if left:
        logger.warning("%d notifications are still being sent from the old catalogue; migrate again for them", left)


def _carry(source: Catalogue, home: Catalogue, task: str | None) -> None:
    last = 0
    while page := source.outbox.movable(task, after=last, limit=_PAGE):
        _agree_on_webhook(source, home)
        home.outbox.adopt(page)
        logger.debug("%s: %s", task or "-", "notices_copied")
        for row in page:
            if source.outbox.remove(row):
                logger.debug("%s: %s", task or "-", "notice_removed")
                home.outbox.release(row.event)
        last = page[-1].id


def _agree_on_webhook(source: Catalogue, home: Catalogue) -> None:
    """Where one of them has never had a webhook, its old notices were not meant for the other's."""
    if source.outbox.has_used_webhook() != home.outbox.has_used_webhook():
        before = (datetime.now(UTC) - timedelta(seconds=_NOT_MEANT_SECONDS)).isoformat(timespec="microseconds")
        for catalogue in (source, home):
            catalogue.outbox.begin_webhook(before)


def _pages(read: Callable[[int], list[NoticeRow]]) -> Iterator[NoticeRow]:
    last = 0
    while page := read(last):
        yield from page
        last = page[-1].id
