"""All benchmarks of the foundation, one after another: `make bench`."""

from __future__ import annotations

import subprocess
import sys

if __name__ == "__main__":
    for name in ("start", "append", "memory", "resume"):
        print(f"— {name}", flush=True)
        subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
