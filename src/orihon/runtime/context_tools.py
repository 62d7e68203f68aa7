"""``context_recall`` and ``context_read``: the task's own past, also what is folded away.

Recall searches the whole log for words and tells where they are; read gives back a message, the messages under a fold,
or an output that was cut, line by line. Both only read the task, one message at a time. Words are found as ``orihon
search`` finds them, by the same index where there is one. Earlier recalls are not found again: they hold every word
that was ever asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from orihon.errors import ToolFailed
from orihon.runtime.builtin_tools import BuiltinTool, Deadline
from orihon.runtime.tool import Arguments, KeptOutputs, ServerAnswer, excerpt
from orihon.search.documents import Document, find_document, message_text
from orihon.search.history import fold_of
from orihon.search.query import Query, parse_query
from orihon.search.snippets import Snippet, make_snippet
from orihon.search.task_search import ranked_messages, worth_of
from orihon.store import TaskMessages
from orihon.texts import text
from orihon.values.message.message import Message
from orihon.values.records import Fold

RECALL = "context_recall"
_EXCERPT = 400  # characters: most statements, with what stands around them
_MOST_WORDS = 16
#: So many more messages are looked at than wanted: the words may stand far from each other in a long one.
_SPARE = 30
#: What a word is worth that stands elsewhere in the message, to one in its excerpt.
_ELSEWHERE = 0.3


def context_tools(messages: TaskMessages, limit: int) -> list[BuiltinTool]:
    """The tools over one task's past; from now on its folds name them."""
    past = _Past(messages, limit)
    messages.has_recall = True
    return [
        BuiltinTool(
            "recall",
            "Search the whole history of this task, also what has been folded away, for words. "
            "Gives message numbers (seq) with excerpts; read more with context_read.",
            {
                "query": {"type": "string", "description": "Words, in the language in which they were said."},
                "limit": {"type": "integer", "description": "At most so many messages. Default: 10."},
            },
            past.recall,
            ["query"],
        ),
        BuiltinTool(
            "read",
            "Read messages of this task's history word for word, also folded ones, or a tool output that was cut. "
            "Give exactly one of seq, fold and output.",
            {
                "seq": {"type": "string", "description": 'Number of a message, or of several: "12", "12-20".'},
                "fold": {"type": "integer", "description": "Number of a fold."},
                "output": {"type": "string", "description": "Name of a kept output, as the cut result names it."},
                "lines": {"type": "string", "description": 'Lines, counted from 1: "10-20", "10-". Default: all.'},
            },
            past.read,
        ),
    ]


class _Past:
    def __init__(self, messages: TaskMessages, limit: int) -> None:
        self._messages = messages
        self._outputs = KeptOutputs(messages)
        self._limit = limit

    def recall(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        asked = arguments.text("query")
        if not asked.strip():
            raise ToolFailed("argument_missing", name="query")
        most = arguments.number("limit", 10, most=100)
        query = Query(parse_query(_plain(asked), any_term=True).terms[:_MOST_WORDS], any_term=True)
        found = self._found(query, most, deadline)
        if not found:
            return ServerAnswer(text("tools.nothing_found"))
        folds, _ = self._messages.task_store.state()
        told = [self._told(document, snippet, folds) for document, snippet in found]
        return ServerAnswer(excerpt("\n".join(told).split("\n"), 1, None, self._limit).told())

    def _found(self, query: Query, most: int, deadline: Deadline) -> list[tuple[Document, Snippet]]:
        """The best messages: many of the words, the rare ones, close together. What was said twice comes once.

        What only an earlier recall says, or was asked, does not count.
        """
        store = self._messages.task_store
        ranked = ranked_messages(store, self._messages.settings, query, check=lambda: deadline.check(RECALL))
        found: list[tuple[float, int, Document, Snippet]] = []
        for seq in ranked.seqs:
            deadline.check(RECALL)
            document = self._document(seq)
            value = 0.0 if document is None else worth_of(document.text, query, ranked.worth)
            if document is not None and value:
                snippet = make_snippet(document.text, query, length=_EXCERPT, worth=ranked.worth)
                value = worth_of(snippet.text, query, ranked.worth) + _ELSEWHERE * value
                found.append((round(value, 6), seq, document, snippet))
            if len(found) == most + _SPARE:
                break
        different: dict[str, tuple[Document, Snippet]] = {}
        for _, _, document, snippet in sorted(found, key=lambda each: each[:2], reverse=True):
            different.setdefault(snippet.text, (document, snippet))
        return list(different.values())[:most]

    def _document(self, seq: int) -> Document | None:
        """What recall looks at: texts and calls, but for its own calls and their results."""
        document = find_document(self._messages.task_store, "message", seq)
        if document is None or RECALL not in document.tools:
            return document
        if document.role == "tool":
            return None
        message = self._messages.get_message(seq).message
        return replace(document, text=message_text(message, lambda tool: tool != RECALL))

    def _told(self, document: Document, snippet: Snippet, folds: Sequence[Fold]) -> str:
        shown = " ".join(snippet.text.split())
        lead, trail = "" if snippet.is_start else "…", "" if snippet.is_end else "…"
        number = fold_of(document.number, folds)
        where = text("tools.recalled_folded", fold=number) if number else ""
        return f"seq {document.number} {document.role}{where}: {lead}{shown}{trail}"

    def read(self, arguments: Arguments, deadline: Deadline) -> ServerAnswer:
        given = [name for name in ("seq", "fold", "output") if name in arguments]
        if len(given) != 1:
            raise ToolFailed("one_of", names="seq, fold, output")
        first, last = arguments.lines("lines")
        match given[0]:
            case "seq":
                lines = self._messages_lines(*arguments.lines("seq"))
            case "fold":
                lines = self._fold_lines(arguments.number("fold"))
            case _:
                lines = self._outputs.lines(arguments.text("output"))
        found = excerpt(lines, first, last, self._limit)
        if not found.lines:
            raise ToolFailed("no_lines", path=given[0], first=first)
        return ServerAnswer(found.told(), is_cut=found.is_cut)

    def _messages_lines(self, first: int, last: int | None) -> Iterator[str]:
        alone = self._messages.get_message(first).message  # tells what there is if not this
        return _rendered([alone]) if last == first else self._run_lines(first, last)

    def _fold_lines(self, number: int) -> Iterator[str]:
        store = self._messages.task_store
        if not 1 <= number <= store.count("summaries"):
            raise ToolFailed("no_fold", fold=number, last=store.count("summaries"))
        fold = store.folds([number])[0]
        return self._run_lines(fold.start_seq, fold.end_seq)

    def _run_lines(self, first: int, last: int | None) -> Iterator[str]:
        for stored in self._messages.get_messages(first, last):
            yield f"[seq {stored.seq} {stored.message.role}]"
            yield from _rendered([stored.message])


def _plain(asked: str) -> str:
    """Words as a model writes them: a minus before one is no wish to leave it out."""
    return " ".join(word.lstrip("-") for word in asked.split())


def _rendered(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        if message.text:
            yield from message.text.split("\n")
        for call in message.tool_calls:
            yield from f"→ {call.name} {call.arguments}".split("\n")
