"""``orihon notifications`` and ``monitor``: what people were told, whether anything is wrong, a month's report."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.arguments import MOST, AsJson
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, print_table, say, short_time, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.notifications.notification import Notification
    from orihon.notifications.webhook import Delivery
    from orihon.reports.monitor import Check, MonitorSnapshot
    from orihon.reports.statistics import MonthlyReport

_COLUMNS = ("number", "when", "task", "kind", "message", "webhook")
_SHORT_ID = 8


def notifications(
    context: typer.Context,
    task: Annotated[str | None, option("--task", help=text("cli.notifications.task"))] = None,
    since: Annotated[int | None, option("--since", min=0, max=MOST, help=text("cli.notifications.since"))] = None,
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
    say(done, text("cli.notifications.delivered", **done.as_dict()), as_json=as_json)
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


# ---- the monitor -----------------------------------------------------------------------------------------------------

_SUMS = (
    *("created", "calls", "input_tokens", "output_tokens", "saved_tokens", "cost"),
    *("compressions", "compression_failures", "lock_errors"),
)
_SHORTEST = 0.1
_MOST_SECONDS = 86_400.0


def monitor(
    context: typer.Context,
    once: Annotated[bool, flag("--once", help=text("cli.monitor.once"))] = False,
    every: Annotated[
        float | None, option("--every", min=_SHORTEST, max=_MOST_SECONDS, help=text("cli.monitor.every"))
    ] = None,
    report: Annotated[str | None, option("--report", help=text("cli.monitor.report"))] = None,
    as_json: AsJson = False,
) -> None:
    """One look, a loop of them, or a report."""
    from orihon.errors import InvalidInput
    from orihon.reports.monitor import ContextMonitor
    from orihon.reports.statistics import monthly_report

    options = context.ensure_object(CommandOptions)
    given = [name for name, value in (("--once", once), ("--every", every), ("--report", report)) if value]
    if len(given) > 1:
        raise InvalidInput("options_together", first=given[0], second=given[1])
    if report is not None:
        say(monthly_report(options.base, report), _print_report, as_json=as_json)
        return
    watching = ContextMonitor(every, base_dir=options.base, settings=options.settings)
    if every is not None:
        watching.monitor(on_look=lambda snapshot: _print_look(snapshot, as_json=as_json))
    snapshot = watching.check()
    say(snapshot, _print_snapshot, as_json=as_json)
    raise typer.Exit(1 if snapshot.wrong else 0)


def _print_snapshot(snapshot: MonitorSnapshot) -> None:
    names = [text(f"cli.monitor.column_{name}") for name in ("check", "value", "limit", "state")]
    print_table(names, map(_check_cells, snapshot.checks), flexible=0)
    for check in snapshot.wrong:
        typer.echo(shown(check.message), err=True)


def _check_cells(check: Check) -> tuple[object, ...]:
    on_terminal = sys.stdout.isatty()
    name = text(f"cli.monitor.checks.{check.name}") if on_terminal else check.name
    state = "wrong" if check.is_wrong else "fine"
    figures = check.figures
    return name, figures["value"], figures["limit"], text(f"cli.monitor.{state}") if on_terminal else state


def _print_look(snapshot: MonitorSnapshot, *, as_json: bool) -> None:
    from orihon.system import jsonio

    if as_json:
        typer.echo(jsonio.encode(snapshot.as_dict()).decode())
    else:
        found = "; ".join(check.message for check in snapshot.wrong) or text("cli.monitor.all_fine")
        typer.echo(shown(f"{short_time(snapshot.at)}  {found}"))
    sys.stdout.flush()


def _print_report(found: MonthlyReport) -> None:
    columns = [text("cli.monitor.column_what"), found.month]
    print_table(columns, _statistics(found), flexible=0)
    if found.biggest:
        names = [text(f"cli.monitor.column_{name}") for name in ("task", "about", "status", "tokens", "messages")]
        rows = [(task.uuid, task.label, task.status, task.tokens, task.messages) for task in found.biggest]
        print_table(names, rows, flexible=1)


def _statistics(found: MonthlyReport) -> Iterator[tuple[object, ...]]:
    for name in _SUMS:
        value = getattr(found, name)
        shown_value = "-" if value is None else round(value, 4) if isinstance(value, float) else value
        yield _called(name), shown_value
    for status, tasks in found.ended.items():
        yield _called("ended", status), tasks
    for kind, number in found.notifications.items():
        yield _called("notifications", kind), number


def _called(name: str, part: str = "") -> str:
    """What a figure is called: for people on a terminal, for programs elsewhere."""
    if sys.stdout.isatty():
        return text(f"cli.monitor.figures.{name}", part=part)
    return f"{name}.{part}" if part else name
