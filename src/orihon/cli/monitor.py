"""``orihon monitor``: is anything wrong, and what happened in a month."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.changes import AsJson
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, print_table, short_time, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.reports.monitor import Check, MonitorSnapshot
    from orihon.reports.monthly import MonthlyReport

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
        float | None,
        typer.Option("--every", min=_SHORTEST, max=_MOST_SECONDS, help=text("cli.monitor.every"), show_default=False),
    ] = None,
    report: Annotated[str | None, option("--report", help=text("cli.monitor.report"))] = None,
    as_json: AsJson = False,
) -> None:
    """One look, a loop of them, or a report."""
    from orihon.errors import InvalidInput
    from orihon.reports.monitor import ContextMonitor
    from orihon.reports.monthly import monthly_report

    options = context.ensure_object(CommandOptions)
    given = [name for name, value in (("--once", once), ("--every", every), ("--report", report)) if value]
    if len(given) > 1:
        raise InvalidInput("options_together", first=given[0], second=given[1])
    if report is not None:
        _print_report(monthly_report(options.base, report), as_json=as_json)
        return
    watching = ContextMonitor(every, base_dir=options.base, settings=options.settings)
    if every is not None:
        watching.monitor(on_look=lambda snapshot: _print_at_once(snapshot, as_json=as_json))
    snapshot = watching.check()
    _print_snapshot(snapshot, as_json=as_json)
    raise typer.Exit(1 if snapshot.wrong else 0)


def _print_snapshot(snapshot: MonitorSnapshot, *, as_json: bool) -> None:
    if as_json:
        print_json(snapshot)
        return
    names = [text(f"cli.monitor.column_{name}") for name in ("check", "value", "limit", "state")]
    print_table(names, map(_cells, snapshot.checks), flexible=0)
    for check in snapshot.wrong:
        typer.echo(shown(check.message), err=True)


def _cells(check: Check) -> tuple[object, ...]:
    on_terminal = sys.stdout.isatty()
    name = text(f"cli.monitor.checks.{check.name}") if on_terminal else check.name
    state = "wrong" if check.is_wrong else "fine"
    figures = check.figures
    return name, figures["value"], figures["limit"], text(f"cli.monitor.{state}") if on_terminal else state


def _print_at_once(snapshot: MonitorSnapshot, *, as_json: bool) -> None:
    from orihon.system import jsonio

    if as_json:
        typer.echo(jsonio.encode(snapshot.as_dict()).decode())
    else:
        found = "; ".join(check.message for check in snapshot.wrong) or text("cli.monitor.all_fine")
        typer.echo(shown(f"{short_time(snapshot.at)}  {found}"))
    sys.stdout.flush()


def _print_report(found: MonthlyReport, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
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
