"""The messages of one task that have some of the words: by the index where that can be used, else by reading the log.

Both ways find the same and put it in the same order: more of the words first, then the newer message.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
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


def ranked_messages(
    store: TaskStore, settings: Settings, query: Query, *, check: Callable[[], None] = lambda: None
) -> list[int]:
    """The numbers of the messages with at least one of the words, the best first; ``check`` is asked now and then."""
    counts = None if store.records.is_sealed else _by_index(store.records.folder, settings, query)
    if counts is None:
        counts = Counter(dict(_by_reading(store, query, check)))
    return [seq for seq, _ in sorted(counts.items(), key=lambda each: (each[1], each[0]), reverse=True)]


def count_terms(text: str, query: Query) -> int:
    """How many of the terms a text has."""
    words, whole_words = text_tokens(text)
    return sum(term.is_in(words, whole_words) for term in query.wanted)


def _by_reading(store: TaskStore, query: Query, check: Callable[[], None]) -> Iterator[tuple[int, int]]:
    for document in documents(store, "message"):
        check()
        hits = count_terms(document.text, query)
        if hits:
            yield document.number, hits


def _by_index(folder: Path, settings: Settings, query: Query) -> Counter[int] | None:
    """``None`` where there is no index for this task, or none that is up to date."""
    base_path = base_above(folder)
    if base_path is None:
        return None

    def action(index: SearchIndex) -> Counter[int] | None:
        with index.turn(_WAIT) as is_ours:
            if not is_ours or not CatchingUp(base, index, seconds=_CATCH_UP).run_one(folder.name):
                return None
        if folder.name not in index.marks([folder.name]) or folder.name in index.problems():
            return None
        return _counted(index, folder.name, query)

    try:
        with OpenBase(base_path, settings) as base:
            return None if base.open_catalogue() is None else with_index(base, action)
    except OrihonError as error:
        logger.info("%s: its log is read, the index cannot be used: %s", folder.name, error)
        return None


def _counted(index: SearchIndex, uuid: str, query: Query) -> Counter[int]:
    counts: Counter[int] = Counter()
    for term in query.wanted:
        found = index.find(Query((term,)), Filters(tasks=(uuid,), kinds=("message",)), _MOST)
        counts.update(candidate.number for candidate in found)
    return counts
