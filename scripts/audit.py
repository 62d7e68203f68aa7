"""Asks whether a package that Orihon needs has a known vulnerability: ``python -m scripts.audit`` (``make check``).

Fails for what was found, never for what could not be asked: where no service answers in time, one line says so and why.
Which service is asked, the variables of pip-audit say (``PIP_AUDIT_VULNERABILITY_SERVICE``, ``PIP_AUDIT_OSV_URL``).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from scripts.sbom import needed

_SECONDS = 90  # for all of it
_ANSWER_SECONDS = "5"
_LONGEST_REASON = 200


def main() -> int:
    """Ask, and tell what was found."""
    packages = sorted(needed("orihon", frozenset({"all"})))
    found, reason = _asked("".join(f"{name}=={version(name)}\n" for name in packages))
    if not found:
        sys.stdout.write(f"audit: no vulnerability service answers from here; nothing was checked ({reason})\n")
        return 0
    bad = {name: known for name, known in found.items() if known}
    for name, known in bad.items():
        sys.stdout.write(f"audit: {name}: {', '.join(known)}\n")
    sys.stdout.write(
        f"audit: {len(found)} of {len(packages)} packages checked, {len(bad)} with known vulnerabilities\n"
    )
    return 1 if bad else 0


def _asked(pins: str) -> tuple[dict[str, list[str]], str]:
    """The vulnerabilities of each package that somebody knows, and why none is known of; a mirror may know of files and
    of nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "pins.txt")
        wanted.write_text(pins, encoding="utf-8")
        command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner=off"]
        command += ["--format=json", "--desc=off", f"--timeout={_ANSWER_SECONDS}", f"--requirement={wanted}"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return {}, f"no answer within {_SECONDS} seconds"
        try:
            told = json.loads(ended.stdout)["dependencies"]
        except (ValueError, KeyError):
            return {}, (ended.stderr.strip().splitlines() or [f"exit code {ended.returncode}"])[-1][:_LONGEST_REASON]
    known = {f"{one['name']} {one['version']}": [each["id"] for each in one["vulns"]] for one in told if "vulns" in one}
    return known, "it knows none of the packages"


if __name__ == "__main__":
    sys.exit(main())
