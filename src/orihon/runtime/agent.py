"""``Agent``: the loop of model and tools on one open task, until it is done or has to stop.

Every step is stored before the next begins, and what comes next follows from the log alone: an agent that is killed
anywhere is followed by one that goes on where the log ends. What happens to tool calls in between is the business of
``steps``. The task is done when the log ends with an answer that calls no tool. Raises ``GaveUp`` when going on, now or
later, would not help, and whatever else stands in the way otherwise.

Limits on calls, tokens, time and money count over all attempts since people last had the task tried again, and children
with their parents: calls and tokens are in the catalogue anyway; time and money are kept in the task's row while there
is a limit on them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Self

from orihon.catalogue.rows import SPENT, SUBTASK, fresh_start
from orihon.errors import BudgetExceeded, Cancelled, GaveUp, InvalidSettings, LLMError, OrihonError, Overflow, Refused
from orihon.llm.base import LLMClient
from orihon.llm.retry import may_pass
from orihon.llm.tools import read_done, read_tools
from orihon.runtime.agent_tools import ASK
from orihon.runtime.sources.base import SourceReporter
from orihon.runtime.steps import ToolSteps
from orihon.runtime.tools import TaskTools
from orihon.settings import Settings
from orihon.tasks.context import TaskContextManager
from orihon.tasks.notes import say_notes
from orihon.texts import text
from orihon.values.records import Usage
from orihon.values.tokens.prices import prices_of

logger = logging.getLogger("orihon.agent")

_CHECK_SECONDS = 0.25
_MILLION = 1_000_000


class TaskLimits:
    """What one task may take, and what it has taken."""

    def __init__(self, context: TaskContextManager, settings: Settings) -> None:
        self._context = context
        self._runtime = settings.runtime
        self._prices = prices_of(settings, context.model)
        kept = context.catalogue.tasks.get(context.uuid).metadata.get(SPENT) or {}
        self._seconds = float(kept.get("seconds", 0.0))
        self._cost = float(kept.get("cost", 0.0))
        self._counted = int(kept.get("tokens", 0))  # tokens that are in the cost
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds of work so far."""
        return self._seconds + time.monotonic() - self._started

    @property
    def is_late(self) -> bool:
        """Is the time over?"""
        return self._runtime.max_seconds is not None and self.seconds >= self._runtime.max_seconds

    def add(self, usage: Usage) -> None:
        """One more answer; kept at once when there is a limit that needs it."""
        fresh = usage.input - usage.cached
        cost = usage.cached * self._prices.cached + fresh * self._prices.written + usage.output * self._prices.output
        self._cost += cost / _MILLION
        self._counted += usage.input
        if self._runtime.max_cost is not None or self._runtime.max_seconds is not None:
            self._keep()

    def check(self) -> None:
        """``GaveUp`` when the task may take no further step."""
        runtime, (calls, tokens) = self._runtime, self._family_usage()
        if calls >= runtime.max_llm_process_num:
            raise GaveUp("limit_calls", limit=runtime.max_llm_process_num)
        if runtime.max_tokens is not None and tokens >= runtime.max_tokens:
            raise GaveUp("limit_tokens", limit=runtime.max_tokens, used=tokens)
        # Summaries and what children took are in the rows' tokens only: they are taken for new input.
        cost = self._cost + max(tokens - self._counted, 0) * self._prices.input / _MILLION
        if runtime.max_cost is not None and cost >= runtime.max_cost:
            raise GaveUp("limit_cost", limit=runtime.max_cost, used=round(cost, 4))
        if runtime.max_seconds is not None and self.is_late:
            raise GaveUp("limit_seconds", limit=runtime.max_seconds)

    def _family_usage(self) -> tuple[int, int]:
        """Calls and tokens of the task that people know, with all its children, since it was last begun anew."""
        catalogue = self._context.catalogue
        row = catalogue.tasks.get(self._context.uuid)
        while (
            row.task_type == SUBTASK
            and row.parent_uuid
            and (parent := catalogue.tasks.find(row.parent_uuid)) is not None
        ):
            row = parent
        calls, tokens = catalogue.statistics.family_usage(row.uuid)
        before = fresh_start(row)
        return calls - before["llm_calls"], tokens - before["tokens"]

    def _keep(self) -> None:
        catalogue, uuid = self._context.catalogue, self._context.uuid
        spent = {"seconds": round(self.seconds, 3), "cost": self._cost, "tokens": self._counted}
        metadata = {**catalogue.tasks.get(uuid).metadata, SPENT: spent}
        catalogue.tasks.update(uuid, metadata=metadata, epoch=self._context.lease.epoch)


class CallWatchdog:
    """While the block lasts, calls of the model that take too long are ended; the caller sees ``Cancelled``."""

    def __init__(self, client: LLMClient, limits: TaskLimits, should_stop: Callable[[], bool], patience: float) -> None:
        """``patience``: seconds that a call may go on after the task was asked to stop."""
        self._client = client
        self._limits = limits
        self._should_stop = should_stop
        self._patience = patience
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._check, name="orihon-watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _check(self) -> None:
        asked_at: float | None = None
        while not self._over.wait(_CHECK_SECONDS):
            if asked_at is None and self._is_asked():
                asked_at = time.monotonic()
            is_impatient = asked_at is not None and time.monotonic() - asked_at >= self._patience
            if is_impatient or self._limits.is_late:
                self._client.cancel()

    def _is_asked(self) -> bool:
        try:
            return self._should_stop()
        except OrihonError as error:  # the agent asks too, and meets it there
            logger.warning("whether the task is to stop could not be seen: %s", error)
            return False


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
        self._plans: int | None = None
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
        self._plans = say_notes(self._context.message_store, said=self._plans)
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
