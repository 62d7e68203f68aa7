"""``orihon`` where nothing lasts a while, however busy the machine is: ``-m tests.acceptance.unhurried ARGUMENTS``."""

from __future__ import annotations

from orihon.cli import output
from orihon.cli.main import run

if __name__ == "__main__":
    output._A_WHILE = 3600.0
    run()
