"""The pages that follow from the program are what it says now: help pages, JSON, settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orihon.cli.commands import COMMANDS
from scripts.architecture import PACKAGE, ROOMS
from scripts.docs import ROOT, pages

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def made() -> dict[Path, str]:
    return pages()


def test_every_page_is_current(made: dict[Path, str]) -> None:
    stale = [
        str(path.relative_to(ROOT))
        for path, page in made.items()
        if not path.exists() or path.read_text(encoding="utf-8") != page
    ]
    assert stale == [], "run 'make docs'"


def test_every_command_has_its_page_in_both_languages(made: dict[Path, str]) -> None:
    for folder, usage in ((DOCS, "Usage:"), (DOCS / "ja", "使い方:")):
        page = made[folder / "commands.md"]
        sections = re.findall(r"^## `orihon ([a-z ]+)`\n\n```text\n\n (\S+)", page, re.MULTILINE)
        assert {name for name, _ in sections} == set(COMMANDS)
        assert {first for _, first in sections} == {usage}
        assert "\x1b" not in page


@pytest.mark.parametrize("folder", [DOCS, DOCS / "ja"])
def test_every_command_is_explained(folder: Path) -> None:
    page = (folder / "cli.md").read_text(encoding="utf-8")
    others = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.md") if path.name != "commands.md")
    assert [name for name in COMMANDS if f"orihon {name}" not in page and f"orihon {name}" not in others] == []


# ---- the plan of the house -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_what_the_plan_of_the_house_names_is_there(lang: str) -> None:
    named = re.findall(r"`((?:\w+/)+(?:\w+\.\w+)?)`", (ROOT / "scripts" / f"architecture.{lang}.md").read_text("utf-8"))
    assert len(named) > 20
    assert [path for path in named if not any((home / path).exists() for home in (PACKAGE, ROOT))] == []


@pytest.mark.parametrize("folder", [DOCS, DOCS / "ja"])
def test_no_walk_through_the_house_has_a_detour(folder: Path) -> None:
    """From room to room a message goes up the plan, or back down it, and never into a room that it has left."""
    walks = re.findall(r"^`\w+/.* → .*$", (folder / "architecture.md").read_text("utf-8"), re.MULTILINE)
    assert len(walks) == 8
    for walk in walks:
        steps = [list(ROOMS).index(room) for room in re.findall(r"`(\w+)(?:/|\.py)", walk)]
        assert steps in (sorted(steps), sorted(steps, reverse=True)), walk
