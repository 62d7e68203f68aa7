"""All benchmarks that need no recorded data, one after another: `make bench`."""

from __future__ import annotations

import subprocess
import sys

SMALL = (
    *("start", "append", "memory", "resume", "prune", "compress", "request", "postgres", "search", "importing"),
    "encryption",
)
LARGE = ("claims", "catalogue", "workers", "scale", "partitions", "terminal", "figures", "web", "audit", "proxy")

if __name__ == "__main__":
    for name in (*SMALL, *LARGE):
        print(f"— {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
