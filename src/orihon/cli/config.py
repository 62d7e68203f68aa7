"""``orihon config show``, ``init``, ``trust``: the settings in force, a file to begin with, which file is obeyed."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.arguments import AsJson
from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import print_json, print_table, say, short_time
from orihon.cli.streams import paged
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.settings.config_file import TrustedConfig
    from orihon.settings.in_force import SettingInForce

_COLUMNS = ("key", "value", "origin")


def show(
    context: typer.Context,
    origin: Annotated[bool, flag("--origin", help=text("cli.config.with_origin"))] = False,
    changed: Annotated[bool, flag("--changed", help=text("cli.config.changed"))] = False,
    no_pager: Annotated[bool, flag("--no-pager", help=text("cli.options.no_pager"))] = False,
    as_json: AsJson = False,
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


# ---- to begin with ---------------------------------------------------------------------------------------------------


def init(context: typer.Context, as_json: AsJson = False) -> None:
    """Make both; nothing that is there is overwritten."""
    from orihon.upkeep.init import set_up

    options = context.ensure_object(CommandOptions)
    config = options.config or Path(os.environ.get("ORIHON_CONFIG") or "config.yaml")
    base = options.base_dir or Path("contexts")
    set_up(config, base)
    line = text("cli.init.done", config=config, base=base)
    say({"config": str(config), "base_dir": str(base)}, line, as_json=as_json)


# ---- what is obeyed --------------------------------------------------------------------------------------------------


def trust(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help=text("cli.trust.folder"), show_default=False)
    ] = Path(),
    listed: Annotated[bool, flag("--list", help=text("cli.trust.list"))] = False,
    remove: Annotated[bool, flag("--remove", help=text("cli.trust.remove"))] = False,
    as_json: AsJson = False,
) -> None:
    """Trust the configuration of a folder as it is now, or no more."""
    from orihon.settings import config_file
    from orihon.settings.load import far_reaching

    if listed and remove:
        raise InvalidInput("options_together", first="--list", second="--remove")
    if listed:
        say({"trusted": config_file.trusted_configs()}, lambda found: _print_trusted(found["trusted"]), as_json=as_json)
        return
    if remove:
        path, was_trusted = config_file.distrust(folder)
        line = text("cli.trust.removed" if was_trusted else "cli.trust.was_not", path=path)
        say({"path": path, "removed": was_trusted}, line, as_json=as_json)
        return
    file = config_file.ConfigFile.read(folder / config_file.NAME)
    beyond = far_reaching(file)
    done = config_file.trust(file)
    line = text("cli.trust.done", path=done.path, settings=", ".join(beyond) or "-")
    say({**asdict(done), "settings": beyond}, line, as_json=as_json)


def _print_trusted(found: list[TrustedConfig]) -> None:
    if not found:
        typer.echo(text("cli.trust.none"), err=True)
        return
    rows = [(one.path, text(f"cli.trust.{one.state}"), short_time(one.trusted_at)) for one in found]
    print_table([text(f"cli.trust.column_{name}") for name in ("path", "state", "since")], rows, flexible=0)
