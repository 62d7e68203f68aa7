"""The pages that follow from the program are what it says now: help pages, JSON, settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orihon.cli.commands import COMMANDS
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
