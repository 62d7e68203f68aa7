"""``ContextCompressor``: keeps the view of one task within its window.

Asks the ladder when, has the rung planned (``planner``) and hands the plan to the store. A model that fails costs
nothing but its text; a compression that saves too little is not tried again until the view has grown; what somebody
has opened again is left alone. Nothing changes before the record of the compression is written. Documents, which
belong to no task, are compressed by level.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from orihon.compression.by_hand import KEEP_RECENT, MIN_TO_COMPRESS, by_hand
from orihon.compression.contract import WHOLE_VIEW, CompressionResult, CompressionScope
from orihon.compression.documents.sections import PRESERVED_PATTERNS, CompressionLevel, compress_document
from orihon.compression.importance import ContentScores
from orihon.compression.ladder import Fullness, fullness_of, ladder_of
from orihon.compression.model.call import ChatClient, LLMClientProtocol
from orihon.compression.model.summarizer import LLMSummarizer
from orihon.compression.pages import Aim, NothingToFold, Pages, WhyNot
from orihon.compression.planner import Draft, Job, draft
from orihon.compression.strategies.toolbox import Strategies
from orihon.compression.summaries import (
    OwnPrompt,
    Summarizers,
    final_summary,
    keep_final_summary,
    own_prompt,
    write_request_file,
)
from orihon.compression.telemetry import ObservedCompression, compression_telemetry, log_compression
from orihon.compression.triggers import opened_runs, rung_by_hand, rung_on, should_back_off
from orihon.drivers.tracing import tracing_of
from orihon.errors import IllegalFold, InvalidInput
from orihon.notifications.notifier import Notifier, Outbox
from orihon.settings import Settings, load_settings
from orihon.settings.rungs import Rung
from orihon.store import SummaryStore, TaskMessages
from orihon.system.counters import Counts
from orihon.texts import text
from orihon.values.tokens.prices import Prices, prices_of
from orihon.values.tokens.tokens import Gauge
from orihon.values.view import SeqRange, View

if TYPE_CHECKING:
    from orihon.compression.contract import FoldedTask

__all__ = ["CompressionResult", "ContextCompressor", "LLMClientProtocol"]

logger = logging.getLogger("orihon.compression")

_LEAST_SAVING = 0.1  # of the view; less is not worth a compression by itself
_MAKER = "ContextCompressor"


class ContextCompressor:
    """Keeps the view of one task within its window."""

    #: What a model is told about the summaries that it writes; one of a subclass's own stands in for ours.
    SUMMARIZATION_PROMPT: str = cast("str", OwnPrompt())

    def __init__(
        self,
        task_ctx: FoldedTask | TaskMessages | None = None,
        config: Mapping[str, Any] | Settings | SummaryStore | LLMClientProtocol | ChatClient | None = None,
        llm_client: LLMClientProtocol | ChatClient | int | None = None,
        settings: Mapping[str, Any] | Settings | None = None,
        *,
        message_store: TaskMessages | None = None,
        summary_store: SummaryStore | None = None,
        min_messages_to_summarize: int | None = None,
        notifier: Notifier | None = None,
        outbox: Outbox | None = None,
        counts: Counts | None = None,
    ) -> None:
        """For a task, or for a message store alone; without ``config`` their settings hold.

        With neither it compresses documents only. ``outbox``: where notices are put that must not be lost; ``counts``:
        where is counted what a message store without its task is folded. Other designs begin with the message store:
        ``(message_store, summary_store, llm_client, config)``, or ``(message_store, llm_client, least)``.
        """
        if isinstance(task_ctx, TaskMessages):
            message_store, task_ctx = task_ctx, None
        if isinstance(config, SummaryStore):
            summary_store, config = config, settings
        elif config is not None and not isinstance(config, Mapping | Settings):
            least = llm_client if isinstance(llm_client, int) else None
            min_messages_to_summarize = min_messages_to_summarize or least
            llm_client, config = config, settings
        if isinstance(llm_client, int):
            raise InvalidInput("field_type", field="llm_client", actual="int")
        store = message_store or (task_ctx.message_store if task_ctx is not None else None)
        self.task_ctx = task_ctx
        self._message_store = store
        self._summary_store = summary_store
        self._has_own_settings = config is not None or store is None
        self.settings = load_settings(config) if config is not None or store is None else store.settings
        self._own_llm_client = llm_client
        compression = self.settings.compression
        self.keep_recent = compression.keep_recent
        self.min_to_compress = min_messages_to_summarize or compression.min_to_compress
        self._is_least_set = bool(min_messages_to_summarize)
        patterns = compression.pin_patterns
        self.preserved_patterns = list(PRESERVED_PATTERNS if patterns is None else patterns)
        self.ladder = ladder_of(self.settings)
        self._notifier = notifier
        self._outbox = outbox if outbox is not None or task_ctx is None else task_ctx.outbox
        self._counts = counts or Counts()
        self._backed_off_at: Fullness | None = None
        self._scores = ContentScores()
        self._summarizers = Summarizers(self.settings, task_ctx, own_prompt(self, "SUMMARIZATION_PROMPT"))

    # ---- parts ---------------------------------------------------------------------------------------------------

    @property
    def message_store(self) -> TaskMessages:
        """The messages whose view is folded."""
        if self._message_store is None:
            raise InvalidInput("no_message_store")
        return self._message_store

    @property
    def summary_store(self) -> SummaryStore:
        """The texts of the folds."""
        if self._summary_store is None:
            store = self.message_store
            self._summary_store = SummaryStore(store.context_dir, task_store=store.task_store)
        return self._summary_store

    @property
    def llm_client(self) -> LLMClientProtocol | ChatClient | None:
        """The model that writes summaries: the one given, or the task's."""
        if self._own_llm_client is not None or self.task_ctx is None:
            return self._own_llm_client
        client: LLMClientProtocol | ChatClient | None = self.task_ctx.llm_client
        return client

    @property
    def notifier(self) -> Notifier:
        """Who is told about compressions."""
        if self._notifier is None:
            wanted = self.settings.notifications
            self._notifier = Notifier(
                self.message_store.task_store.name,
                webhook=wanted.webhook,
                webhook_secret=wanted.webhook_secret,
                warn_at=wanted.warn_at,
                full_at=wanted.full_at,
                outbox=self._outbox,
            )
        return self._notifier

    def close(self) -> None:
        """Wait for notifications that would be lost otherwise, for a moment."""
        if self._notifier is not None and self._outbox is None:
            self._notifier.close()

    @property
    def context_length(self) -> int:
        """The window that the view has to fit."""
        key = f"llm.{self.settings.llm.provider}.context_length"
        if self.task_ctx is None and self._has_own_settings and self.settings.is_explicit(key):
            return self.settings.context_length
        return self.message_store.context_length

    @property
    def gauge(self) -> Gauge:
        """How full the view is against the budget."""
        store = self.message_store
        return Gauge.of(self.settings, self.context_length, store.correction, store.tool_tokens)

    # ---- when ----------------------------------------------------------------------------------------------------

    def should_compress(self) -> bool:
        """Has the view climbed to a rung of the ladder that folds?"""
        rung = self.ladder.rung(self._fullness())
        return rung is not None and bool(rung.strategies)

    def compress_if_needed(self) -> bool:
        """Fold when the ladder says so; did the view change?

        What was tried in vain waits until the view has grown. ``BudgetExceeded`` when folding cannot help.
        """
        now = self._fullness()
        self.notifier.usage(now.tokens, now.usage)
        rung = self.ladder.rung(now)
        if rung is None or self._waits(now) or self._is_for_a_person(now):
            return False
        if not rung.strategies:  # the rung only says so
            self._backed_off_at = now
            logger.warning("%s: the context fills up: %.0f %%", self.message_store.task_store.name, 100 * now.usage)
            return False
        result = self._fold(rung, "usage", self._opened(now), least_saving=_LEAST_SAVING)
        after = self._fullness()
        if not result.changed or after.usage > 1:
            self._backed_off_at = after  # all that could be done is done
        return result.changed

    def compress_now(self) -> CompressionResult:
        """Fold by the rung that the view has reached, whoever would have to be asked: somebody has said yes."""
        rung = self.ladder.rung(self._fullness()) or self.ladder.strongest()
        return self._fold(rung, "usage", self._opened(self._fullness()))

    def _is_for_a_person(self, now: Fullness) -> bool:
        """Whether somebody has to be asked first; what cannot be sent is folded in any case."""
        return self.settings.compression.confirm_before_compress and now.usage <= 1

    def compress_on(self, event: str, scope: CompressionScope = WHOLE_VIEW) -> CompressionResult:
        """Fold because of an event, as the ladder says: ``approval``, ``phase_end`` or ``iteration_end``."""
        rung = self._rung_on(event, scope)
        if rung is None:
            return self._nothing(self._pages(), NothingToFold("", WhyNot.NO_RUNG))
        least = _LEAST_SAVING if scope.span is None else 0.0
        return self._fold(rung, event, self._opened(self._fullness()), least, scope)

    def preview_on(
        self, event: str, scope: CompressionScope = WHOLE_VIEW, *, model: bool = True
    ) -> Draft | NothingToFold:
        """What ``compress_on`` would do, or (``usage``) what the ladder would do now; no ``model``: what it can do."""
        rung = self.ladder.rung(self._fullness()) if event == "usage" else self._rung_on(event, scope)
        if rung is None or not rung.strategies:
            return NothingToFold("", WhyNot.NO_RUNG)
        rung = rung if model else replace(rung, model=False)
        return self._draft(self._pages(), rung, self._opened(self._fullness()), scope)

    def _rung_on(self, event: str, scope: CompressionScope) -> Rung | None:
        return rung_on(event, self.ladder, self.settings, whole_view=scope.span is None)

    def _opened(self, now: Fullness) -> tuple[SeqRange, ...]:
        return opened_runs(self.message_store.task_store, self.ladder, now, self._fullness)

    def _fullness(self, tokens: int | None = None, entries: int | None = None) -> Fullness:
        tail = self.message_store.task_store.tail
        return fullness_of(
            self.gauge,
            tail.view_tokens if tokens is None else tokens,
            tail.view_entries if entries is None else entries,
        )

    def _waits(self, now: Fullness) -> bool:
        return should_back_off(now, self._backed_off_at, self.ladder, self.min_to_compress)

    # ---- folding -------------------------------------------------------------------------------------------------

    def compress_context(self) -> bool:
        """Fold now; did it change the view?"""
        return self.compress().changed

    def compress(
        self,
        context: str | None = None,
        level: CompressionLevel | None = None,
        archive_path: Path | str | None = None,
        *,
        strategy: str | None = None,
        target: float | None = None,
    ) -> CompressionResult:
        """Fold the view now, by the ladder's strategies or by one of them, down to ``target`` of the window.

        With ``context`` (a text) that document is compressed at the level instead and no task is touched.
        ``BudgetExceeded`` when what may not be folded is too large by itself.
        """
        if context is not None:
            wanted = level or CompressionLevel.STANDARD
            return compress_document(context, wanted, archive_path, preserved_patterns=self.preserved_patterns)
        return self._fold(rung_by_hand(self.ladder, strategy, level, target), "manual")

    def preview(
        self, *, strategy: str | None = None, level: CompressionLevel | None = None, target: float | None = None
    ) -> Draft | NothingToFold:
        """What ``compress`` would do. Nothing changes; ``apply`` makes it so, with other texts if need be."""
        return self._draft(self._pages(), rung_by_hand(self.ladder, strategy, level, target))

    def apply(
        self,
        planned: Draft,
        *,
        trigger: str = "manual",
        level: str = "",
        made_by: str = _MAKER,
        scope: CompressionScope = WHOLE_VIEW,
    ) -> CompressionResult:
        """Make a previewed compression; ``IllegalFold`` when the view has changed so that it cannot be."""
        with self._telemetry(trigger) as observed:
            observed.result = self._made(planned, trigger, level, made_by, scope)
        return observed.result

    def _made(
        self,
        planned: Draft,
        trigger: str,
        level: str,
        made_by: str = _MAKER,
        scope: CompressionScope = WHOLE_VIEW,
        seen: View | None = None,
    ) -> CompressionResult:
        store = self.message_store
        before = self._fullness()
        record = store.folding.compress(
            planned.plan.folds,
            trigger=trigger,
            strategy=planned.plan.strategy,
            level=level,
            made_by=made_by,
            calls=() if self.task_ctx is None else self.task_ctx.calls.take_summaries(),
            seen=seen,
        )
        self._backed_off_at = None
        log_compression(store.task_store, record, scope)
        if self.task_ctx is not None:
            self.task_ctx.count_compression(len(record.folds))
        after = self._fullness()
        self.notifier.compressed(
            record.before_tokens, record.after_tokens, before.usage, after.usage, record.id, record.folds
        )
        return CompressionResult.of(record, planned)

    def _fold(
        self,
        rung: Rung,
        trigger: str,
        opened: tuple[SeqRange, ...] = (),
        least_saving: float = 0.0,
        scope: CompressionScope = WHOLE_VIEW,
    ) -> CompressionResult:
        with self._telemetry(trigger) as observed:
            model = self._summarizer()
            if model is not None:
                model.last_failure = None
            observed.result = self._folded(rung, trigger, opened, least_saving, scope)
            observed.model_failure = None if model is None else model.last_failure
        return observed.result

    def _telemetry(self, trigger: str) -> AbstractContextManager[ObservedCompression]:
        counts = self._counts if self.task_ctx is None else self.task_ctx.counts
        return compression_telemetry(counts, tracing_of(self.settings), trigger, self.message_store.task_store.name)

    def _folded(
        self,
        rung: Rung,
        trigger: str,
        opened: tuple[SeqRange, ...],
        least_saving: float,
        scope: CompressionScope,
        *,
        is_second: bool = False,
    ) -> CompressionResult:
        pages = self._pages()
        planned = self._draft(pages, rung, opened, scope)
        is_little = isinstance(planned, Draft) and planned.saved < least_saving * pages.tokens
        if isinstance(planned, Draft) and is_little and pages.tokens <= self.gauge.room:
            planned = NothingToFold(planned.plan.strategy, WhyNot.NO_GAIN)
        if isinstance(planned, NothingToFold):
            return self._nothing(pages, planned)
        for sentence in planned.by_hand:
            logger.warning("%s: %s", self.message_store.task_store.name, sentence)
        try:
            level = rung.level if "sections" in rung.strategies else ""
            return self._made(planned, trigger, level, scope=scope, seen=pages.view)
        except IllegalFold:
            if is_second:
                raise
            # Somebody has pinned or folded meanwhile: the plan is made anew, on what stands there now.
            return self._folded(rung, trigger, opened, least_saving, scope, is_second=True)

    def _nothing(self, pages: Pages, why: NothingToFold) -> CompressionResult:
        logger.info("%s: nothing to fold (%s)", self.message_store.task_store.name, why.reason)
        now, goal = self._fullness(), None
        if now.usage > 1:  # said where somebody hears it: the next request will be refused
            self.notifier.still_full(now.tokens, now.usage)
            goal = self.gauge.room
        return CompressionResult(pages.tokens, pages.tokens, 1.0, strategy=why.strategy, nothing=why, goal=goal)

    def _pages(self) -> Pages:
        store = self.message_store
        return Pages(*store.task_store.pages(), has_recall=store.has_recall)

    def _draft(
        self, pages: Pages, rung: Rung, opened: tuple[SeqRange, ...] = (), scope: CompressionScope = WHOLE_VIEW
    ) -> Draft | NothingToFold:
        goal = int(self.ladder.goal(rung, self._fullness()) / self.gauge.correction.factor)
        compression = self.settings.compression
        patterns = self.preserved_patterns if self.ladder.keeps_headings else compression.pin_patterns or ()
        keep = self.keep_recent if scope.span is None else 0
        job = Job(
            rung,
            Aim(goal, keep, self.min_to_compress, (*opened, *scope.outside(pages.view.last_seq))),
            limit=self.gauge.room,
            pin_patterns=tuple(patterns),
            pin_roles=compression.pin_roles,
            prices=self._prices() if rung.economical else None,
            model=self._summarizer(),
            bends=self.ladder.bends,
            is_firm=self.settings.is_explicit(KEEP_RECENT),
            is_least_firm=self._is_least_set or self.settings.is_explicit(MIN_TO_COMPRESS),
        )
        preserved = tuple(self.preserved_patterns)
        strategies = Strategies(self.settings, self.ladder, preserved, self._scores, scope.archived_to)
        planned = draft(pages, job, strategies.named)
        return replace(planned, by_hand=by_hand(pages, job, planned))

    def _summarizer(self) -> LLMSummarizer | None:
        return self._summarizers.of(self.llm_client, self._summary_window)

    @property
    def _summary_window(self) -> int:
        """The window in tokens as the log carries them, where the provider has found more than we."""
        return int(self.context_length / max(self.gauge.correction.factor, 1.0))

    def _prices(self) -> Prices:
        return prices_of(self.settings, self.settings.model if self.task_ctx is None else self.task_ctx.model)

    # ---- texts ---------------------------------------------------------------------------------------------------

    def create_final_summary(self, *, model: bool = True) -> int:
        """Write ``final_summary.txt``, by rule alone without ``model``; returns its characters.

        The model is asked once, for ``compression.final_summary_timeout`` at most, and not at all where its last call
        has shown that it is gone: the work is over, and nobody waits for one that is.
        """
        store = self.message_store.task_store
        client = self.llm_client if model and not getattr(self.llm_client, "is_silent", False) else None
        writer = self._summarizers.with_prompt(
            text("prompts.final_summary"), client, self._summary_window, is_last=True
        )
        summary = store.redactor.mask(final_summary(self._pages(), writer, self.context_length))
        keep_final_summary(store, summary, () if self.task_ctx is None else self.task_ctx.calls.take_summaries())
        return len(summary)

    def create_summary_request_file(
        self, summary_prompt_file: Path | str, current_context_file: Path | str, output_file: Path | str
    ) -> None:
        """Join a prompt and the lines of a context as ``[ROLE]: content``, line by line, into one file.

        The lines stand where the prompt says ``{messages}``, or after it.
        """
        write_request_file(Path(summary_prompt_file), Path(current_context_file), Path(output_file))
