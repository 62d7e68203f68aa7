"""``python -m orihon.tools.cleanup_contexts``: ``orihon cleanup``."""

from __future__ import annotations

import sys
from functools import partial

from orihon.classic.tools.command_line import tidy

main = partial(tidy, "cleanup_contexts", "cleanup")

if __name__ == "__main__":
    sys.exit(main())
