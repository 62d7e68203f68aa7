"""``python -m orihon.tools.context_viewer``: ``orihon show`` and ``orihon export``, by the key of a task."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import typer

from orihon.classic.tools.command_line import add_task, parser_of, run, task_name
from orihon.cli.options import CommandOptions
from orihon.cli.output import shown
from orihon.errors import OrihonError
from orihon.reports.overview import task_overview
from orihon.texts import text

_SHOWN = ("messages", "summaries", "tools", "plans", "folds", "inherited")


def header(given: argparse.Namespace, task: str) -> None:
    """Print which task it is and what was counted; what is wrong with the name, the command says."""
    with suppress(OrihonError):
        base = CommandOptions(given.base_dir and Path(given.base_dir), given.config and Path(given.config)).base
        overview = task_overview(base, base.named(task).uuid)
        row, figures = overview.row, overview.figures
        if row is not None and figures is not None:
            key, view = row.key, figures.view
            failed = figures.tool_errors or 0
            said = text(
                "old_tools.header",
                **{"lang": given.lang} if given.lang else {},
                task="/".join(
                    (key.task_source, *filter(None, (key.owner, key.repo)), f"{key.task_type}_{key.task_id}")
                ),
                created=row.created_at[:19].replace("T", " "),
                status=row.status.value,
                messages=figures.messages,
                summaries=figures.summaries,
                tools=figures.tools,
                done=figures.tools - failed,
                failed=failed,
                size=f"{figures.bytes / (1 << 20):.1f}MB",
                usage=f"{view.usage:.0%}",
                tokens=view.tokens,
                window=view.budget,
            )
            for line in said.splitlines():
                typer.echo(shown(line))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code."""
    parser = parser_of("context_viewer")
    add_task(parser)
    for name in _SHOWN:
        parser.add_argument(f"--show-{name}", action="store_true", help=text(f"cli.show.only_{name}"))
    parser.add_argument("--export-html", nargs="?", const="", metavar="FILE", help=text("old_tools.export_html"))
    given = parser.parse_args(arguments)
    task = task_name(given)
    if task is None:
        parser.error(text("old_tools.no_task"))
    wanted = [f"--{name}" for name in _SHOWN if getattr(given, f"show_{name}")]
    if wanted and not given.json:
        wanted.append("--no-pager")
        header(given, task)
    code = run(given, "show", task, *wanted)
    if code == 0 and given.export_html is not None:
        code = run(given, "export", task, "--format", "html", "-o", given.export_html or f"{given.task_id}.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
