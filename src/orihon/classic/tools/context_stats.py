"""``python -m orihon.tools.context_stats``: ``orihon stats``, of the storage or of one task."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from orihon.classic.tools.command_line import add_task, parser_of, run, task_name
from orihon.cli.output import shown
from orihon.cli.stats import storage_lines
from orihon.reports.storage import storage_summary
from orihon.settings import Settings, load_settings
from orihon.tasks.base import OpenBase
from orihon.texts import text


def print_statistics_report(
    base_dir: Path | str | None = None, settings: Mapping[str, Any] | Settings | None = None
) -> None:
    """Print the picture of the storage; ``collect_global_statistics`` gives its figures."""
    loaded = load_settings(settings)
    where = base_dir if base_dir is not None else loaded.context_storage.base_dir
    for line in storage_lines(storage_summary(OpenBase(where, loaded))):
        typer.echo(shown(line))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code."""
    parser = parser_of("context_stats")
    add_task(parser)
    parser.add_argument("--summary", action="store_true", help=text("cli.stats.summary"))
    given = parser.parse_args(arguments)
    task = task_name(given)
    return run(given, "stats", *([] if task is None else [task]), *(["--summary"] if given.summary else []))


if __name__ == "__main__":
    sys.exit(main())
