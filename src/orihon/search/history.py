"""``search_history``: find words in everything that the tasks of a base folder have said and done.

The index is caught up first, then asked; the best matches are read from the tasks themselves, with what has become of
them since: folded or not. Only reads the tasks, without a lease, also while agents work on them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from typing import cast

from orihon.audit.trail import audit_of
from orihon.catalogue import TaskRow
from orihon.catalogue.rows import CLEANED
from orihon.errors import InvalidInput, OrihonError
from orihon.search.documents import KINDS, DocumentKind, find_document
from orihon.search.index import MOST_CANDIDATES, Candidate, Changes, Filters, SearchIndex, text_tokens
from orihon.search.indexer import CatchingUp
from orihon.search.maintenance import with_index
from orihon.search.query import Query, parse_query
from orihon.search.sealed import find_in_sealed
from orihon.search.snippets import Snippet, make_snippet
from orihon.store.task_store import TaskStore
from orihon.system import ProgressObserver
from orihon.system.clock import as_typed
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.values.records import Fold
from orihon.values.task import shortened

#: So many tasks of a user or a repository are looked at, the newest.
MOST_TASKS = 1000
#: So long another process that is catching up is waited for; then what is there has to do.
_WAIT = 2.0
#: How much more a document of this moment counts than one of long ago, and in how many days half of that is gone.
_RECENCY, _HALF_LIFE = 0.5, 30.0
_MOST_TOLD = 50  # tasks that the audit names


@dataclass(frozen=True, slots=True)
class SearchHit(AsJson):
    """One match, as it is now. ``number`` counts within its kind: of a message it is its ``seq``."""

    json_fields = (
        "task=uuid label status kind seq=number time|null role|null tools score=rounded_score folded=is_folded "
        "fold covers text=snippet.text highlights cut=snippet.cut"
    )

    uuid: str
    label: str
    status: str
    kind: DocumentKind
    number: int
    time: str
    role: str
    tools: tuple[str, ...]
    score: float
    snippet: Snippet | None  # None: the text is in an archive, or on another machine
    fold: int | None = None  # the fold that stands for the message in the view, if one does
    covers: tuple[int, int] | None = None  # the messages that a summary is about

    @property
    def is_folded(self) -> bool:
        return self.fold is not None

    @property
    def rounded_score(self) -> float:
        return round(self.score, 4)

    @property
    def highlights(self) -> tuple[tuple[int, int], ...]:
        return () if self.snippet is None else self.snippet.highlights


@dataclass(frozen=True, slots=True)
class SearchResults(AsJson):
    """What was found, the best first."""

    json_fields = "matches has_more current=is_current problems hits"

    hits: tuple[SearchHit, ...] = ()
    matches: int = 0  # documents that have what was asked for
    has_more: bool = False  # there are more matches than were counted and ranked
    is_current: bool = True  # False: the index was still being made, by us without time or by another process
    problems: Mapping[str, str] = field(default_factory=dict)  # tasks that could not be read to their end, and why


def search_history(
    base: OpenBase,
    query: str,
    *,
    tasks: Iterable[str] = (),
    roles: Iterable[str] = (),
    tools: Iterable[str] = (),
    kinds: Iterable[str] = (),
    users: Sequence[str] = (),
    repositories: Sequence[str] = (),
    since: str | None = None,
    until: str | None = None,
    limit: int = 20,
    seconds: float | None = None,
    progress: ProgressObserver | None = None,
) -> SearchResults:
    """The messages, summaries, tool calls and plans that have all words of the query, the best ``limit`` of them.

    ``query``: words, ``"phrases"``, ``-without``, ``beginning*``. ``tasks`` are named as on the command line (UUID, its
    beginning, ``owner/repo#27``, ``@last``). Of ``users`` and ``repositories`` the newest ``MOST_TASKS`` tasks are
    looked at. ``since`` and ``until`` are times in ISO 8601 or how long ago (``7d``, ``12h``). ``seconds`` limits how
    long the index is caught up before; what is missing then is said by ``is_current``.
    ``progress`` observes how many tasks have been read, and of how many.
    """
    asked = parse_query(query)
    filters = _filters(base, tasks, roles, tools, kinds, since, until)
    if base.open_catalogue() is None:
        return SearchResults()
    if users or repositories:
        theirs = _tasks_of(base, users, repositories)
        filters = replace(filters, tasks=tuple(uuid for uuid in theirs if uuid in (filters.tasks or theirs)))
        if not filters.tasks:
            return SearchResults()
    found = with_index(base, partial(_search, base, asked, filters, limit, seconds, progress))
    told = {"hits": len(found.hits), "tasks": sorted({hit.uuid for hit in found.hits})[:_MOST_TOLD]}
    audit_of(base.path, base.settings).record("search", details=told)
    return found


def rebuild_index(base: OpenBase, *, progress: ProgressObserver | None = None) -> int:
    """Make the index anew from the tasks; returns how many documents it has."""

    def action(index: SearchIndex) -> int:
        with index.turn(math.inf):
            index.clear()
            CatchingUp(base, index, progress=progress).run()
        return index.count()

    return with_index(base, action)


def catch_up(base: OpenBase, *, seconds: float) -> bool:
    """Read what is new into the index, for so long; ``False`` when there is more. Whoever else is at it does it."""

    def action(index: SearchIndex) -> bool:
        with index.turn(0) as is_ours:
            return not is_ours or CatchingUp(base, index, seconds=seconds).run()

    return with_index(base, action)


def forget(base: OpenBase, *uuids: str) -> None:
    """Take everything of tasks out of the index, also from the disk; whatever is still stored of them is read anew."""

    def action(index: SearchIndex) -> None:
        with index.turn(math.inf):
            index.write(Changes(dropped=list(uuids)))
            index.compare_again()
            index.purge()

    with_index(base, action)


# ---- asking --------------------------------------------------------------------------------------------------------


def _search(
    base: OpenBase,
    query: Query,
    filters: Filters,
    limit: int,
    seconds: float | None,
    progress: ProgressObserver | None,
    index: SearchIndex,
) -> SearchResults:
    with index.turn(_WAIT if seconds is None else min(_WAIT, seconds)) as is_ours:
        given = math.inf if seconds is None else seconds
        is_current = is_ours and CatchingUp(base, index, seconds=given, progress=progress).run()
    sealed = find_in_sealed(base, query, filters, given)
    found = [*index.find(query, filters, MOST_CANDIDATES + 1), *sealed.candidates]
    ranked = rank(found[:MOST_CANDIDATES])
    hits: list[SearchHit] = []
    reading = _Reading(base, query)
    read = 0
    while ranked and len(hits) < limit:
        some, ranked = ranked[: limit - len(hits)], ranked[limit - len(hits) :]
        read += len(some)
        hits = reading.once([*hits, *reading.hits(some)])
    problems = {uuid: why for uuid, why in index.problems().items() if not filters.tasks or uuid in filters.tasks}
    problems |= sealed.problems
    matches = min(len(found), MOST_CANDIDATES) - (read - len(hits))
    return SearchResults(tuple(hits), matches, len(found) > MOST_CANDIDATES, is_current and sealed.is_whole, problems)


def rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The best first: how well the words fit, a little better for what is new."""
    now = datetime.now(UTC)
    scored = [replace(each, score=each.score * _freshness(each.time, now)) for each in candidates]
    return sorted(scored, key=lambda each: (each.score, each.time, each.uuid, each.number), reverse=True)


def _freshness(moment: str, now: datetime) -> float:
    if not moment:
        return 1.0
    days = max((now - datetime.fromisoformat(moment)).total_seconds() / 86400, 0.0)
    return float(1 + _RECENCY * 0.5 ** (days / _HALF_LIFE))


class _Reading:
    """The matches read from their tasks; each task is opened once for all that are wanted together.

    The record of a tool call says what the messages of the call say: it is told only if they are not.
    """

    def __init__(self, base: OpenBase, query: Query) -> None:
        self._base = base
        self._query = query
        self._told_calls: set[tuple[str, str]] = set()  # by messages
        self._recorded_calls: dict[tuple[str, int], set[tuple[str, str]]] = {}  # by the task and number of a record

    def hits(self, candidates: Sequence[Candidate]) -> list[SearchHit]:
        """In the given order, without those that are gone or do not have the words after all."""
        by_task: dict[str, list[Candidate]] = {}
        for candidate in candidates:
            by_task.setdefault(candidate.uuid, []).append(candidate)
        read = {
            (hit.uuid, hit.kind, hit.number): hit
            for uuid, wanted in by_task.items()
            for hit in self._of_task(uuid, wanted)
        }
        places = ((each.uuid, each.kind, each.number) for each in candidates)
        return [read[place] for place in places if place in read]

    def once(self, hits: Sequence[SearchHit]) -> list[SearchHit]:
        """Without records of calls that messages tell, be it that they were read later."""
        return [
            hit
            for hit in hits
            if hit.kind != "tool" or not self._recorded_calls.get((hit.uuid, hit.number), set()) & self._told_calls
        ]

    def _of_task(self, uuid: str, wanted: Sequence[Candidate]) -> Iterator[SearchHit]:
        row = self._base.row(uuid)
        if row is None or CLEANED in row.metadata:  # gone since the index was last compared with all rows
            return
        bare = [_bare(row, candidate) for candidate in wanted]
        try:
            folder = self._base.folders.find(uuid)
            if folder is None:
                yield from bare
                return
            with closing(self._base.read_store(folder)) as store:
                folds, _ = store.state()
                hits = [self._hit(hit, each, store, folds) for hit, each in zip(bare, wanted, strict=True)]
        except OrihonError:  # damaged, or moved just now: what the index knows is told
            yield from bare
            return
        yield from (hit for hit in hits if hit is not None)

    def _hit(self, hit: SearchHit, candidate: Candidate, store: TaskStore, folds: Sequence[Fold]) -> SearchHit | None:
        document = find_document(store, candidate.kind, candidate.number)
        if document is None:
            return hit
        if not candidate.is_certain and not self._query.matches(*text_tokens(document.text)):
            return None
        calls = {(hit.uuid, call) for call in document.calls}
        if candidate.kind == "tool":
            self._recorded_calls[hit.uuid, hit.number] = calls
        else:
            self._told_calls |= calls
        fold = fold_of(candidate.number, folds) if candidate.kind == "message" else None
        snippet = make_snippet(document.text, self._query)
        return replace(hit, tools=document.tools, snippet=snippet, fold=fold, covers=document.covers)


def fold_of(seq: int, folds: Sequence[Fold]) -> int | None:
    """The visible fold that a message is in; ``folds`` are in order."""
    place = bisect_right(folds, seq, key=lambda fold: fold.start_seq) - 1
    return folds[place].id if place >= 0 and folds[place].end_seq >= seq else None


def _bare(row: TaskRow, candidate: Candidate) -> SearchHit:
    """What the index and the catalogue know."""
    return SearchHit(
        row.uuid,
        row.key.label,
        row.status.value,
        candidate.kind,
        candidate.number,
        candidate.time,
        candidate.role,
        (),
        candidate.score,
        None,
    )


# ---- filters -------------------------------------------------------------------------------------------------------


def _filters(
    base: OpenBase,
    tasks: Iterable[str],
    roles: Iterable[str],
    tools: Iterable[str],
    kinds: Iterable[str],
    since: str | None,
    until: str | None,
) -> Filters:
    wanted = tuple(dict.fromkeys(kinds))
    for kind in wanted:
        if kind not in KINDS:
            raise InvalidInput("unknown_kind", kind=shortened(kind), known=", ".join(KINDS))
    return Filters(
        tasks=tuple(dict.fromkeys(base.resolve(name) for name in tasks)),
        roles=tuple(dict.fromkeys(roles)),
        tools=tuple(dict.fromkeys(tools)),
        kinds=cast(tuple[DocumentKind, ...], wanted),
        since=_time(since, "since"),
        until=_time(until, "until"),
    )


def _tasks_of(base: OpenBase, users: Sequence[str], repositories: Sequence[str]) -> dict[str, None]:
    """The newest tasks of these users in these repositories."""
    assert base.catalogue is not None
    found: dict[str, None] = {}
    for user, repository in product(users or (None,), repositories or (None,)):
        rows = base.catalogue.tasks.page(user=user, repository=repository, limit=MOST_TASKS)
        found |= dict.fromkeys(row.uuid for row in rows)
    return found


def _time(given: str | None, name: str) -> str:
    """A time as people write it: in ISO 8601, or how long ago."""
    if given is None:
        return ""
    try:
        return as_typed(given)
    except ValueError as error:
        raise InvalidInput("time", name=name, value=shortened(given)) from error
