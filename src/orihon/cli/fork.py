"""``orihon fork``: a new task from any step of another one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orihon.cli.changes import MOST, AsJson, Uuid, named_task
from orihon.cli.options import CommandOptions
from orihon.cli.output import print_json, shown
from orihon.texts import text

_At = Annotated[int, typer.Option("--at", metavar="SEQ", min=1, max=MOST, help=text("cli.fork.at"), show_default=False)]


def fork(context: typer.Context, uuid: Uuid, at: _At, as_json: AsJson = False) -> None:
    """Fork, and say what the new task begins with."""
    from orihon.tasks.view_reader import reading_view
    from orihon.transfer.fork import fork_task

    options = context.ensure_object(CommandOptions)
    task = named_task(context, uuid)
    new = fork_task(options.base, task, at)
    with reading_view(options.base, new) as view:
        figures = view.figures()
    sizes: dict[str, Any] = {"messages": at, "entries": figures.entries, "tokens": figures.tokens}
    if as_json:
        print_json({"uuid": new, "status": "paused", "forked_from": {"uuid": task, "at": at}, **sizes})
    else:
        typer.echo(shown(text("cli.fork.done", new=new, old=task, at=at, **sizes)))
