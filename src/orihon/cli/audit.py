"""``orihon audit show`` and ``audit verify``: who did what, and the proof that it says so still."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.changes import MOST, AsJson
from orihon.cli.options import CommandOptions, option
from orihon.cli.output import print_json, print_table, short_time, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.audit import AuditRecord

_COLUMNS = ("time", "user", "action", "task", "result", "process", "details")
_SHORT_ID = 8


def show(
    context: typer.Context,
    task: Annotated[str | None, option("--task", help=text("cli.audit.task"))] = None,
    user: Annotated[str | None, option("--user", help=text("cli.audit.user"))] = None,
    action: Annotated[str | None, option("--action", help=text("cli.audit.action"))] = None,
    since: Annotated[str | None, option("--since", help=text("cli.audit.since"))] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MOST, help=text("cli.audit.limit"))] = 100,
    as_json: AsJson = False,
) -> None:
    """The newest records."""
    from orihon.audit import AuditFilter, audit_records
    from orihon.cli.times import moment

    options = context.ensure_object(CommandOptions)
    wanted = AuditFilter(task, user, action, None if since is None else moment(since))
    found = audit_records(options.base_path, options.settings, wanted, limit=limit)
    if as_json:
        print_json({"records": found})
    elif found:
        names = [text(f"cli.audit.column_{column}") for column in _COLUMNS]
        print_table(names, map(_cells, found), flexible=_COLUMNS.index("details"))
    else:
        typer.echo(text("cli.audit.none"), err=True)


def verify(
    context: typer.Context,
    anchors: Annotated[list[Path] | None, option("--anchors", help=text("cli.audit.anchors"))] = None,
    as_json: AsJson = False,
) -> None:
    """Exit with 1 when something is not as it was."""
    from orihon.audit import verify_audit

    options = context.ensure_object(CommandOptions)
    report = verify_audit(options.base_path, options.settings, anchors=anchors or None)
    if as_json:
        print_json(report)
    else:
        for finding in report.findings:
            typer.echo(shown(finding))
        sums: dict[str, Any] = {"records": report.records, "chains": report.chains, "anchors": report.anchors}
        kind = "sound" if report.is_sound else "broken"
        typer.echo(text(f"cli.audit.{kind}", **sums, findings=len(report.findings)))
    raise typer.Exit(0 if report.is_sound else 1)


def _cells(one: AuditRecord) -> tuple[object, ...]:
    on_terminal, task = sys.stdout.isatty(), one.task or "-"
    user = text("cli.audit.forgotten") if one.user is None else one.user
    return (
        short_time(one.time) if on_terminal else one.time,
        user if one.address is None else f"{user} {one.address}",
        one.action,
        task[:_SHORT_ID] if on_terminal else task,
        one.result,
        f"{one.host}:{one.process}",
        ", ".join(f"{name}={value}" for name, value in one.details.items()) or "-",
    )
