"""``TaskQueue``: the catalogue as a queue. It gives each task its UUID, hands it to one worker, and takes it back.

Promises that a task is with one worker at a time: a claim is one transaction and carries a lease with a fencing token.
A task whose worker died is handed to the next one that asks; one that was tried too often is put among the dead. What
people want of a task (pause, cancel) is done at once where nobody works on it, and otherwise written in its row, where
its worker finds it at its next step. A prompt is masked before it is written, as messages are.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from orihon.audit import audited
from orihon.catalogue import Catalogue, ClaimLimits, Lease, TaskRow, WorkerStatistics
from orihon.catalogue.queue import LONGEST_DELAY
from orihon.errors import InvalidInput, StaleWriter, StateError, StorageError
from orihon.guard.masking.redaction import refuse_secret_in
from orihon.runtime.requests import QueueRequests
from orihon.settings import Settings
from orihon.system.clock import process_identity
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase, opened_base
from orihon.tasks.inheritance import inheritance_request
from orihon.tasks.owning import remember_claim
from orihon.tasks.quotas import admission
from orihon.texts import text
from orihon.values.task import TaskIdentity, TaskKey, TaskStatus, new_uuid

logger = logging.getLogger("orihon.queue")


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """The figures in force."""

    max_attempts: int = 5  # claims of a task before it is given up
    retry_delay: float = 1.0  # seconds before the second attempt; doubles with each
    max_retry_delay: float = 300.0
    tasks_per_user: int | None = None  # running at a time
    poll_interval: float = 1.0  # seconds between two looks into an empty queue
    drain_seconds: float = 60.0  # from a signal until a worker that does not stop is ended
    restart_delay: float = 0.5  # seconds before a dead worker is started again; doubles with each quick death
    max_restart_delay: float = 30.0

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The figures that the settings name."""
        return cls(**{field.name: getattr(settings.multiprocess, field.name) for field in fields(cls)})

    def claims(self) -> ClaimLimits:
        """Which tasks a claim passes over."""
        return ClaimLimits(self.max_attempts, *(() if self.tasks_per_user is None else (self.tasks_per_user,)))

    def delay_after(self, attempts: int) -> float:
        """Seconds until the next attempt."""
        doubled = self.retry_delay * 2.0 ** min(attempts - 1, 62)
        return min(doubled, self.max_retry_delay, LONGEST_DELAY)

    def restart_after(self, deaths: int) -> float:
        """Seconds until a worker that died so often in a row is started again."""
        return min(self.restart_delay * 2.0 ** min(deaths - 1, 62), self.max_restart_delay)


MAX_PROMPT_BYTES = 1024 * 1024
_ELSEWHERE_SECONDS = 2.0  # until a task that only another machine can do is in line again
_LOOK_SECONDS = 1.0  # how often one worker looks for tasks whose worker is gone
#: A look that takes long comes less often: many workers must not keep the server busy with nothing else.
_REST_PER_LOOK = 50
#: For the leases of other machines that ran out a worker looks so often while one lease lasts.
_LOOKS_PER_LEASE = 9


@dataclass(slots=True, weakref_slot=True)
class QueuedTask(TaskIdentity):
    """A task that a worker holds."""

    prompt: str = field(default="", repr=False)
    source: str = ""
    attempt: int = 1
    lease: Lease = field(kw_only=True)


@dataclass(frozen=True, slots=True)
class QueueAnswer(AsJson):
    """How a task stands after somebody wanted something of it, for programs."""

    json_name = "queued"
    json_fields = "uuid=row.uuid status=row.status requested=row.requested owner=row.lease_owner"

    row: TaskRow


