"""``orihon torture``: faults played at real stores in a scratch folder, and the table of what they could do."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.arguments import AsJson
from orihon.cli.options import CommandOptions, option
from orihon.cli.output import print_json, print_table, shown
from orihon.errors import InvalidInput
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.upkeep.torture import TortureReport, TortureRow

_MINUTES = 5.0  # when neither a time nor a number of trials is given
_MOST_JOBS = 4
_SEED_BITS = 32


def torture(
    context: typer.Context,
    backends: Annotated[list[str] | None, option("--backend", help=text("cli.torture.backend"))] = None,
    campaigns: Annotated[list[str] | None, option("--campaign", help=text("cli.torture.campaign"))] = None,
    minutes: Annotated[float | None, option("--minutes", min=0, help=text("cli.torture.minutes"))] = None,
    trials: Annotated[int | None, option("--trials", min=1, help=text("cli.torture.trials"))] = None,
    jobs: Annotated[int | None, option("--jobs", min=1, help=text("cli.torture.jobs"))] = None,
    seed: Annotated[int | None, option("--seed", help=text("cli.torture.seed"))] = None,
    folder: Annotated[Path | None, option("--dir", help=text("cli.torture.dir"))] = None,
    as_json: AsJson = False,
) -> None:
    """Play, print, and exit with 1 when a column that must be zero is not."""
    from orihon.upkeep.torture import CAMPAIGNS, TorturePlan
    from orihon.upkeep.torture import torture as play
    from orihon.upkeep.torture.campaign import BACKENDS

    settings = context.ensure_object(CommandOptions).settings
    usual = BACKENDS if settings.database.url is not None else BACKENDS[:2]
    for name in backends or ():
        if name not in BACKENDS:
            raise InvalidInput("torture_backend", name=name, known=", ".join(BACKENDS))
    plan = TorturePlan(
        campaigns=campaigns or list(CAMPAIGNS),
        backends=backends or usual,
        folder=(folder or Path(tempfile.gettempdir())) / f"orihon-torture-{secrets.token_hex(4)}",
        seed=secrets.randbits(_SEED_BITS) if seed is None else seed,
        jobs=jobs or min(_MOST_JOBS, os.cpu_count() or 1),
        minutes=_MINUTES if minutes is None and trials is None else minutes,
        trials=trials,
    )
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        with _live(hidden=as_json) as watch:
            report = play(plan, settings, watch)
    finally:
        signal.signal(signal.SIGTERM, previous)
    if as_json:
        print_json(report)
    else:
        print_table(_heads(), map(_cells, report.rows), flexible=0)
        for failure in report.failures:
            typer.echo(shown(text("cli.torture.failure", **asdict(failure))))
        _say_outcome(report, plan.folder)
    if not report.is_complete and report.is_clean:
        raise typer.Exit(128 + signal.SIGINT)
    raise typer.Exit(1 if report.unplayed or not report.is_clean else 0)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _say_outcome(report: TortureReport, folder: Path) -> None:
    trials = sum(row.trials for row in report.rows)
    said = []
    if not report.is_clean:
        said.append(text("cli.torture.failed", trials=trials, folder=folder))
    elif trials:
        said.append(text("cli.torture.clean", trials=trials))
    if report.unplayed:
        said.append(text("cli.torture.unplayed", cells=", ".join(report.unplayed)))
    said.append(text("cli.torture.how", seconds=report.seconds, seed=report.seed, jobs=report.jobs))
    typer.echo(shown(" ".join(said)))


def _heads() -> list[str]:
    names = ("campaign", "backend", "trials", "tasks", "acknowledged", *_zeros())
    return [text(f"cli.torture.column_{name}") for name in names]


def _zeros() -> tuple[str, ...]:
    from orihon.upkeep.torture import MUST_BE_ZERO

    return MUST_BE_ZERO


def _cells(row: TortureRow) -> list[str]:
    figures = (row.trials, row.tasks, row.acknowledged, *(getattr(row, name) for name in _zeros()))
    return [row.campaign, row.backend, *(f"{figure:,}" for figure in figures)]


@contextmanager
def _live(*, hidden: bool) -> Iterator[Callable[[TortureReport], None]]:
    """The table as it stands, on a terminal. No thread draws it: processes are forked meanwhile."""
    if hidden or not sys.stderr.isatty():
        yield lambda report: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    def table(report: TortureReport) -> Table:
        drawn = Table(*_heads(), box=None)
        for row in report.rows:
            drawn.add_row(*_cells(row))
        return drawn

    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        yield lambda report: live.update(table(report), refresh=True)
