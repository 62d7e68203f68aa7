"""``python -m orihon.tools.archive_contexts``: ``orihon archive``."""

from __future__ import annotations

import sys
from functools import partial

from orihon.classic.tools.command_line import tidy

main = partial(tidy, "archive_contexts", "archive")

if __name__ == "__main__":
    sys.exit(main())
