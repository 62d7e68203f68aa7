"""``python -m tests.upstream --script FILE [--port N] [--record FOLDER]``: the provider as a process.

The script is JSON: a list of steps, each with ``text``, ``calls`` (name and arguments) and whatever else a reply takes,
or ``status`` and ``body`` of a fault; ``"repeat": true`` in the last one has it answer for ever. Prints the address.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from orihon.system import jsonio
from tests.upstream import Fault, Reply, Request, Step, Upstream


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.upstream")
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--window", type=int)
    options = parser.parse_args()
    steps = jsonio.decode(options.script.read_bytes())
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    script = _Script(steps)
    with Upstream(script, port=options.port, record_in=options.record, window=options.window) as upstream:
        sys.stdout.write(upstream.base_url + "\n")
        sys.stdout.flush()
        ended.wait()
    return 0


class _Script:
    """Step after step; a last one that repeats never ends."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self._steps = list(steps)
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Step:
        with self._lock:
            if not self._steps:
                return Fault(410, {"error": {"message": "the script is over"}})
            step = dict(self._steps[0])
            if not step.pop("repeat", False):
                self._steps.pop(0)
        return Fault(**step) if "status" in step else Reply(**step)


if __name__ == "__main__":
    sys.exit(main())
