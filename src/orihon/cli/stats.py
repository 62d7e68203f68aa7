"""``orihon stats``, ``costs``, ``metrics``: figures of all tasks, of their storage, of one task, and the costs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson, hint_at_tasks_beside, named_task, task_argument
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import human_bytes, print_json, print_table, progress_bar, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.reports.costs import CostLine, CostReport
    from orihon.reports.storage import SizeGroup, StorageSummary

_SUMS = ("take_overs", "messages", "tokens", "llm_calls", "tool_calls", "compressions", "average_minutes")
_HOST = ("workers", "working", "processed", "failed", "leases")


def stats(
    context: typer.Context,
    task: Annotated[str | None, task_argument("cli.stats.task", "[TASK]")] = None,
    summary: Annotated[bool, flag("--summary", help=text("cli.stats.summary"))] = False,
    as_json: AsJson = False,
) -> None:
    """Tasks, the line, machines, and what it all cost; or the storage; or one task."""
    from orihon.errors import InvalidInput

    options = context.ensure_object(CommandOptions)
    if task is not None and summary:
        raise InvalidInput("options_together", first="TASK", second="--summary")
    if task is not None:
        print_task_statistics(options, named_task(context, task), as_json=as_json)
        return
    if summary:
        print_storage(options, as_json=as_json)
    else:
        _print_cluster(options, as_json=as_json)
    hint_at_tasks_beside(options)


def _print_cluster(options: CommandOptions, *, as_json: bool) -> None:
    from orihon.runtime.stats import collect_cluster_stats

    found = collect_cluster_stats(options.base)
    if as_json:
        print_json(found)
        return
    rows = list(_statistics(found))
    if sys.stdout.isatty():
        names = [text("cli.stats.what"), text("cli.stats.figure")]
        print_table(names, [(_said(*key), _grouped(value)) for key, value in rows], flexible=0)
    else:
        print_table(["", ""], [(".".join(key), value) for key, value in rows], flexible=0)
    _print_hosts(found["hosts"])


def _statistics(found: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], object]]:
    for group in ("tasks", "queue", "workers", "leases"):
        for name, value in found[group].items():
            yield (group, name), value
    for name in _SUMS:
        yield ("sums", name), "-" if found[name] is None else found[name]


def _said(group: str, name: str) -> str:
    if group == "tasks":
        return text("cli.stats.tasks", status=name)
    if group == "workers":
        return text("cli.stats.workers", state=text(f"cli.workers.states.{name}"))
    return text(f"cli.stats.{group}.{name}")


def _print_hosts(hosts: list[dict[str, Any]]) -> None:
    if not hosts:
        return
    rows = [(host["host"], *(host[name] for name in _HOST)) for host in hosts]
    if sys.stdout.isatty():
        names = [text("cli.workers.host"), *(text(f"cli.stats.hosts.{name}") for name in _HOST)]
        print_table(names, [(name, *map(_grouped, figures)) for name, *figures in rows], flexible=0)
    else:
        print_table([""] * (len(_HOST) + 2), [("host", *row) for row in rows], flexible=0)


def _grouped(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) else str(value)


# ---- the storage, and one task ---------------------------------------------------------------------------------------

_MOST_GROUPS = 10


def print_storage(options: CommandOptions, *, as_json: bool) -> None:
    """The picture of the storage."""
    from orihon.reports.storage import storage_summary

    with progress_bar("cli.stats.measuring", hidden=as_json) as progress:
        found = storage_summary(options.base, progress=progress)
    if as_json:
        print_json(found)
        return
    for line in storage_lines(found):
        typer.echo(shown(line))
    _print_groups("user", found.by_user)
    _print_groups("repository", found.by_repository)


def storage_lines(found: StorageSummary) -> Iterator[str]:
    """The picture of the storage, line by line."""
    yield text("cli.stats.storage.title")
    yield text("cli.stats.storage.total", tasks=found.tasks)
    yield text("cli.stats.storage.size", size=human_bytes(found.bytes))
    days: dict[str, Any] = {"archive_days": found.archive_days, "retention_days": found.retention_days}
    groups: dict[str, SizeGroup] = {"active": found.active, "archived": found.archived, "old": found.old}
    for name, group in groups.items():
        yield text(f"cli.stats.storage.{name}", tasks=group.tasks, size=human_bytes(group.bytes), **days)
    if found.cleaned.tasks:
        yield text("cli.stats.storage.cleaned", tasks=found.cleaned.tasks)
    if found.unmeasured:
        yield text("cli.stats.storage.unmeasured", tasks=found.unmeasured)
    yield text("cli.stats.storage.messages", messages=found.messages, average=found.messages_per_task)
    yield text("cli.stats.storage.summaries", summaries=found.summaries, compressions=found.compressions)
    if found.biggest:
        yield text("cli.stats.storage.biggest")
    for one in found.biggest:
        yield f"  {one.uuid}  {human_bytes(one.bytes)}  {one.status}  {one.label}"


def _print_groups(name: str, groups: Mapping[str, Any]) -> None:
    if not any(groups):
        return
    figures = ("tasks", "messages", "tokens")
    rows = [
        (group or "-", *(sums[figure] for figure in figures)) for group, sums in list(groups.items())[:_MOST_GROUPS]
    ]
    if sys.stdout.isatty():
        titles = [text(f"cli.stats.storage.by_{name}"), *(text(f"cli.stats.storage.column_{one}") for one in figures)]
        print_table(titles, rows, flexible=0)
    else:
        print_table([""] * (len(figures) + 2), [(name, *row) for row in rows], flexible=1)


def print_task_statistics(options: CommandOptions, uuid: str, *, as_json: bool) -> None:
    """The figures of one task."""
    from orihon.reports.overview import OverviewStatistics, task_overview

    overview = task_overview(options.base, uuid, last=0)
    figures = OverviewStatistics(overview).as_dict()
    if as_json:
        print_json(figures)
        return
    rows = [(name, "-" if value is None else value) for name, value in _flat(figures)]
    titles = [text("cli.stats.what"), text("cli.stats.figure")]
    print_table(titles, rows, flexible=0)


def _flat(figures: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in figures.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


# ---- costs -----------------------------------------------------------------------------------------------------------

_SHORT_ID = 8
_MOST = 1_000_000
_MOST_NAMED = 10  # models without a price; --by model shows all of them
_COST_COLUMNS = ("calls", "input", "cached", "output", "cost", "saved_tokens", "saved")


def costs(
    context: typer.Context,
    by: Annotated[str, option("--by", help=text("cli.costs.by"))] = "task",
    since: Annotated[str | None, option("--since", help=text("cli.costs.since"))] = None,
    until: Annotated[str | None, option("--until", help=text("cli.costs.until"))] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=_MOST, help=text("cli.costs.limit"))] = 50,
    as_json: AsJson = False,
) -> None:
    """One line for each task, user, repository, model or day, and the sum."""
    from orihon.reports.costs import cost_report

    options = context.ensure_object(CommandOptions)
    report = cost_report(options.base, None, by, since, until, limit=limit)
    if as_json:
        print_json(report)
    elif report.lines:
        names = [text(f"cli.costs.groups.{report.by}"), *(text(f"cli.costs.columns.{name}") for name in _COST_COLUMNS)]
        print_table(names, [*(_cost_cells(line, by) for line in report.lines), _sum(report)], flexible=0)
    else:
        typer.echo(text("cli.costs.none"), err=True)
    if not as_json:
        _say_more(report)
    hint_at_tasks_beside(options)


def _cost_cells(line: CostLine, by: str) -> tuple[object, ...]:
    on_terminal = sys.stdout.isatty()
    name = f"{line.name[:_SHORT_ID]} {line.label}" if on_terminal and by == "task" else line.name
    return (name or "-", *_cost_figures(line))


def _sum(report: CostReport) -> tuple[object, ...]:
    return (text("cli.costs.total") if sys.stdout.isatty() else "total", *_cost_figures(report.total))


def _cost_figures(line: CostLine) -> tuple[object, ...]:
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


# ---- metrics for Prometheus ------------------------------------------------------------------------------------------

_MOST_PORT = 65535


def metrics(
    context: typer.Context,
    port: Annotated[int | None, option("--port", min=0, max=_MOST_PORT, help=text("cli.metrics.port"))] = None,
    host: Annotated[str, option("--host", help=text("cli.metrics.host"))] = "127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Print the metrics, or serve them until interrupted."""
    from orihon.reports.metrics import MetricsServer, collect_metrics, metric_samples

    options = context.ensure_object(CommandOptions)
    if port is None:
        if as_json:
            samples = metric_samples(options.base)
            print_json({"metrics": {sample.series: sample.value for sample in samples}})
        else:
            typer.echo(collect_metrics(options.base), nl=False)
        return
    if as_json:
        raise InvalidInput("options_together", first="--port", second="--json")
    with MetricsServer(options.base, host=host, port=port) as server:
        typer.echo(text("cli.metrics.serving", address=server.address), err=True)
        server.serve()
