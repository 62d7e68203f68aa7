"""``orihon list``: the tasks of a base folder, newest first."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson, hint_at_tasks_beside
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, print_table, shown
from orihon.cli.streams import paged
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.catalogue import TaskRow

_SHORT_ID = 8
_MOST = 1_000_000  # also far below what SQLite can count to
_COLUMNS = ("task", "status", "about", "messages", "tokens", "updated")


def list_tasks(
    context: typer.Context,
    status: Annotated[str | None, option("--status", help=text("cli.list.only_status"))] = None,
    user: Annotated[str | None, option("--user", help=text("cli.list.only_user"))] = None,
    repository: Annotated[str | None, option("--repository", help=text("cli.list.only_repository"))] = None,
    source: Annotated[str | None, option("--source", help=text("cli.list.only_source"))] = None,
    since: Annotated[str | None, option("--since", help=text("cli.list.since"))] = None,
    search: Annotated[str | None, option("--search", help=text("cli.list.search"))] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help=text("cli.list.limit"))] = 50,
    no_pager: Annotated[bool, flag("--no-pager", help=text("cli.options.no_pager"))] = False,
    as_json: AsJson = False,
) -> None:
    """One page of the catalogue."""
    from orihon.cli.arguments import moment
    from orihon.reports.task_list import WantedTasks, rows_of_tasks

    options = context.ensure_object(CommandOptions)
    wanted: dict[str, Any] = {"user": user, "repository": repository, "source": source, "status": status}
    wanted["search"] = search
    wanted["since"] = None if since is None else moment(since)
    rows = rows_of_tasks(options.base, WantedTasks(**wanted), limit=limit)
    if as_json:
        print_json({"tasks": rows})
    elif rows:
        names = [text(f"cli.list.{column}") for column in _COLUMNS]
        with paged(off=no_pager):
            print_table(names, [_cells(row) for row in rows], flexible=_COLUMNS.index("about"))
    else:
        begun = options.base.path.is_dir()
        typer.echo(shown(text("cli.list.none" if begun else "cli.list.not_begun", path=options.base_path)), err=True)
    hint_at_tasks_beside(options)


def _cells(row: TaskRow) -> tuple[object, ...]:
    from orihon.catalogue.rows import CLEANED

    on_terminal = sys.stdout.isatty()
    uuid = row.uuid[:_SHORT_ID] if on_terminal else row.uuid
    updated = row.updated_at[:16].replace("T", " ") if on_terminal else row.updated_at
    tokens = row.view_tokens if row.final_token_count is None else row.final_token_count
    status = text("cli.list.cleaned") if CLEANED in row.metadata else row.status.value
    return uuid, status, row.key.label, row.total_messages, "-" if tokens is None else tokens, updated
