"""Frameworks in environments of their own: what runs in them, and where their own tests come from.

They are installed by ``make frameworks`` beneath the virtual environment; the tests that a framework publishes with its
source are fetched from the package index when they are first wanted, and lie there, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

FRAMEWORKS = Path(sys.prefix) / "frameworks"
REPOSITORY = Path(__file__).parents[2]
PATIENCE = 900  # seconds; nothing here takes so long unless it hangs
_COUNTS = re.compile(r"(\d+) (passed|failed|error|errors|skipped|deselected|xfailed)")


def needed(framework: str) -> Path:
    """The Python of a framework's environment; without one the test is skipped, in continuous integration it fails."""
    python = FRAMEWORKS / framework / "bin" / "python"
    if not (FRAMEWORKS / framework / ".made").exists():
        _missing(f"{framework} is not installed: make frameworks")
    return python


def _missing(why: str) -> None:
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def source_of(framework: str, package: str) -> Path:
    """The source of a package, in the version that is locked, as its authors have published it."""
    needed(framework)
    lock = (REPOSITORY / "tests" / "frameworks" / "locks" / f"{framework}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{package}==(\S+)", lock, re.MULTILINE)
    assert found is not None
    folder = FRAMEWORKS / framework / "source"
    place = folder / f"{package.replace('-', '_')}-{found[1]}"
    if not place.is_dir():
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            # Nothing of it is built or run by pip: the file is fetched, and that is all.
            options = ("--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--quiet", "--dest", aside)
            wanted = f"{package}=={found[1]}"
            fetched = subprocess.run([sys.executable, "-m", "pip", "download", *options, wanted], capture_output=True)
            archive = next(Path(aside).glob("*.tar.gz"), None)
            if archive is None:
                _missing(f"the source of {wanted} cannot be fetched: {fetched.stderr.decode()[-300:]}")
                raise AssertionError
            with tarfile.open(archive) as packed:
                packed.extractall(aside, filter="data")
            (Path(aside) / place.name).rename(place)
    return place


def run(
    framework: str, *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run something in the environment of a framework, with Orihon from its source."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORIHON_", "PYTEST_", "COV_"))}
    paths = os.pathsep.join([str(REPOSITORY / "src"), str(REPOSITORY)])
    return subprocess.run(
        [str(needed(framework)), *arguments],
        cwd=cwd,
        env={**kept, "PYTHONPATH": paths, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def counts(output: str) -> dict[str, int]:
    """What the last line of pytest says."""
    last = output.strip().splitlines()[-1] if output.strip() else ""
    return {kind.rstrip("s") if kind == "errors" else kind: int(number) for number, kind in _COUNTS.findall(last)}


def failures(output: str) -> Sequence[str]:
    """The tests that failed, by the short summary of pytest."""
    return sorted(re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE))
