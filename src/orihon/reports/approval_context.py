"""What somebody needs to see who answers a question of a task: what was said last, the plan, what the phase has folded.

Only looks. The cost follows what is shown, not the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from orihon.catalogue import TaskRow
from orihon.reports.notifications import NotedNotification, notification_page
from orihon.store.checkpoints import Checkpoint
from orihon.store.record_codec import StoredMessage
from orihon.store.task_store import TaskStore
from orihon.tasks.approvals.handler import ApprovalHandler
from orihon.tasks.approvals.phase_archives import archived_phases
from orihon.tasks.base import OpenBase
from orihon.tasks.reader import Choice, chosen_messages, reading_task
from orihon.tasks.view_reader import reading_view
from orihon.values.records import Fold
from orihon.values.view import SYSTEM_ROLES

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


def asked_about(base: OpenBase, uuid: str, asked: Checkpoint, *, last: int = LAST_MESSAGES) -> AskedAbout:
    """The circumstances of a checkpoint of a task."""
    with reading_task(base, uuid) as (store, row):
        before = chosen_messages(store, Choice(last=asked.seq or None, newest=last))
        messages = tuple(stored for stored in before if stored.message.role not in SYSTEM_ROLES)
        return AskedAbout(row, messages, _plan(store), _folds(store, asked), archived_phases(store))


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
