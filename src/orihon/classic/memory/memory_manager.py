"""``MemoryManager``: keeps a plain list of messages within a number of tokens.

For agents that hold their history as a list of dicts and want no store. It chooses by importance what stays
and puts a summary or a notice where messages went. What it takes away is gone from the list: an agent that
must lose nothing uses ``TaskContextManager``.

Promises: leading system messages stay (or ``BudgetExceeded``); a tool call and its results stay or go
together; pruning never makes the list dearer; the numbers in notices and summaries add up to what is missing, however
often the list was pruned, as long as what must stay leaves room for one notice; a summarizer that fails, takes too
long, refuses, says nothing, something else or too much is replaced by a notice. ``PruneAction`` decides when,
``importance`` the score.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
import re
import time
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, partial
from typing import Any, Protocol, TypedDict

from orihon.compression.importance import ModelLike, ScoringConfig, importance, message_text
from orihon.compression.model.answer import judge
from orihon.compression.model.call import Failed, SummaryFailure, SummaryReply, read_reply, within
from orihon.compression.model.grounding import Ground
from orihon.compression.plain_history import PlainHistory, PlainMessage, cost, system_head, tool_units
from orihon.errors import BudgetExceeded, InvalidMessage, InvalidSettings
from orihon.texts import LANGUAGES, text
from orihon.values.message.message import Message

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


@dataclass(slots=True)
class MemoryConfig(ModelLike):
    """When to prune and how far; usages are shares of ``max_tokens``. What is set later is checked when it counts."""

    max_tokens: int = 8000
    pruning_threshold: float = 0.8
    target_usage: float = 0.7
    enable_summarization: bool = True
    min_gap_for_summary: int = 5
    warning_threshold: float = 0.6
    summary_threshold: float = 0.9
    summary_timeout: float = 30.0  # seconds for all summaries of one pruning

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        if not self.summary_timeout > 0:
            raise InvalidSettings("memory_timeout", actual=self.summary_timeout)
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
        self._check()
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
        config: ScoringConfig | MemoryConfig | None = None,
        memory_config: MemoryConfig | None = None,
    ) -> None:
        """``max_tokens``, when given, wins over the one in ``memory_config``; 8,000 when neither says.

        A ``MemoryConfig`` given as ``config`` is taken for what it is.
        """
        if isinstance(config, MemoryConfig) and memory_config is None:
            config, memory_config = None, config
        self.llm = llm_client
        self.config: ScoringConfig = _checked("config", config, ScoringConfig) or ScoringConfig()
        self.memory_config: MemoryConfig = _checked("memory_config", memory_config, MemoryConfig) or MemoryConfig()
        if max_tokens is not None:
            self.memory_config = replace(self.memory_config, max_tokens=max_tokens)
        self.prune_count = 0
        self._left_behind: asyncio.Future[Any] | None = None  # a call that did not end when its time was over

    @property
    def max_tokens(self) -> int:
        return self.memory_config.max_tokens

    @max_tokens.setter
    def max_tokens(self, tokens: int) -> None:
        self.memory_config = replace(self.memory_config, max_tokens=tokens)

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
        return await self._pruned(conversation_history, ask=True)

    def prune_now(self, conversation_history: PlainHistory) -> tuple[PlainHistory, PruneStats]:
        """The same for who cannot wait; inside a running event loop with notices in place of summaries."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.prune_history(conversation_history))
        try:
            self._pruned(conversation_history, ask=False).send(None)
        except StopIteration as done:  # who asks no model never waits
            pruned: tuple[PlainHistory, PruneStats] = done.value
            return pruned
        raise AssertionError("a pruning without a model has waited")

    async def _pruned(self, conversation_history: PlainHistory, *, ask: bool) -> tuple[PlainHistory, PruneStats]:
        original_tokens = self._estimate_tokens(conversation_history)
        action = self.memory_config.action(original_tokens)
        stats = PruneStats(pruned=False, original_count=len(conversation_history), original_tokens=original_tokens)
        if not action.prunes:
            return conversation_history, stats

        self.prune_count += 1
        # A mere notice is worth nothing by itself: what it counts is counted by the one that stands there next.
        scored = [one for one in self._score_messages(conversation_history) if not Omission.read(one[2]).is_notice]
        scored.sort(reverse=True, key=lambda item: item[0])
        selected = self._select_within_budget(scored, self.memory_config.target_tokens)
        if action is PruneAction.EMERGENCY:
            logger.warning("emergency pruning: %d tokens, limit %d", original_tokens, self.max_tokens)
        summarize = ask and action is not PruneAction.EMERGENCY and self.memory_config.enable_summarization
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
        """The selected messages with a summary or a notice in each gap, as far as there is room.

        What finds no room is counted by the next notice, or by the last one.
        """
        room = self.memory_config.limit_with_notices - cost(message for _, message in selected_messages)
        ends_at = time.monotonic() + self.memory_config.summary_timeout
        result: PlainHistory = []
        last: tuple[int, Omission] | None = None  # where it stands
        last_gap = position = uncounted = 0
        end = len(original_history)
        for index, kept in [*((index, [message]) for index, message in selected_messages), (end, [])]:
            if gap := original_history[position:index]:
                uncounted += sum(Omission.read(message).count for message in gap)
                last_gap = len(result)
                found = await self._omission(gap, uncounted, room, ends_at if summarize else None)
                if found is not None:
                    last, uncounted = (len(result), found), 0
                    room -= cost([found.message])
                    result.append(found.message)
            result += kept
            position = index + 1
        if uncounted and last is not None:
            result[last[0]] = replace(last[1], count=last[1].count + uncounted).message
        elif uncounted:
            notice = Omission("memory.omitted", uncounted).message
            if cost([*result, notice]) <= min(self.max_tokens, cost(original_history)):
                result.insert(last_gap, notice)
        return result

    async def _omission(self, gap: PlainHistory, count: int, room: float, ends_at: float | None) -> Omission | None:
        """What stands for a gap: a summary if there is time for one, or a notice; nothing where neither has room."""
        notice = Omission("memory.omitted", count)
        if cost([notice.message]) > room:
            return None
        new = sum(not Omission.read(message).is_notice for message in gap)
        if ends_at is None or new < self.memory_config.min_gap_for_summary:
            return notice
        summary = replace(Omission.read(await self._summarize_gap(gap, ends_at=ends_at)), count=count)
        return summary if cost([summary.message]) <= room else notice

    async def _summarize_gap(self, messages: PlainHistory, *, ends_at: float | None = None) -> PlainMessage:
        """One message that stands for several: the model's summary, or a notice when it gives none in time."""
        count = sum(Omission.read(message).count for message in messages)
        removed = Omission("memory.removed", count).message
        if self.llm is None:
            return removed
        if ends_at is None:
            ends_at = time.monotonic() + self.memory_config.summary_timeout
        summary = await self._judged(self.llm, messages, ends_at)
        if isinstance(summary, Failed):
            logger.warning("no summary of %d messages (%s): %s", count, summary.reason, summary.detail or "no detail")
            return removed
        entry = Omission("memory.summary", count, summary).message
        return entry if cost([entry]) < cost(messages) else removed

    async def _judged(self, llm: MemoryChatClient, messages: PlainHistory, ends_at: float) -> str | Failed:
        """The model's summary, if it is one."""
        excerpts = (f"{m.get('role', '')}: {message_text(m)[:_EXCERPT_CHARACTERS]}" for m in messages)
        # As many characters as tokens fit: the question is at most half as large as the model's window.
        conversation = "\n\n".join(excerpts)[: self.max_tokens]
        answer = await self._answer(llm, text("memory.prompt", conversation=conversation), ends_at)
        reply = answer if isinstance(answer, Failed) else _summary_in(answer)
        if isinstance(reply, Failed):
            return reply
        readable = list(_readable(messages))
        most = int(cost(messages)) + len(reply.text)  # whether it is too long is seen at the whole entry
        return judge(
            reply,
            ground=Ground(readable, range(1, len(readable) + 1)),
            instructions=text("memory.prompt", conversation=""),
            input_tokens=most,
            max_tokens=most,
            count=len,
        )

    async def _answer(self, llm: MemoryChatClient, question: str, ends_at: float) -> object:
        """What the client answers in time, or ``Failed``; one that hangs is not called again before it is back."""
        if self._left_behind is not None and not self._left_behind.done():
            return Failed(SummaryFailure.BUSY, "the client has not come back from an earlier call")
        asked = [{"role": "user", "content": question}]
        ask = partial(llm.chat, asked, max_tokens=_SUMMARY_MAX_TOKENS, temperature=_SUMMARY_TEMPERATURE)
        answer: object
        if inspect.iscoroutinefunction(llm.chat):
            answer = ask() if ends_at > time.monotonic() else Failed(SummaryFailure.TIMED_OUT)
        else:
            answer = await asyncio.to_thread(within, ends_at - time.monotonic(), llm, ask)
        return await self._awaited(answer, ends_at) if inspect.isawaitable(answer) else answer

    async def _awaited(self, answer: Awaitable[object], ends_at: float) -> object:
        task = asyncio.ensure_future(answer)
        try:
            await asyncio.wait({task}, timeout=max(ends_at - time.monotonic(), 0))
        finally:
            if not task.done():
                task.cancel()
                self._left_behind = task
        if not task.done():
            return Failed(SummaryFailure.TIMED_OUT)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or error is not None:
            return Failed(SummaryFailure.RAISED, repr(error) if error else "the client was cancelled")
        return task.result()

    def _estimate_tokens(self, messages: PlainHistory) -> int:
        return int(cost(messages))


