"""Could somebody go on from what `orihon squeeze` leaves, by a measure that is not part of this repository?

    ORIHON_BENCH_DATA=FOLDER python -m benchmarks.handoff [--presets] [options of the measure]

FOLDER has `bench/handoff.py` (the measure) and `data` (transcripts, and lists of what a successor has to know). Prints
the measure's own table, for `orihon squeeze`, for random lines and for dropping the oldest messages; with `--presets`
for `orihon squeeze` by each preset.
"""

from __future__ import annotations

import sys

from benchmarks.retention import measured

if __name__ == "__main__":
    sys.exit(measured("handoff", ["chance", "fifo"], sys.argv[1:]))
