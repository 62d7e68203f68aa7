"""Searching tasks that are sealed: nothing of them is in the index, so they are read.

An index of their words on the disk would say what they say. Costs the reading of every sealed task that the filters
leave; those in archives are not found. The marks are as the index gives them, near enough to stand in one list.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from orihon.drivers.postgres import postgres_of
from orihon.errors import OrihonError
from orihon.search.documents import KINDS, Document, documents
from orihon.search.index import MOST_CANDIDATES, Candidate, Filters, text_tokens
from orihon.search.query import Query
from orihon.store.contract import SEALED
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace

#: How often a task that moves from folder to folder is looked for.
_LOOKS = 10


@dataclass(slots=True)
class SealedMatches:
    """What was found by reading, and which tasks could not be read; not whole when there was no time for all."""

    candidates: list[Candidate] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    is_whole: bool = True


def find_in_sealed(base: OpenBase, query: Query, filters: Filters, seconds: float = math.inf) -> SealedMatches:
    """The documents of sealed tasks that have what is asked for."""
    found = SealedMatches()
    if base.settings.encryption.key is None or not query.wanted:
        return found
    give_up = time.monotonic() + seconds
    for uuid in sealed_tasks(base):
        if filters.tasks and uuid not in filters.tasks:
            continue
        if time.monotonic() >= give_up:
            found.is_whole = False
            break
        try:
            found.candidates += _patiently(base, uuid, query, filters)
        except OrihonError as error:
            found.problems[uuid] = error.cause
        if len(found.candidates) > MOST_CANDIDATES:
            break
    return found


def _patiently(base: OpenBase, uuid: str, query: Query, filters: Filters) -> list[Candidate]:
    """The matches of one task, whose owner may move its folder meanwhile."""
    for _ in range(_LOOKS - 1):
        folder = base.folders.find(uuid)
        try:
            return list(_of_task(base, uuid, query, filters))
        except OrihonError:
            if base.folders.find(uuid) == folder:
                raise
    return list(_of_task(base, uuid, query, filters))


def sealed_tasks(base: OpenBase) -> list[str]:
    """Every task with records here that are sealed."""
    here = (place for place in base.folders.all() if not place.is_in_database)
    named = [place.uuid for place in here if _is_sealed(base, place)]
    if base.settings.database.url is not None:
        from orihon.store.postgres_moving import tasks_with_file

        named += tasks_with_file(postgres_of(base.settings), SEALED)
    return named


def _is_sealed(base: OpenBase, place: TaskPlace) -> bool:
    here: TaskPlace | None = place
    for _ in range(_LOOKS):
        if here is None:
            return False
        if (here.folder / SEALED).exists():
            return True
        if here.folder.exists():
            return False
        here = base.folders.find(place.uuid)  # its owner has moved it
    return False


def _of_task(base: OpenBase, uuid: str, query: Query, filters: Filters) -> Iterator[Candidate]:
    folder = base.folders.find(uuid)
    if folder is None:
        return
    with closing(base.read_store(folder)) as store:
        for kind in filters.kinds or KINDS:
            for document in documents(store, kind):
                if _is_wanted(document, filters) and (score := _score(document.text, query)):
                    yield Candidate(uuid, kind, document.number, document.time, document.role, score)


def _is_wanted(document: Document, filters: Filters) -> bool:
    return (
        (not filters.roles or document.role in filters.roles)
        and (not filters.tools or bool(set(document.tools) & set(filters.tools)))
        and filters.since <= document.time
        and (not filters.until or document.time < filters.until)
    )


def _score(text: str, query: Query) -> float:
    """0 where the text is none that is asked for; more for more of the words in a shorter text."""
    words, whole_words = text_tokens(text)
    if not query.matches(words, whole_words):
        return 0.0
    counts = (max(sum(1 for _ in term.places(words)), 1) for term in query.wanted if term.is_in(words, whole_words))
    return sum(count / (count + 1.0) for count in counts) / (1.0 + math.log1p(len(words)) / 10)
