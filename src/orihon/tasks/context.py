"""``TaskContextManager``: one task from its first message to its final summary, and again after a crash.

The one composer: it holds the lease in the catalogue, opens the stores with the lease's epoch, moves the folder when
the state changes, and gathers the figures. Programs, workers and pages come in through here.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from orihon.catalogue import Lease, TaskRow
from orihon.compression.compressor import ContextCompressor
from orihon.drivers.tracing import tracing_of
from orihon.errors import (
    IllegalTransition,
    InvalidInput,
    InvalidSettings,
    OrihonError,
    StaleWriter,
    StorageUnavailable,
    TaskBusy,
)
from orihon.guard.logs import enter_task, leave_task
from orihon.notifications.notifier import Outbox
from orihon.settings import Settings, load_settings
from orihon.store import PlanningHistoryStore, SummaryStore, ToolStore
from orihon.tasks.approvals.asking import Asking
from orihon.tasks.base import OpenBase, opened_base
from orihon.tasks.inheritance import INHERIT, ContextInheritanceManager, InheritanceContext, inheritance_request
from orihon.tasks.message_store import MessageStore
from orihon.tasks.metrics import TaskCounts
from orihon.tasks.mirror import fetch_newer_mirror, go_on_mirroring, mirror_at_end, open_message_store
from orihon.tasks.owning import Ownership, TaskOpening, claim_of, totals_of
from orihon.tasks.statistics import TaskStatistics
from orihon.tasks.usage import UsageBook
from orihon.values.task import TaskKey, TaskStatus, check_id, new_uuid, parse_status, shortened
from orihon.values.tokens.tokens import Correction

logger = logging.getLogger("orihon.context")

Hook = Callable[[], object]

#: Messages that a task may have before the conversation begins.
_LONGEST_BEGINNING = 50


class TaskContextManager(Asking, TaskStatistics):
    """Everything a task keeps: messages, summaries, tool calls, plans, state."""

    def __init__(
        self,
        base_dir: OpenBase | Path | str | TaskKey | Mapping[str, Any] | None = None,
        task_key: TaskKey | Mapping[str, Any] | str | None = None,
        config: Mapping[str, Any] | Settings | None = None,
        llm_client: Any = None,
        *,
        uuid: str | None = None,
        is_resumed: bool | None = None,
        take_over: bool = False,
        inherit: bool = True,
        inherit_from: str | None = None,
        lease: Lease | None = None,
        begins: Mapping[str, Any] | None = None,
    ) -> None:
        """Start a task, or go on with the one that ``uuid`` names.

        A paused task resumes; a running one whose process is dead is taken over (``take_over`` also from a live one);
        a finished one is refused. ``is_resumed`` insists on an old (True) or a new (False) task. ``lease`` is what a
        worker's claim gave it; the task is opened with it, and with no other. What a queue of this process has handed
        out is opened with its claim. A new task inherits from the last one that is finished on its key, from the one
        that ``inherit_from`` names, or (``inherit=False``) nothing, for good. ``begins`` are columns of a new row
        (``metadata``, ``model``, ``context_length``). Another design writes the key first, then the UUID: the base is
        then the one of the configuration.
        """
        if isinstance(base_dir, TaskKey | Mapping):
            uuid = uuid or (task_key if isinstance(task_key, str) else None)
            base_dir, task_key = None, base_dir
        if isinstance(task_key, str):
            raise InvalidInput("task_key_text", key=shortened(task_key))
        self.base = opened_base(base_dir, config, create=True)
        self.settings = self.base.settings if config is None else load_settings(config)
        if not self.settings.context_storage.enabled:
            raise InvalidSettings("storage_off")
        self.config = self.settings if config is None else config
        self.base_dir = self.base.path
        self.llm_client = llm_client
        self.catalogue = self.base.needed_catalogue()
        self.outbox = Outbox(self.catalogue, self.base_dir, self.settings)
        self.inheritance_manager = ContextInheritanceManager(self.base_dir, self.settings, catalogue=self.catalogue)
        self._pid = os.getpid()  # a fork is another process: the task stays with this one
        self._completion_hooks: dict[str, Hook] = {}
        self._stop_hooks: dict[str, Hook] = {}
        key = TaskKey.from_dict(task_key) if isinstance(task_key, Mapping) else task_key
        self.uuid = check_id(uuid or (key.uuid if key else None) or new_uuid())
        fetch = partial(fetch_newer_mirror, self.settings)
        opening = TaskOpening(self.base, fetch=fetch)
        wish = inheritance_request(self.catalogue, self.settings, self.uuid, inherit=inherit, inherit_from=inherit_from)
        row, begun = opening.find_or_register(self.uuid, key, is_resumed, **_together(begins or {}, wish))
        self.task_key = row.key
        claim = claim_of(self.catalogue, self.uuid) if lease is None and begun is None else None
        given = lease if claim is None else claim.lease
        if given is not None:
            if begun is not None:
                begun.release()
            owned = self._renewed(given)
        else:
            owned = begun or self.base.own(self.uuid, take_over=take_over)
        self._owned: Ownership | None = owned
        with ExitStack() as on_failure:
            if given is None:  # a claim stays with whoever made it
                on_failure.callback(owned.release)
            self._start(opening, owned, on_failure, inherit=inherit)
            on_failure.pop_all()
        if claim is not None:
            claim.lease = owned.lease  # opening may have raised the epoch
        owned.keep(self.heartbeat)

    @classmethod
    def resume(
        cls,
        base_dir: Path | str,
        uuid: str,
        config: Mapping[str, Any] | Settings | None = None,
        llm_client: Any = None,
        *,
        take_over: bool = False,
    ) -> TaskContextManager:
        """Go on with a task at exactly the view it had."""
        return cls(base_dir, None, config, llm_client, uuid=uuid, is_resumed=True, take_over=take_over)

    def __enter__(self) -> TaskContextManager:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Leaving the block completes the task; leaving it by an error fails it; Ctrl-C pauses it."""
        if not self.is_open:
            return
        if error is None:
            self.complete()
            return
        with suppress(StaleWriter):  # the block's own error says what happened
            if isinstance(error, Exception):
                message = f"{type(error).__name__}: {error}"
                self._end(TaskStatus.FAILED, message, summary=not isinstance(error, StaleWriter))
            else:
                self.stop()

    def _start(self, opening: TaskOpening, owned: Ownership, on_failure: ExitStack, *, inherit: bool) -> None:
        enter_task(self.uuid)
        on_failure.callback(leave_task, self.uuid)
        row, self.task_store = opening.to_run(owned)
        on_failure.callback(self.task_store.close)
        self.audit = self.base.audit
        self.audit.watch(self.task_store, self.uuid)
        self.context_dir = self.task_store.records.folder
        self.message_store = open_message_store(
            self.context_dir, self.settings, self.task_store, self.uuid, self.lease.epoch
        )
        self.summary_store = SummaryStore(self.context_dir, task_store=self.task_store)
        self.tool_store = ToolStore(self.context_dir, task_store=self.task_store)
        self.planning_store = PlanningHistoryStore(self.context_dir, task_store=self.task_store)
        self.counts = TaskCounts(self.catalogue, self.task_store, self.task_key.task_source)
        self.calls = UsageBook(self.catalogue, self.uuid, self.counts)
        self.model = row.model or self.settings.model
        self.message_store.context_length = row.context_length or self.settings.context_length
        self.message_store.correction = Correction.stored(row.correction)
        self.compressor = ContextCompressor(self)
        if self.task_store.count("checkpoints"):
            self.checkpoints.settle()
        self._inheritance = self._find_inheritance(row) if inherit else None
        self.audit.record("open", self.uuid, details={"epoch": self.lease.epoch})
        logger.info("%s: task opened in %s", self.uuid, self.context_dir)

    def _renewed(self, lease: Lease) -> Ownership:
        if lease.uuid != self.uuid:
            raise TaskBusy("not_held", uuid=self.uuid, held=lease.uuid)
        return Ownership(self.catalogue, self.catalogue.leases.renew(lease), self.base.store)

    # ---- parts -------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Is the task running in this process?"""
        return self._owned is not None and self._pid == os.getpid()

    @property
    def lease(self) -> Lease:
        return self._ownership.lease

    @property
    def _ownership(self) -> Ownership:
        if self._owned is None:
            raise IllegalTransition("closed", uuid=self.uuid, status=self.catalogue.tasks.get(self.uuid).status.value)
        return self._owned

    def get_message_store(self) -> MessageStore:
        return self.message_store

    def get_summary_store(self) -> SummaryStore:
        return self.summary_store

    def get_tool_store(self) -> ToolStore:
        return self.tool_store

    def get_planning_store(self) -> PlanningHistoryStore:
        return self.planning_store

    def set_llm_client(self, llm_client: Any) -> None:
        """The model that writes summaries."""
        self.llm_client = llm_client

    def heartbeat(self) -> None:
        """Say that this process is alive, and how far it is; ``StaleWriter`` when another has taken the task over."""
        self.catalogue.leases.renew(self.lease)
        self._write_statistics()

    # ---- inheritance -------------------------------------------------------------------------------------------

    def _find_inheritance(self, row: TaskRow) -> InheritanceContext | None:
        if not self.settings.inheritance.enabled or row.metadata.get(INHERIT) is False:
            return None
        if not row.inherits_from and self.task_store.count("messages"):
            return None  # the first message has been written: what it inherits was settled then
        found = self.inheritance_manager.find_inheritance(row)
        if found is not None and not row.inherits_from:
            self.catalogue.tasks.update(self.uuid, inherits_from=found.uuid, epoch=self.lease.epoch)
        return found

    def get_inheritance_context(self) -> InheritanceContext | None:
        """What this task inherits from the last finished one on its key, or from the one it was pointed at."""
        return self._inheritance

    def has_inheritance_context(self) -> bool:
        return self._inheritance is not None

    def get_inheritance_notification_comment(self) -> str | None:
        """A comment for the task's source that says what was inherited."""
        if self._inheritance is None:
            return None
        return self.inheritance_manager.generate_notification_comment(self._inheritance)

    def create_initial_context_with_inheritance(self, system_message: str) -> int:
        """The system prompt, then what is inherited (if anything); returns the last message's number.

        Where it stands already, in a task that is taken up again, nothing is added.
        """
        if (begun := self._begun_with(system_message)) is not None:
            return begun
        seq = self.message_store.add_message("system", system_message)
        if self._inheritance is not None:
            seq = self.inheritance_manager.create_initial_context(self, self._inheritance)
        return seq

    def _begun_with(self, system_message: str) -> int | None:
        """The number of the last message of a beginning that has just this prompt."""
        last = 0
        for stored in self.message_store.get_messages(1, _LONGEST_BEGINNING):
            if stored.message.role != "system":
                break
            last = stored.seq
            if last == 1 and stored.message.text != self.task_store.redactor.mask(system_message):
                return None
        if last == 1 and self._inheritance is not None and self.message_store.count_messages() == 1:
            return self.inheritance_manager.create_initial_context(self, self._inheritance)  # a crash came in between
        return last or None

    # ---- state -------------------------------------------------------------------------------------------------

    def update_status(self, status: str | TaskStatus, error_message: str | None = None) -> None:
        """Change the status in the catalogue (legal changes only); the folder follows."""
        new = parse_status(status)
        if new is TaskStatus.RUNNING:
            self.heartbeat()
        else:
            self._end(new, error_message)

    def _take_up_again(self) -> None:
        """Go on, with the same stores, with a task that this process has let go of while it waited."""
        owned = self.base.own(self.uuid)
        with ExitStack() as on_failure:
            on_failure.callback(owned.release)
            _, opened = TaskOpening(self.base).to_run(owned)
            opened.close()
            self.context_dir = opened.records.folder
            self.task_store.begin_again(owned.epoch, self.context_dir)
            on_failure.pop_all()
        self._owned = owned
        enter_task(self.uuid)
        go_on_mirroring(self.message_store, owned.epoch)
        owned.keep(self.heartbeat)
        self.checkpoints.settle()

    # ---- ends --------------------------------------------------------------------------------------------------

    def register_completion_hook(self, hook_name: str, hook_func: Hook) -> None:
        """Called without arguments when the task completes, before its final summary is written."""
        self._completion_hooks[hook_name] = hook_func

    def register_stop_hook(self, hook_name: str, hook_func: Hook) -> None:
        """Called without arguments when the task pauses."""
        self._stop_hooks[hook_name] = hook_func

    def complete(self) -> None:
        """The work is done: hooks, final summary, state, folder."""
        logger.info("%s: completing", self.uuid)
        self._end(TaskStatus.COMPLETED, hooks=self._completion_hooks, summary=True)

    def stop(self) -> None:
        """Pause: any process may resume the task later, at exactly this view."""
        logger.info("%s: pausing", self.uuid)
        self._end(TaskStatus.PAUSED, hooks=self._stop_hooks)

    def fail(self, error_message: str) -> None:
        """The work has failed; what is known is kept for the next task on the same key. Waits for no model."""
        self._end(TaskStatus.FAILED, error_message, summary=True)

    def cancel(self) -> None:
        """Give the work up."""
        self._end(TaskStatus.CANCELLED)

    def close(self) -> None:
        """Let go of the task without changing its state: it stays running, for the next process to take over."""
        if self.is_open:
            self._let_go(TaskStatus.RUNNING)

    def _end(
        self,
        status: TaskStatus,
        error_message: str | None = None,
        *,
        hooks: Mapping[str, Hook] | None = None,
        summary: bool = False,
    ) -> None:
        """The way to every end. An owner whose task was taken over is refused before anything happens, and lets go."""
        if self._pid != os.getpid():
            raise IllegalTransition("other_process", uuid=self.uuid, pid=self._pid)
        try:
            self.catalogue.leases.renew(self.lease)
            self._run(hooks or {})
            if summary:
                self._create_final_summary(status)
            self._count_recorded_tools()
            message = None if error_message is None else self.task_store.redactor.mask(error_message)
            if status is TaskStatus.FAILED:
                # What a sealed task says is in no log either; 'orihon show' tells.
                told = "its error is sealed" if self.task_store.records.is_sealed else message
                logger.error("%s: failed: %s", self.uuid, told)
            self._finalize_task_db_and_move(status, message)
        except StaleWriter:
            self.close()
            raise

    def _run(self, hooks: Mapping[str, Hook]) -> None:
        for name, hook in hooks.items():
            try:
                hook()
            except Exception:  # somebody else's code must not keep the task from ending well
                logger.exception("%s: the hook %s failed", self.uuid, name)

    def _create_final_summary(self, status: TaskStatus) -> None:
        is_failed = status is TaskStatus.FAILED
        try:
            self.compressor.create_final_summary(model=not is_failed)  # the model may be why the work has failed
        except OrihonError as error:
            # A disk that takes no summary now may do so later: until then the work is not promised to be over.
            if isinstance(error, StaleWriter) or (isinstance(error, StorageUnavailable) and not is_failed):
                raise
            logger.warning("%s: no final summary: %s", self.uuid, error)

    def _finalize_task_db_and_move(self, status: TaskStatus, error_message: str | None = None) -> None:
        # The lease is kept until the folder has moved: nobody may open the task in between.
        self.catalogue.tasks.change_status(
            self.uuid,
            status,
            epoch=self.lease.epoch,
            error_message=error_message,
            statistics={**totals_of(self.task_store), "size_bytes": self.task_store.records.size()},
            keep_lease=True,
        )
        self.audit.record("end", self.uuid, details={"status": status.value})
        self.outbox.send()
        self._let_go(status, move=True)

    def _let_go(self, status: TaskStatus, *, move: bool = False) -> None:
        owned = self._ownership
        owned.rest()  # its heartbeat looks at the store
        self.compressor.close()
        self.counts.write()
        tracing_of(self.settings).flush()
        try:
            self.task_store.close()
            if move:
                place = self.base.folders.settle(self.uuid, status, still=owned.renew)
                self.context_dir = self.context_dir if place is None else place.folder
            mirror_at_end(self.message_store, self.context_dir)
        finally:
            # Also when the folder could not be moved: whoever opens the task next moves it.
            self._owned = None
            self.task_store.end(status.value, self.context_dir)
            leave_task(self.uuid)
            owned.release()


def _together(begins: Mapping[str, Any], wish: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a new row: what the caller says, and what it inherits."""
    metadata = {**begins.get("metadata", {}), **wish.get("metadata", {})}
    return {**begins, **wish, **({"metadata": metadata} if metadata else {})}
