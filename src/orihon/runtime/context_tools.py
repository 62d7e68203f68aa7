"""``context_recall`` and ``context_read``: the task's own past, also what is folded away.

Recall searches the whole log for words and tells where they are; read gives back a message, the messages under a fold,
or an output that was cut, line by line. Both only read, one message at a time. Earlier recalls are not found again:
they hold every word that was ever asked for.
"""

from __future__ import annotations

import heapq
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from orihon.errors import ToolFailed
from orihon.message import Message
from orihon.records import Fold
from orihon.runtime.builtin_tools import BuiltinTool, Deadline
from orihon.runtime.tool import Answer
from orihon.runtime.tool_arguments import Arguments
from orihon.runtime.tool_output import KeptOutputs, excerpt
from orihon.store import MessageStore
from orihon.texts import text

RECALL = "context_recall"
_AROUND = 120  # characters on either side of a word that was found
_MOST_WORDS = 16


def context_tools(messages: MessageStore, limit: int) -> list[BuiltinTool]:
    """The tools over one task's past."""
    past = _Past(messages, limit)
    return [
        BuiltinTool(
            "recall",
            "Search the whole history of this task, also what has been folded away, for words. "
            "Gives message numbers (seq) with excerpts; read one with context_read.",
            {
                "query": {"type": "string", "description": "Words; messages with more of them come first."},
                "limit": {"type": "integer", "description": "At most so many messages. Default: 10."},
            },
            past.recall,
            ["query"],
        ),
        BuiltinTool(
            "read",
            "Read a message of this task's history, the messages that a fold stands for, or a tool output that was "
            "cut. Give exactly one of seq, fold and output.",
            {
                "seq": {"type": "integer", "description": "Number of a message."},
                "fold": {"type": "integer", "description": "Number of a fold."},
                "output": {"type": "string", "description": "Name of a kept output, as the cut result names it."},
                "lines": {"type": "string", "description": 'Lines, counted from 1: "10-20", "10-". Default: all.'},
            },
            past.read,
        ),
    ]


class _Past:
    def __init__(self, messages: MessageStore, limit: int) -> None:
        self._messages = messages
        self._outputs = KeptOutputs(messages)
        self._limit = limit

    def recall(self, arguments: Arguments, deadline: Deadline) -> Answer:
        words = _words(arguments.text("query"))
        if not words:
            raise ToolFailed("argument_missing", name="query")
        most = arguments.number("limit", 10, most=100)
        found = heapq.nlargest(most, self._matches(words, deadline))
        if not found:
            return Answer(text("tools.nothing_found"))
        folds, _ = self._messages.task_store.state()
        told = [self._told(seq, words, folds) for _, seq in found]
        return Answer(excerpt("\n".join(told).split("\n"), 1, None, self._limit).told())

    def _matches(self, words: Sequence[str], deadline: Deadline) -> Iterator[tuple[int, int]]:
        """How many of the words a message has, and its number."""
        recalls: set[str] = set()
        for stored in self._messages.get_messages():
            deadline.check(RECALL)
            recalls.update(call.id for call in stored.message.tool_calls if call.name == RECALL)
            if stored.message.tool_call_id in recalls:
                continue
            content = _normal("\n".join(_searched(stored.message)))
            hits = sum(word in content for word in words)
            if hits:
                yield hits, stored.seq

    def _told(self, seq: int, words: Sequence[str], folds: Sequence[Fold]) -> str:
        message = self._messages.get_message(seq).message
        plain = " ".join("\n".join(_searched(message)).split())
        normal = _normal(plain)
        at = min((place for word in words if (place := normal.find(word)) >= 0), default=0)
        # Normal forms may be longer or shorter; the place is near enough for an excerpt.
        start = max(min(at, len(plain) - 1) - _AROUND, 0)
        shown = plain[start : at + _AROUND]
        lead, trail = "…" if start else "", "…" if at + _AROUND < len(plain) else ""
        number = _fold_of(seq, folds)
        where = text("tools.recalled_folded", fold=number) if number else ""
        return f"seq {seq} {message.role}{where}: {lead}{shown}{trail}"

    def read(self, arguments: Arguments, deadline: Deadline) -> Answer:
        given = [name for name in ("seq", "fold", "output") if name in arguments]
        if len(given) != 1:
            raise ToolFailed("one_of", names="seq, fold, output")
        first, last = arguments.lines("lines")
        match given[0]:
            case "seq":
                lines = _rendered([self._messages.get_message(arguments.number("seq")).message])
            case "fold":
                lines = self._fold_lines(arguments.number("fold"))
            case _:
                lines = self._outputs.lines(arguments.text("output"))
        found = excerpt(lines, first, last, self._limit)
        if not found.lines:
            raise ToolFailed("no_lines", path=given[0], first=first)
        return Answer(found.told(), is_cut=found.is_cut)

    def _fold_lines(self, number: int) -> Iterator[str]:
        store = self._messages.task_store
        if not 1 <= number <= store.count("summaries"):
            raise ToolFailed("no_fold", fold=number, last=store.count("summaries"))
        fold = store.folds([number])[0]
        for stored in self._messages.get_messages(fold.start_seq, fold.end_seq):
            yield f"[seq {stored.seq} {stored.message.role}]"
            yield from _rendered([stored.message])


def _words(query: str) -> list[str]:
    return list(dict.fromkeys(_normal(query).split()))[:_MOST_WORDS]


def _normal(content: str) -> str:
    return unicodedata.normalize("NFKC", content).casefold()


def _searched(message: Message) -> Iterator[str]:
    """What recall looks at: texts and calls, but for its own calls."""
    yield message.text
    for call in message.tool_calls:
        if call.name != RECALL:
            yield f"{call.name} {call.arguments}"


def _rendered(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        if message.text:
            yield from message.text.split("\n")
        for call in message.tool_calls:
            yield from f"→ {call.name} {call.arguments}".split("\n")


def _fold_of(seq: int, folds: Sequence[Fold]) -> int | None:
    place = bisect_right(folds, seq, key=lambda fold: fold.start_seq) - 1
    return folds[place].id if place >= 0 and folds[place].end_seq >= seq else None
