"""``TaskContextManager``: one task from its first message to its final summary, and again after a crash.

The one composer: it holds the lease in the catalogue, opens the stores with the lease's epoch, moves the folder when
the state changes, and gathers the figures. Programs, workers and pages come in through here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from orihon.catalogue import Lease, TaskRow
from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import write_metadata
from orihon.catalogue.opening import open_catalogue
from orihon.compression.compressor import ContextCompressor
from orihon.errors import DamagedStore, IllegalTransition, OrihonError
from orihon.heartbeat import Heartbeat
from orihon.inheritance import ContextInheritanceManager, InheritanceContext
from orihon.logs import enter_task, leave_task
from orihon.settings import Settings, load_settings
from orihon.store import MessageStore, PlanningHistoryStore, SummaryStore, ToolStore
from orihon.store.opening import open_task_store
from orihon.task import TaskKey, TaskStatus, check_id, new_uuid
from orihon.task_folders import TaskFolders
from orihon.tokens import Budget, Correction, reported_input_tokens, tokenizer_for

logger = logging.getLogger("orihon.context")

Hook = Callable[[], object]


class TaskContextManager:
    """Everything a task keeps: messages, summaries, tool calls, plans, state."""

    def __init__(
        self,
        base_dir: Path | str | None = None,
        task_key: TaskKey | Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | Settings | None = None,
        llm_client: Any = None,
        *,
        uuid: str | None = None,
        is_resumed: bool | None = None,
        take_over: bool = False,
        inherit: bool = True,
    ) -> None:
        """Start a task, or go on with the one that ``uuid`` names.

        A paused task resumes; a running one whose process is dead is taken over (``take_over`` also from a live one);
        a finished one is refused. ``is_resumed`` insists on an old (True) or a new (False) task.
        """
        self.settings = load_settings(config)
        self.base_dir = Path(base_dir if base_dir is not None else self.settings.context_storage.base_dir)
        self.llm_client = llm_client
        self._folders = TaskFolders(self.base_dir)
        self.catalogue = open_catalogue(self.base_dir, self.settings)
        key = TaskKey.from_dict(task_key) if isinstance(task_key, Mapping) else task_key
        self.uuid = check_id(uuid or (key.uuid if key else None) or new_uuid())
        row = self._row(key, is_resumed)
        self.task_key = row.key
        self._lease: Lease | None = self.catalogue.acquire(
            self.uuid, seconds=self.settings.context_storage.lease_seconds, take_over=take_over
        )
        self.inheritance_manager = ContextInheritanceManager(self.base_dir, self.settings, catalogue=self.catalogue)
        try:
            self._start(row)
            self._inheritance = self._find_inheritance(row) if inherit else None
        except BaseException:
            self.catalogue.release(self._lease)
            leave_task(self.uuid)
            raise
        self.compressor = ContextCompressor(self)
        self._completion_hooks: dict[str, Hook] = {}
        self._stop_hooks: dict[str, Hook] = {}
        lease = self._lease
        seconds = self.settings.context_storage.lease_seconds / 3
        self._heartbeat = Heartbeat(lambda: self.catalogue.renew(lease), seconds, self.uuid)

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
        elif isinstance(error, Exception):
            self.fail(f"{type(error).__name__}: {error}")
        else:
            self.stop()

    # ---- opening -----------------------------------------------------------------------------------------------

    def _row(self, key: TaskKey | None, is_resumed: bool | None) -> TaskRow:
        row = self.catalogue.find(self.uuid)
        if row is None:
            if is_resumed or key is None:
                return self.catalogue.get(self.uuid)  # raises: there is no such task
            return self.catalogue.register(
                key,
                self.uuid,
                status=TaskStatus.RUNNING,
                llm_provider=self.settings.llm.provider,
                model=self.settings.model,
                context_length=self.settings.context_length,
                backend=self.settings.context_storage.backend,
            )
        if is_resumed is False:
            raise IllegalTransition("exists", uuid=self.uuid, status=row.status.value)
        return row

    def _start(self, row: TaskRow) -> None:
        enter_task(self.uuid)
        if row.status is not TaskStatus.RUNNING:
            row = self.catalogue.change_status(self.uuid, TaskStatus.RUNNING, epoch=self.lease.epoch)
        self.context_dir = self._folders.settle(self.uuid, TaskStatus.RUNNING) or self._folders.create(self.uuid)
        self._create_metadata(row)
        self.task_store = open_task_store(
            self.context_dir,
            self.settings,
            key_file=self.base_dir / "mask.key",
            epoch=self.lease.epoch,
            name=self.uuid,
        )
        self.message_store = MessageStore(self.context_dir, self.settings, task_store=self.task_store)
        self.summary_store = SummaryStore(self.context_dir, task_store=self.task_store)
        self.tool_store = ToolStore(self.context_dir, task_store=self.task_store)
        self.planning_store = PlanningHistoryStore(self.context_dir, task_store=self.task_store)
        stored = self.task_store.count("messages")
        if stored < row.total_messages:
            raise DamagedStore("log_lost", path=self.context_dir, stored=stored, known=row.total_messages)
        self.model = row.model or self.settings.model
        self.context_length = row.context_length or self.settings.context_length
        self.correction = _correction_of(row)
        self.message_store.context_length = self.context_length
        logger.info("%s: task opened in %s", self.uuid, self.context_dir)

    def _create_metadata(self, row: TaskRow) -> None:
        if not (self.context_dir / METADATA).exists():
            write_metadata(self.context_dir, row, self.settings)

    # ---- parts -------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Is the task running in this process?"""
        return self._lease is not None

    @property
    def lease(self) -> Lease:
        if self._lease is None:
            raise IllegalTransition("closed", uuid=self.uuid, status=self.catalogue.get(self.uuid).status.value)
        return self._lease

    @property
    def budget(self) -> Budget:
        """What a view may cost."""
        reserve = min(self.settings.reserve_output, self.context_length // 4)
        return Budget(self.context_length, reserve_output=reserve)

    @property
    def usage(self) -> float:
        """How full the context is: 0.7 is 70 % of the budget."""
        return self.budget.usage(self.correction.apply(self.message_store.get_current_token_count()))

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
        """Say that this process is alive; ``StaleWriter`` when another has taken the task over."""
        self._lease = self.catalogue.renew(self.lease)

    def compress_if_needed(self) -> bool:
        """Fold the older part of the view when it is too full, and count it; did it change?"""
        changed = self.compressor.compress_if_needed()
        if changed:
            self.update_statistics(compressions=1)
        return changed

    # ---- inheritance -------------------------------------------------------------------------------------------

    def _find_inheritance(self, row: TaskRow) -> InheritanceContext | None:
        if not self.settings.inheritance.enabled:
            return None
        if row.inherits_from:
            return self.inheritance_manager.get_inheritance_context(row.inherits_from)
        if self.task_store.count("messages"):
            return None  # the first message has been written: what it inherits was settled then
        for previous in self.inheritance_manager.find_previous_contexts(self.task_key):
            if previous.uuid != self.uuid:
                self.catalogue.update(self.uuid, inherits_from=previous.uuid)
                return self.inheritance_manager.get_inheritance_context(previous.uuid)
        return None

    def get_inheritance_context(self) -> InheritanceContext | None:
        """What this task inherits from the last finished one on its key."""
        return self._inheritance

    def has_inheritance_context(self) -> bool:
        return self._inheritance is not None

    def get_inheritance_notification_comment(self) -> str | None:
        """A comment for the task's source that says what was inherited."""
        if self._inheritance is None:
            return None
        return self.inheritance_manager.generate_notification_comment(self._inheritance)

    def create_initial_context_with_inheritance(self, system_message: str) -> int:
        """The system prompt, then what is inherited (if anything); returns the last message's number."""
        seq = self.message_store.add_message("system", system_message)
        if self._inheritance is not None:
            seq = self.inheritance_manager.create_initial_context(self, self._inheritance)
        return seq

    # ---- figures -----------------------------------------------------------------------------------------------

    def update_status(self, status: str | TaskStatus, error_message: str | None = None) -> None:
        """Change the status in the catalogue (legal changes only); the folder follows."""
        new = TaskStatus(status)
        if new is TaskStatus.RUNNING:
            self.heartbeat()
        else:
            self._finalize_task_db_and_move(new, error_message)

    def update_statistics(
        self,
        *,
        llm_calls: int = 0,
        tool_calls: int = 0,
        tokens: int = 0,
        compressions: int = 0,
        total_messages: int | None = None,
        total_summaries: int | None = None,
        total_tool_calls: int | None = None,
        final_token_count: int | None = None,
        final_message_count: int | None = None,
    ) -> None:
        """Add to the counters of the catalogue, or set totals."""
        if llm_calls or tool_calls or tokens or compressions:
            self.catalogue.add_statistics(
                self.uuid, llm_calls=llm_calls, tool_calls=tool_calls, tokens=tokens, compressions=compressions
            )
        totals = {
            "total_messages": total_messages,
            "total_summaries": total_summaries,
            "total_tool_calls": total_tool_calls,
            "final_token_count": final_token_count,
            "final_message_count": final_message_count,
        }
        given = {name: value for name, value in totals.items() if value is not None}
        if given:
            self.catalogue.set_totals(self.uuid, **given)

    def report_usage(self, usage: Mapping[str, Any]) -> None:
        """Learn from the usage that a provider reports: counters, and the correction of our estimate."""
        reported = reported_input_tokens(usage)
        if reported is None:
            return
        self.correction = self.correction.observe(self.message_store.get_current_token_count(), reported)
        self.catalogue.update(self.uuid, correction=self.correction.factor)
        self.update_statistics(llm_calls=1, tokens=reported)

    def change_model(self, model: str, context_length: int) -> int:
        """Go on with another model: its window, its tokenizer. Returns the exact tokens of the view by that one."""
        self.catalogue.update(self.uuid, model=model, context_length=context_length, correction=1.0)
        self.model, self.context_length = model, context_length
        self.message_store.context_length = context_length
        self.correction = Correction()
        return self.message_store.get_exact_token_count(tokenizer_for(model))

    def _totals(self) -> dict[str, int]:
        tail = self.task_store.tail
        return {
            "total_messages": tail.seq,
            "total_summaries": self.summary_store.count_summaries(),
            "total_tool_calls": self.tool_store.count_tool_calls(),
            "final_token_count": tail.view_tokens,
            "final_message_count": tail.view_entries,
        }

    # ---- ends --------------------------------------------------------------------------------------------------

    def register_completion_hook(self, hook_name: str, hook_func: Hook) -> None:
        """Called when the task completes, before its final summary is written."""
        self._completion_hooks[hook_name] = hook_func

    def register_stop_hook(self, hook_name: str, hook_func: Hook) -> None:
        """Called when the task pauses."""
        self._stop_hooks[hook_name] = hook_func

    def complete(self) -> None:
        """The work is done: hooks, final summary, state, folder."""
        logger.info("%s: completing", self.uuid)
        self._run(self._completion_hooks)
        self._create_final_summary()
        self._finalize_task_db_and_move(TaskStatus.COMPLETED)

    def stop(self) -> None:
        """Pause: any process may resume the task later, at exactly this view."""
        logger.info("%s: pausing", self.uuid)
        self._run(self._stop_hooks)
        self._finalize_task_db_and_move(TaskStatus.PAUSED)

    def fail(self, error_message: str) -> None:
        """The work has failed; what is known is kept for the next task on the same key."""
        logger.error("%s: failed: %s", self.uuid, self.task_store.redactor.mask(error_message))
        self._create_final_summary()
        self._finalize_task_db_and_move(TaskStatus.FAILED, error_message)

    def cancel(self) -> None:
        """Give the work up."""
        self._finalize_task_db_and_move(TaskStatus.CANCELLED)

    def close(self) -> None:
        """Let go of the task without changing its state: it stays running, for the next process to take over."""
        if self._lease is not None:
            self._heartbeat.stop()
            self.task_store.close()
            self.catalogue.release(self._lease)
            self._lease = None
            leave_task(self.uuid)

    def _run(self, hooks: Mapping[str, Hook]) -> None:
        for name, hook in hooks.items():
            try:
                hook()
            except Exception:  # somebody else's code must not keep the task from ending well
                logger.exception("%s: the hook %s failed", self.uuid, name)

    def _create_final_summary(self) -> None:
        try:
            self.compressor.create_final_summary()
        except OrihonError as error:
            logger.warning("%s: no final summary: %s", self.uuid, error)

    def _finalize_task_db_and_move(self, status: TaskStatus, error_message: str | None = None) -> None:
        lease = self.lease
        message = None if error_message is None else self.task_store.redactor.mask(error_message)
        totals = self._totals()
        self.task_store.close()
        # The lease is kept until the folder has moved: nobody may open the task in between.
        self.catalogue.change_status(
            self.uuid, status, epoch=lease.epoch, error_message=message, statistics=totals, keep_lease=True
        )
        self._heartbeat.stop()
        self.context_dir = self._folders.settle(self.uuid, status) or self.context_dir
        self._lease = None
        self.catalogue.release(lease)
        self.task_store.end(status.value, self.context_dir)
        leave_task(self.uuid)


def _correction_of(row: TaskRow) -> Correction:
    return Correction(row.correction, 1) if row.correction != 1.0 else Correction()
