"""``orihon archive`` and ``unarchive``: finished tasks into their archive and back."""

from __future__ import annotations

from typing import Annotated

import typer

from orihon.cli.changes import AsJson, Uuid, named_task
from orihon.cli.options import CommandOptions
from orihon.cli.output import print_json, progress_bar, shown
from orihon.cli.retention import DryRun, print_run
from orihon.cli.task_argument import task_argument
from orihon.errors import InvalidInput
from orihon.texts import text

_Uuids = Annotated[list[str] | None, task_argument("cli.archive.uuids", "[TASK]...")]
_Days = Annotated[
    int | None, typer.Option("--days", metavar="N", min=0, max=36500, help=text("cli.archive.days"), show_default=False)
]


def archive(
    context: typer.Context,
    uuids: _Uuids = None,
    days: _Days = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Archive the named tasks, or those that ended some days ago; exit with 1 when some could not be."""
    from orihon.transfer.archive import ArchiveRun, archive_old, archive_task

    if uuids and days is not None:
        raise InvalidInput("options_together", first="UUID", second="--days")
    if dry_run:
        _say_what_would_be(context, uuids, days, as_json=as_json)
        return
    options = context.ensure_object(CommandOptions)
    if uuids:
        tasks = [named_task(context, uuid) for uuid in uuids]
        with progress_bar("cli.archive.working", hidden=as_json):
            run = ArchiveRun([archive_task(options.base, task) for task in tasks])
    else:
        with progress_bar("cli.archive.working", hidden=as_json) as progress:
            run = archive_old(options.base, days, progress=progress)
    if as_json:
        print_json(run)
    else:
        for task in run.archived:
            typer.echo(shown(text("cli.archive.done", uuid=task.uuid, place=task.place, key=task.key, size=task.bytes)))
        for uuid, error in run.left.items():
            typer.echo(shown(text("cli.archive.left", uuid=uuid, error=error)), err=True)
        if not run.archived and not run.left:
            typer.echo(text("cli.archive.none"))
    raise typer.Exit(1 if run.left else 0)


def _say_what_would_be(context: typer.Context, uuids: list[str] | None, days: int | None, *, as_json: bool) -> None:
    from orihon.upkeep.retention import archive_old_contexts

    if uuids:
        raise InvalidInput("options_together", first="UUID", second="--dry-run")
    options = context.ensure_object(CommandOptions)
    run = archive_old_contexts(options.base, days, dry_run=True)
    if as_json:
        print_json(run)
    else:
        print_run("archive", run)


def unarchive(context: typer.Context, uuid: Uuid, as_json: AsJson = False) -> None:
    """Bring a task back."""
    from orihon.transfer.archive import restore_task

    options = context.ensure_object(CommandOptions)
    task = named_task(context, uuid)
    place = restore_task(options.base, task)
    if as_json:
        print_json({"uuid": task, "folder": None if place.is_in_database else str(place)})
    elif place.is_in_database:
        typer.echo(shown(text("cli.unarchive.in_database", uuid=task)))
    else:
        typer.echo(shown(text("cli.unarchive.done", uuid=task, folder=place)))
