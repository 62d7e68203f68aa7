"""A process that runs every command, one after the other, wherever its output goes: a pipe or a terminal.

``python -m tests.walk_process PREPARED SCRATCH``: before the output of each command stands a line with its name, after
it one with its exit code.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from orihon.cli.main import main
from tests.command_walk import copied, runs

BEGIN, END = "<<begin>>", "<<end>>"


def walk(prepared: Path, scratch: Path) -> None:
    """Each command once, for people, and its help page."""
    for number, run in enumerate(runs()):
        if run.dear:
            continue
        folder = copied(prepared, scratch / str(number))
        os.chdir(folder)
        _once(run.name, run.command_line(folder))
    for command in dict.fromkeys(run.command for run in runs()):
        _once(f"{command} --help", [*command.split(), "--help"])


def _once(name: str, arguments: list[str]) -> None:
    sys.stdout.write(f"{BEGIN} {name}\n")
    sys.stdout.flush()
    code = main(arguments)
    sys.stderr.flush()
    sys.stdout.write(f"{END} {code}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    walk(Path(sys.argv[1]), Path(sys.argv[2]))
