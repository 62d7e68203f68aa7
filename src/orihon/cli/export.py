"""``orihon export``: tasks in files that leave Orihon."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from orihon.cli.changes import AsJson
from orihon.cli.options import CommandOptions, flag, option
from orihon.cli.output import print_json, progress_bar, shown
from orihon.cli.task_argument import named_task, task_argument
from orihon.texts import text

if TYPE_CHECKING:
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
    options = context.ensure_object(CommandOptions)
    target = sys.stdout.buffer if out is None or to_stdout else out
    with progress_bar("cli.export.working", hidden=as_json or (to_stdout and sys.stdout.isatty())) as progress:
        run = export_tasks(options.base, named, form.value, target, force=force, clear=clear, progress=progress)
    _report(run, as_json=as_json, quiet=to_stdout)
    if run.failed:
        raise typer.Exit(EXIT_FOUND)


def export_page(context: typer.Context, task: str, file: str, *, as_json: bool) -> None:
    """One task as an HTML page, for ``orihon show --export-html``."""
    from orihon.transfer.export import ExportRun, export_task

    options = context.ensure_object(CommandOptions)
    with progress_bar("cli.export.working", hidden=as_json):
        written = export_task(options.base, task, "html", file)
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
