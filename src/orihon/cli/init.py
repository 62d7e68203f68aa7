"""``orihon init``: a configuration file to begin with, and a base folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import print_json, shown
from orihon.texts import text


def init(
    context: typer.Context,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Make both; nothing that is there is overwritten."""
    from orihon.upkeep.init import set_up

    options = context.ensure_object(CommandOptions)
    config = options.config or Path(os.environ.get("ORIHON_CONFIG") or "config.yaml")
    base = options.base_dir or Path("contexts")
    set_up(config, base)
    if as_json:
        print_json({"config": str(config), "base_dir": str(base)})
    else:
        typer.echo(shown(text("cli.init.done", config=config, base=base)))
