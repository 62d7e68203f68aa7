"""``orihon cleanup``, ``vacuum``, ``maintain``, ``keep``, ``archive``, ``unarchive``: ended tasks."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson, TaskArgument, named_task, task_argument
from orihon.cli.options import CommandOptions, base_of, flag, option
from orihon.cli.output import print_json, progress_bar, say, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.upkeep.retention import RetentionRun, VacuumRun

MOST_DAYS = 36500
DryRun = Annotated[bool, flag("--dry-run", help=text("cli.maintain.dry_run"))]
_Days = Annotated[int | None, option("--days", metavar="N", min=0, max=MOST_DAYS, help=text("cli.cleanup.days"))]
_ArchiveDays = Annotated[
    int | None, option("--archive-days", metavar="N", min=0, max=MOST_DAYS, help=text("cli.maintain.archive_days"))
]


def cleanup(context: typer.Context, days: _Days = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Remove the records of tasks that ended long ago; exit with 1 when some could not be."""
    from orihon.upkeep.retention import delete_old_contexts

    with progress_bar("cli.cleanup.working", hidden=as_json) as progress:
        run = delete_old_contexts(base_of(context), days, dry_run=dry_run, progress=progress)
    say(run, partial(print_run, "cleanup"), as_json=as_json)
    raise typer.Exit(1 if run.left else 0)


def vacuum(context: typer.Context, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Give back the room of removed records."""
    from orihon.upkeep.retention import vacuum_databases

    with progress_bar("cli.vacuum.working", hidden=as_json) as progress:
        run = vacuum_databases(base_of(context), dry_run=dry_run, progress=progress)
    say(run, _print_vacuum, as_json=as_json)
    raise typer.Exit(1 if run.left else 0)


def maintain(
    context: typer.Context,
    days: _Days = None,
    archive_days: _ArchiveDays = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """All of it, for a timer."""
    import orihon.upkeep.retention

    with progress_bar("cli.maintain.working", hidden=as_json) as progress:
        done = orihon.upkeep.retention.maintain(
            base_of(context), days=days, archive_days=archive_days, dry_run=dry_run, progress=progress
        )
    if as_json:
        print_json(done)
    else:
        print_run("cleanup", done.deleted)
        print_run("archive", done.archived)
        _print_vacuum(done.vacuumed)
        if not dry_run:
            typer.echo(text("cli.maintain.notifications", **done.notifications.as_dict()))
    raise typer.Exit(0 if done.is_complete else 1)


def keep(
    context: typer.Context,
    uuid: TaskArgument,
    off: Annotated[bool, flag("--off", help=text("cli.keep.off"))] = False,
    as_json: AsJson = False,
) -> None:
    """Mark a task, or take the mark away."""
    from orihon.upkeep.retention import keep_task

    task = named_task(context, uuid)
    keep_task(base_of(context), task, keep=not off)
    done = text("cli.keep.undone" if off else "cli.keep.done", uuid=task)
    say({"uuid": task, "keep": not off}, done, as_json=as_json)


def print_run(command: str, run: RetentionRun) -> None:
    """Each task in a dry run, each that was left, and the sums."""
    if run.dry_run:
        for task in run.tasks:
            typer.echo(text(f"cli.{command}.would", uuid=task.uuid, size=task.bytes_before))
    for uuid, error in run.left.items():
        typer.echo(shown(text("cli.archive.left", uuid=uuid, error=error)), err=True)
    kind = "would_all" if run.dry_run else "all"
    sums: dict[str, Any] = {
        "tasks": len(run.tasks),
        "before": run.bytes_before,
        "after": run.bytes_after,
        "left": len(run.left),
    }
    typer.echo(text(f"cli.{command}.{kind}", **sums))
    if run.counts_before != run.counts_after:
        before, after = (_counted(counts) for counts in (run.counts_before, run.counts_after))
        typer.echo(text("cli.maintain.counts", before=before, after=after))


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{status} {count:,}" for status, count in sorted(counts.items()))


def _print_vacuum(run: VacuumRun) -> None:
    for name, why in run.left.items():
        typer.echo(shown(text("cli.archive.left", uuid=name, error=why)), err=True)
    sums: dict[str, Any] = {"databases": run.databases, "before": run.bytes_before, "after": run.bytes_after}
    typer.echo(text("cli.vacuum.would_all" if run.dry_run else "cli.vacuum.all", **sums))
    if run.leftover_files:
        kind = "would_leftovers" if run.dry_run else "leftovers"
        typer.echo(text(f"cli.vacuum.{kind}", files=run.leftover_files, size=run.leftover_bytes))


# ---- archives --------------------------------------------------------------------------------------------------------

_Uuids = Annotated[list[str] | None, task_argument("cli.archive.uuids", "[TASK]...")]
_EndedDays = Annotated[int | None, option("--days", metavar="N", min=0, max=36500, help=text("cli.archive.days"))]


def archive(
    context: typer.Context,
    uuids: _Uuids = None,
    days: _EndedDays = None,
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
    run = archive_old_contexts(base_of(context), days, dry_run=True)
    say(run, partial(print_run, "archive"), as_json=as_json)


def unarchive(context: typer.Context, uuid: TaskArgument, as_json: AsJson = False) -> None:
    """Bring a task back."""
    from orihon.transfer.archive import restore_task

    task = named_task(context, uuid)
    place = restore_task(base_of(context), task)
    done = text(f"cli.unarchive.{'in_database' if place.is_in_database else 'done'}", uuid=task, folder=place)
    say({"uuid": task, "folder": None if place.is_in_database else str(place)}, done, as_json=as_json)
