"""``orihon worker``: work on the queue with supervised processes, until told to stop."""

from __future__ import annotations

from typing import Annotated

import typer

from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, shown
from orihon.texts import text

_MOST = 10_000
_EXIT_REFUSED = 2


def worker(
    context: typer.Context,
    count: Annotated[
        int | None,
        typer.Option("--workers", "-n", min=1, max=_MOST, help=text("cli.worker.count"), show_default=False),
    ] = None,
    until_empty: Annotated[bool, flag("--until-empty", help=text("cli.worker.until_empty"))] = False,
    handler: Annotated[str | None, option("--handler", help=text("cli.worker.handler"))] = None,
    as_json: Annotated[bool, flag("--json", help=text("cli.worker.json"))] = False,
) -> None:
    """Start the workers and stay with them."""
    from orihon.guard.logs import shifted
    from orihon.runtime.child import LogPlan
    from orihon.runtime.handlers import DEFAULT_HANDLER
    from orihon.runtime.stats import collect_worker_stats
    from orihon.runtime.supervisor import Supervisor

    options = context.ensure_object(CommandOptions)
    settings = options.settings
    usual = settings.multiprocess.max_workers if settings.multiprocess.enabled else 1
    screen = shifted("WARNING", options.verbosity)
    supervisor = Supervisor(
        count or usual,
        settings,
        base_dir=options.base_path,
        handler=handler or DEFAULT_HANDLER,
        until_empty=until_empty,
        logs=LogPlan(shifted(settings.logging.level, options.verbosity), settings.logging.file, screen),
    )
    typer.echo(shown(text("cli.worker.begins", count=len(supervisor.workers), folder=options.base_path)), err=True)
    could_work = supervisor.run()
    if not could_work:
        typer.echo(f"orihon: {text('cli.worker.refused')}", err=True)
        raise typer.Exit(_EXIT_REFUSED)
    stats = collect_worker_stats(options.base_path, settings)
    if as_json:
        print_json(stats)
    else:
        typer.echo(
            text(
                "cli.worker.ends",
                completed=stats["tasks"].get("completed", 0),
                dead=stats["tasks"].get("dead", 0) + stats["tasks"].get("failed", 0),
                waiting=stats["waiting"],
            ),
            err=True,
        )
