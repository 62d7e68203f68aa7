"""``Agent``: the loop of model and tools on one open task, until it is done or has to stop.

Every step is stored before the next begins, and what comes next follows from the log alone: an agent that is killed
anywhere is followed by one that goes on where the log ends. What happens to tool calls in between is the business of
``steps``. The task is done when the log ends with an answer that calls no tool. Raises ``GaveUp`` when going on, now or
later, would not help, and whatever else stands in the way otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from orihon.errors import BudgetExceeded, Cancelled, GaveUp, InvalidSettings, LLMError, Overflow, Refused
from orihon.llm.base import LLMClient
from orihon.llm.retry import may_pass
from orihon.llm.tools import read_done, read_tools
from orihon.runtime.checkpoint_tool import ASK
from orihon.runtime.source_reports import SourceReporter
from orihon.runtime.steps import ToolSteps
from orihon.runtime.stop_conditions import CallWatchdog, TaskLimits
from orihon.runtime.task_tools import TaskTools
from orihon.settings import Settings
from orihon.tasks.context import TaskContextManager
from orihon.texts import text

_CUT = ("length", "max_tokens")
_MOST_SYSTEM_MESSAGES = 2  # the prompt, and what is inherited


@dataclass(frozen=True, slots=True)
class Ending:
    """How the work has ended, and the model's last words."""

    outcome: Literal["completed", "paused"]
    said: str = ""


class Agent:
    """One attempt at a task."""

    def __init__(
        self,
        context: TaskContextManager,
        client: LLMClient,
        tools: TaskTools,
        *,
        settings: Settings,
        should_stop: Callable[[], bool],
        unfinished: Mapping[str, Exception | None],
    ) -> None:
        wanted = settings.runtime
        self._context = context
        self._client = client
        self._tools = tools
        self._settings = settings
        self._should_stop = should_stop
        self._limits = TaskLimits(context, settings)
        self._steps = ToolSteps(
            context,
            client,
            tools,
            parallel=wanted.parallel_tools,
            most_errors=wanted.max_consecutive_tool_errors,
            unfinished=unfinished,
        )

    def work(self, prompt: Callable[[], str], reporter: SourceReporter) -> Ending:
        """Begin or go on, until the end. ``prompt`` is asked when the task begins."""
        self._begin(prompt, reporter)
        patience = self._settings.multiprocess.drain_seconds / 3
        try:
            with CallWatchdog(self._client, self._limits, self._should_stop, patience):
                return self._loop()
        except Cancelled:
            if self._should_stop():
                return Ending("paused")
            self._limits.check()
            raise
        except (LLMError, BudgetExceeded) as error:
            if _may_go_better(error):
                raise
            raise GaveUp("model", detail=str(error)) from error

    def _begin(self, prompt: Callable[[], str], reporter: SourceReporter) -> None:
        """The first messages. A crash between two of them is made up for by whoever comes next."""
        context, store = self._context, self._context.message_store
        count = store.count_messages()
        if count > _MOST_SYSTEM_MESSAGES or (count and store.get_message(count).message.role != "system"):
            reporter.go_on()
            return
        wanted = prompt()  # before anything is written or said
        system = system_prompt(self._settings)
        reporter.begin(context.get_inheritance_notification_comment())
        inherited = context.get_inheritance_context()
        if count == 0:
            context.create_initial_context_with_inheritance(system)
        elif count == 1 and inherited is not None:
            context.inheritance_manager.create_initial_context(context, inherited)
        self._client.send_user_message(wanted)

    def _loop(self) -> Ending:
        if not self._steps.settle():
            return Ending("paused")
        if self._was_cut():
            self._client.send_user_message(text("agent.go_on"))
        self._context.wait_if_asked()
        while (said := self._final_answer()) is None:
            if self._should_stop():
                return Ending("paused")
            self._limits.check()
            if not self._step():
                return Ending("paused")
        return Ending("completed", said)

    def _step(self) -> bool:
        """Ask, and do what the answer wants done; ``False`` when that was stopped in the middle."""
        self._context.compress_if_needed()
        self._client.tools = read_tools(None, self._tools.schemas())  # a server may have brought new ones
        said, asked = self._client.get_response()
        self._limits.add(self._client.last_usage)
        calls = self._steps.read(said, asked)
        if calls:
            is_done = self._steps.run(calls)
            if is_done and any(call.name == ASK for call in calls):
                self._context.wait_if_asked()
            return is_done
        answer = self._client.last_answer
        if answer is not None and answer.finish in _CUT:
            self._client.send_user_message(text("agent.go_on"))
        return True

    def _was_cut(self) -> bool:
        """Whether the log ends with an answer that its length has cut off: whoever asked for it died then."""
        store = self._context.message_store
        message = store.get_message(store.count_messages()).message
        return message.role == "assistant" and message.extra.get("finish_reason") in _CUT

    def _final_answer(self) -> str | None:
        store = self._context.message_store
        message = store.get_message(store.count_messages()).message
        if message.role != "assistant":
            return None
        return (read_done(message.text) if self._client.calls_in_words else None) or message.text


def release_model(context: TaskContextManager) -> None:
    """The task makes no further calls; its connections are closed."""
    client = context.llm_client
    context.set_llm_client(None)
    if client is not None:
        client.close()


def system_prompt(settings: Settings) -> str:
    """What the settings say that an agent is, or the built-in words."""
    wanted = settings.runtime
    if wanted.system_prompt is not None:
        return wanted.system_prompt
    if wanted.system_prompt_file is None:
        return text("prompts.agent")
    try:
        return wanted.system_prompt_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidSettings("system_prompt_file", path=wanted.system_prompt_file, detail=str(error)) from error


def _may_go_better(error: LLMError | BudgetExceeded) -> bool:
    """Whether a later attempt makes sense: not with a wrong key, nor with what will never fit."""
    if isinstance(error, BudgetExceeded | Overflow):
        return False
    return may_pass(error) if isinstance(error, Refused) else True
