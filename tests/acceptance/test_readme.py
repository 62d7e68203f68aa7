"""The README's programs run as they are printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def programs(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("name", ["README.md", "README.ja.md"])
def test_the_programs_run_as_printed(name: str, tmp_path: Path) -> None:
    first, second = programs(name)
    run = subprocess.run([sys.executable, "-c", first], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.findall(r"\d+", run.stdout) == ["81", "22", "81"]
    subprocess.run([sys.executable, "-c", second], cwd=tmp_path, capture_output=True, text=True, check=True)
    finished = list((tmp_path / "contexts" / "completed").iterdir())
    assert len(finished) == 1
    assert (finished[0] / "final_summary.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "README.ja.md"])
def test_the_first_program_is_short_and_on_the_first_screen(name: str) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert lines.index("```", lines.index("```python")) <= 25
    assert len(programs(name)[0].splitlines()) <= 12
