"""The suites of the adapters, each in the environment that has its framework: theirs where they publish one, and ours.

``make frameworks`` makes the environments beneath the virtual one. They have no Orihon in them: it comes from ``src``.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUITES = {path.name.removesuffix("_suite.py"): path for path in sorted((HERE / "suites").glob("*_suite.py"))}
#: How many tests each has at least: one that collects nothing has proved nothing.
LEAST = {"across": 9, "langchain": 46, "llama_index": 18, "pydantic_ai": 6}
PATIENCE = 600


def framework_python(environment: str = "frameworks") -> str:
    """The Python of an environment; without it the test is skipped, in continuous integration it fails."""
    python = Path(sys.prefix) / "frameworks" / environment / "bin" / "python"
    if not (python.parents[1] / ".made").exists():
        reason = f"{python} is not there; install the frameworks with: make frameworks"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return str(python)


def environment(**more: str) -> dict[str, str]:
    """What their programs run in: our source, nothing of the outside world."""
    told = {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "PYTHONDONTWRITEBYTECODE": "", "NO_PROXY": "127.0.0.1"}
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HF_HUB_OFFLINE": "1", "LANGSMITH_TRACING": "false"}
    return {**os.environ, **told, **quiet, **more}


def test_every_suite_has_its_least_number() -> None:
    assert set(LEAST) == set(SUITES)


@pytest.mark.parametrize("name", SUITES)
def test_suite(name: str, tmp_path: Path) -> None:
    command = [framework_python(), "-m", "pytest", "-c", str(HERE / "suites" / "pytest.ini")]
    done = subprocess.run(
        [*command, f"--basetemp={tmp_path / 'theirs'}", str(SUITES[name])],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout[-2000:]
    assert int(passed[1]) >= LEAST[name]
    assert "skipped" not in done.stdout.splitlines()[-1]