@dataclass(frozen=True, slots=True)
class Omission:
    """What stands in a history for messages that are gone. Every other message stands for itself."""

    key: str
    count: int
    summary: str = ""

    @property
    def message(self) -> PlainMessage:
        return {"role": "assistant", "content": text(self.key, count=self.count, summary=self.summary)}

    @property
    def is_notice(self) -> bool:
        """Whether it says no more than how many are gone."""
        return self.key in ("memory.omitted", "memory.removed")

    @classmethod
    def read(cls, message: PlainMessage) -> Omission:
        """What a message of a history is, whatever language it was written in."""
        content = message.get("content")
        if message.get("role") == "assistant" and isinstance(content, str) and content.startswith("["):
            for key, pattern in _omissions():
                if found := pattern.fullmatch(content):
                    return cls(key, int(found["count"]), found.groupdict().get("summary", ""))
        return cls("", 1)


@cache
def _omissions() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """The texts of all omissions, to be recognised."""
    keys = ("memory.omitted", "memory.removed", "memory.summary")
    return tuple(
        (
            key,
            re.compile(
                re.escape(written).replace("0000", "(?P<count>[0-9]{1,9})").replace("1111", "(?P<summary>.*)"), re.S
            ),
        )
        for key in keys
        for lang in LANGUAGES
        for written in [text(key, lang=lang, count="0000", summary="1111")]
    )


