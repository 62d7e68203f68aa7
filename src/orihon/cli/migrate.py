"""``orihon migrate``: move tasks from one back end to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, progress_bar, shown
from orihon.cli.task_argument import task_argument
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.transfer.migrate import MigrationReport

_Tasks = Annotated[list[str] | None, task_argument("cli.migrate.uuids", "[TASK]...")]


def migrate(
    context: typer.Context,
    source: Annotated[str, option("--from", help=text("cli.migrate.from"))],
    target: Annotated[str, option("--to", help=text("cli.migrate.to"))],
    uuids: _Tasks = None,
    dry_run: Annotated[bool, flag("--dry-run", help=text("cli.migrate.dry_run"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Move, print, and exit with 1 when a task was left where it was."""
    from orihon.transfer.migrate import migrate_tasks

    options = context.ensure_object(CommandOptions)
    with progress_bar("cli.migrate.moving", hidden=as_json) as progress:
        report = migrate_tasks(
            options.base_path,
            options.settings,
            source=source,
            target=target,
            tasks=uuids or None,
            progress=progress,
            dry_run=dry_run,
        )
    if as_json:
        print_json(report)
    else:
        _print(report)
    raise typer.Exit(1 if report.left else 0)


def _print(report: MigrationReport) -> None:
    for task in report.tasks:
        if report.dry_run or task in report.left:
            key = f"would_{task.outcome}" if report.dry_run and task not in report.left else task.outcome
            words = (text(f"cli.migrate.{key}"), task.uuid, task.why)
            typer.echo("\t".join(shown(word) for word in words if word))
    counts: dict[str, Any] = {
        outcome: len(report.having(outcome)) for outcome in ("moved", "row", "finished", "skipped", "failed")
    }
    kind = "would" if report.dry_run else "done"
    typer.echo(text(f"cli.migrate.{kind}", source=report.source, target=report.target, **counts))
