"""The table of docs/reliability.md from results of ``orihon torture --json``; several of one kind are summed.

python -m benchmarks.torture RESULT.json … [--ja]
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from orihon.texts import set_language, text
from orihon.upkeep.torture import CAMPAIGNS, MUST_BE_ZERO

FIGURES = ("trials", "tasks", "acknowledged", *MUST_BE_ZERO)


def summed(reports: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, int]]:
    """The figures by campaign and back end, in the order of the table."""
    rows: dict[tuple[str, str], dict[str, int]] = {}
    for row in (row for report in reports for row in report["rows"]):
        sums = rows.setdefault((row["campaign"], row["backend"]), dict.fromkeys(FIGURES, 0))
        for name in FIGURES:
            sums[name] += row[name]
    places = list(CAMPAIGNS)
    return dict(sorted(rows.items(), key=lambda item: places.index(item[0][0])))


def table(rows: dict[tuple[str, str], dict[str, int]]) -> str:
    """As Markdown."""
    heads = [text(f"cli.torture.column_{name}") for name in ("campaign", "backend", *FIGURES)]
    lines = ["| " + " | ".join(heads) + " |", "|---|---" + "|--:" * len(FIGURES) + "|"]
    for (campaign, backend), sums in rows.items():
        lines.append(f"| {campaign} | {backend} | " + " | ".join(f"{sums[name]:,}" for name in FIGURES) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--ja", action="store_true")
    options = parser.parse_args()
    set_language("ja" if options.ja else "en")
    print(table(summed([json.loads(path.read_text(encoding="utf-8")) for path in options.results])))


if __name__ == "__main__":
    main()
