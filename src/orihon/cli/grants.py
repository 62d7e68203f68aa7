"""``orihon grants``: tokens for people and programs that come over the network."""

from __future__ import annotations

from typing import Annotated

import typer

from orihon.cli.changes import AsJson
from orihon.cli.options import CommandOptions, option
from orihon.cli.output import print_json, print_table, short_time, shown
from orihon.texts import text

_COLUMNS = ("id", "user", "role", "name", "created", "until")


def new(
    context: typer.Context,
    user: Annotated[str, option("--user", help=text("cli.grants.user"))],
    role: Annotated[str, option("--role", help=text("cli.grants.role"))] = "read",
    name: Annotated[str, option("--name", help=text("cli.grants.name"))] = "",
    days: Annotated[float | None, option("--days", help=text("cli.grants.days"))] = None,
    as_json: AsJson = False,
) -> None:
    """Make one; its token is shown this once."""
    from orihon.tasks.grants import new_grant

    options = context.ensure_object(CommandOptions)
    made = new_grant(options.base, user=user, role=role, name=name, days=days)
    if as_json:
        print_json({**made.grant.as_dict(), "token": made.token})
        return
    typer.echo(made.token)
    typer.echo(shown(text("cli.grants.made", id=made.grant.id, user=user, role=role)), err=True)


def list_all(context: typer.Context, as_json: AsJson = False) -> None:
    """List them."""
    from orihon.system.clock import utc_now
    from orihon.tasks.grants import list_grants

    options = context.ensure_object(CommandOptions)
    found = list_grants(options.base)
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


def revoke(
    context: typer.Context,
    grant: Annotated[str, typer.Argument(metavar="ID", help=text("cli.grants.id"), show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Make a token worthless."""
    from orihon.tasks.grants import revoke_grant

    options = context.ensure_object(CommandOptions)
    done = revoke_grant(options.base, grant)
    if as_json:
        print_json(done)
    else:
        typer.echo(shown(text("cli.grants.revoked", id=done.id, user=done.user)))
