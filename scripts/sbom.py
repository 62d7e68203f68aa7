"""Writes the software bill of materials: ``python -m scripts.sbom FILE`` (``make sbom``), CycloneDX 1.6 in JSON.

What Orihon needs to run, and what its extras need (``scope: optional``), with the versions of this environment and the
licences that their metadata declare; what only tests and checks need is not in it. The same environment gives the same
file.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
#: Where the metadata say nothing: from the licence file in the wheel.
_UNDECLARED = {"ahocorasick-rs": "Apache-2.0", "protobuf": "BSD-3-Clause"}


def main(target: str = "sbom.json") -> int:
    """Make the file."""
    Path(target).write_text(json.dumps(bill(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


def bill() -> dict[str, Any]:
    """The bill of what is installed here, without what only developers need."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "all.json")
        tool = [sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", str(ROOT / "pyproject.toml")]
        tool += ["--mc-type", "library", "--output-reproducible", "--no-validate", "--output-file", str(made)]
        subprocess.run([*tool, sys.executable], check=True)
        found: dict[str, Any] = json.loads(made.read_text(encoding="utf-8"))
    core, optional = needed("orihon", frozenset()), needed("orihon", frozenset({"all"}))
    kept = [_described(part, core) for part in found["components"] if normal(part["name"]) in optional]
    refs = {part["bom-ref"] for part in kept} | {"root-component"}
    links = [link for link in found["dependencies"] if link["ref"] in refs]
    for link in links:
        link["dependsOn"] = [ref for ref in link.get("dependsOn", []) if ref in refs]
    return {**found, "components": kept, "dependencies": links}


def needed(name: str, extras: frozenset[str]) -> set[str]:
    """The packages that one depends on, with theirs; those that are not installed are left out."""
    found: set[str] = set()
    waiting = {(normal(name), extras)}
    done: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        package, wanted = waiting.pop()
        done.add((package, wanted))
        try:
            lines = requires(package) or []
        except PackageNotFoundError:
            continue
        found.add(package)
        for line in map(Requirement, lines):
            if line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in wanted or {""}):
                waiting |= {(normal(line.name), frozenset(line.extras))} - done
    return found - {normal(name)}


def _described(part: dict[str, Any], core: set[str]) -> dict[str, Any]:
    name = normal(part["name"])
    if not part.get("licenses") and name in _UNDECLARED:
        part["licenses"] = [{"license": {"id": _UNDECLARED[name], "acknowledgement": "concluded"}}]
    return {**part, "scope": "required" if name in core else "optional"}


def normal(name: str) -> str:
    """The name of a package as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
