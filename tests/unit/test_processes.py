"""Programs that we start run as if they were started plainly, and neither they nor what they start outlive us."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orihon.system.processes import run_guarded, start_guarded
from tests.integration.run_supervisor import eventually

PYTHON = [sys.executable, "-I", "-S", "-c"]


def is_dead(pid: int) -> bool:
    return not Path(f"/proc/{pid}/exe").exists()  # also of one that nobody has waited for


def test_a_program_has_its_streams_folder_environment_and_status(tmp_path: Path) -> None:
    program = "import os, sys; print(os.getcwd(), sorted(os.environ.items()), sys.stdin.read()); sys.exit(7)"
    (tmp_path / "input").write_text("said to it")
    for env in ({"A": "1"}, {"A": "1", "LC_CTYPE": "C.UTF-8"}):
        with (tmp_path / "input").open() as given:
            run = run_guarded(["/usr/bin/env", "-0"], timeout=60, env=env)
            assert dict(line.split("=") for line in run.stdout.decode().split("\0")[:-1]) == env
            run = run_guarded([*PYTHON, program], timeout=60, cwd=tmp_path, env=env, stdin=given)
        assert run.returncode == 7
        assert run.stdout.decode().startswith(str(tmp_path))
        assert run.stdout.decode().endswith("said to it\n")


def test_a_program_that_is_not_there_is_an_error_at_once(tmp_path: Path) -> None:
    (tmp_path / "no program").touch(mode=0o600)
    for program, error in (
        ("nowhere-at-all", FileNotFoundError),
        ("./nothing", FileNotFoundError),
        ("./no program", PermissionError),
    ):
        with pytest.raises(error):
            run_guarded([program], timeout=60, cwd=tmp_path)


@pytest.mark.parametrize("at_terminal", [False, True])
def test_at_a_terminal_it_stays_in_our_session(at_terminal: bool) -> None:
    run = run_guarded([*PYTHON, "import os; print(os.getsid(0))"], timeout=60, at_terminal=at_terminal)
    assert (int(run.stdout) == os.getsid(0)) == at_terminal


@pytest.mark.parametrize("at_terminal", [False, True])
def test_what_takes_too_long_is_ended_with_all_it_started(tmp_path: Path, at_terminal: bool) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 600 & echo $$ $! > {pids}; wait; wait"
    running = start_guarded(["/bin/sh", "-c", script], stdout=subprocess.DEVNULL, at_terminal=at_terminal)
    eventually(lambda: pids.exists() and pids.read_text().endswith("\n"))
    running.end()
    assert all(is_dead(int(pid)) for pid in pids.read_text().split())
    with pytest.raises(subprocess.TimeoutExpired):
        run_guarded(["/bin/sh", "-c", "sleep 600"], timeout=0.1, at_terminal=at_terminal)


@pytest.mark.parametrize("at_terminal", [False, True])
def test_nothing_outlives_a_process_that_is_killed(tmp_path: Path, at_terminal: bool) -> None:
    """As a command that gives a key does, or a test that an agent runs."""
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sleep 600 & echo $$ $! > {pids}; wait; wait"
    program = (
        "from orihon.system.processes import run_guarded;"
        f"run_guarded(['/bin/sh', '-c', {script!r}], timeout=600, at_terminal={at_terminal})"
    )
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        eventually(lambda: pids.exists() and pids.read_text().endswith("\n"))
        process.kill()
    eventually(lambda: all(is_dead(int(pid)) for pid in pids.read_text().split()))
