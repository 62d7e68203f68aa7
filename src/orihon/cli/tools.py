"""``orihon tools``: what an agent may call, and the approval of tools whose definition has changed."""

from __future__ import annotations

from typing import Annotated

import typer

from orihon.cli.arguments import AsJson
from orihon.cli.options import CommandOptions, option
from orihon.cli.output import print_json, print_table, shown
from orihon.texts import text

_COLUMNS = ("name", "server", "repeatable", "description")


def tools(
    context: typer.Context,
    approve: Annotated[str | None, option("--approve", help=text("cli.tools.approve"))] = None,
    as_json: AsJson = False,
) -> None:
    """Start the servers, list or approve, and end them."""
    from orihon.runtime.tools import configured_toolbox

    options = context.ensure_object(CommandOptions)
    with configured_toolbox(options.settings, options.base_path) as box:
        approved = [] if approve is None else box.approve(approve)
        found, changed = box.tools(), box.changed()
    if as_json:
        listed = [
            {"name": name, "server": tool.server, "repeatable": tool.repeatable, "description": tool.description}
            for name, tool in found.items()
        ]
        print_json({"tools": listed, "changed": changed, "approved": approved})
        return
    if approve is not None:
        typer.echo(shown(text("cli.tools.approved", server=approve, tools=", ".join(approved) or "-")), err=True)
    yes, no = text("cli.tools.yes"), text("cli.tools.no")
    rows = [
        (name, tool.server, yes if tool.repeatable else no, tool.description.partition("\n")[0])
        for name, tool in found.items()
    ]
    if rows:
        names = [text(f"cli.tools.columns.{column}") for column in _COLUMNS]
        print_table(names, rows, flexible=_COLUMNS.index("description"))
    else:
        typer.echo(text("cli.tools.none"), err=True)
    for server, refused in changed.items():
        typer.echo(shown(text("cli.tools.changed", server=server, tools=", ".join(refused))), err=True)
