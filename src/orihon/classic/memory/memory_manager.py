"""``MemoryManager``: keeps a plain list of messages within a number of tokens.

For agents that hold their history as a list of dicts and want no store. It chooses by importance what stays
and puts a summary or a notice where messages went. What it takes away is gone from the list: an agent that
must lose nothing uses ``TaskContextManager``.

Promises: leading system messages stay (or ``BudgetExceeded``); a tool call and its results stay or go
together; pruning never makes the list dearer; a summarizer that fails, says nothing or says too much is
replaced by a notice. ``PruneAction`` decides when, ``importance`` the score.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol, TypedDict

from orihon.compression.importance import ScoringConfig, importance, message_text
from orihon.compression.plain_history import PlainHistory, PlainMessage, cost, system_head, tool_units
from orihon.errors import BudgetExceeded, InvalidSettings
from orihon.texts import text

logger = logging.getLogger("orihon.memory_manager")

_EXCERPT_CHARACTERS = 200
_SUMMARY_MAX_TOKENS = 150
_SUMMARY_TEMPERATURE = 0.3


class MemoryChatClient(Protocol):
    """What a summarizing model must offer; ``chat`` may be a coroutine or a plain method.

    Its answer is a mapping with ``summary``, the same as JSON text, or the bare summary.
    """

    def chat(self, messages: PlainHistory, *, max_tokens: int, temperature: float) -> Any: ...


class PruneAction(StrEnum):
    """What is done at which usage."""

    NOTHING = "nothing"
    WARN = "warn"
    PRUNE = "prune"
    PRUNE_AND_SUMMARIZE = "prune_and_summarize"
    EMERGENCY = "emergency"

    @property
    def prunes(self) -> bool:
        return self not in (PruneAction.NOTHING, PruneAction.WARN)


class PruneStats(TypedDict, total=False):
    """What ``prune_history`` did; the first three alone when there was nothing to do."""

    pruned: bool
    original_count: int
    original_tokens: int
    final_count: int
    final_tokens: int
    removed_count: int
    removed_tokens: int
    emergency_mode: bool


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """When to prune and how far; usages are shares of ``max_tokens``."""

    max_tokens: int = 8000
    pruning_threshold: float = 0.8
    target_usage: float = 0.7
    enable_summarization: bool = True
    min_gap_for_summary: int = 5
    warning_threshold: float = 0.6
    summary_threshold: float = 0.9

    def __post_init__(self) -> None:
        # Beyond the threshold a target would call for the next pruning at once.
        if self.max_tokens <= 0 or not 0 < self.target_usage <= self.pruning_threshold <= 1:
            raise InvalidSettings(
                "memory_config",
                max_tokens=self.max_tokens,
                target_usage=self.target_usage,
                pruning_threshold=self.pruning_threshold,
            )

    def action(self, tokens: int) -> PruneAction:
        """The row of the table that a history of that size falls into."""
        usage = tokens / self.max_tokens
        if usage > 1:
            return PruneAction.EMERGENCY
        if usage > self.pruning_threshold:
            summarize = self.enable_summarization and usage > self.summary_threshold
            return PruneAction.PRUNE_AND_SUMMARIZE if summarize else PruneAction.PRUNE
        return PruneAction.WARN if usage > self.warning_threshold else PruneAction.NOTHING

    @property
    def target_tokens(self) -> float:
        """What the chosen messages may cost."""
        return self.max_tokens * self.target_usage

    @property
    def limit_with_notices(self) -> float:
        """What they may cost together with notices: half-way to the threshold, so that pruning lasts."""
        return self.max_tokens * (self.target_usage + self.pruning_threshold) / 2


class MemoryManager:
    """Watches the size of a history, and prunes it by importance when it grows too large."""

    def __init__(
        self,
        llm_client: MemoryChatClient | None = None,
        max_tokens: int | None = None,
        config: ScoringConfig | None = None,
        memory_config: MemoryConfig | None = None,
    ) -> None:
        """``max_tokens``, when given, wins over the one in ``memory_config``; 8,000 when neither says."""
        self.llm = llm_client
        self.config = config or ScoringConfig()
        self.memory_config = memory_config or MemoryConfig()
        if max_tokens is not None:
            self.memory_config = replace(self.memory_config, max_tokens=max_tokens)
        self.prune_count = 0

    @property
    def max_tokens(self) -> int:
        return self.memory_config.max_tokens

    def should_prune(self, conversation_history: PlainHistory) -> bool:
        """Whether the history is beyond the pruning threshold; logs when it comes near."""
        tokens = self._estimate_tokens(conversation_history)
        action = self.memory_config.action(tokens)
        percent = 100 * tokens / self.max_tokens
        if action is PruneAction.WARN:
            logger.warning("memory fills up: %d of %d tokens (%.0f%%)", tokens, self.max_tokens, percent)
        elif action is not PruneAction.NOTHING:
            logger.info("pruning needed: %d of %d tokens (%.0f%%)", tokens, self.max_tokens, percent)
        return action.prunes

    def check_if_pruning_needed(self, conversation_history: PlainHistory) -> bool:
        """``should_prune`` by another name."""
        return self.should_prune(conversation_history)

    async def prune_history(self, conversation_history: PlainHistory) -> tuple[PlainHistory, PruneStats]:
        """The history brought down to its target, and what was done; the same list when nothing is due."""
        original_tokens = self._estimate_tokens(conversation_history)
        action = self.memory_config.action(original_tokens)
        stats = PruneStats(pruned=False, original_count=len(conversation_history), original_tokens=original_tokens)
        if not action.prunes:
            return conversation_history, stats

        self.prune_count += 1
        scored = sorted(self._score_messages(conversation_history), reverse=True, key=lambda item: item[0])
        selected = self._select_within_budget(scored, self.memory_config.target_tokens)
        if action is PruneAction.EMERGENCY:
            logger.warning("emergency pruning: %d tokens, limit %d", original_tokens, self.max_tokens)
            result = [message for _, message in selected]
        else:
            summarize = action is PruneAction.PRUNE_AND_SUMMARIZE
            result = await self._insert_summaries(conversation_history, selected, summarize=summarize)

        stats["pruned"] = True
        stats["final_count"] = len(result)
        stats["final_tokens"] = self._estimate_tokens(result)
        stats["removed_count"] = stats["original_count"] - stats["final_count"]
        stats["removed_tokens"] = stats["original_tokens"] - stats["final_tokens"]
        stats["emergency_mode"] = action is PruneAction.EMERGENCY
        logger.info("pruned: %(removed_count)d messages, %(removed_tokens)d tokens less", stats)
        return result, stats

    def _score_messages(self, conversation_history: PlainHistory) -> list[tuple[float, int, PlainMessage]]:
        total = len(conversation_history)
        return [
            (self._calculate_importance(message, index, total), index, message)
            for index, message in enumerate(conversation_history)
        ]

    def _calculate_importance(self, message: PlainMessage, index: int, total: int) -> float:
        return importance(message, index, total, self.config)

    def _select_within_budget(
        self, scored_messages: list[tuple[float, int, PlainMessage]], budget: float
    ) -> list[tuple[int, PlainMessage]]:
        """The messages that stay, best first by the order given; a tool exchange counts by its best message.

        The system prompt always stays, the newest message or exchange whenever ``max_tokens`` allows it:
        without it the agent would not know what it was asked.
        """
        places = sorted(((index, message) for _, index, message in scored_messages), key=lambda item: item[0])
        messages = [message for _, message in places]
        place_of = {index: place for place, (index, _) in enumerate(places)}
        units = tool_units(messages)
        unit_at = {place: unit for unit in units for place in unit}

        chosen = self._protected(messages, units)
        remaining = budget - cost(messages[place] for place in chosen)
        refused: set[int] = set()
        for _, index, _ in scored_messages:
            unit = unit_at[place_of[index]]
            if remaining <= 0:
                break
            if unit.start in chosen or unit.start in refused:
                continue
            unit_cost = cost(messages[unit.start : unit.stop])
            if remaining - unit_cost > 0:
                chosen.update(unit)
                remaining -= unit_cost
            else:
                refused.add(unit.start)
        return [places[place] for place in sorted(chosen)]

    def _protected(self, messages: PlainHistory, units: list[range]) -> set[int]:
        head = system_head(messages)
        head_cost = cost(messages[:head])
        if head_cost > self.max_tokens:
            raise BudgetExceeded("system_prompt", tokens=int(head_cost), limit=self.max_tokens)
        protected = set(range(head))
        if head < len(messages):
            newest = units[-1]
            if head_cost + cost(messages[newest.start : newest.stop]) <= self.max_tokens:
                protected.update(newest)
            else:
                logger.warning("the newest message is larger than %d tokens and goes too", self.max_tokens)
        return protected

    async def _insert_summaries(
        self,
        original_history: PlainHistory,
        selected_messages: list[tuple[int, PlainMessage]],
        *,
        summarize: bool = True,
    ) -> PlainHistory:
        """The selected messages with a summary or a notice in each gap, as far as there is room."""
        room = self.memory_config.limit_with_notices - cost(message for _, message in selected_messages)
        result: PlainHistory = []
        position = 0
        end = len(original_history)
        for index, kept in [*((index, [message]) for index, message in selected_messages), (end, [])]:
            if gap := original_history[position:index]:
                entries = await self._gap_entries(gap, room, summarize)
                room -= cost(entries)
                result += entries
            result += kept
            position = index + 1
        return result

    async def _gap_entries(self, gap: PlainHistory, room: float, summarize: bool) -> PlainHistory:
        notice = [_notice("memory.omitted", count=len(gap))]
        if cost(notice) > room:
            return []
        if not summarize or len(gap) < self.memory_config.min_gap_for_summary:
            return notice
        summary = [await self._summarize_gap(gap)]
        return summary if cost(summary) <= room else notice

    async def _summarize_gap(self, messages: PlainHistory) -> PlainMessage:
        """One message that stands for several: the model's summary, or a notice when it gives none."""
        removed = _notice("memory.removed", count=len(messages))
        if self.llm is None:
            return removed
        excerpts = (f"{m.get('role', '')}: {message_text(m)[:_EXCERPT_CHARACTERS]}" for m in messages)
        # As many characters as tokens fit: the question is at most half as large as the model's window.
        conversation = "\n\n".join(excerpts)[: self.max_tokens]
        try:
            answer = self.llm.chat(
                [{"role": "user", "content": text("memory.prompt", conversation=conversation)}],
                max_tokens=_SUMMARY_MAX_TOKENS,
                temperature=_SUMMARY_TEMPERATURE,
            )
            if inspect.isawaitable(answer):
                answer = await answer
        except Exception:
            # Whatever a client raises, the history must stay usable.
            logger.exception("summarizing %d messages failed", len(messages))
            return removed
        summary = _summary_in(answer)
        if not summary:
            logger.warning("the summarizer answered nothing for %d messages", len(messages))
            return removed
        entry = _notice("memory.summary", count=len(messages), summary=summary)
        return entry if cost([entry]) < cost(messages) else removed

    def _estimate_tokens(self, messages: PlainHistory) -> int:
        return int(cost(messages))


