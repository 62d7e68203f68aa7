"""``orihon costs``: what calls of models have cost, and what folding saved."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.beside import hint_at_tasks_beside
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, print_table, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.reports.costs import CostLine, CostReport

_SHORT_ID = 8
_MOST = 1_000_000
_MOST_NAMED = 10  # models without a price; --by model shows all of them
_COLUMNS = ("calls", "input", "cached", "output", "cost", "saved_tokens", "saved")


def costs(
    context: typer.Context,
    by: Annotated[str, option("--by", help=text("cli.costs.by"))] = "task",
    since: Annotated[str | None, option("--since", help=text("cli.costs.since"))] = None,
    until: Annotated[str | None, option("--until", help=text("cli.costs.until"))] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help=text("cli.costs.limit"))] = 50,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """One line for each task, user, repository, model or day, and the sum."""
    from orihon.reports.costs import cost_report

    options = context.ensure_object(CommandOptions)
    report = cost_report(options.base, None, by, since, until, limit=limit)
    if as_json:
        print_json(report)
    elif report.lines:
        names = [text(f"cli.costs.groups.{report.by}"), *(text(f"cli.costs.columns.{name}") for name in _COLUMNS)]
        print_table(names, [*(_cells(line, by) for line in report.lines), _sum(report)], flexible=0)
    else:
        typer.echo(text("cli.costs.none"), err=True)
    if not as_json:
        _say_more(report)
    hint_at_tasks_beside(options)


def _cells(line: CostLine, by: str) -> tuple[object, ...]:
    on_terminal = sys.stdout.isatty()
    name = f"{line.name[:_SHORT_ID]} {line.label}" if on_terminal and by == "task" else line.name
    return (name or "-", *_statistics(line))


def _sum(report: CostReport) -> tuple[object, ...]:
    return (text("cli.costs.total") if sys.stdout.isatty() else "total", *_statistics(report.total))


def _statistics(line: CostLine) -> tuple[object, ...]:
    if not sys.stdout.isatty():
        cost = "-" if line.cost is None else f"{line.cost:.6f}"
        saved = (line.saved_tokens, f"{line.net_saved_cost:.6f}")
        return line.calls, line.input_tokens, line.cached_tokens, line.output_tokens, cost, *saved
    tokens = (line.calls, line.input_tokens, line.cached_tokens, line.output_tokens)
    cost = text("cli.costs.unpriced") if line.cost is None else _money(line.cost)
    more = "+" if line.cost is not None and line.unpriced_calls else ""
    return (*(f"{each:,}" for each in tokens), f"{cost}{more}", f"{line.saved_tokens:,}", _money(line.net_saved_cost))


def _money(amount: float) -> str:
    """Cents where there is something to see of them."""
    return f"{amount:,.2f}" if abs(amount) >= 1 or amount == 0 else f"{amount:,.4f}"


def _say_more(report: CostReport) -> None:
    total = report.total
    if report.left_out:
        typer.echo(text("cli.costs.left_out", count=report.left_out), err=True)
    if total.unpriced_calls:
        named = [shown(model or "-") for model in total.unpriced_models[:_MOST_NAMED]]
        models = ", ".join([*named, *(["…"] if len(named) < len(total.unpriced_models) else [])])
        typer.echo(text("cli.costs.unpriced_models", calls=total.unpriced_calls, models=models), err=True)
