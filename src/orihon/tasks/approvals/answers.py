"""People's answers: what waits for one, giving one, and looking after time limits and reminders.

An answer is one thing: under the lease of the waiting task the answer and its message are recorded, the view follows
(``ApprovalHandler``), and then the task goes on: a worker's is in line again, any other is paused. That it is still
``waiting`` while its questions are answered means that somebody has died on the way; ``sweep`` goes on from there. Of
two people who answer at once one wins, and the other is told who did and when.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial

from orihon.audit.trail import audited
from orihon.catalogue import Catalogue, TaskRow
from orihon.compression.compressor import ContextCompressor
from orihon.drivers.broker import wake_workers
from orihon.errors import (
    IllegalTransition,
    InvalidInput,
    NotWaiting,
    OrihonError,
    StaleWriter,
    StateError,
    StorageError,
    TaskBusy,
    TaskNotFound,
)
from orihon.store.checkpoints import CLOCK, Approval, Checkpoint, CheckpointLog, Ledger, read_ledger, refuse_answered
from orihon.system.clock import utc_now
from orihon.system.json_shapes import AsJson
from orihon.tasks.approvals.handler import ApprovalHandler
from orihon.tasks.approvals.notices import tell_of_approval
from orihon.tasks.approvals.question_cache import QuestionMemory, Questions
from orihon.tasks.base import OpenBase
from orihon.tasks.editing import ChangingTask, changing_task
from orihon.texts import text
from orihon.values.task import FINISHED, TaskStatus

logger = logging.getLogger("orihon.approvals")

#: Seconds to wait for somebody who holds the task for a moment: another answer, a look.
_PATIENCE = 10.0
_NAP = 0.02
_TRIES = 20
ANSWERABLE = (TaskStatus.WAITING, TaskStatus.PAUSED)
_PAGE = 1000


@dataclass(frozen=True, slots=True)
class PendingApproval(AsJson):
    """A checkpoint that waits for an answer, and its task."""

    json_fields = "uuid task=label checkpoint"

    uuid: str
    label: str
    checkpoint: Checkpoint
    user: str = ""  # whose task it is


@dataclass(frozen=True, slots=True)
class Answered(AsJson):
    """What an answer has led to."""

    json_name = "answered"
    json_fields = "uuid status requested checkpoint before_tokens after_tokens waits_for"

    uuid: str
    checkpoint: Checkpoint
    status: TaskStatus
    requested: str | None
    before_tokens: int
    after_tokens: int
    waits_for: Checkpoint | None = None  # another question, which is open still


@dataclass(slots=True)
class SweepReport(AsJson):
    """What was done about tasks that wait."""

    json_fields = "reminded expired settled"

    settled: list[str] = field(default_factory=list)  # had been answered, and somebody died before they could go on
    expired: list[PendingApproval] = field(default_factory=list)
    reminded: list[PendingApproval] = field(default_factory=list)
    to_cancel: list[str] = field(default_factory=list)  # somebody wants them cancelled


# ---- what waits ----------------------------------------------------------------------------------------------------


def pending(base: OpenBase, *, user: str | None = None, memory: QuestionMemory | None = None) -> list[PendingApproval]:
    """Every checkpoint that waits for an answer (``user``: in that user's tasks), the oldest first.

    With a ``memory``, which is of this base folder, tasks that have not changed since it was filled are not opened.
    """
    memory = memory or QuestionMemory()
    found: list[PendingApproval] = []
    seen: set[str] = set()
    for row in _rows(base.open_catalogue(), *ANSWERABLE):
        seen.add(row.uuid)
        if user not in (None, row.user):
            continue
        with _passed_over(row):
            asked = memory.of(row, partial(_open_questions, base, row.uuid))
            found += (PendingApproval(row.uuid, row.key.label, one, row.user) for one in asked)
    memory.keep(seen)
    return sorted(found, key=lambda one: (one.checkpoint.created_at, one.uuid))


@contextmanager
def _passed_over(row: TaskRow) -> Iterator[None]:
    """A task that goes on this moment, or is damaged, keeps nobody from the others."""
    try:
        yield
    except OrihonError as error:
        logger.info("%s: %s", row.uuid, error)


def _waiting(base: OpenBase) -> Iterator[tuple[TaskRow, Ledger]]:
    for row in _rows(base.open_catalogue(), TaskStatus.WAITING):
        ledger = Ledger()
        with _passed_over(row):
            ledger = _ledger(base, row.uuid)
        if ledger.checkpoints:
            yield row, ledger


def _rows(catalogue: Catalogue | None, *statuses: TaskStatus) -> Iterator[TaskRow]:
    if catalogue is None:
        return
    for status in statuses:
        page = catalogue.tasks.page(status=status, limit=_PAGE)
        yield from page
        while len(page) == _PAGE:
            page = catalogue.tasks.page(status=status, limit=_PAGE, before=page[-1].uuid)
            yield from page


def _ledger(base: OpenBase, uuid: str) -> Ledger:
    folder = base.folders.find(uuid)
    if folder is None:
        raise TaskNotFound("uuid", uuid=uuid)
    with closing(base.read_store(folder)) as store:
        return read_ledger(store)


def _open_questions(base: OpenBase, uuid: str) -> Questions:
    return _ledger(base, uuid).open


# ---- answering -----------------------------------------------------------------------------------------------------


def approve(base: OpenBase, uuid: str, *, by: str, reason: str = "", checkpoint: int | None = None) -> Answered:
    """Let the task go on. Without ``checkpoint`` the oldest open question is answered."""
    return _answer(base, uuid, Approval("approve", by, reason), checkpoint)


def reject(
    base: OpenBase,
    uuid: str,
    *,
    by: str,
    reason: str,
    sections: Sequence[str] = (),
    checkpoint: int | None = None,
) -> Answered:
    """Say no, and why; what the reason is about is opened again: named ``sections``, or found by its words."""
    return _answer(base, uuid, Approval("reject", by, reason, sections=tuple(sections)), checkpoint)


def revise(
    base: OpenBase,
    uuid: str,
    *,
    by: str,
    instructions: str,
    sections: Sequence[str] = (),
    checkpoint: int | None = None,
) -> Answered:
    """Ask for changes; what the instructions are about is opened again."""
    approval = Approval("revise", by, instructions, sections=tuple(sections))
    return _answer(base, uuid, approval, checkpoint)


def _answer(base: OpenBase, uuid: str, approval: Approval, number: int | None) -> Answered:
    if not approval.by.strip():
        raise InvalidInput("empty_text", field="by")
    if not approval.approved and not approval.comment.strip():
        raise InvalidInput("empty_text", field="instructions" if approval.decision == "revise" else "reason")
    with audited(base.path, base.settings, approval.decision, uuid, user=approval.by):
        return _held(base, uuid, lambda task: _answered(task, approval, number), number)


def _answered(task: ChangingTask, approval: Approval, number: int | None) -> Checkpoint:
    log = CheckpointLog(task.messages.task_store)
    log.settle()
    asked = _wanted(log.read(), number, task.row)
    refuse_answered(asked)
    if task.messages.task_store.tail.open_calls:  # it was stopped before it could wait: its worker comes back first
        raise NotWaiting("running", uuid=task.row.uuid, status=task.row.status.value)
    handler = _handler(task)
    handler.check_sections(approval)
    asked = log.answer(asked.id, approval)
    assert asked.answer is not None
    handler.on_answer(asked, asked.answer)
    return asked


def _handler(task: ChangingTask) -> ApprovalHandler:
    compressor = ContextCompressor(message_store=task.messages, outbox=task.outbox, counts=task.counts)
    return ApprovalHandler(task.messages, compressor)


def _held(base: OpenBase, uuid: str, act: Callable[[ChangingTask], Checkpoint], number: int | None = None) -> Answered:
    """Act on a waiting task under its lease, then let it go on if nothing is asked any more."""
    give_up = time.monotonic() + _PATIENCE
    while True:
        _refuse_early(base, uuid, number)
        try:
            with changing_task(base, uuid) as task:
                if task.row.status not in ANSWERABLE:
                    raise NotWaiting("running", uuid=uuid, status=task.row.status.value)
                before = task.messages.get_current_token_count()
                asked = act(task)
                # Before the task goes on: whoever makes up for a crash in between tells it again, and it is one notice.
                tell_of_approval(task.outbox, uuid, "answered", asked)
                ledger = CheckpointLog(task.messages.task_store).read()
                after = task.messages.get_current_token_count()
        except TaskBusy:
            if time.monotonic() >= give_up:
                raise
            time.sleep(_NAP)
            continue
        row = _let_go_on(base, uuid)
        if row.requested == "resume":  # who listens to a broker hears of it at once; the others look anyway
            wake_workers(base.settings, uuid)
        waits_for = ledger.open[0] if ledger.open else None
        return Answered(uuid, asked, row.status, row.requested, before, after, waits_for)


def _refuse_early(base: OpenBase, uuid: str, number: int | None) -> None:
    """Tell who comes too late before anything is taken: what has ended, goes on, or is answered."""
    catalogue = base.open_catalogue()
    row = None if catalogue is None else catalogue.tasks.find(uuid)
    if row is None:
        raise TaskNotFound("uuid", uuid=uuid)
    if row.status in FINISHED or row.status is TaskStatus.ARCHIVED:
        raise NotWaiting("ended", uuid=uuid, status=row.status.value)
    if row.status is TaskStatus.QUEUED:
        raise NotWaiting("nothing", uuid=uuid, status=row.status.value)
    if row.status is TaskStatus.RUNNING:
        asked = _wanted(_ledger(base, uuid), number, row)
        refuse_answered(asked)
        raise NotWaiting("running", uuid=uuid, status=row.status.value)


def _wanted(ledger: Ledger, number: int | None, row: TaskRow) -> Checkpoint:
    """The checkpoint that is meant: the one of that number, else the oldest open one, else the last."""
    if number is not None:
        return ledger.checkpoint(number)
    if not ledger.checkpoints:
        raise NotWaiting("nothing", uuid=row.uuid, status=row.status.value)
    return ledger.open[0] if ledger.open else ledger.checkpoints[-1]


def _let_go_on(base: OpenBase, uuid: str) -> TaskRow:
    """All is answered: a worker's task is in line again, any other is paused.

    Somebody who comes too late with another answer takes the lease for a moment, and its epoch rises: then again.
    """
    catalogue = base.open_catalogue()
    assert catalogue is not None
    for _ in range(_TRIES):
        row = catalogue.tasks.get(uuid)
        if row.status is not TaskStatus.WAITING or _ledger(base, uuid).open:
            break
        try:
            if row.claimed:  # first the wish: a paused task without it would be forgotten by a crash in between
                catalogue.queue.request(uuid, "resume", TaskStatus.WAITING, over=False)
            return catalogue.tasks.change_status(uuid, TaskStatus.PAUSED, epoch=row.epoch)
        except (StaleWriter, IllegalTransition) as error:
            logger.info("%s: %s", uuid, error)
    return catalogue.tasks.get(uuid)


# ---- looking after -------------------------------------------------------------------------------------------------


def sweep(base: OpenBase) -> SweepReport:
    """Look after everything that waits: time limits, reminders, and what somebody has died over."""
    report = SweepReport()
    waiting = list(_waiting(base))
    held = {row.uuid for row, _ in waiting if base.is_in_use(row)}
    for row, ledger in waiting:
        if row.uuid in held:
            continue
        if row.requested == "cancel":
            report.to_cancel.append(row.uuid)
            continue
        try:
            look_after(base, row, ledger, report)
        except StateError as error:  # somebody else was quicker
            logger.info("%s: %s", row.uuid, error)
        except StorageError as error:  # one damaged task keeps nobody from the others
            logger.warning("%s: %s", row.uuid, error)
    return report


def look_after(base: OpenBase, row: TaskRow, ledger: Ledger, report: SweepReport | None = None) -> None:
    """The same for one task."""
    report = report or SweepReport()
    now = utc_now()
    if not ledger.open:
        _held(base, row.uuid, _followed)
        report.settled.append(row.uuid)
        logger.warning("%s: was answered and goes on now", row.uuid)
    for asked in ledger.open:
        found = PendingApproval(row.uuid, row.key.label, asked)
        if asked.is_expired(now):
            approval = Approval(asked.on_timeout, CLOCK, text("approvals.timed_out", at=asked.expires_at))
            _answer(base, row.uuid, approval, asked.id)
            report.expired.append(found)
            logger.warning("%s: nobody has answered %s in time: %s", row.uuid, asked.name, asked.on_timeout)
        elif asked.is_reminder_due(now):
            with changing_task(base, row.uuid) as task:
                tell_of_approval(task.outbox, row.uuid, "reminded", asked)
                is_new = CheckpointLog(task.messages.task_store).remind(asked.id, now)
            if is_new:
                report.reminded.append(found)
                logger.warning("%s: still waits for an answer to %s", row.uuid, asked.name)


def process_waiting_task(base: OpenBase, uuid: str) -> None:
    """The same for a task of that name, if it waits; for a program that waits with it."""
    base.open_catalogue()
    row = base.row(uuid)
    if row is None or row.status is not TaskStatus.WAITING or base.is_in_use(row):
        return
    ledger = _ledger(base, uuid)
    try:
        if ledger.checkpoints:
            look_after(base, row, ledger)
    except StateError as error:
        logger.info("%s: %s", uuid, error)


def _followed(task: ChangingTask) -> Checkpoint:
    """Do what follows from the last answer, once more: whoever gave it may have died before it was done."""
    log = CheckpointLog(task.messages.task_store)
    log.settle()
    answers = [(one.answer.at, one.id, one) for one in log.read().checkpoints if one.answer is not None]
    _, _, asked = max(answers)
    assert asked.answer is not None
    if log.read().open or task.row.status is not TaskStatus.WAITING:
        return asked  # somebody else was quicker
    _handler(task).on_answer(asked, asked.answer)
    return asked
