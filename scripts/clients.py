"""Writes ``tests/agents/locks`` anew: ``python -m scripts.clients``. Needs npm, and Python 3.11 and 3.12 on Linux.

What ``make agents`` installs, with versions and hashes: clients that nobody has changed, for the tests of the proxy.
Those from PyPI with one hash for each package, of the wheel for this system: all would be a hundred times as many.
To have a newer client: change ``_WANTED`` or the lists of ``package.json``, and run it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from orihon.system import jsonio

LOCKS = Path(__file__).parents[1] / "tests" / "agents" / "locks"
_HEAD = "# Made by scripts/clients.py for Linux on x86-64, installed by make agents.\n"
#: Each environment: the Python it is for, what is in it, and what that would bring along but never imports here.
_WANTED: dict[str, tuple[str, Sequence[str], frozenset[str]]] = {
    "litellm": (
        "3.11",
        ("litellm==1.106.2", "mcp", "mini-swe-agent==2.4.6", "smolagents[openai]==1.26.0"),
        frozenset(
            {"datasets", "dill", "multiprocess", "numpy", "pandas", "pyarrow", "python-dateutil", "six", "xxhash"}
        ),
    ),
    "aider": ("3.11", ("aider-chat==0.86.2",), frozenset()),
    "openhands": ("3.12", ("binaryornot", "libtmux", "openhands-sdk==1.58.0"), frozenset()),
}
#: Without what they want: for a browser and a server of their own, some of it to be compiled.
_ALONE = {"openhands": ("openhands-tools==1.58.0",)}


def main() -> int:
    """All of them."""
    for name, (version, wanted, unused) in _WANTED.items():
        found = _resolved(version, wanted)
        found |= _resolved(version, ["--no-deps", *_ALONE[name]]) if name in _ALONE else {}
        lines = [f"{pin} --hash=sha256:{found[pin]}\n" for pin in sorted(found) if pin.partition("==")[0] not in unused]
        (LOCKS / f"{name}.txt").write_text(_HEAD + "".join(lines), encoding="utf-8")
    folder = LOCKS / "npm"
    (folder / "package-lock.json").unlink(missing_ok=True)
    options = (
        "--package-lock-only",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--omit-lockfile-registry-resolved",
    )
    subprocess.run(["npm", "install", "--prefix", str(folder), *options], check=True)
    return 0


def _resolved(version: str, wanted: Sequence[str]) -> dict[str, str]:
    """What pip would install, ``name==version``, and the hash of each file."""
    with tempfile.TemporaryDirectory() as folder:
        python = str(Path(folder, "bin", "python"))
        subprocess.run([_python(version), "-m", "venv", folder], check=True)
        options = ("--quiet", "--dry-run", "--ignore-installed", "--only-binary", ":all:", "--report", "-")
        made = subprocess.run([python, "-m", "pip", "install", *options, *wanted], check=True, stdout=subprocess.PIPE)
    report = jsonio.decode(made.stdout)
    return {
        f"{_normal(item['metadata']['name'])}=={item['metadata']['version']}": str(
            item["download_info"]["archive_info"]["hashes"]["sha256"]
        )
        for item in report["install"]
    }


def _python(version: str) -> str:
    """A Python of that version: pyenv's, or that on the path."""
    own = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    found = str(own[-1]) if own else shutil.which(f"python{version}")
    if found is None:
        sys.exit(f"Python {version} is not installed: put python{version} on the path.")
    return found


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
