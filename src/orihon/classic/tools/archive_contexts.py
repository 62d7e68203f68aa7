"""``python -m orihon.tools.archive_contexts``: ``orihon archive``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from orihon.classic.tools.command_line import add_days, confirmed, days_of, parser_of, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code."""
    parser = parser_of("archive_contexts")
    add_days(parser)
    given = parser.parse_args(arguments)
    command = ("archive", *days_of(given))
    return run(given, *command) if confirmed(given, *command) else 1


if __name__ == "__main__":
    sys.exit(main())
