"""A short part of every campaign of ``orihon torture``: what must be zero is zero, and a campaign can fail."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from orihon.upkeep.torture import CAMPAIGNS, MUST_BE_ZERO
from orihon.upkeep.torture.campaign import BACKENDS
from orihon.upkeep.torture.runner import campaign_named
from tests.acceptance.test_cli import ORIHON
from tests.conformance.child import ROOT, unmeasured
from tests.services import POSTGRES, hurried, needed

pytestmark = pytest.mark.stress

#: How many trials of each campaign are a few seconds' work.
TRIALS = {"kills": 24, "cuts": 40}


def played(campaign: str, backend: str, folder: Path, *options: str) -> dict[str, Any]:
    """What the command prints; its scratch folder is made in ``folder``."""
    environment = unmeasured()
    if backend == "postgres":
        environment["ORIHON_DATABASE__URL"] = hurried(needed(POSTGRES))
    command = [str(ORIHON), "torture", "--campaign", campaign, "--backend", backend]
    command += ["--dir", str(folder), "--json", *(options or ("--trials", str(TRIALS[campaign]), "--minutes", "2"))]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ended.stdout, ended.stderr
    report: dict[str, Any] = json.loads(ended.stdout)
    assert ended.returncode == int(any(row[name] for row in report["rows"] for name in MUST_BE_ZERO)), ended.stderr
    return report


CELLS = [(name, backend) for name in CAMPAIGNS for backend in BACKENDS if backend in campaign_named(name).backends]


@pytest.mark.parametrize(("campaign", "backend"), CELLS)
def test_what_must_be_zero_is_zero(campaign: str, backend: str, tmp_path: Path) -> None:
    report = played(campaign, backend, tmp_path)
    assert report["failures"] == []
    (row,) = report["rows"]
    assert {name: row[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0)
    assert row["trials"] >= TRIALS[campaign]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
