"""``orihon export`` and ``import``: tasks in files that leave Orihon, and what other agents have recorded."""

from __future__ import annotations

import dataclasses
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import AsJson, TaskArgument, named_task, task_argument
from orihon.cli.options import CommandOptions, base_of, flag, option
from orihon.cli.output import print_json, progress_bar, say, shown
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.importers.report import ImportReport, NamedProblem
    from orihon.transfer.export import ExportRun

EXIT_FOUND = 1

_Tasks = Annotated[list[str] | None, task_argument("cli.export.tasks")]


class ExportForm(StrEnum):
    """What ``--format`` takes."""

    JSONL = "jsonl"
    MARKDOWN = "markdown"
    HTML = "html"
    CHAT = "chat"


def export(
    context: typer.Context,
    tasks: _Tasks = None,
    form: Annotated[ExportForm, typer.Option("--format", help=text("cli.export.format"))] = ExportForm.JSONL,
    out: Annotated[str | None, option("-o", "--out", help=text("cli.export.out"))] = None,
    all_tasks: Annotated[bool, flag("--all", help=text("cli.export.all"))] = False,
    force: Annotated[bool, flag("--force", help=text("cli.export.force"))] = False,
    clear: Annotated[bool, flag("--clear", help=text("cli.export.clear"))] = False,
    as_json: AsJson = False,
) -> None:
    """Write and, where standard output is free for it, say what was written."""
    from orihon.errors import InvalidInput
    from orihon.transfer.export import export_tasks

    if bool(tasks) == all_tasks:
        raise InvalidInput("no_tasks_named")
    to_stdout = out in (None, "-")
    if as_json and to_stdout:
        raise InvalidInput("option_alone", option="--json", needs="-o")
    named = [named_task(context, task) for task in tasks] if tasks else None
    target = sys.stdout.buffer if out is None or to_stdout else out
    with progress_bar("cli.export.working", hidden=as_json or (to_stdout and sys.stdout.isatty())) as progress:
        run = export_tasks(base_of(context), named, form.value, target, force=force, clear=clear, progress=progress)
    _report(run, as_json=as_json, quiet=to_stdout)
    if run.failed:
        raise typer.Exit(EXIT_FOUND)


class HandoffKind(StrEnum):
    """What ``--form`` takes."""

    PROMPT = "prompt"
    MARKDOWN = "markdown"
    OPENAI = "openai"
    ANTHROPIC = "anthropic"


def handoff(
    context: typer.Context,
    task: TaskArgument,
    form: Annotated[HandoffKind, typer.Option("--form", help=text("cli.handoff.form"))] = HandoffKind.PROMPT,
    out: Annotated[str | None, option("-o", "--out", help=text("cli.handoff.out"))] = None,
    force: Annotated[bool, flag("--force", help=text("cli.export.force"))] = False,
    clear: Annotated[bool, flag("--clear", help=text("cli.handoff.clear"))] = False,
    as_json: AsJson = False,
) -> None:
    """Print the view to go on with, or say where it was written."""
    from orihon.transfer.export.handoff import hand_off

    file = None if out == "-" else out
    made = hand_off(base_of(context), named_task(context, task), form.value, file, force=force, clear=clear)
    if made.file is None and not as_json:
        sys.stdout.buffer.write(made.text.encode())
        return
    say(made, text("cli.export.written", task=made.task, file=made.file, bytes=made.bytes), as_json=as_json)


def export_page(context: typer.Context, task: str, file: str, *, as_json: bool) -> None:
    """One task as an HTML page, for ``orihon show --export-html``."""
    from orihon.transfer.export import ExportRun, export_task

    with progress_bar("cli.export.working", hidden=as_json):
        written = export_task(base_of(context), task, "html", file)
    _report(ExportRun([written]), as_json=as_json, quiet=False)


def _report(run: ExportRun, *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(run)
        return
    for one in run.exported if not quiet else ():
        typer.echo(shown(text("cli.export.written", task=one.task, file=one.file, bytes=one.bytes)))
    for task, reason in run.failed.items():
        typer.echo(shown(text("cli.export.failed", task=task, reason=reason)), err=True)
    if not run.exported and not run.failed:
        typer.echo(text("cli.export.none"), err=True)


# ---- bringing in -----------------------------------------------------------------------------------------------------

_Paths = Annotated[list[Path], typer.Argument(metavar="PATH...", help=text("cli.import.paths"), show_default=False)]

#: So many files that are no transcripts are named.
_MOST_OTHERS = 5


def format_help() -> str:
    """What ``--format`` of a file to read is for."""
    from orihon.importers.registry import FORMATS

    return text("cli.import.format", formats=", ".join(sorted(FORMATS)))


def import_(
    context: typer.Context,
    paths: _Paths,
    form: Annotated[str | None, option("--format", help=format_help())] = None,
    user: Annotated[str, option("--user", help=text("cli.import.user"))] = "",
    again: Annotated[bool, flag("--again", help=text("cli.import.again"))] = False,
    dry_run: Annotated[bool, flag("--dry-run", help=text("cli.import.dry_run"))] = False,
    as_json: AsJson = False,
) -> None:
    """Import, print, and exit with 1 when something could not be read."""
    from orihon.importers.importer import import_transcripts
    from orihon.tasks.base import OpenBase

    options = context.ensure_object(CommandOptions)
    # For many an import is the beginning: the folder is made where it is missing.
    with (
        OpenBase(options.base_to_fill(), options.settings, create=True) as base,
        progress_bar("cli.import.reading", hidden=as_json) as progress,
    ):
        report = import_transcripts(
            base, paths, format=form, user=user, again=again, dry_run=dry_run, progress=progress
        )
    say(report, _print_import, as_json=as_json)
    raise typer.Exit(0 if report.is_clean else 1)


def _print_import(report: ImportReport) -> None:
    for problem in report.problems:
        typer.echo(shown(problem_line(problem)), err=True)
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


def problem_line(problem: NamedProblem) -> str:
    """What could not be read, on one line."""
    place: dict[str, Any] = {"path": problem.path, "said": problem.said}
    if problem.line:
        said = text("cli.import.problem_at", line=problem.line, **place)
    else:
        said = text("cli.import.problem", **place)
    return said + text("cli.import.more", times=problem.times) if problem.times > 1 else said
