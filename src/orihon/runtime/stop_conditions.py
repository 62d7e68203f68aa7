"""When the work on a task has to end: limits on calls, tokens, time and money, and a request to stop.

Counts over all attempts since people last had the task tried again, and children with their parents: calls and tokens
are in the catalogue anyway; time and money are kept in the task's row while a limit on them is set. ``CallWatchdog``
ends a call of the model that would outlast the time, or the patience of somebody who has asked the task to stop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from orihon.catalogue.rows import SPENT, SUBTASK, fresh_start
from orihon.errors import GaveUp, OrihonError
from orihon.llm.base import LLMClient
from orihon.settings import Settings
from orihon.tasks.context import TaskContextManager
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
