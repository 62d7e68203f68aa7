"""The part of ``TaskContextManager`` that keeps its statistics: how full the context is, what was used and counted.

The counters of the catalogue follow the log and never run ahead of it: nobody may acknowledge what is not there. What a
provider reports corrects our estimate of tokens. No work fails because a figure could not be written.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from orihon.catalogue import Catalogue, Lease
from orihon.errors import StorageError
from orihon.settings import Settings
from orihon.store import SummaryStore, ToolStore
from orihon.store.task_store import TaskStore
from orihon.tasks.message_store import MessageStore
from orihon.tasks.metrics import TaskCounts
from orihon.tasks.owning import totals_of
from orihon.tasks.usage import UsageBook
from orihon.values.records import ModelCall, Usage
from orihon.values.tokens.tokens import Budget, Correction, Gauge, reported_input_tokens, tokenizer_for

logger = logging.getLogger("orihon.context")


class TaskStatistics:
    """The statistics of one open task."""

    uuid: str
    settings: Settings
    catalogue: Catalogue
    task_store: TaskStore
    message_store: MessageStore
    summary_store: SummaryStore
    tool_store: ToolStore
    counts: TaskCounts
    calls: UsageBook
    model: str
    _figures: Mapping[str, int] | None = None  # as they were written last

    if TYPE_CHECKING:

        @property
        def lease(self) -> Lease: ...

    @property
    def context_length(self) -> int:
        """The model's window in tokens."""
        return self.message_store.context_length

    @property
    def correction(self) -> Correction:
        """What the provider's reports say about our estimate."""
        return self.message_store.correction

    @property
    def budget(self) -> Budget:
        """What a view may cost."""
        return self.message_store.gauge.budget

    @property
    def usage(self) -> float:
        """How full the context is: 0.7 is 70 % of the budget."""
        return self.message_store.gauge.usage(self.message_store.get_current_token_count())

    def count_compression(self, folds: int = 1) -> None:
        """One more compression in the figures, and so many folds."""
        self.update_statistics(compressions=1)
        self.counts.summaries(folds)
        self._write_statistics()

    def update_statistics(
        self,
        llm_calls: int = 0,
        tool_calls: int = 0,
        tokens: int = 0,
        compressions: int = 0,
        *,
        total_messages: int | None = None,
        total_summaries: int | None = None,
        total_tool_calls: int | None = None,
        final_token_count: int | None = None,
        final_message_count: int | None = None,
    ) -> None:
        """Add to the counters of the catalogue, or set totals."""
        epoch = self.lease.epoch
        added = {"llm_calls": llm_calls, "tool_calls": tool_calls, "tokens": tokens, "compressions": compressions}
        if any(added.values()):
            self.catalogue.tasks.add_statistics(self.uuid, **added, epoch=epoch)
        totals = {
            "total_messages": total_messages,
            "total_summaries": total_summaries,
            "total_tool_calls": total_tool_calls,
            "final_token_count": final_token_count,
            "final_message_count": final_message_count,
        }
        given = {name: value for name, value in totals.items() if value is not None}
        if given:
            stored = totals_of(self.task_store)
            # Nobody may acknowledge what is not there: the task would count as damaged from then on.
            kept = {name: min(value, stored[name]) for name, value in given.items() if name.startswith("total_")}
            self.catalogue.tasks.set_totals(self.uuid, **given | kept, epoch=epoch)

    def report_usage(
        self, usage: Mapping[str, Any], request_tokens: int | None = None, *, call: ModelCall | None = None
    ) -> None:
        """Learn from the usage that a provider reports: counters, costs, and the correction of our estimate.

        ``request_tokens`` is ``message_store.get_current_token_count()`` from when the request was made, and the tokens
        of the tools that were sent with it (``message_store.tool_tokens``). Without it the request is taken to be the
        view as it is now, less the answer when that has been added already. ``call`` is the one that the answer was
        stored with; a provider that reports nothing is counted only by that.
        """
        reported = reported_input_tokens(usage)
        if reported is None and call is None:
            return
        view = self._request_tokens()
        if reported is not None:
            tools = self.message_store.tool_tokens
            sent = view + tools if request_tokens is None else request_tokens
            self.correct(self.correction.observe(sent, reported, tools=tools))
        self.update_statistics(llm_calls=1, tokens=0 if reported is None else Usage.of(usage).total)
        tail = self.task_store.tail
        self.calls.answered(
            call or ModelCall.of(self.model, usage),
            sent=view,
            said=tail.view_tokens - view,
            saved=max(tail.log_tokens - tail.view_tokens, 0),
            epoch=self.lease.epoch,
        )

    def correct(self, correction: Correction) -> None:
        """Count by this from now on."""
        if correction != self.correction:
            factor, epoch = correction.factor, self.lease.epoch
            self.catalogue.tasks.update(self.uuid, correction=factor, epoch=epoch, durable=False)  # learned again
            self.message_store.correction = correction

    def _request_tokens(self) -> int:
        tail = self.task_store.tail
        newest = next(self.task_store.read("messages", tail.seq, tail.seq), None)
        if newest is None or newest["role"] != "assistant":
            return tail.view_tokens
        return tail.view_tokens - int(newest["tokens"])

    def change_model(self, model: str, context_length: int) -> int:
        """Go on with another model: its window, its tokenizer. Returns the exact tokens of the view by that one."""
        Gauge.of(self.settings, context_length, Correction())  # refuses a window that leaves no room for a view
        epoch = self.lease.epoch
        self.catalogue.tasks.update(self.uuid, model=model, context_length=context_length, correction=1.0, epoch=epoch)
        self.model, self.message_store.context_length = model, context_length
        self.message_store.correction = Correction()
        return self.message_store.get_exact_token_count(self.settings.llm.active.tokenizer or tokenizer_for(model))

    def _count_recorded_tools(self) -> None:
        """At an end: calls that a program has recorded and not counted are counted, so that both figures agree."""
        try:
            row = self.catalogue.tasks.get(self.uuid)
            missing = self.tool_store.count_tool_calls() - row.tool_call_count
            if missing > 0:
                self.update_statistics(tool_calls=missing)
        except StorageError as error:
            logger.warning("%s: the statistics could not be written: %s", self.uuid, error)

    def _write_statistics(self) -> None:
        """What ``orihon list`` shows of a running task, from counters; no work fails because of it."""
        try:
            tail = self.task_store.tail
            figures = {"total_messages": tail.seq, "view_tokens": tail.view_tokens}
            if figures != self._figures:
                self.catalogue.tasks.note_totals(self.uuid, figures, epoch=self.lease.epoch)
                self._figures = figures
        except StorageError as error:
            logger.warning("%s: the statistics could not be written: %s", self.uuid, error)
        self.counts.write()
