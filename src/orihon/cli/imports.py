"""``orihon import``: what other agents have recorded, brought in."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, progress_bar, shown
from orihon.importers.registry import FORMATS
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.importers.report import ImportReport, NamedProblem

_Paths = Annotated[list[Path], typer.Argument(metavar="PATH...", help=text("cli.import.paths"), show_default=False)]

#: So many files that are no transcripts are named.
_MOST_OTHERS = 5


def import_(
    context: typer.Context,
    paths: _Paths,
    form: Annotated[
        str | None, option("--format", help=text("cli.import.format", formats=", ".join(sorted(FORMATS))))
    ] = None,
    user: Annotated[str, option("--user", help=text("cli.import.user"))] = "",
    again: Annotated[bool, flag("--again", help=text("cli.import.again"))] = False,
    dry_run: Annotated[bool, flag("--dry-run", help=text("cli.import.dry_run"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """Import, print, and exit with 1 when something could not be read."""
    from orihon.importers.importer import import_transcripts
    from orihon.tasks.base import OpenBase

    options = context.ensure_object(CommandOptions)
    # For many an import is the beginning: the folder is made where it is missing.
    with (
        OpenBase(options.base_path, options.settings, create=True) as base,
        progress_bar("cli.import.reading", hidden=as_json) as progress,
    ):
        report = import_transcripts(
            base, paths, format=form, user=user, again=again, dry_run=dry_run, progress=progress
        )
    if as_json:
        print_json(report)
    else:
        _print(report)
    raise typer.Exit(0 if report.is_clean else 1)


def _print(report: ImportReport) -> None:
    for problem in report.problems:
        typer.echo(shown(_line(problem)), err=True)
    unnamed = report.problem_count - sum(problem.times for problem in report.problems)
    if unnamed > 0:
        typer.echo(text("cli.import.named", count=unnamed), err=True)
    figures: dict[str, Any] = {name: getattr(report, name) for name in ("files", "imported", "unchanged", "skipped")}
    figures |= {"new": report.new_tasks, "grown": report.grown_tasks, "messages": report.messages}
    figures |= {"folds": report.folds, "tools": report.tool_calls, "plans": report.plans}
    typer.echo(text(f"cli.import.{'would' if report.dry_run else 'done'}", **figures))
    if report.others:
        _print_others(report)
    if report.growing:
        typer.echo(text("cli.import.growing", count=report.growing))
    mended: dict[str, Any] = dataclasses.asdict(report.mended)
    if any(mended.values()):
        typer.echo(text("cli.import.mended", **mended))


def _print_others(report: ImportReport) -> None:
    named = [Path(path).name for path in report.other_files[:_MOST_OTHERS]]
    more = " …" if report.others > len(named) else ""
    typer.echo(shown(text("cli.import.others", count=report.others, names=", ".join(named) + more)))


def _line(problem: NamedProblem) -> str:
    place: dict[str, Any] = {"path": problem.path, "said": problem.said}
    if problem.line:
        said = text("cli.import.problem_at", line=problem.line, **place)
    else:
        said = text("cli.import.problem", **place)
    return said + text("cli.import.more", times=problem.times) if problem.times > 1 else said
