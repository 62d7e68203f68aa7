"""Writes the locks of clients and frameworks anew: ``python -m scripts.clients [NAME …]``, all of them or those named.

What ``make agents`` and ``make frameworks`` install, with versions and hashes: clients that nobody has changed, for the
tests of the proxy, and frameworks for those of the adapters. Needs npm, and Python 3.11 and 3.12 on Linux.
Those from PyPI with one hash for each package, of the wheel for this system: all would be a hundred times as many.
To have a newer client: change ``_WANTED`` or the lists of ``package.json``, and run it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from orihon.system import jsonio

_TESTS = Path(__file__).parents[1] / "tests"
LOCKS = _TESTS / "agents" / "locks"
FRAMEWORK_LOCKS = _TESTS / "frameworks" / "locks"
_HEAD = "# Made by scripts/clients.py for Linux on x86-64, installed by make {}.\n"
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
#: What Orihon itself needs there, and the tests: it is imported from its source.
_OURS = (
    *("apsw", "ahocorasick-rs", "httpx", "jinja2", "orjson", "psycopg[binary,pool]", "pytest", "pytest-asyncio"),
    *("pytest-timeout", "PyYAML", "regex", "rich", "rs-bpe", "typer<0.29", "zstandard"),
)
#: Each environment with a framework, and what its own tests want.
_FRAMEWORKS: dict[str, Sequence[str]] = {
    "langgraph": (
        *("langgraph==1.2.22", "langgraph-checkpoint==4.3.2", "langgraph-checkpoint-conformance==0.0.2"),
        *("langgraph-checkpoint-sqlite==3.1.2", "pytest-mock", "syrupy"),
    ),
    "frameworks": (
        *("langchain==1.4.7", "langchain-openai", "langchain-tests==1.1.9"),
        *("llama-index-core==0.14.25", "pydantic-ai-slim==2.66.0"),
    ),
    "openai_agents": ("openai-agents==0.24.0", "pytest-mock"),
}
#: Without what they want: for a browser and a server of their own, some of it to be compiled.
_ALONE = {"openhands": ("openhands-tools==1.58.0",)}


def main(*names: str) -> int:
    """All of them, or those that are named."""
    for name, (version, wanted, unused) in _WANTED.items():
        if not names or name in names:
            found = _resolved(version, wanted)
            found |= _resolved(version, ["--no-deps", *_ALONE[name]]) if name in _ALONE else {}
            found = {pin: digest for pin, digest in found.items() if pin.partition("==")[0] not in unused}
            _write(LOCKS / f"{name}.txt", "agents", found)
    for name, wanted in _FRAMEWORKS.items():
        if not names or name in names:
            _write(FRAMEWORK_LOCKS / f"{name}.txt", "frameworks", _resolved("3.11", [*wanted, *_OURS]))
    if not names or "npm" in names:
        _lock_npm()
    return 0


def _write(path: Path, made_by: str, found: Mapping[str, str]) -> None:
    lines = [f"{pin} --hash=sha256:{found[pin]}\n" for pin in sorted(found)]
    path.write_text(_HEAD.format(made_by) + "".join(lines), encoding="utf-8")


def _lock_npm() -> None:
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
    sys.exit(main(*sys.argv[1:]))
