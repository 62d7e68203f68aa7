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
from pathlib import Path

FOLDER = "ORIHON_BENCH_DATA"
PRESETS = ("default", "coding-agent", "companion", "phases")
ORIHON = Path(sys.executable).with_name("orihon")


def main(options: list[str]) -> int:
    if not (folder := os.environ.get(FOLDER)):
        print(f"{FOLDER} is not set: no transcripts to measure retention on")
        return 0
    measure = [sys.executable, str(Path(folder) / "bench" / "retention.py"), "--data", str(Path(folder) / "data")]
    squeeze = f"{ORIHON} squeeze {{file}} --tokens {{tokens}}"
    commands = [squeeze, "fifo"]
    if "--presets" in options:
        options.remove("--presets")
        commands = [f"{squeeze} --preset {preset}" for preset in PRESETS]
    contenders = [word for command in commands for word in ("--contender", command)]
    return subprocess.run([*measure, *contenders, *options], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
