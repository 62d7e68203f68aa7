"""A short part of every campaign of ``orihon torture``: what must be zero is zero, and a campaign can fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orihon.system.clock import is_alive
from orihon.upkeep.torture import CAMPAIGNS, MUST_BE_ZERO
from orihon.upkeep.torture.campaign import BACKENDS, Trial, base_at, open_task
from orihon.upkeep.torture.nursery import PATIENCE, Nursery, Say
from orihon.upkeep.torture.runner import campaign_named
from orihon.upkeep.torture.workload import Promises, digest, look_at
from tests.acceptance.test_cli import ORIHON
from tests.commands import ended
from tests.conformance.child import ROOT, unmeasured
from tests.integration.run_supervisor import eventually
from tests.services import POSTGRES, hurried, needed

pytestmark = pytest.mark.stress

#: How many trials of each campaign are a second's work or two. Each run makes others.
TRIALS = {
    "kills": 12,
    "stops": 8,
    "writers": 3,
    "fleet": 1,
    "clock": 6,
    "cuts": 20,
    "errors": 12,
    "full": 8,
    "damage": 12,
}
#: Here each job begins with the same long preparation.
ALONE = ("cuts", "errors", "full", "damage")


def played(campaign: str, backend: str, folder: Path) -> dict[str, Any]:
    """What the command prints; its scratch folder is made in ``folder``."""
    environment = unmeasured()
    if backend == "postgres":
        environment["ORIHON_DATABASE__URL"] = hurried(needed(POSTGRES))
    command = ["orihon", "torture", "--campaign", campaign, "--backend", backend, "--dir", str(folder), "--json"]
    command += ["--trials", str(TRIALS[campaign]), "--minutes", "2", *(["--jobs", "1"] if campaign in ALONE else [])]
    code, said, complaints = ended(command, environment, timeout=300, folder=ROOT)
    assert said, complaints
    report: dict[str, Any] = json.loads(said)
    assert code == int(any(row[name] for row in report["rows"] for name in MUST_BE_ZERO)), complaints
    return report


CELLS = [(name, backend) for name in CAMPAIGNS for backend in BACKENDS if backend in campaign_named(name).backends]


@pytest.mark.parametrize(("campaign", "backend"), CELLS)
def test_what_must_be_zero_is_zero(campaign: str, backend: str, tmp_path: Path) -> None:
    report = played(campaign, backend, tmp_path)
    assert report["failures"] == [], json.dumps(report["failures"], indent=1)
    assert report["is_complete"]
    (row,) = report["rows"]
    assert {name: row[name] for name in MUST_BE_ZERO} == dict.fromkeys(MUST_BE_ZERO, 0)
    assert row["trials"] >= TRIALS[campaign]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_what_was_acknowledged_too_early_is_called_lost(tmp_path: Path) -> None:
    """The control: a table of zeros proves nothing unless this one is caught."""
    nursery = Nursery()
    promises, trial = Promises(), Trial()
    with closing(nursery), base_at(tmp_path, {}) as base:
        victim = nursery.start(write_hastily, str(tmp_path))
        promises.hear(filter(None, [victim.said(PATIENCE) for _ in range(5)]), trial)
        promises.hear(victim.kill(), trial)
        look_at(base, promises, trial).close()
    assert (trial.acknowledged, trial.lost, trial.doubled) == (4, 1, 1)
    assert not trial.is_clean


def write_hastily(say: Say, place: str) -> None:
    """Says of one message that it is there before it is, and stores another one twice."""
    task = open_task(base_at(place, {}), "hasty")
    say("open", task.context.uuid)
    for text in ("[1.1]", "[1.2]", "[1.2]"):
        say("messages", task.add("user", text), digest(text))
    say("messages", 4, digest("[1.3]"))
    time.sleep(PATIENCE)


def test_an_interrupted_run_tells_what_it_has_seen_and_leaves_no_process(tmp_path: Path) -> None:
    command = [str(ORIHON), "torture", "--backend", "files", "--campaign", "kills", "--dir", str(tmp_path), "--json"]
    process = subprocess.Popen(command, cwd=ROOT, env=unmeasured(), stdout=subprocess.PIPE, text=True)
    eventually(lambda: any(tmp_path.glob("*/*/000002")))
    jobs = children_of(process.pid)
    everybody = {one for job in jobs for one in (job, *children_of(job))}
    assert len(everybody) > len(jobs) > 0
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=PATIENCE)
    report = json.loads(printed)
    assert process.returncode == 128 + signal.SIGINT
    assert not report["is_complete"]
    assert report["rows"][0]["trials"] > 0
    assert [one for one in everybody if is_alive(one, 0)] == []
    assert list(tmp_path.iterdir()) == []


def children_of(pid: int) -> list[int]:
    said = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in said.split()]


def test_a_run_without_a_trial_is_no_proof(tmp_path: Path) -> None:
    said = tortured(tmp_path, "--campaign", "kills", "--backend", "files", "--minutes", "0", status=1)
    assert "Not one trial, and so nothing shown: kills files." in said
    assert "nothing was lost" not in said
    assert "nothing to play" in tortured(tmp_path, "--campaign", "cuts", "--backend", "postgres")
    assert "There is no folder" in tortured(tmp_path / "no-such", "--campaign", "kills")
    assert "Too little room" in tortured(tmp_path, "--campaign", "kills", "--jobs", "1000000")
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_is_killed_is_told(tmp_path: Path) -> None:
    command = [str(ORIHON), "torture", "--backend", "files", "--campaign", "kills", "--dir", str(tmp_path), "--json"]
    command += ["--jobs", "1"]
    process = subprocess.Popen(command, cwd=ROOT, env=unmeasured(), stdout=subprocess.PIPE, text=True)
    eventually(lambda: any(tmp_path.glob("*/*/000001")))
    for job in children_of(process.pid):
        os.kill(job, signal.SIGKILL)
    report = json.loads(process.communicate(timeout=PATIENCE)[0])
    assert process.returncode == 1
    assert report["rows"][0]["tracebacks"] == 1
    assert "ended with status -9" in report["failures"][0]["seen"]


def tortured(folder: Path, *options: str, status: int = 2) -> str:
    command = ["orihon", "torture", "--dir", str(folder), *options]
    code, said, complaints = ended(command, unmeasured(), timeout=300, folder=ROOT)
    assert code == status, said + complaints
    return said + complaints


def test_without_a_server_postgres_is_refused_in_words(tmp_path: Path) -> None:
    command = ["orihon", "torture", "--backend", "postgres", "--dir", str(tmp_path)]
    code, _, complaints = ended(command, unmeasured(), timeout=300, folder=tmp_path)
    assert code == 2
    assert "database.url is not set" in complaints
    assert list(tmp_path.iterdir()) == []
