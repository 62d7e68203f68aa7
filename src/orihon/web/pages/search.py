"""*Search*: words found in everything that tasks have said and done, by task, with the place of each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from orihon.errors import InvalidInput, TaskNotFound
from orihon.search import SearchHit, SearchResults
from orihon.search.index import MOST_CANDIDATES
from orihon.search.query import parse_query
from orihon.web.api.figures import MOST_HITS, SEARCH_FILTERS, searched
from orihon.web.call import Call, Page, PageRoute, address_of
from orihon.web.fields import Field
from orihon.web.refusal import status_of

_FIRST_HITS = 50
_FILTERS = tuple(one for one in SEARCH_FILTERS if one.name != "limit")
#: Hits of one task that are shown at once, where other tasks have hits, too.
_FEW = 5
#: How long ago, to choose from.
_SPANS = ("1d", "7d", "30d")


@dataclass(frozen=True, slots=True)
class HitView:
    """One hit, with its text in pieces that were found or not."""

    hit: SearchHit
    address: str
    pieces: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class TaskHits:
    """The hits of one task; the task with the best of all is the first."""

    uuid: str
    label: str
    status: str
    hits: list[HitView] = field(default_factory=list)


def search_page(call: Call) -> Page:
    """The box, and what was found. A query that cannot be taken is answered beside the box."""
    given = call.given
    results, error, began = SearchResults(), None, time.perf_counter()
    if given["query"]:
        try:
            results = searched(call)
        except (InvalidInput, TaskNotFound) as refused:
            error = refused
    shows: dict[str, Any] = {
        "given": given,
        "error": error,
        "results": results,
        "tasks": list(by_task(results)),
        "seconds": time.perf_counter() - began,
        "has_words": bool(parse_query(given["query"] or "").wanted),
        "is_filtered": any(given[one.name] for one in _FILTERS),
        "spans": _SPANS if given["since"] in (None, *_SPANS) else (*_SPANS, given["since"]),
        "most": MOST_CANDIDATES,
        "few": _FEW if len({hit.uuid for hit in results.hits}) > 1 else MOST_HITS,
        "more": _more(call, results),
    }
    return Page("search.html", shows, 200 if error is None else status_of(error))


def by_task(results: SearchResults) -> Iterator[TaskHits]:
    """The hits by task, in the order of the best of each."""
    tasks: dict[str, TaskHits] = {}
    for hit in results.hits:
        task = tasks.setdefault(hit.uuid, TaskHits(hit.uuid, hit.label, hit.status))
        task.hits.append(HitView(hit, place_of(hit), tuple(pieces(hit))))
    return iter(tasks.values())


def place_of(hit: SearchHit) -> str:
    """Where the hit stands: in the conversation, or in the list of its kind."""
    task = f"/tasks/{hit.uuid}"
    if hit.kind == "message":
        return f"{task}?at={hit.number}#m{hit.number}"
    if hit.kind == "summary" and hit.covers is not None:
        return f"{task}?at={hit.covers[0]}#f{hit.number}"
    tab = {"summary": "changes", "tool": "tools", "plan": "plans"}[hit.kind]
    return f"{task}?tab={tab}&before={hit.number + 1}"


def pieces(hit: SearchHit) -> Iterator[tuple[str, bool]]:
    """The snippet in pieces; ``True`` for what was asked for."""
    snippet = hit.snippet
    if snippet is None:
        return
    yield "" if snippet.is_start else "… ", False
    place = 0
    for start, end in snippet.highlights:
        yield snippet.text[place:start], False
        yield snippet.text[start:end], True
        place = end
    yield snippet.text[place:], False
    yield "" if snippet.is_end else " …", False


def _more(call: Call, results: SearchResults) -> str:
    """The address with more hits, while there are any."""
    shown = len(results.hits)
    if shown >= min(results.matches, MOST_HITS):
        return ""
    return address_of("/search", {**call.given, "limit": min(MOST_HITS, 2 * call.given["limit"])})


PAGES = (
    PageRoute(
        "/search",
        search_page,
        "search",
        query=(Field("query"), *_FILTERS, Field("limit", "whole", default=_FIRST_HITS, high=MOST_HITS)),
    ),
)
