"""``orihon verify``: derive everything about one task again and say what differs, or that its records are not here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import print_findings, print_json, progress_bar, shown
from orihon.cli.task_argument import TaskArgument, named_task
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.tasks.base import OpenBase
    from orihon.tasks.verify.verify import Redacted

_SAID = {
    "read": "cli.verify.clean",
    "archived": "cli.verify.archived",
    "removed": "cli.verify.removed",
    "none": "cli.verify.no_records",
}


def verify(
    context: typer.Context,
    uuid: TaskArgument,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Look, print, and exit with 1 when something is wrong."""
    from orihon.tasks.verify.verify import Redacted, redacted_records
    from orihon.tasks.verify.verify import verify as look

    options = context.ensure_object(CommandOptions)
    task = named_task(context, uuid)
    base = options.base
    with progress_bar("cli.doctor.looking", hidden=as_json):
        findings = look(base, task)
    records, noted = _records(base, task) if not findings else (None, {})
    redacted = redacted_records(base, task) if records == "read" else Redacted()
    if as_json:
        archive = noted if records == "archived" else None
        told = {"records": records, "archive": archive, "redacted": redacted.records}
        told |= {"redacted_secrets": redacted.secrets, "redacted_people": redacted.people}
        print_json({"task": task, "clean": not findings, "findings": findings, **told})
    elif records is None:
        print_findings(findings)
    else:
        typer.echo(shown(text(_SAID[records], task=task, **noted)))
        _say_redacted(redacted)
    raise typer.Exit(1 if findings else 0)


def _say_redacted(redacted: Redacted) -> None:
    if redacted.secrets:
        typer.echo(text("cli.verify.redacted_secrets", count=redacted.secrets))
    if redacted.people:
        typer.echo(text("cli.verify.redacted_people", count=redacted.people))
    if redacted.records and not (redacted.secrets or redacted.people):
        typer.echo(text("cli.verify.redacted", count=redacted.records))


def _records(base: OpenBase, task: str) -> tuple[str, dict[str, Any]]:
    """Whether there were records to look at, and if not, what the row says of them."""
    from orihon.catalogue.rows import CLEANED
    from orihon.values.task import TaskStatus

    row = base.row(task)
    if row is None or base.folders.places(task):
        return "read", {}
    if CLEANED in row.metadata:
        return "removed", {"at": row.metadata[CLEANED].get("at", "-")}
    if row.status is TaskStatus.ARCHIVED:
        noted = row.metadata.get("archived")
        known = noted if isinstance(noted, dict) else {}
        return "archived", {name: known.get(name, "-") for name in ("place", "key")}
    return "none", {}
