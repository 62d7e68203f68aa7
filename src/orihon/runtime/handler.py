"""``TaskHandler``: takes a claimed task and works on it: context, tools, model, source, and the end.

Promises that a task ends in one clear state. It completes; or it rests, for the next worker to go on with; or it fails
for good, with what is known kept for the next task on the same key, and ``InvalidInput`` (``GaveUp``) raised; or it is
let go of with an error that may pass, and the queue decides about another attempt. The source is told before the
catalogue: whoever dies in between says the same once more, which sources take for the same words. A handler works on
one task after another and keeps the MCP servers running in between. See ``agent`` for the loop and ``steps`` for what
is promised about tool calls.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from orihon.catalogue import TaskRow
from orihon.errors import InvalidInput, OrihonError, SourceError, StaleWriter, Waiting
from orihon.llm.base import LLMClient
from orihon.llm.clients import get_llm_client
from orihon.llm.tools import ToolDefinition
from orihon.runtime.agent import Agent, Ending, system_prompt
from orihon.runtime.agent_tools import (
    DEEPEST,
    CheckpointServer,
    ChildServer,
    ClientFactory,
    TaskWithKey,
    ToolClient,
    client_factory,
    given_servers,
    key_of,
    plan_server,
    prompt_of,
    release_model,
)
from orihon.runtime.handlers import is_final
from orihon.runtime.poller import sources_of
from orihon.runtime.queue import QueuedTask
from orihon.runtime.sources.base import SourceReporter, TaskSource
from orihon.runtime.tool import ToolServer
from orihon.runtime.tools import TaskTools, ToolBox, ToolSupply, tool_options
from orihon.settings import Settings, load_settings
from orihon.tasks.context import TaskContextManager
from orihon.tasks.quotas import tokens_spent
from orihon.texts import text
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.agent")

Stop = Callable[[], bool]

#: For each source the setting that names its places, and what it is without any.
_SOURCES: dict[str, tuple[str, Any]] = {
    "github": ("sources.github.repositories", ()),
    "gitlab": ("sources.gitlab.repositories", ()),
    "folder": ("sources.folder", None),
}


class TaskHandler:
    """Works on tasks with the model, the tools and the sources that the settings name. Close it in the end."""

    def __init__(
        self,
        settings: Mapping[str, Any] | Settings | LLMClient | ClientFactory | None = None,
        base_dir: Path | str | Mapping[str, ToolClient] | None = None,
        config: Mapping[str, Any] | Settings | None = None,
        *,
        llm_client: LLMClient | ClientFactory | None = None,
        mcp_clients: Mapping[str, ToolClient] | None = None,
        toolbox: ToolBox | None = None,
        source: TaskSource | None = None,
    ) -> None:
        """``toolbox`` stands in for the tools of the settings, ``source`` for the source of every task.

        ``TaskHandler(llm_client, mcp_clients, config)``, as the first design writes it, works with these clients.
        """
        if settings is not None and not isinstance(settings, Mapping | Settings):
            llm_client, settings = settings, None
        if isinstance(base_dir, Mapping):
            mcp_clients, base_dir = base_dir, None
        wanted = load_settings(settings if config is None else config)
        # The promises of this class are about what is on the disk.
        self._settings = wanted.replace(**{"context_storage.enabled": True})
        self._base_dir = Path(base_dir if base_dir is not None else wanted.context_storage.base_dir)
        self._make_client: ClientFactory = self._client
        definitions: Sequence[ToolDefinition] = ()
        if llm_client is not None:
            self._make_client, definitions = client_factory(llm_client)
        if mcp_clients is not None and toolbox is None:
            toolbox = ToolBox(given_servers(mcp_clients, definitions), tool_options(self._settings))
        self._supply = ToolSupply(self._settings, self._base_dir, toolbox)
        self._source = source
        self._sources: dict[str, TaskSource | None] = {}

    @staticmethod
    def check_settings(settings: Settings) -> None:
        """Refuse settings that no task can be worked on with: no key, no system prompt."""
        system_prompt(settings)
        get_llm_client(settings.replace(**{"context_storage.enabled": False})).close()

    def tell_end(self, row: TaskRow) -> bool:
        """Tell the source of a task that ended in nobody's hands; ``False`` when the settings do not know it."""
        source = self._source_named(row.source)
        if source is None:
            return False
        reporter = SourceReporter(source, row)
        if row.status is TaskStatus.CANCELLED:
            reporter.finish("cancelled", text("agent.comment.cancelled"), insist=True)
        else:
            said = text("agent.comment.failed", error=row.error_message or "-")
            reporter.finish("failed", said, insist=True)
        return True

    def close(self) -> None:
        """End the MCP servers."""
        self._supply.close()

    def handle(self, task: QueuedTask | TaskWithKey, should_stop: Stop = lambda: False) -> None:
        """Work until done, or until ``should_stop`` says yes between two steps: then the task is paused.

        A task that no queue has handed out is begun here, and fails here for good when it fails.
        """
        if isinstance(task, QueuedTask):
            self._handle(task, open_context(task, self._base_dir, self._settings), should_stop)
            return
        key = key_of(task)
        context = TaskContextManager(self._base_dir, key, self._settings, uuid=key.uuid)
        attempts = self._settings.multiprocess.max_attempts
        queued = QueuedTask(
            key, key.user, context.uuid, prompt_of(task), key.task_source, attempts, lease=context.lease
        )
        self._handle(queued, context, should_stop, is_only_try=True)

    def _handle(
        self, task: QueuedTask, context: TaskContextManager, should_stop: Stop, *, is_only_try: bool = False
    ) -> None:
        source = self._source_named(task.source)
        reporter = SourceReporter(source, context.catalogue.tasks.get(context.uuid))
        spent = tokens_spent(context.catalogue, self._settings, context.catalogue.tasks.get(context.uuid).user or "")
        try:
            ending = self._work(context, lambda: _prompt(task, source), reporter, lambda: should_stop() or spent())
            if ending.outcome == "completed":
                self._complete(context, ending, reporter, insist=not self._is_last(task))
            else:
                self._pause(context, reporter, is_spent=spent())
        except StaleWriter:
            raise  # it is another worker's task now
        except Waiting as waiting:
            reporter.wait(waiting.fields["checkpoint"], _masked(context, waiting.fields["question"]))
            raise
        except Exception as error:
            self._end_badly(context, task, reporter, error, is_hopeless=is_only_try or is_final(error))
            raise
        finally:
            context.close()
            release_model(context)

    # ---- one task ----------------------------------------------------------------------------------------------

    def _work(
        self,
        context: TaskContextManager,
        prompt: Callable[[], str],
        reporter: SourceReporter,
        should_stop: Stop,
        depth: int = 0,
    ) -> Ending:
        unfinished: dict[str, Exception | None] = {}
        tools = self._tools(context, unfinished, should_stop, depth)
        try:
            client = self._make_client(context, tools.schemas())
            context.set_llm_client(client)
            agent = Agent(
                context, client, tools, settings=self._settings, should_stop=should_stop, unfinished=unfinished
            )
            return agent.work(prompt, reporter)
        finally:
            tools.close()

    def _tools(
        self, context: TaskContextManager, unfinished: dict[str, Exception | None], should_stop: Stop, depth: int
    ) -> TaskTools:
        def work_on_child(child: TaskContextManager, prompt: str) -> Literal["completed", "paused"]:
            silent = SourceReporter(None, child.catalogue.tasks.get(child.uuid))
            return self._work(child, lambda: prompt, silent, should_stop, depth + 1).outcome

        servers: list[ToolServer] = [plan_server(context.planning_store)]
        if depth == 0:  # a helper asks whoever has started it, by its report
            servers.append(CheckpointServer(context.checkpoints))
        if depth < DEEPEST:
            servers.append(ChildServer(context, work_on_child, unfinished))
        return self._supply.of(context, servers)

    def _client(self, context: TaskContextManager, tools: Sequence[Mapping[str, Any]]) -> LLMClient:
        return get_llm_client(self._settings, tools=tools, task_ctx=context)

    # ---- ends --------------------------------------------------------------------------------------------------

    def _complete(self, context: TaskContextManager, ending: Ending, reporter: SourceReporter, *, insist: bool) -> None:
        said = ending.said.strip() or text("agent.comment.done")
        try:
            reporter.finish("completed", said, insist=True)
        except SourceError as error:
            if insist:
                raise
            logger.error("%s: done, but its source could not be notified: %s", context.uuid, error)
        context.complete()

    def _end_badly(
        self,
        context: TaskContextManager,
        task: QueuedTask,
        reporter: SourceReporter,
        error: Exception,
        *,
        is_hopeless: bool,
    ) -> None:
        what = _masked(context, error)
        if not is_hopeless:
            reporter.trouble(task.attempt, what)
        if is_hopeless or self._is_last(task):
            reporter.finish("failed", text("agent.comment.failed", error=what))
        if is_hopeless:
            release_model(context)  # nothing more is spent on it
            context.fail(str(error))

    def _is_last(self, task: QueuedTask) -> bool:
        return task.attempt >= self._settings.multiprocess.max_attempts

    def _pause(self, context: TaskContextManager, reporter: SourceReporter, *, is_spent: bool) -> None:
        """A worker that is drained says nothing: the task is in line and soon goes on."""
        if is_spent:  # otherwise the next worker would take it at once
            logger.warning("%s: %s", context.uuid, text("agent.quota_spent"))
            context.catalogue.queue.request(context.uuid, "pause", TaskStatus.RUNNING, over=False)
        wish = context.catalogue.queue.requested(context.uuid)
        if wish is not None and wish.requested == "pause":
            reporter.finish("paused", text("agent.comment.paused"))
        elif wish is not None and wish.requested == "cancel":
            reporter.finish("cancelled", text("agent.comment.cancelled"))
        context.stop()

    # ---- where it comes from -----------------------------------------------------------------------------------

    def _source_named(self, name: str) -> TaskSource | None:
        """The source of that name; the others are not made: what they lack is nothing to its tasks."""
        if self._source is not None:
            return self._source
        if name not in self._sources:
            others = {key: nothing for source, (key, nothing) in _SOURCES.items() if source != name}
            found = sources_of(self._settings.replace(**others)) if name in _SOURCES else []
            self._sources[name] = next((source for source in found if source.name == name), None)
        return self._sources[name]


def _masked(context: TaskContextManager, error: Exception | str) -> str:
    """An error, or a question, as the world may read it."""
    said = str(error) if isinstance(error, OrihonError | str) else f"{type(error).__name__}: {error}"
    return context.task_store.redactor.mask(said)


def _prompt(task: QueuedTask, source: TaskSource | None) -> str:
    """The first user message: what was queued, or what the source says now."""
    if task.prompt.strip():
        return task.prompt
    if source is None:
        raise InvalidInput("task_without_prompt", uuid=task.uuid, source=task.source or "-")
    return source.prompt(source.find(task.key))


def open_context(task: QueuedTask, base_dir: Path | str, settings: Settings) -> TaskContextManager:
    """The context of a claimed task; a lease on another task, or one that was taken over, is refused."""
    context = TaskContextManager(base_dir, task.key, settings, uuid=task.uuid, is_resumed=True, lease=task.lease)
    task.lease = context.lease  # opening may have raised the epoch
    return context
