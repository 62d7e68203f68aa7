"""``orihon config show``: the settings that are in force, and where each came from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import print_json, print_table
from orihon.cli.pager import paged
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.settings.in_force import SettingInForce

_COLUMNS = ("key", "value", "origin")


def show(
    context: typer.Context,
    origin: Annotated[bool, flag("--origin", help=text("cli.config.with_origin"))] = False,
    changed: Annotated[bool, flag("--changed", help=text("cli.config.changed"))] = False,
    no_pager: Annotated[bool, flag("--no-pager", help=text("cli.options.no_pager"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Secrets are masked."""
    from orihon.settings.in_force import settings_as_dict, settings_in_force

    options = context.ensure_object(CommandOptions)
    if as_json:
        print_json(settings_as_dict(options.settings, options.config_in_use, changed=changed))
        return
    found = [one for one in settings_in_force(options.settings) if not changed or one.origin != "default"]
    columns = _COLUMNS if origin else _COLUMNS[:2]
    with paged(off=no_pager):
        names = [text(f"cli.config.{name}") for name in columns]
        print_table(names, [_cells(one, columns) for one in found], flexible=1)
    if not found:
        typer.echo(text("cli.config.none"), err=True)


def _cells(one: SettingInForce, columns: tuple[str, ...]) -> tuple[object, ...]:
    from orihon.system import jsonio

    said = one.value if isinstance(one.value, str) else jsonio.encode(one.value).decode()
    if one.value is None and sys.stdout.isatty():
        said = "-"
    return (one.key, said, one.origin)[: len(columns)]
