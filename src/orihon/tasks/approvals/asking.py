"""The part of ``TaskContextManager`` that has to do with people: phases, checkpoints, and waiting for an answer.

A task that waits has let go of everything: its lease is released, its folder rests with the paused ones, and whoever
answers may open it. ``Waiting`` says so to the caller, who ends and comes back later; with ``wait=True`` the same
process waits, takes the task up again and goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orihon.catalogue import Catalogue
from orihon.compression.contract import CompressionResult
from orihon.errors import InvalidInput, NotWaiting, TaskBusy, Waiting
from orihon.notifications.notifier import Outbox
from orihon.settings import Settings
from orihon.store.checkpoints import Approval, Checkpoint, CheckpointLog, Decision, Phase
from orihon.store.task_store import TaskStore
from orihon.tasks.approvals.answers import process_waiting_task
from orihon.tasks.approvals.handler import ApprovalHandler
from orihon.tasks.approvals.notices import tell_of_approval
from orihon.tasks.base import OpenBase
from orihon.tasks.message_store import MessageStore
from orihon.values.task import FINISHED, TaskStatus

if TYPE_CHECKING:
    from orihon.compression.compressor import ContextCompressor

logger = logging.getLogger("orihon.context")

_FIRST_NAP, _LONGEST_NAP = 0.05, 1.0
_GROWTH = 1.1  # of a view whose compression was rejected, before it is asked about again


class Asking:
    """Phases and checkpoints of one open task."""

    uuid: str
    base: OpenBase
    settings: Settings
    catalogue: Catalogue
    outbox: Outbox
    task_store: TaskStore
    message_store: MessageStore
    compressor: ContextCompressor

    if TYPE_CHECKING:

        def _end(
            self,
            status: TaskStatus,
            error_message: str | None = None,
            *,
            hooks: Mapping[str, Any] | None = None,
            summary: bool = False,
        ) -> None: ...

        def _take_up_again(self) -> None: ...

    @property
    def checkpoints(self) -> CheckpointLog:
        """The task's phases, questions and answers."""
        return CheckpointLog(self.task_store)

    def phase(self, name: str) -> Phase:
        """A phase begins, and the one before it ends: that one is archived and folded as the ladder says."""
        if not name.strip():
            raise InvalidInput("empty_text", field="name")
        phase, ended = self.checkpoints.begin_phase(name)
        if ended is not None:
            self._waiting_for(self._handler().end_phase(ended))
        return phase

    def end_iteration(self) -> CompressionResult | None:
        """An iteration is over: everything up to here is folded as the ladder says. Phases begin anew."""
        self.checkpoints.end_iteration()
        return self._waiting_for(self._handler().end_iteration())

    def checkpoint(
        self,
        name: str,
        question: str,
        context: str = "",
        *,
        timeout: float | None = None,
        remind_every: float | None = None,
        on_timeout: Decision = "reject",
        wait: bool = False,
    ) -> Approval:
        """Ask a person; the answer, if it is there already, else ``Waiting``. ``wait`` blocks until it is there.

        An approval stands: asked again under the same name, the same answer comes back. After a rejection or a request
        for changes, asking is a new question as soon as something has been added to the log. ``timeout`` and
        ``remind_every`` are seconds; ``on_timeout`` is the answer when the time is over.
        """
        if not name.strip() or not question.strip():
            raise InvalidInput("empty_text", field="question" if name.strip() else "name")
        known = self.checkpoints.read().latest(name)
        if known is None or self._is_over(known):
            wanted = Checkpoint(0, name, question, context, on_timeout=on_timeout, remind_every=remind_every)
            known = self.checkpoints.ask(wanted, timeout)
        while known.answer is None:
            self._let_wait(known, wait=wait)
            known = self.checkpoints.read().checkpoint(known.id)
        return known.answer

    def wait_if_asked(self) -> None:
        """``Waiting`` when a person has been asked something and has not answered; for agents, between two steps."""
        if self.task_store.count("checkpoints"):
            asked = self.checkpoints.read().open
            if asked:
                self._let_wait(asked[0], wait=False)

    def compress_if_needed(self) -> bool:
        """Fold when the ladder says that the view is too full; did it change?

        With ``confirm_before_compress`` a person is asked first: ``Waiting``.
        """
        if self.compressor.settings.compression.confirm_before_compress:
            self._confirm_usage()
        return self.compressor.compress_if_needed()

    # ---- how -------------------------------------------------------------------------------------------------------

    def _handler(self) -> ApprovalHandler:
        return ApprovalHandler(self.message_store, self.compressor)

    def _is_over(self, known: Checkpoint) -> bool:
        """Was it answered with something else than an approval, and has the work gone on since?"""
        answer = known.answer
        if answer is None or answer.approved:
            return False
        return self.task_store.count("messages") > (answer.seq or known.seq)

    def _confirm_usage(self) -> None:
        tail = self.task_store.tail
        if not self.compressor.should_compress() or tail.open_calls:
            return
        if self.compressor.gauge.usage(tail.view_tokens) > 1:
            return  # it cannot be sent any more: that is no question
        asked = [one for one in self.checkpoints.read().checkpoints if one.compression == "usage"]
        tokens = tail.view_tokens
        if asked and asked[-1].answer is not None and tokens < _GROWTH * asked[-1].view_tokens:
            return  # somebody has just said yes, and it is done, or no
        whole = Phase("", 0, 1)
        self._waiting_for(self._handler().ask("usage", whole, self.message_store.count_messages()))

    def _waiting_for(self, done: CompressionResult | Checkpoint | None) -> CompressionResult | None:
        if isinstance(done, Checkpoint):
            self._let_wait(done, wait=False)
            return None
        return done

    def _let_wait(self, asked: Checkpoint, *, wait: bool) -> None:
        """The task waits from now on, and nobody holds it."""
        logger.info("%s: waits for an answer to %s", self.uuid, asked.name)
        tell_of_approval(self.outbox, self.uuid, "asked", asked)
        self._end(TaskStatus.WAITING)
        if not wait:
            raise Waiting("checkpoint", uuid=self.uuid, checkpoint=asked.id, name=asked.name, question=asked.question)
        nap = _FIRST_NAP
        while True:
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)
            status = self.catalogue.tasks.get(self.uuid).status
            if status in FINISHED or status is TaskStatus.ARCHIVED:
                raise NotWaiting("ended", uuid=self.uuid, status=status.value)
            if status is TaskStatus.WAITING:
                process_waiting_task(self.base, self.uuid)
            else:
                try:
                    self._take_up_again()
                except TaskBusy:  # whoever has answered is about to let go of it
                    continue
                return
