"""``python -m orihon.tools.context_viewer``: ``orihon show`` and ``orihon export``, by the key of a task."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from orihon.classic.tools.command_line import add_task, parser_of, run, task_name
from orihon.texts import text

_SHOWN = ("messages", "summaries", "tools", "plans", "folds", "inherited")


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
    code = run(given, "show", task, *wanted)
    if code == 0 and given.export_html is not None:
        code = run(given, "export", task, "--format", "html", "-o", given.export_html or f"{given.task_id}.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
