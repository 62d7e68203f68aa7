"""How long `import orihon` and `orihon --help` take.

python -m benchmarks.start [--repeats 15]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path


def wall(command: list[str], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    python = [sys.executable, "-c"]
    bare = wall([*python, "pass"], repeats)
    lazy = wall([*python, "import orihon"], repeats)
    used = wall([*python, "from orihon import MessageStore, TaskContextManager"], repeats)
    shown = wall([str(Path(sys.executable).with_name("orihon")), "--help"], repeats)
    print(f"python alone                          {bare * 1e3:6.0f} ms")
    print(f"import orihon                         {lazy * 1e3:6.0f} ms   (wanted: under 100)")
    print(f"… and MessageStore, TaskContextManager {used * 1e3:5.0f} ms")
    print(f"orihon --help                         {shown * 1e3:6.0f} ms   (wanted: under 250)")


if __name__ == "__main__":
    main()
