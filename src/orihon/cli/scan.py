"""``orihon scan``: secrets in old histories, found by the rules in force, and with ``--fix`` taken out."""

from __future__ import annotations

from typing import Annotated

import typer

from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import print_json, progress_bar, shown
from orihon.cli.task_argument import named_task, task_argument
from orihon.texts import text


def scan(
    context: typer.Context,
    tasks: Annotated[list[str] | None, task_argument("cli.scan.tasks", "[TASK]...")] = None,
    fix: Annotated[bool, flag("--fix", help=text("cli.scan.fix"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Look, print where something is, and exit with 1 while it is still there."""
    from orihon.upkeep.scan import scan_tasks

    options = context.ensure_object(CommandOptions)
    named = [named_task(context, task) for task in tasks] if tasks else None
    with progress_bar("cli.scan.looking", hidden=as_json):
        scanned = scan_tasks(options.base, named, fix=fix)
    is_clean = all(one.is_clean for one in scanned)
    if as_json:
        print_json({"clean": is_clean, "fixed": fix, "tasks": scanned})
        raise typer.Exit(0 if is_clean else 1)
    for one in scanned:
        for hit in one.hits:
            where = f"{hit.where} {hit.number}" if hit.number else hit.where
            typer.echo(shown(f"{one.task}  {where}  {', '.join(hit.kinds)}"))
        if one.left_out is not None:
            typer.echo(shown(text(f"cli.scan.left_{one.left_out}", task=one.task, reason=one.reason)))
    fixed = sum(len(one.hits) for one in scanned if one.is_fixed)
    found = fixed or sum(len(one.hits) for one in scanned)
    key = "clean" if not found else "fixed" if fixed else "found"
    typer.echo(shown(text(f"cli.scan.{key}", tasks=len(scanned), found=found)))
    raise typer.Exit(0 if is_clean else 1)
