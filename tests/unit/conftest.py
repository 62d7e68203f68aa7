"""What several unit tests need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.catalogue import Catalogue
from tests.configurations import Write


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes ``config.yaml``."""

    def write_config(text: str) -> Path:
        path = tmp_path / "config.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write_config


@pytest.fixture
def catalogue(tmp_path: Path) -> Iterator[Catalogue]:
    """An empty catalogue, whose sums must be right at the end."""
    with Catalogue(tmp_path / "contexts" / "tasks.db") as opened:
        yield opened
        assert opened.statistics.check_rollups() == []
