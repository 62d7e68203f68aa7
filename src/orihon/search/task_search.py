"""The messages of one task that have some of the words: by the index where that can be used, else by reading the log.

Both ways find the same and put it in the same order: more of the words first, rare ones counting more, then the newer
message.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from orihon.errors import OrihonError
from orihon.search.documents import documents
from orihon.search.index import Filters, SearchIndex, text_tokens
from orihon.search.indexer import CatchingUp
from orihon.search.maintenance import with_index
from orihon.search.query import Query
from orihon.settings import Settings
from orihon.store.task_store import TaskStore
from orihon.tasks.base import OpenBase
from orihon.tasks.place import base_above

logger = logging.getLogger("orihon.search")

#: Seconds for what is new in the task; an index that needs longer is not worth waiting for.
_WAIT, _CATCH_UP = 0.5, 5.0
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class RankedMessages:
    """The numbers of messages, the best first, and what each of the wanted terms is worth: few have a dear one."""

    seqs: Sequence[int]
    worth: Sequence[float]


def ranked_messages(
    store: TaskStore, settings: Settings, query: Query, *, check: Callable[[], None] = lambda: None
) -> RankedMessages:
    """The messages with at least one of the words; ``check`` is asked now and then."""
    having = None if store.records.is_sealed else _by_index(store.records.folder, settings, query)
    if having is None:
        having = _by_reading(store, query, check)
    total = store.count("messages")
    worth = [math.log(1 + total / (len(seqs) + 0.5)) for seqs in having]
    scores: dict[int, float] = {}
    for seqs, value in zip(having, worth, strict=True):
        for seq in seqs:
            scores[seq] = scores.get(seq, 0.0) + value
    ranked = sorted(scores, key=lambda seq: (round(scores[seq], 6), seq), reverse=True)
    return RankedMessages(ranked, worth)


def worth_of(text: str, query: Query, worth: Sequence[float]) -> float:
    """What the terms are worth together that a text has."""
    words, whole_words = text_tokens(text)
    wanted = zip(query.wanted, worth, strict=True)
    return sum(value for term, value in wanted if term.is_in(words, whole_words))


_Having = list[list[int]]  # for each of the wanted terms the messages that have it


def _by_reading(store: TaskStore, query: Query, check: Callable[[], None]) -> _Having:
    having: _Having = [[] for _ in query.wanted]
    for document in documents(store, "message"):
        check()
        words, whole_words = text_tokens(document.text)
        for term, seqs in zip(query.wanted, having, strict=True):
            if term.is_in(words, whole_words):
                seqs.append(document.number)
    return having


def _by_index(folder: Path, settings: Settings, query: Query) -> _Having | None:
    """``None`` where there is no index for this task, or none that is up to date."""
    base_path = base_above(folder)
    if base_path is None:
        return None

    def action(index: SearchIndex) -> _Having | None:
        with index.turn(_WAIT) as is_ours:
            if not is_ours or not CatchingUp(base, index, seconds=_CATCH_UP).run_one(folder.name):
                return None
        if folder.name not in index.marks([folder.name]) or folder.name in index.problems():
            return None
        task = Filters(tasks=(folder.name,), kinds=("message",))
        terms = (Query((term,)) for term in query.wanted)
        return [[candidate.number for candidate in index.find(term, task, _MOST)] for term in terms]

    try:
        with OpenBase(base_path, settings) as base:
            return None if base.open_catalogue() is None else with_index(base, action)
    except OrihonError as error:
        logger.info("%s: its log is read, the index cannot be used: %s", folder.name, error)
        return None
