"""``orihon backup`` and ``migrate``: copies of the base folder, and tasks from one back end to another."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson, task_argument
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, print_table, progress_bar, say, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.settings import Settings
    from orihon.transfer.migrate import MigrationReport

_MOST_KEPT = 1_000_000
_Keep = Annotated[int | None, option("--keep", metavar="N", min=1, max=_MOST_KEPT, help=text("cli.backup.keep"))]


def backup(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="TARGET", help=text("cli.backup.target"), show_default=False)],
    keep: _Keep = None,
    listing: Annotated[bool, flag("--list", help=text("cli.backup.list"))] = False,
    check: Annotated[bool, flag("--check", help=text("cli.backup.check"))] = False,
    restore_to: Annotated[Path | None, option("--restore-to", help=text("cli.backup.restore_to"))] = None,
    run: Annotated[str | None, option("--run", help=text("cli.backup.run"))] = None,
    as_json: AsJson = False,
) -> None:
    """Make a backup, or do something with those that are there."""
    options = context.ensure_object(CommandOptions)
    _check_options({"--list": listing, "--check": check, "--keep": keep, "--restore-to": restore_to}, run)
    if listing:
        _list(target, options.settings, as_json=as_json)
    elif check:
        _check(target, options.settings, as_json=as_json)
    elif restore_to is not None:
        _restore(target, restore_to, run, options.settings, as_json=as_json)
    else:
        _make(options, target, keep, as_json=as_json)


def _check_options(acts: Mapping[str, object], run: str | None) -> None:
    """One thing at a time."""
    first, *others = [name for name, value in acts.items() if value] or [""]
    if others:
        raise InvalidInput("options_together", first=first, second=others[0])
    if run is not None and first != "--restore-to":
        raise InvalidInput("option_alone", option="--run", needs="--restore-to")


def _make(options: CommandOptions, target: str, keep: int | None, *, as_json: bool) -> None:
    from orihon.transfer.backup import backup as make

    with progress_bar("cli.backup.working", hidden=as_json) as progress:
        report = make(options.base, target, progress, keep=keep)
    if as_json:
        print_json(report)
        return
    figures: dict[str, Any] = {"tasks": report.tasks, "files": report.files, "size": report.size}
    done = text("cli.backup.done", run=report.run, sent=report.sent, chunks=report.new_pieces, **figures)
    typer.echo(shown(done))
    if keep is not None:
        typer.echo(text("cli.backup.removed", backups=report.removed_backups, chunks=report.removed_pieces))


def _list(target: str, settings: Settings, *, as_json: bool) -> None:
    from orihon.transfer.backup import list_backups

    found = list_backups(target, settings)
    if as_json:
        print_json({"backups": found})
    elif not found:
        typer.echo(text("cli.backup.none"))
    else:
        names = ("run", "created_at", "tasks", "files", "size")
        rows = [[getattr(info, name) for name in names] for info in reversed(found)]
        print_table([text(f"cli.backup.columns.{name}") for name in names], rows, flexible=1)


def _check(target: str, settings: Settings, *, as_json: bool) -> None:
    """Exits with 1 when something is damaged."""
    from orihon.transfer.backup import check_backups

    with progress_bar("cli.backup.checking", hidden=as_json) as progress:
        report = check_backups(target, settings, progress)
    figures: dict[str, Any] = {"backups": report.backups, "pieces": report.pieces, "size": report.size}
    if as_json:
        damage = [{"reason": error.reason, **error.fields} for error in report.damage]
        print_json({**figures, "clean": not damage, "damage": damage})
    else:
        for error in report.damage:
            typer.echo(shown(error.cause))
        outcome = "damaged" if report.damage else "clean"
        typer.echo(text(f"cli.backup.{outcome}", count=len(report.damage), **figures))
    raise typer.Exit(1 if report.damage else 0)


def _restore(target: str, folder: Path, run: str | None, settings: Settings, *, as_json: bool) -> None:
    from orihon.transfer.backup import restore_backup

    with progress_bar("cli.backup.restoring", hidden=as_json) as progress:
        report = restore_backup(target, folder, settings, progress, run=run)
    figures: dict[str, Any] = {"tasks": report.tasks, "files": report.files, "size": report.size}
    say(report, text("cli.backup.restored", run=report.run, folder=report.folder, **figures), as_json=as_json)


# ---- another back end ------------------------------------------------------------------------------------------------

_Tasks = Annotated[list[str] | None, task_argument("cli.migrate.uuids", "[TASK]...")]


def migrate(
    context: typer.Context,
    source: Annotated[str, option("--from", help=text("cli.migrate.from"))],
    target: Annotated[str, option("--to", help=text("cli.migrate.to"))],
    uuids: _Tasks = None,
    dry_run: Annotated[bool, flag("--dry-run", help=text("cli.migrate.dry_run"))] = False,
    as_json: AsJson = False,
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
    say(report, _print_migration, as_json=as_json)
    raise typer.Exit(1 if report.left else 0)


def _print_migration(report: MigrationReport) -> None:
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
