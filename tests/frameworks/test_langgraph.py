"""LangGraph's own tests on our saver and store, and ours on what they promise besides."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.frameworks.environments import REPOSITORY, counts, failures, run, source_of
from tests.services import Database

HERE = Path(__file__).parent
#: Those of their tests that ask for a saver, and all of those about channels that are kept as differences.
SUITE = (
    *("test_time_travel.py", "test_time_travel_async.py", "test_interruption.py", "test_interrupt_state.py"),
    *("test_subgraph_persistence.py", "test_subgraph_persistence_async.py", "test_strict_resume.py"),
    *("test_pydantic.py", "test_large_cases.py", "test_large_cases_async.py"),
    *("test_delta_channel_exit_mode.py", "test_delta_channel_fork.py", "test_delta_channel_id_stability.py"),
    *("test_delta_channel_parallel_order.py", "test_delta_channel_subgraph.py", "test_delta_channel_to_plain.py"),
    *("test_delta_channel_update_state.py", "test_delta_channel_update_overwrite.py"),
)


#: Counts how often ``uuid4`` is asked for: a new task has one of its own, so that the messages have the next ones.
LEFT_OUT = "tests/test_large_cases.py::test_root_graph"


@pytest.mark.parametrize("backend", ["files", "sqlite", "postgres"])
def test_all_of_the_conformance_suite(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    settings: dict[str, Any] = {"context_storage": {"backend": backend, "durability": "os"}}
    if backend == "postgres":
        database: Database = request.getfixturevalue("postgres")
        settings["database"] = database.settings
    script = HERE / "langgraph_conformance.py"
    ran = run("langgraph", str(script), str(tmp_path), json.dumps(settings), cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    found = json.loads(ran.stdout.splitlines()[-1])
    assert {name: result[2] for name, result in found.items() if result[1]} == {}
    assert sum(result[0] for result in found.values()) == 81


def test_their_own_graphs(tmp_path: Path) -> None:
    source = source_of("langgraph", "langgraph")
    shutil.copytree(source / "tests", tmp_path / "tests")
    shutil.copy(HERE / "langgraph_conftest.py", tmp_path / "tests" / "conftest.py")
    suite = [f"tests/{name}" for name in SUITE]
    options = ("-q", "-p", "no:cacheprovider", "--timeout=300", "--tb=short", "-rfE", f"--deselect={LEFT_OUT}")
    ran = run("langgraph", "-m", "pytest", *options, *suite, cwd=tmp_path)
    assert failures(ran.stdout) == [], ran.stdout[-4000:]
    assert counts(ran.stdout)["passed"] >= 400, ran.stdout[-4000:]


def test_ours(tmp_path: Path) -> None:
    checks = str(HERE / "langgraph_checks.py")
    ran = run(
        "langgraph",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--noconftest",
        "-c",
        "/dev/null",
        checks,
        cwd=REPOSITORY,
    )
    assert ran.returncode == 0, ran.stdout[-4000:]