def _checked(name: str, given: object, wanted: type[Any]) -> Any:
    if given is not None and not isinstance(given, wanted):
        raise InvalidSettings("memory_class", name=name, wanted=wanted.__name__, actual=type(given).__name__)
    return given


def _summary_in(answer: object) -> SummaryReply | Failed:
    """The summary in whatever a client answers: a mapping that has it, the same as JSON, or the bare text."""
    if isinstance(answer, Mapping) and "summary" in answer:
        return read_reply(answer["summary"])
    reply = read_reply(answer)
    if isinstance(reply, Failed):
        return reply
    said = reply.text
    try:
        parsed = json.loads(said[said.find("{") : said.rfind("}") + 1])
    except (ValueError, RecursionError):
        is_torn = _SUMMARY_FIELD.search(said) is not None
        return Failed(SummaryFailure.NOT_TEXT, said[:_EXCERPT_CHARACTERS]) if is_torn else reply
    return (
        read_reply(parsed["summary"])
        if "summary" in parsed
        else Failed(SummaryFailure.NOT_TEXT, said[:_EXCERPT_CHARACTERS])
    )


_SUMMARY_FIELD = re.compile(r"""["']summary["']\s*:""")


def _readable(messages: PlainHistory) -> Iterator[Message]:
    """The messages as far as they can be read."""
    for message in messages:
        try:
            yield from Message.from_chat(message).as_chat()
        except InvalidMessage:
            yield Message("assistant", message_text(message))


@dataclass(slots=True)
class AgentState(ModelLike):
    """The state of an agent that keeps its history in memory, within the limits of its manager if it has one."""

    conversation_history: PlainHistory = field(default_factory=list)
    memory_manager: MemoryManager | None = field(default=None, repr=False, compare=False)

    def model_dump(self) -> dict[str, Any]:
        return {"conversation_history": copy.deepcopy(self.conversation_history)}

    def add_message(
        self, role: str, content: str | None, memory_manager: MemoryManager | None = None, **fields: Any
    ) -> None:
        """Append a message, then prune when the manager says so; other fields of the provider's format may be added.

        Inside a running event loop ``add_message_with_pruning`` is the one that has summaries written.
        """
        self.conversation_history.append({"role": role, "content": content, **fields})
        manager = memory_manager or self.memory_manager
        if manager is not None and manager.should_prune(self.conversation_history):
            self.conversation_history, _ = manager.prune_now(self.conversation_history)

    async def add_message_with_pruning(
        self, role: str, content: str | None, memory_manager: MemoryManager | None = None, **fields: Any
    ) -> None:
        """Append a message, then prune when the manager says so (never without one)."""
        self.conversation_history.append({"role": role, "content": content, **fields})
        manager = memory_manager or self.memory_manager
        if manager is not None and manager.should_prune(self.conversation_history):
            self.conversation_history, _ = await manager.prune_history(self.conversation_history)
