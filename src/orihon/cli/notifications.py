"""``orihon notifications``: what people were told, and whether the webhook has got it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.changes import MOST, AsJson
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, print_table, short_time, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.notifications.delivery import Delivery
    from orihon.notifications.notification import Notification

_COLUMNS = ("number", "when", "task", "kind", "message", "webhook")
_SHORT_ID = 8


def notifications(
    context: typer.Context,
    task: Annotated[str | None, option("--task", help=text("cli.notifications.task"))] = None,
    since: Annotated[
        int | None,
        typer.Option("--since", min=0, max=MOST, help=text("cli.notifications.since"), show_default=False),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=MOST, help=text("cli.notifications.limit"))] = 50,
    follow: Annotated[bool, flag("--follow", help=text("cli.notifications.follow"))] = False,
    deliver: Annotated[bool, flag("--deliver", help=text("cli.notifications.deliver"))] = False,
    as_json: AsJson = False,
) -> None:
    """The feed, or its delivery."""
    from orihon.errors import InvalidInput
    from orihon.reports.notifications import deliver_notifications, follow_notifications, list_notifications

    options = context.ensure_object(CommandOptions)
    if deliver and follow:
        raise InvalidInput("options_together", first="--deliver", second="--follow")
    if deliver:
        _say_delivered(deliver_notifications(options.base, early=True), as_json=as_json)
    if follow:
        for one in follow_notifications(options.base, since=since, limit=limit, task=task):
            _print_at_once(one, as_json=as_json)
    found = list_notifications(options.base, since=since, limit=limit, task=task)
    if as_json:
        print_json({"notifications": found})
    elif found:
        names = [text(f"cli.notifications.column_{column}") for column in _COLUMNS]
        is_sent = options.settings.notifications.webhook is not None
        rows = [_cells(one, is_sent=is_sent) for one in found]
        print_table(names, rows, flexible=_COLUMNS.index("message"))
    else:
        typer.echo(text("cli.notifications.none"), err=True)


def _say_delivered(done: Delivery, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        typer.echo(text("cli.notifications.delivered", **done.as_dict()))
    raise typer.Exit(1 if done.failed or done.given_up else 0)


def _print_at_once(one: Notification, *, as_json: bool) -> None:
    from orihon.system import jsonio

    if as_json:
        typer.echo(jsonio.encode(one.as_dict()).decode())
    else:
        typer.echo(shown("  ".join(map(str, _cells(one, is_sent=True)))))
    sys.stdout.flush()


def _cells(one: Notification, *, is_sent: bool) -> tuple[object, ...]:
    """One line of the table; without a webhook nothing is on its way to one."""
    on_terminal, task = sys.stdout.isatty(), one.task or "-"
    return (
        one.number,
        short_time(one.created_at) if on_terminal else one.created_at,
        task[:_SHORT_ID] if on_terminal else task,
        one.kind,
        one.message,
        one.webhook if is_sent or one.webhook != "pending" else "-",
    )
