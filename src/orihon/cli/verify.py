"""``orihon verify``: derive everything about one task again and say what differs."""

from __future__ import annotations

from typing import Annotated

import typer

from orihon.cli.options import Options, flag
from orihon.cli.output import print_findings, print_json
from orihon.texts import text


def verify(
    context: typer.Context,
    uuid: Annotated[str, typer.Argument(metavar="UUID", help=text("cli.verify.uuid"), show_default=False)],
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Look, print, and exit with 1 when something is wrong."""
    from orihon.base_folder import BaseFolder
    from orihon.verify import verify as look

    options = context.ensure_object(Options)
    with BaseFolder(options.base, options.settings) as base:
        task = base.resolve(uuid)
    findings = look(options.base, task, options.settings)
    if as_json:
        print_json({"task": task, "clean": not findings, "findings": [finding.as_dict() for finding in findings]})
    elif findings:
        print_findings(findings)
    else:
        typer.echo(text("cli.verify.clean", task=task))
    raise typer.Exit(1 if findings else 0)
