"""``python -m orihon.tools.maintenance``: ``orihon maintain``, for a timer."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from orihon.classic.tools.command_line import add_days, days_of, parser_of, run
from orihon.texts import text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code."""
    parser = parser_of("maintenance")
    add_days(parser)
    parser.add_argument("--archive-days", type=int, metavar="N", help=text("cli.maintain.archive_days"))
    given = parser.parse_args(arguments)
    archive = [] if given.archive_days is None else ["--archive-days", str(given.archive_days)]
    return run(given, "maintain", *days_of(given), *archive)


if __name__ == "__main__":
    sys.exit(main())
