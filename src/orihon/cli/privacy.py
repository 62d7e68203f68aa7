"""``orihon privacy``: a person's data, handed out, made anonymous, erased."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.arguments import AsJson, TaskArgument, named_task
from orihon.cli.options import CommandOptions, base_of, flag, option
from orihon.cli.output import print_json, say, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.upkeep.privacy import Erasure

_User = Annotated[str, typer.Argument(metavar="USER", help=text("cli.privacy.user"), show_default=False)]


def export(
    context: typer.Context,
    user: _User,
    out: Annotated[Path, typer.Argument(metavar="FOLDER", help=text("cli.privacy.out"), show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Write it down."""
    from orihon.upkeep.privacy import export_user

    done = export_user(base_of(context), user, out)
    say(done, text("cli.privacy.exported", tasks=len(done.tasks), user=user, folder=out), as_json=as_json)
    if done.left and not as_json:
        typer.echo(text("cli.privacy.left", tasks=len(done.left)), err=True)
        for task in done.left:
            typer.echo(f"  {task}", err=True)


def erase(
    context: typer.Context,
    user: _User,
    yes: Annotated[bool, flag("--yes", "-y", help=text("cli.privacy.yes"))] = False,
    dry_run: Annotated[bool, flag("--dry-run", help=text("cli.privacy.dry_run"))] = False,
    wait: Annotated[float, option("--wait", min=0, help=text("cli.privacy.wait"))] = 30.0,
    by: Annotated[str, option("--by", help=text("cli.privacy.by"))] = "",
    as_json: AsJson = False,
) -> None:
    """Erase it, after a question."""
    from orihon.upkeep.privacy import erase_user

    options = context.ensure_object(CommandOptions)
    found = erase_user(options.base, user, dry_run=True)
    if not dry_run and (yes or _confirmed(found)):
        done = erase_user(options.base, user, by=by, wait=wait)
        say(done, _print_erased, as_json=as_json)
        raise typer.Exit(0 if done.is_complete else 1)
    if as_json:
        print_json(found)
        return
    head = "would" if found.tasks else "nothing"
    typer.echo(shown(text(f"cli.privacy.{head}", tasks=len(found.tasks), user=user)))
    for task in found.tasks:
        typer.echo(f"  {task}")


def anonymize(
    context: typer.Context,
    task: TaskArgument,
    names: Annotated[list[str] | None, option("--name", help=text("cli.privacy.names"))] = None,
    as_json: AsJson = False,
) -> None:
    """Replace what tells who somebody is."""
    from orihon.upkeep.privacy import anonymize_task

    done = anonymize_task(base_of(context), named_task(context, task), names=names or ())
    line = text("cli.privacy.anonymized", task=done.task, records=done.records, replaced=done.replaced)
    say(done, line, as_json=as_json)


def _confirmed(found: Erasure) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("not_confirmed")
    # Without tasks there may still be tokens, entries of the audit, and what a run that was not complete has left.
    question = "confirm" if found.tasks else "confirm_rest"
    return typer.confirm(shown(text(f"cli.privacy.{question}", tasks=len(found.tasks), user=found.user)))


def _say_unread(done: Erasure) -> None:
    for reason in dict.fromkeys(reason for _, reason in done.unread):
        tasks = [task for task, why in done.unread if why == reason]
        typer.echo(shown(text("cli.privacy.unread", tasks=len(tasks), reason=reason)), err=True)
        for task in tasks:
            typer.echo(f"  {task}", err=True)


def _print_erased(done: Erasure) -> None:
    line = text("cli.privacy.erased", user=done.user, tasks=len(done.tasks), grants=done.grants, names=done.names)
    typer.echo(shown(line))
    for task, reason in done.failed:
        typer.echo(shown(text("cli.privacy.failed", task=task, reason=reason)), err=True)
    for place, reason in done.left:
        name = text(f"cli.privacy.places.{place}")
        typer.echo(shown(text("cli.privacy.traces", place=name, reason=reason)), err=True)
    _say_unread(done)
    if not done.is_complete:
        typer.echo(text("cli.privacy.again"), err=True)
    typer.echo(text("cli.privacy.elsewhere"), err=True)