class TaskQueue(QueueRequests):
    """The queue of one base folder. Safe for several processes and threads."""

    def __init__(
        self,
        base_dir: OpenBase | Path | str | Mapping[str, Any] | Settings | None = None,
        settings: Mapping[str, Any] | Settings | None = None,
        *,
        limits: QueueLimits | None = None,
        owner: str | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        """``owner`` is the name under which tasks are claimed; without it, host and process.

        A ``catalogue`` that is given is closed with the queue.
        """
        self.base = opened_base(base_dir, settings, create=True)
        self._is_shared = isinstance(base_dir, OpenBase)
        self.settings, self.base_dir, self.folders = self.base.settings, self.base.path, self.base.folders
        self.limits = limits or QueueLimits.of(self.settings)
        self.catalogue = catalogue or self.base.needed_catalogue()
        me = process_identity()
        self._owner = owner or f"{me.host}:{me.pid}"
        self._next_look = 0.0
        self._next_far_look = 0.0

    def close(self) -> None:
        """Close the connections, unless they are those of a base that somebody else has opened."""
        if not self._is_shared:
            self.catalogue.close()

    # ---- in and out ------------------------------------------------------------------------------------------------

    def enqueue(
        self,
        task_key: TaskKey | Mapping[str, Any],
        user: str | None = None,
        *,
        prompt: str = "",
        source: str = "",
        priority: int = 0,
        parent_uuid: str | None = None,
        inherit: bool = True,
        inherit_from: str | None = None,
    ) -> str:
        """Put a task in line; returns the UUID that it has from now on.

        It inherits from the last finished task on its key; from the one that ``inherit_from`` names, which must be
        finished; or (``inherit=False``) from none.
        """
        key = TaskKey.from_dict(task_key) if isinstance(task_key, Mapping) else task_key
        key = key if user is None else replace(key, user=user)
        size = len(prompt.encode("utf-8", "surrogatepass"))
        if size > MAX_PROMPT_BYTES:
            raise InvalidInput("prompt_long", size=size, limit=MAX_PROMPT_BYTES)
        refuse_secret_in(key, self.base.redactor)
        uuid = new_uuid()
        wish = inheritance_request(self.catalogue, self.settings, uuid, inherit=inherit, inherit_from=inherit_from)
        with audited(self.base_dir, self.settings, "enqueue", uuid):
            self.catalogue.tasks.register(
                key,
                uuid,
                status=TaskStatus.QUEUED,
                prompt=self.base.redactor.mask(prompt),
                source=source,
                priority=priority,
                parent_uuid=parent_uuid,
                admit=admission(self.settings, key.user),
                **wish,
            )
        logger.info("%s: queued (%s)", uuid, key.label)
        self._announce(uuid)
        return uuid

    def dequeue(self, *, worker: WorkerStatistics | None = None) -> QueuedTask | None:
        """The next task, held by a lease from now on; ``None`` when there is none to be had."""
        began = time.monotonic()
        near, is_any_abandoned = began < self._next_far_look, False
        if began >= self._next_look:
            is_any_abandoned = self._settle_abandoned(near=near)
            self._plan_polls(began, near=near)
        claimed = self.catalogue.queue.claim_next(
            self._new_owner(),
            self.settings.context_storage.lease_seconds,
            limits=self.limits.claims(),
            abandoned=is_any_abandoned,
            near=near,
            worker=worker,
        )
        return None if claimed is None else self._taken(*claimed)

    def _plan_polls(self, began: float, *, near: bool) -> None:
        now = time.monotonic()
        self._next_look = now + max(_LOOK_SECONDS, _REST_PER_LOOK * (now - began))
        if not near:  # not all workers at once
            between = self.settings.context_storage.lease_seconds / _LOOKS_PER_LEASE
            self._next_far_look = now + between * (0.75 + secrets.randbelow(51) / 100)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Wait until there may be a task, at most so long; not any longer when ``stop`` is set."""
        self.catalogue.queue.wait(seconds, stop)

    def _announce(self, uuid: str) -> None:
        """A task has come into line. Whoever waits looks into the catalogue."""

    def _new_owner(self) -> str:
        return f"{self._owner}#{secrets.token_hex(4)}"  # two claims under one name are two owners

    def _taken(self, row: TaskRow, lease: Lease) -> QueuedTask:
        logger.info("%s: claimed by %s, attempt %d", row.uuid, lease.owner, row.attempts)
        task = QueuedTask(row.key, row.user, row.uuid, row.prompt, row.source, row.attempts, lease=lease)
        remember_claim(self.catalogue, task)
        return task

    def ack(self, task: QueuedTask, *, stopped: bool = False) -> TaskStatus:
        """The work on a task is over, for now (``stopped``) or for good; returns what has become of it."""
        try:
            row = self._still_held(task)
        except StaleWriter:
            if self.catalogue.tasks.get(task.lease.uuid).status is not TaskStatus.CANCELLED:
                raise
            return TaskStatus.CANCELLED  # another worker has seen the wish and was quicker
        status = row.status
        if status is TaskStatus.RUNNING:
            status = TaskStatus.PAUSED if stopped else TaskStatus.COMPLETED
            self._change(row.uuid, task.lease, status)
        if status not in (TaskStatus.PAUSED, TaskStatus.WAITING):
            return status
        self.catalogue.queue.forgive_attempt(row.uuid)
        if row.requested == "pause" and status is TaskStatus.PAUSED:
            self.catalogue.queue.request(row.uuid, None, TaskStatus.PAUSED, over=False, instead_of="pause")
        if row.requested == "cancel":
            return self._cancelled(row.uuid)
        return status

    def nack(self, task: QueuedTask, error: object, retry: bool = True) -> TaskStatus:
        """The work has failed: the task is tried again later, or given up; returns what has become of it."""
        row = self._still_held(task)
        message = self.base.redactor.mask(str(error))
        if row.status is TaskStatus.PAUSED and not retry:
            self._conclude(row, TaskStatus.FAILED, message)
            return TaskStatus.FAILED
        if row.status not in (TaskStatus.RUNNING, TaskStatus.FAILED):
            told = self._in_log(message)
            logger.warning("%s: is %s although its work failed: %s", row.uuid, row.status.value, told)
            return row.status
        if row.requested == "cancel" and row.status is TaskStatus.RUNNING:
            self._change(row.uuid, task.lease, TaskStatus.CANCELLED)
            self._leave_word(row, TaskStatus.CANCELLED)
            self._cancel_children(row.uuid)
            return TaskStatus.CANCELLED
        if not retry:
            if row.status is TaskStatus.RUNNING:
                self._change(row.uuid, task.lease, TaskStatus.FAILED, message)
                self._leave_word(row, TaskStatus.FAILED)
            return TaskStatus.FAILED
        if self.limits.claims().is_spent(row):
            self._bury(row.uuid, task.lease, text("queue.dead", attempts=row.attempts, error=message))
            self._leave_word(row, TaskStatus.DEAD)
            return TaskStatus.DEAD
        delay = self.limits.delay_after(row.attempts)
        self.catalogue.queue.put_back(row.uuid, epoch=task.lease.epoch, error_message=message, delay=delay)
        if row.requested == "pause":
            self.catalogue.queue.request(row.uuid, "pause", TaskStatus.QUEUED)
        told = self._in_log(message)
        logger.warning("%s: attempt %d failed, next in %.1f s: %s", row.uuid, row.attempts, delay, told)
        return TaskStatus.QUEUED

    def give_back(self, task: QueuedTask, why: object) -> None:
        """Another machine has to do it: the task is in line again after a while, as if nobody had claimed it."""
        row = self._still_held(task)
        self.catalogue.queue.put_back(
            row.uuid, epoch=task.lease.epoch, error_message=str(why), delay=_ELSEWHERE_SECONDS
        )
        self.catalogue.queue.forgive_attempt(row.uuid)
        logger.info("%s: given back: %s", row.uuid, why)

    def set_down(self, task: QueuedTask, why: object) -> TaskStatus:
        """A person has to choose first: the task rests as it is, paused, and the claim was no attempt."""
        row = self._still_held(task)
        message = self.base.redactor.mask(str(why))
        self.catalogue.tasks.change_status(row.uuid, TaskStatus.PAUSED, epoch=task.lease.epoch, error_message=message)
        self.catalogue.queue.forgive_attempt(row.uuid)
        logger.error("%s: paused until somebody has looked at it: %s", row.uuid, self._in_log(message))
        return TaskStatus.PAUSED

    def depth(self) -> int:
        """How many tasks wait for a worker, those that are put off too."""
        return self.catalogue.queue.count_waiting()[0]

    def is_empty(self) -> bool:
        """Does nothing wait, and has no worker anything left?"""
        return self.catalogue.queue.count_waiting() == (0, 0)

    # ---- while a task is held --------------------------------------------------------------------------------------

    def renew(self, task: QueuedTask) -> None:
        """Go on holding a task; ``StaleWriter`` when another worker has it."""
        try:
            task.lease = self.catalogue.leases.renew(task.lease)
        except StaleWriter as refusal:
            row = self.catalogue.tasks.get(task.lease.uuid)
            if refusal.reason == "released" or row.lease_owner != task.lease.owner:
                raise
            # Opening the task has raised its epoch: the folder had been written to without the catalogue.
            task.lease = self.catalogue.leases.renew(replace(task.lease, epoch=row.epoch))

    def _still_held(self, task: QueuedTask) -> TaskRow:
        row = self.catalogue.tasks.get(task.lease.uuid)
        if row.epoch != task.lease.epoch:
            if row.lease_owner != task.lease.owner:
                raise StaleWriter("lease", uuid=row.uuid, epoch=task.lease.epoch, current=row.epoch)
            task.lease = replace(task.lease, epoch=row.epoch)
        return row

    def _cancelled(self, uuid: str) -> TaskStatus:
        try:
            return self.cancel(uuid).status
        except StateError:
            if (status := self.catalogue.tasks.get(uuid).status) is not TaskStatus.CANCELLED:
                raise
            return status  # another worker was quicker

    # ---- what dead workers leave -----------------------------------------------------------------------------------

    def _settle_abandoned(self, *, near: bool) -> bool:
        """Tasks whose worker is gone and that nobody shall go on with: cancelled, paused, tried too often, finished.

        Returns whether there are any without their worker.
        """
        stale = self.catalogue.leases.stale(near=near)
        for row in [*stale, *self.catalogue.queue.cancelled_pauses()]:
            if row.claimed:
                try:
                    self._settle(row)
                except StateError as error:  # somebody else was quicker
                    logger.info("%s: %s", row.uuid, error)
                except StorageError as error:  # one damaged task keeps nobody from the others
                    logger.warning("%s: %s", row.uuid, error)
        return any(row.claimed and row.status is TaskStatus.RUNNING for row in stale)

    def _settle(self, row: TaskRow) -> None:
        if row.status is not TaskStatus.RUNNING and row.requested != "cancel":
            self._bring_folder(row)
        elif row.requested == "cancel":
            self._conclude(row, TaskStatus.CANCELLED)
        elif row.requested == "pause":
            self._conclude(row, TaskStatus.PAUSED)
        elif self.limits.claims().is_killer(row):
            self._conclude(row, TaskStatus.DEAD, text("queue.killer", attempts=row.attempts))
            logger.error("%s: given up after %d attempts: its worker died", row.uuid, row.attempts)

    def _bring_folder(self, row: TaskRow) -> None:
        """A worker died between the end of its task and the move of the folder."""
        owned = self.base.own(row.uuid)
        self._let_go(row.uuid, owned.lease, owned.row().status)

    def _bury(self, uuid: str, lease: Lease, message: str) -> None:
        self.catalogue.queue.bury(uuid, epoch=lease.epoch, error_message=message)
        logger.error("%s: dead: %s", uuid, self._in_log(message))
        self._let_go(uuid, lease, TaskStatus.DEAD)

    def _in_log(self, message: str) -> str:
        """An error as the log has it: one of a sealed task may quote what was said there."""
        return message if self.settings.encryption.key is None else "'orihon show' tells why"
