"""``ContextCompressor``: folds the older part of a view into a summary when the view gets full.

Decides when (``should_compress``), finds the runs that the cut rules allow, has the text written (by the model when
there is one, else as an outline) and hands the plan to the store. A model that fails, answers nothing or answers too
much costs nothing but its text: the outline stands in. The run goes by one message at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orihon import jsonio
from orihon.compression.final_summary import LLMClientProtocol, ask, final_summary
from orihon.compression.outline import Outline, with_pinned_lines
from orihon.errors import DamagedStore, InvalidInput
from orihon.folders import replace_file, wrapping
from orihon.message import Message
from orihon.records import SUMMARY_PREFIX, Fold
from orihon.settings import Settings, load_settings
from orihon.store import MessageStore, SummaryStore
from orihon.texts import text
from orihon.tokens import Gauge, estimate
from orihon.view import Entry, PlannedFold, View, check_protected, foldable_runs

if TYPE_CHECKING:
    from orihon.context import TaskContextManager

logger = logging.getLogger("orihon.compression")

_MESSAGES = "{messages}"
# An outline may have this share of the run's tokens, a model's summary a little more.
_OUTLINE_SHARE = 0.4
_ANSWER_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class CompressionResult:
    """What a compression did; ``compression`` is ``None`` when there was nothing worth folding."""

    original_tokens: int
    compressed_tokens: int
    compression_ratio: float
    preserved_items: tuple[str, ...] = ()  # pinned lines that the folds carry on word for word
    archived_path: Path | None = None
    text: str = ""
    folds: tuple[int, ...] = ()
    compression: int | None = None

    @property
    def changed(self) -> bool:
        return self.compression is not None


@dataclass(frozen=True, slots=True)
class _Run:
    """Entries of the view, one after another, that may become one fold."""

    entries: tuple[Entry, ...]

    @property
    def start(self) -> int:
        return self.entries[0].start

    @property
    def end(self) -> int:
        return self.entries[-1].end

    @property
    def tokens(self) -> int:
        return sum(entry.tokens for entry in self.entries)

    @property
    def messages(self) -> int:
        """How many of the entries are not summaries already."""
        return sum(_summary_fold(entry) is None for entry in self.entries)


class ContextCompressor:
    """Keeps the view of one task within its window."""

    def __init__(
        self,
        task_ctx: TaskContextManager | None = None,
        config: Mapping[str, Any] | Settings | None = None,
        llm_client: LLMClientProtocol | None = None,
        *,
        message_store: MessageStore | None = None,
        summary_store: SummaryStore | None = None,
        min_messages_to_summarize: int | None = None,
    ) -> None:
        """For a task, or for a message store alone; without ``config`` their settings hold."""
        store = message_store or (task_ctx.message_store if task_ctx is not None else None)
        if store is None:
            raise InvalidInput("no_message_store")
        self.task_ctx = task_ctx
        self.message_store = store
        self.summary_store = summary_store or SummaryStore(store.context_dir, task_store=store.task_store)
        self.settings = load_settings(config) if config is not None else store.settings
        self._own_llm_client = llm_client
        compression = self.settings.compression
        self.keep_recent = compression.keep_recent
        self.min_to_compress = min_messages_to_summarize or compression.min_to_compress
        self._in_vain_at: int | None = None

    @property
    def llm_client(self) -> LLMClientProtocol | None:
        """The model that writes summaries: the one given, or the task's."""
        if self._own_llm_client is not None or self.task_ctx is None:
            return self._own_llm_client
        client: LLMClientProtocol | None = self.task_ctx.llm_client
        return client

    @property
    def context_length(self) -> int:
        """The window that the view has to fit."""
        key = f"llm.{self.settings.llm.provider}.context_length"
        if self.task_ctx is None and self.settings.is_explicit(key):
            return self.settings.context_length
        return self.message_store.context_length

    @property
    def gauge(self) -> Gauge:
        """How full the view is, and when that is too full."""
        return Gauge.of(self.settings, self.context_length, self.message_store.correction)

    # ---- when ----------------------------------------------------------------------------------------------

    def should_compress(self) -> bool:
        """Is the view over ``token_threshold`` (over its share of the window when that is not set), or the budget?"""
        return self.gauge.wants_folding(self.message_store.get_current_token_count())

    def compress_if_needed(self) -> bool:
        """Fold when the view is too full; did it change?

        What was tried in vain waits for new messages, and what somebody has undone stays open until the budget
        itself is used up. ``BudgetExceeded`` when folding cannot help.
        """
        if not self.should_compress() or self._tried_in_vain():
            return False
        if self._was_undone() and self.gauge.usage(self.message_store.get_current_token_count()) <= 1.0:
            return False
        return self._compress("usage").changed

    def _tried_in_vain(self) -> bool:
        grown_to = self.message_store.count_messages()
        return self._in_vain_at is not None and grown_to < self._in_vain_at + self.min_to_compress

    def _was_undone(self) -> bool:
        store = self.message_store.task_store
        for number in range(store.count("compressions"), 0, -1):
            (record,) = store.read("compressions", number, number)
            if record["kind"] != "pin":  # a pin says nothing about whether the undone run may be folded again
                return bool(record["kind"] == "undo")
        return False

    def compress_context(self) -> bool:
        """Fold now; did it change the view?"""
        return self.compress().changed

    # ---- folding -------------------------------------------------------------------------------------------

    def compress(self) -> CompressionResult:
        """Fold everything that may be folded and is older than the ``keep_recent`` newest entries.

        ``BudgetExceeded`` when what may not be folded is too large by itself.
        """
        return self._compress("manual")

    def _compress(self, trigger: str) -> CompressionResult:
        view = self.message_store.view()
        check_protected(view, self.gauge.room)
        plans = self._plans(view)
        if not plans:
            self._in_vain_at = view.last_seq
            return CompressionResult(view.tokens, view.tokens, 1.0)
        self._in_vain_at = None
        record = self.message_store.folding.compress(
            plans, trigger=trigger, strategy="summarize", made_by="ContextCompressor"
        )
        before, after = record.before_tokens, record.after_tokens
        logger.info("%s: folded, %d → %d tokens", self.message_store.task_store.name, before, after)
        return CompressionResult(
            original_tokens=before,
            compressed_tokens=after,
            compression_ratio=after / before if before else 1.0,
            preserved_items=tuple(line for plan in plans for line in _pinned_lines(view, plan.start_seq, plan.end_seq)),
            text="\n\n".join(plan.text for plan in plans),
            folds=record.folds,
            compression=record.id,
        )

    def _plans(self, view: View) -> list[PlannedFold]:
        """One fold for each run (pins and waiting tool calls divide them) that gets smaller by it."""
        runs = [run for run in _runs(view, len(view.entries) - self.keep_recent) if run.messages]
        if sum(run.messages for run in runs) < self.min_to_compress:
            return []
        mask = self.message_store.task_store.redactor.mask
        largest = max(runs, key=lambda run: run.tokens)
        plans = []
        for run in runs:
            # One call to the model is enough for a compression: the largest run is worth it.
            written, reason = self._summary(run, self.llm_client if run is largest else None)
            whole = with_pinned_lines(mask(written), _pinned_lines(view, run.start, run.end))
            if estimate(SUMMARY_PREFIX + whole) < run.tokens:
                plans.append(PlannedFold(run.start, run.end, whole, reason=reason))
        return plans

    def _summary(self, run: _Run, llm_client: LLMClientProtocol | None) -> tuple[str, str]:
        """A text for the run, and what wrote it."""
        outline = self._outline(run)
        if llm_client is not None:
            notes = outline.render(self.context_length // 2)
            answer = ask(llm_client, text("prompts.summary"), self._question(notes))
            if answer is not None and estimate(answer) <= run.tokens * _ANSWER_SHARE:
                return answer, "model"
        return outline.render(int(run.tokens * _OUTLINE_SHARE)), "outline"

    def _outline(self, run: _Run) -> Outline:
        outline = Outline()
        next_seq = run.start
        for entry in run.entries:
            if (fold := _summary_fold(entry)) is not None:
                self._add_messages(outline, next_seq, entry.start - 1)
                outline.add_summary(fold.text, fold.message_count)
                next_seq = entry.end + 1
        self._add_messages(outline, next_seq, run.end)
        return outline

    def _add_messages(self, outline: Outline, first: int, last: int) -> None:
        for stored in self.message_store.get_messages(first, last):
            outline.add(stored.message)

    def _question(self, notes: str) -> str:
        own_prompt = self.settings.compression.summary_prompt
        return notes if own_prompt is None else "".join(_filled(own_prompt, [notes]))

    # ---- texts ---------------------------------------------------------------------------------------------

    def create_final_summary(self) -> int:
        """Write ``final_summary.txt``; returns its characters."""
        store = self.message_store.task_store
        said = (stored.message for stored in store.messages())
        summary = store.redactor.mask(final_summary(said, self.llm_client))
        with store.changing():  # a writer that was replaced has nothing to say any more
            path = store.records.folder / "final_summary.txt"
            replace_file(path, [summary.encode("utf-8", "replace")])
        return len(summary)

    def create_summary_request_file(
        self, summary_prompt_file: Path | str, current_context_file: Path | str, output_file: Path | str
    ) -> None:
        """Join a prompt and the lines of a context as ``[ROLE]: content``, line by line, into one file.

        The lines stand where the prompt says ``{messages}``, or after it.
        """
        prompt_file, context_file = Path(summary_prompt_file), Path(current_context_file)
        with wrapping(prompt_file):
            prompt = prompt_file.read_text(encoding="utf-8")
        pieces = _filled(prompt, _conversation(context_file))
        replace_file(Path(output_file), (piece.encode("utf-8", "replace") for piece in pieces), durable=False)


def _runs(view: View, up_to: int) -> Iterator[_Run]:
    for start, end in foldable_runs(view, up_to):
        yield _Run(view.entries[view.index_of(start) : view.index_of(end) + 1])


def _summary_fold(entry: Entry) -> Fold | None:
    return entry.fold if entry.fold is not None and entry.fold.form == "summary" else None


def _pinned_lines(view: View, start: int, end: int) -> list[str]:
    return [pin.line for pin in view.pins if pin.line and start <= pin.seq <= end]


def _filled(prompt: str, messages: list[str] | Iterator[str]) -> Iterator[str]:
    """The prompt with the messages in their place, piece by piece."""
    before, found, after = prompt.partition(_MESSAGES)
    yield before if found else before.rstrip() + "\n\n"
    yield from messages
    yield after


def _conversation(context_file: Path) -> Iterator[str]:
    with wrapping(context_file), context_file.open("rb") as file:
        for line in file:
            if not line.strip():
                continue
            try:
                message = Message.from_chat(jsonio.decode(line))
            except ValueError as error:
                raise DamagedStore("record", stream="current", where=context_file, start=line[:40]) from error
            calls = (f"{call.name}({call.arguments})" for call in message.tool_calls)
            yield f"[{message.role.upper()}]: {' '.join(filter(None, (message.text, *calls)))}\n"
