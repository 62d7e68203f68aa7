"""``orihon keys``, ``grants``, ``audit``: keys of the encryption at rest, tokens for people, and who did what."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import MOST, AsJson
from orihon.cli.options import CommandOptions, base_of, option
from orihon.cli.output import print_json, print_table, progress_bar, say, short_time, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.audit import AuditRecord

# ---- keys ------------------------------------------------------------------------------------------------------------


def keys_show(context: typer.Context, as_json: AsJson = False) -> None:
    """Which keys there are; never what they are."""
    from orihon.upkeep.keys import keys_overview

    found = keys_overview(base_of(context))
    if as_json:
        print_json(found)
        return
    typer.echo(text("cli.keys.on" if found.enabled else "cli.keys.off"))
    if found.master is None:
        typer.echo(text("cli.keys.no_master"))
        return
    typer.echo(shown(text("cli.keys.master", master=found.master, source=found.source)))
    typer.echo(shown(text("cli.keys.place", place=found.place, erased=found.erased)))
    if found.data_keys:
        names = [text("cli.keys.column_master"), text("cli.keys.column_data_keys")]
        print_table(names, found.data_keys.items(), flexible=0)
    if found.to_rotate:
        typer.echo(text("cli.keys.to_rotate", count=found.to_rotate))


def keys_new(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help=text("cli.keys.file"), show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Make a master key."""
    from orihon.upkeep.keys import new_master_key

    master = new_master_key(file)
    say({"master": master, "file": str(file)}, text("cli.keys.made", master=master, file=file), as_json=as_json)


def keys_rotate(context: typer.Context, as_json: AsJson = False) -> None:
    """Bring every data key under the current master key."""
    from orihon.upkeep.keys import rotate_keys

    with progress_bar("cli.keys.working", hidden=as_json) as progress:
        done = rotate_keys(base_of(context), progress)
    say(done, text("cli.keys.rotated", rotated=done.rotated, current=done.current), as_json=as_json)


# ---- grants ----------------------------------------------------------------------------------------------------------

_COLUMNS = ("id", "user", "role", "name", "created", "until")


def grants_new(
    context: typer.Context,
    user: Annotated[str, option("--user", help=text("cli.grants.user"))],
    role: Annotated[str, option("--role", help=text("cli.grants.role"))] = "read",
    name: Annotated[str, option("--name", help=text("cli.grants.name"))] = "",
    days: Annotated[float | None, option("--days", help=text("cli.grants.days"))] = None,
    as_json: AsJson = False,
) -> None:
    """Make one; its token is shown this once."""
    from orihon.tasks.grants import new_grant

    made = new_grant(base_of(context), user=user, role=role, name=name, days=days)
    if as_json:
        print_json({**made.grant.as_dict(), "token": made.token})
        return
    typer.echo(made.token)
    typer.echo(shown(text("cli.grants.made", id=made.grant.id, user=user, role=role)), err=True)


def grants_list(context: typer.Context, as_json: AsJson = False) -> None:
    """List them."""
    from orihon.system.clock import utc_now
    from orihon.tasks.grants import list_grants

    found = list_grants(base_of(context))
    if as_json:
        print_json({"grants": found})
        return
    if not found:
        typer.echo(text("cli.grants.none"), err=True)
        return
    now = utc_now()
    rows = [
        (
            one.id,
            one.user,
            one.role,
            one.name,
            short_time(one.created_at),
            short_time(one.expires_at) if one.is_good(now) else text("cli.grants.over"),
        )
        for one in found
    ]
    print_table([text(f"cli.grants.column_{column}") for column in _COLUMNS], rows, flexible=3)


def grants_revoke(
    context: typer.Context,
    grant: Annotated[str, typer.Argument(metavar="ID", help=text("cli.grants.id"), show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Make a token worthless."""
    from orihon.tasks.grants import revoke_grant

    done = revoke_grant(base_of(context), grant)
    say(done, text("cli.grants.revoked", id=done.id, user=done.user), as_json=as_json)


# ---- the audit log ---------------------------------------------------------------------------------------------------

_AUDIT_COLUMNS = ("time", "user", "action", "task", "result", "process", "details")
_SHORT_ID = 8


def audit_show(
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
    from orihon.cli.arguments import moment

    options = context.ensure_object(CommandOptions)
    wanted = AuditFilter(task, user, action, None if since is None else moment(since))
    found = audit_records(options.base_path, options.settings, wanted, limit=limit)
    if as_json:
        print_json({"records": found})
    elif found:
        names = [text(f"cli.audit.column_{column}") for column in _AUDIT_COLUMNS]
        print_table(names, map(_cells, found), flexible=_AUDIT_COLUMNS.index("details"))
    else:
        typer.echo(text("cli.audit.none"), err=True)


def audit_verify(
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
        if report.removed:
            typer.echo(text("cli.audit.removed", removed=report.removed))
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
