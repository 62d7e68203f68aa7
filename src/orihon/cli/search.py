"""``orihon search``: find words in everything that tasks have said and done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.arguments import AsJson, offered_tasks
from orihon.cli.options import base_of, flag, option
from orihon.cli.output import print_json, progress_bar, short_time, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.search import SearchHit, SearchResults

_SHORT_ID = 8
_MOST = 1000  # as many as are ranked
_FOUND_STYLE = "bold yellow"
_TASK = typer.Option("--task", help=text("cli.search.task"), show_default=False, autocompletion=offered_tasks)


def search(
    context: typer.Context,
    query: Annotated[
        list[str] | None, typer.Argument(metavar="QUERY", help=text("cli.search.query"), show_default=False)
    ] = None,
    tasks: Annotated[list[str] | None, _TASK] = None,
    roles: Annotated[list[str] | None, option("--role", help=text("cli.search.role"))] = None,
    tools: Annotated[list[str] | None, option("--tool", help=text("cli.search.tool"))] = None,
    kinds: Annotated[list[str] | None, option("--kind", help=text("cli.search.kind"))] = None,
    users: Annotated[list[str] | None, option("--user", help=text("cli.search.user"))] = None,
    repositories: Annotated[list[str] | None, option("--repository", help=text("cli.search.repository"))] = None,
    since: Annotated[str | None, option("--since", help=text("cli.search.since"))] = None,
    until: Annotated[str | None, option("--until", help=text("cli.search.until"))] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help=text("cli.search.limit"))] = 20,
    rebuild: Annotated[bool, flag("--rebuild", help=text("cli.search.rebuild"))] = False,
    as_json: AsJson = False,
) -> None:
    """Catch up, ask, print."""
    from orihon.search import SearchResults, rebuild_index, search_history

    if not query and not rebuild:
        raise InvalidInput("no_query")
    base = base_of(context)
    filtered = partial(search_history, tasks=tasks or (), roles=roles or (), tools=tools or (), kinds=kinds or ())
    filtered = partial(filtered, users=users or (), repositories=repositories or ())
    asked, results = " ".join(query or ()), SearchResults()
    with progress_bar("cli.search.reading", hidden=as_json) as progress:
        documents = rebuild_index(base, progress=progress) if rebuild else None
        if query:
            results = filtered(base, asked, since=since, until=until, limit=limit, progress=progress)
    if as_json:
        print_json(results.as_dict() | ({} if documents is None else {"rebuilt": documents}))
        return
    if documents is not None:
        typer.echo(text("cli.search.rebuilt", count=documents), err=True)
    if query:
        _print(results, asked)


def _print(results: SearchResults, asked: str) -> None:
    from orihon.search.query import parse_query

    for hit in results.hits:
        _print_hit(hit)
    more = "cli.search.found_more" if results.has_more else "cli.search.found"
    notes = [text(more, shown=len(results.hits), matches=results.matches)]
    if not parse_query(asked).wanted:
        notes.append(text("cli.search.no_words"))
    if not results.is_current:
        notes.append(text("cli.search.not_current"))
    notes += [text("cli.search.problem", uuid=uuid, why=why) for uuid, why in results.problems.items()]
    for note in notes:
        typer.echo(shown(note), err=True)


def _print_hit(hit: SearchHit) -> None:
    if not sys.stdout.isatty():
        fold = "-" if hit.fold is None else str(hit.fold)
        fields = (hit.uuid, hit.label, hit.kind, hit.number, hit.role or "-", hit.time or "-", fold)
        typer.echo("\t".join([*map(shown, fields), "".join(piece for piece, _ in _pieces(hit))]))
        return
    from rich.console import Console
    from rich.text import Text

    where = (hit.label, hit.kind, hit.number, hit.role or ",".join(hit.tools), short_time(hit.time or None))
    title = Text.assemble((hit.uuid[:_SHORT_ID], "bold"), "  ", "  ".join(shown(part) for part in where if part))
    if hit.fold is not None:
        title.append(f"  {text('cli.search.folded', fold=hit.fold)}", "blue")
    body = Text.assemble("    ", *((piece, _FOUND_STYLE if is_found else "") for piece, is_found in _pieces(hit)))
    Console(highlight=False).print(title, body, sep="\n")


def _pieces(hit: SearchHit) -> Iterator[tuple[str, bool]]:
    """The text on one line, in pieces that were found or not."""
    snippet = hit.snippet
    if snippet is None:
        yield text("cli.search.away"), False
        return
    yield "" if snippet.is_start else "…", False
    place = 0
    for start, end in snippet.highlights:
        yield _on_one_line(snippet.text[place:start]), False
        yield _on_one_line(snippet.text[start:end]), True
        place = end
    yield _on_one_line(snippet.text[place:]), False
    yield "" if snippet.is_end else "…", False


def _on_one_line(piece: str) -> str:
    return shown("".join(" " if char.isspace() else char for char in piece))
