"""The feed of notifications, for whoever looks: a command, a page. And what a cron job does with the outbox.

What somebody needs to see who answers a question of a task: what was said last, the plan, what the phase has folded.

Only looks. The cost follows what is shown, not the log.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice, takewhile
from typing import Any

from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.outbox import NoticeRow
from orihon.errors import InvalidSettings, OrihonError
from orihon.notifications.notification import Notification
from orihon.notifications.webhook import Delivery, Webhook, deliver
from orihon.store.checkpoints import Checkpoint
from orihon.store.record_codec import StoredMessage
from orihon.store.task_store import TaskStore
from orihon.system.json_shapes import AsJson
from orihon.tasks.approvals.handler import ApprovalHandler
from orihon.tasks.approvals.phase_archives import archived_phases
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import Choice, chosen_messages, read_anew, reading_task
from orihon.tasks.view_reader import reading_view
from orihon.values.records import Fold
from orihon.values.view import SYSTEM_ROLES

logger = logging.getLogger("orihon.notifications")

SECONDS_BETWEEN_LOOKS = 0.5
_PAGE = 200
_COUNTED_DAYS = 62
_DELIVERY_SECONDS = 60.0  # of a cron job that has more to do
_UNSENT_DAYS = 2  # that a webhook has for what nobody wants to keep any longer; a day is needed to give it up


@dataclass(frozen=True, slots=True)
class NotedNotification:
    """A notification, and how the task that it is about stands now."""

    notice: Notification
    row: TaskRow | None


@dataclass(frozen=True, slots=True)
class NotificationPage:
    """A piece of the feed; ``older`` is the number to go on before, where there is more."""

    notes: list[NotedNotification]
    older: int | None


def list_notifications(
    base: OpenBase,
    *,
    since: int | None = None,
    limit: int = 100,
    task: str | None = None,
) -> list[Notification]:
    """The last ``limit`` notifications, or the first ones after number ``since``; the oldest first.

    ``task`` names one task as everywhere (``task_name``). Texts are in the language that is set. Whoever follows the
    feed asks again with the number of the last one that it has got: none is missed.
    """
    catalogue = base.open_catalogue()
    if catalogue is None:
        return []
    uuid = None if task is None else base.resolve(task)
    return [Notification.of(row) for row in catalogue.outbox.rows(since=since, limit=limit, task=uuid)]


def notification_page(
    base: OpenBase,
    *,
    since: int = 0,
    before: int | None = None,
    limit: int = 50,
    task: str | None = None,
    kinds: Collection[str] | None = None,
    users: Collection[str] | None = None,
) -> NotificationPage:
    """The newest ``limit`` notifications of these kinds, after one number and before another; the newest first.

    ``users``: only what is about their tasks. Of a task that is gone nobody knows whose it was.
    """
    catalogue = base.open_catalogue()
    if catalogue is None:
        return NotificationPage([], None)
    uuid = None if task is None else base.resolve(task)
    newest = takewhile(lambda row: row.id > since, _newest_first(catalogue, before, uuid))
    rows = (row for row in newest if kinds is None or row.kind in kinds)
    known = cache(catalogue.tasks.find)
    noted = ((row, None if row.task is None else known(row.task)) for row in rows)
    wanted = (one for one in noted if users is None or (one[1] is not None and one[1].user in users))
    found = [NotedNotification(Notification.of(row), about) for row, about in islice(wanted, limit)]
    is_last = next(wanted, None) is None
    return NotificationPage(found, None if is_last else found[-1].notice.number)


def _newest_first(catalogue: Catalogue, before: int | None, task: str | None) -> Iterator[NoticeRow]:
    while True:
        page = catalogue.outbox.rows(before=before, limit=_PAGE, task=task)
        yield from reversed(page)
        if len(page) < _PAGE:
            return
        before = page[0].id


def follow_notifications(
    base: OpenBase,
    *,
    since: int | None = None,
    limit: int = 100,
    task: str | None = None,
    wait: Callable[[float], object] = time.sleep,
) -> Generator[Notification]:
    """The same, and then each one as it comes, without end.

    In a catalogue that was made anew meanwhile the numbers begin anew, too: it is followed from its beginning.
    """
    found = list_notifications(base, since=since, limit=limit, task=task)
    last, seen = since or 0, 0
    while True:
        for one in found:
            last = seen = one.number
            yield one
        if not found:
            wait(SECONDS_BETWEEN_LOOKS)
            newest = list_notifications(base, limit=1) if seen else []
            last = 0 if newest and newest[0].number < seen else last
        found = list_notifications(base, since=last, limit=limit, task=task)


def deliver_notifications(base: OpenBase, *, early: bool = False, seconds: float = math.inf) -> Delivery:
    """Send what the webhook has not got yet, here and now; ``early``: also what was put off after a failure.

    What would be begun after so many ``seconds`` is left to the next one. ``InvalidSettings`` without a webhook.
    """
    wanted = base.settings.notifications
    if wanted.webhook is None:
        raise InvalidSettings("no_webhook")
    webhook = Webhook(wanted.webhook, wanted.webhook_secret, allow_metadata=wanted.allow_metadata)
    catalogue = base.open_catalogue()
    return Delivery() if catalogue is None else deliver(catalogue, webhook, early=early, seconds=seconds)


@dataclass(frozen=True, slots=True)
class NotificationRun(AsJson):
    """What a cron job has done with notifications."""

    json_fields = "removed *delivery"

    removed: int = 0
    delivery: Delivery = field(default_factory=Delivery)


def maintain_notifications(base: OpenBase) -> NotificationRun:
    """Send what is due, where there is a webhook; take out what is older than ``notifications.keep_days``.

    Nothing else fails because of it: a catalogue or an address that is none is logged. A receiver that is slow gets a
    minute.
    """
    delivery, removed = Delivery(), 0
    is_wanted = base.settings.notifications.webhook is not None
    try:
        if is_wanted:
            delivery = deliver_notifications(base, seconds=_DELIVERY_SECONDS)
    except OrihonError as error:
        logger.warning("notifications were not sent: %s", error)
    try:
        catalogue = base.open_catalogue()
        if catalogue is not None:
            removed = _forget(catalogue, base.settings.notifications.keep_days, is_wanted=is_wanted)
    except OrihonError as error:
        logger.warning("notifications were not maintained: %s", error)
    return NotificationRun(removed, delivery)


def _forget(catalogue: Catalogue, keep_days: int, *, is_wanted: bool) -> int:
    catalogue.counters.forget(_ago(_COUNTED_DAYS))  # figures by time are for monitor and monthly report
    return catalogue.outbox.forget(_ago(keep_days), unsent=_ago(max(keep_days, _UNSENT_DAYS * is_wanted)))


def _ago(days: float) -> str:
    try:
        return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="microseconds")
    except OverflowError:  # before there were years: nothing is so old
        return ""


LAST_MESSAGES = 3
_ANSWERED = ("approval_answered", "approval_expired")


@dataclass(frozen=True, slots=True)
class AskedAbout:
    """The circumstances of a question."""

    row: TaskRow | None
    messages: tuple[StoredMessage, ...]  # the last ones before the question
    plan: dict[str, Any] | None
    folds: tuple[Fold, ...]  # what stands in the view for parts of the phase
    phases: tuple[int, ...]  # numbers of the phases that have an archive


@read_anew
def asked_about(base: OpenBase, uuid: str, asked: Checkpoint, *, last: int = LAST_MESSAGES) -> AskedAbout:
    """The circumstances of a checkpoint of a task."""
    with reading_task(base, uuid) as (store, row):
        before = chosen_messages(store, Choice(last=asked.seq or None, newest=last))
        messages = tuple(stored for stored in before if stored.message.role not in SYSTEM_ROLES)
        return AskedAbout(row, messages, _plan(store), _folds(store, asked), archived_phases(store))


@read_anew
def known_sections(base: OpenBase, uuid: str) -> list[str]:
    """The sections that a rejection or a request for changes may name."""
    with reading_view(base, uuid) as view:
        return ApprovalHandler(view.message_store()).section_titles()


def answered_lately(
    base: OpenBase, *, limit: int = 10, users: tuple[str, ...] | None = None
) -> list[NotedNotification]:
    """The last answers, the newest first, and how the tasks stand now."""
    return notification_page(base, limit=limit, kinds=_ANSWERED, users=users).notes


def _plan(store: TaskStore) -> dict[str, Any] | None:
    last = store.count("planning")
    return next(store.read("planning", last, last), None) if last else None


def _folds(store: TaskStore, asked: Checkpoint) -> tuple[Fold, ...]:
    first = 1 if asked.phase is None else asked.phase.start_seq
    folds, _ = store.state(store.count("compressions"))
    return tuple(fold for fold in folds if fold.end_seq >= first and fold.start_seq <= asked.seq)
