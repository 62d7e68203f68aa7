"""How much of what an agent needs later survives `orihon squeeze`, by a measure that is not part of this repository.

    ORIHON_BENCH_DATA=FOLDER python -m benchmarks.retention [--presets] [options of the measure]

FOLDER has `bench/retention.py` (the measure) and `data` (transcripts and dialogues). Prints the measure's own table,
for `orihon squeeze` and for dropping the oldest messages; with `--presets` for `orihon squeeze` by each preset.
Without the variable there is nothing to measure.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

FOLDER = "ORIHON_BENCH_DATA"
PRESETS = ("default", "coding-agent", "companion", "phases")
ORIHON = Path(sys.executable).with_name("orihon")


def data_folder() -> Path | None:
    """Where measures and transcripts are; says so when nowhere."""
    if folder := os.environ.get(FOLDER):
        return Path(folder)
    print(f"{FOLDER} is not set: no transcripts to measure on")
    return None


def measured(measure: str, others: Sequence[str], options: Sequence[str]) -> int:
    """Run a measure over squeezing and the ``others`` that it knows; the exit code."""
    if (folder := data_folder()) is None:
        return 0
    squeeze = f"{ORIHON} squeeze {{file}} --tokens {{tokens}}"
    with_presets = "--presets" in options
    commands = [f"{squeeze} --preset {preset}" for preset in PRESETS] if with_presets else [squeeze, *others]
    contenders = [word for command in commands for word in ("--contender", command)]
    program = [sys.executable, str(folder / "bench" / f"{measure}.py"), "--data", str(folder / "data")]
    rest = [option for option in options if option != "--presets"]
    return subprocess.run([*program, *contenders, *rest], check=False).returncode


if __name__ == "__main__":
    sys.exit(measured("retention", ["fifo"], sys.argv[1:]))