def _notice(key: str, count: int, summary: str = "") -> PlainMessage:
    return {"role": "assistant", "content": text(key, count=count, summary=summary)}


def _summary_in(answer: object) -> str:
    if isinstance(answer, str):
        try:
            parsed = json.loads(answer[answer.find("{") : answer.rfind("}") + 1])
        except ValueError:
            return answer.strip()
        answer = parsed
    if isinstance(answer, Mapping):
        answer = answer.get("summary")
    return answer.strip() if isinstance(answer, str) else ""


@dataclass(slots=True)
class AgentState:
    """The state of an agent that keeps its history in memory."""

    conversation_history: PlainHistory = field(default_factory=list)

    def add_message(self, role: str, content: str | None, **fields: Any) -> None:
        """Append a message; other fields of the provider's format may be added."""
        self.conversation_history.append({"role": role, "content": content, **fields})

    async def add_message_with_pruning(
        self, role: str, content: str | None, memory_manager: MemoryManager | None = None, **fields: Any
    ) -> None:
        """Append a message, then prune when ``memory_manager`` says so (never without one)."""
        self.add_message(role, content, **fields)
        if memory_manager is not None and memory_manager.should_prune(self.conversation_history):
            self.conversation_history, _ = await memory_manager.prune_history(self.conversation_history)
