"""``orihon completion``: what a shell needs to complete commands, options and the names of tasks."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from orihon.cli.options import flag
from orihon.cli.output import print_json
from orihon.texts import text

PROGRAM = "orihon"
_VARIABLE = "_ORIHON_COMPLETE"


class ShellName(StrEnum):
    """What can be completed in."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[ShellName, typer.Argument(help=text("cli.completion.shell"), show_default=False)],
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Print the script; where it belongs is in the help."""
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # not on its list

    script = get_completion_script(prog_name=PROGRAM, complete_var=_VARIABLE, shell=shell.value)
    if as_json:
        print_json({"shell": shell.value, "script": script})
    else:
        typer.echo(script)


def prepare_completion() -> bool:
    """Does a shell ask what could come next? Then Typer is told which shells there are."""
    if not os.environ.get(_VARIABLE):
        return False
    from typer.completion import completion_init  # type: ignore[attr-defined]  # not on its list

    completion_init()
    return True
