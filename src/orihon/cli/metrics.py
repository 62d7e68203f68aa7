"""``orihon metrics``: figures for Prometheus, once or over HTTP."""

from __future__ import annotations

from typing import Annotated

import typer

from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json
from orihon.errors import InvalidInput
from orihon.texts import text

_MOST_PORT = 65535


def metrics(
    context: typer.Context,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=_MOST_PORT, help=text("cli.metrics.port"), show_default=False)
    ] = None,
    host: Annotated[str, option("--host", help=text("cli.metrics.host"))] = "127.0.0.1",
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
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
