"""Short programs of the pages run as they are printed, one page after the other, on one base."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.test_cli import PATIENCE, environment

DOCS = Path(__file__).parents[2] / "docs"
#: The pages in the order in which they are played, and which of their programs; what one makes the next may use.
PLAYED = {
    "approvals": (0, 1, 0),
    "search": (0,),
    "costs": (0,),
    "notifications": (0,),
    "exporting": (0,),
    "importing": (0,),
    "backup": (0,),
    "archives": (0, 1),
    "audit": (0, 1),
}
_COMPLETE = """
from orihon import Base
Base("contexts").task("game-1").complete()
"""


def programs(page: str, language: str = "") -> list[str]:
    text = (DOCS / language / f"{page}.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def play(program: str, folder: Path) -> str:
    local = program.replace("/mnt/backup", str(folder / "backup"))
    ran = subprocess.run(
        [sys.executable, "-c", local],
        cwd=folder,
        env=environment("en", HOME=str(folder)),
        timeout=PATIENCE,
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, (program, ran.stderr)
    return ran.stdout


def test_the_programs_run_as_printed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("context_storage:\n  base_dir: contexts\n", encoding="utf-8")
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    said: dict[str, list[str]] = {}
    for page, numbers in PLAYED.items():
        if page == "archives":
            play(_COMPLETE, tmp_path)
        said[page] = [play(programs(page)[number], tmp_path) for number in numbers]
    asked, answered, again = said["approvals"]
    assert "Unity, then?" in asked
    assert "game-1 concept Unity, then?" in answered
    assert "ann go ahead" in again
    assert "game.html" in said["exporting"][0]
    assert (tmp_path / "game.html").exists()
    assert (tmp_path / "contexts-again" / "tasks.db").exists()


@pytest.mark.parametrize("page", PLAYED)
def test_the_japanese_page_shows_the_same(page: str) -> None:
    """Where it speaks of a base; what programs say is said in the language of the page."""
    english, japanese = ([one for one in programs(page, lang) if "Base(" in one] for lang in ("", "ja"))
    assert english == japanese


@pytest.mark.parametrize("language", ["", "ja"])
def test_what_programs_import_is_there(language: str) -> None:
    lines = {
        line.strip()
        for path in (DOCS / language).glob("*.md")
        for line in re.findall(r"^ *from orihon\S* import .*$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(lines) > 10
    for line in lines:
        if "orihon.adapters." not in line:  # needs its framework; the tests of that one run the page's example
            exec(line, {})
