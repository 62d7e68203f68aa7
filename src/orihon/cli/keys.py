"""``orihon keys show``, ``keys new`` and ``keys rotate``: the keys of the encryption at rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orihon.cli.changes import AsJson
from orihon.cli.options import CommandOptions
from orihon.cli.output import print_json, print_table, progress_bar, shown
from orihon.texts import text


def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Which keys there are; never what they are."""
    from orihon.upkeep.keys import keys_overview

    options = context.ensure_object(CommandOptions)
    found = keys_overview(options.base)
    if as_json:
        print_json(found)
        return
    typer.echo(text("cli.keys.on" if found.enabled else "cli.keys.off"))
    if found.master is None:
        typer.echo(text("cli.keys.no_master"))
        return
    typer.echo(shown(text("cli.keys.master", master=found.master, source=found.source)))
    typer.echo(shown(text("cli.keys.place", place=found.place, erased=found.erased)))
    if found.data_keys:
        names = [text("cli.keys.column_master"), text("cli.keys.column_data_keys")]
        print_table(names, found.data_keys.items(), flexible=0)
    if found.to_rotate:
        typer.echo(text("cli.keys.to_rotate", count=found.to_rotate))


def new(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=text("cli.keys.file"), show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Make a master key."""
    from orihon.upkeep.keys import new_master_key

    master = new_master_key(file)
    if as_json:
        print_json({"master": master, "file": str(file)})
        return
    typer.echo(shown(text("cli.keys.made", master=master, file=file)))


def rotate(context: typer.Context, as_json: AsJson = False) -> None:
    """Bring every data key under the current master key."""
    from orihon.upkeep.keys import rotate_keys

    options = context.ensure_object(CommandOptions)
    with progress_bar("cli.keys.working", hidden=as_json) as progress:
        done = rotate_keys(options.base, progress)
    if as_json:
        print_json(done)
        return
    typer.echo(text("cli.keys.rotated", rotated=done.rotated, current=done.current))
