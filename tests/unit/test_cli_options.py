"""The shared options of the command line: settings are read when asked for, and put in force when that is asked for."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from orihon.cli.options import CommandOptions
from orihon.texts import language, set_language

pytestmark = pytest.mark.usefixtures("own_logging")


@pytest.fixture(autouse=True)
def _language_as_before() -> Iterator[None]:
    yield
    set_language(None)


def test_reading_the_settings_changes_nothing_else(tmp_path: Path) -> None:
    handlers = list(logging.getLogger("orihon").handlers)
    options = CommandOptions(base_dir=tmp_path, language="ja")
    assert options.settings.language == "ja"
    assert options.base_path == tmp_path
    assert options.settings is options.settings
    assert logging.getLogger("orihon").handlers == handlers
    assert language() == "en"


def test_applying_them_sets_language_and_logging(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"logging:\n  file: {tmp_path / 'agent.log'}\n", encoding="utf-8")
    CommandOptions(config=config, language="ja").apply()
    assert language() == "ja"
    logging.getLogger("orihon.test").info("written down")
    assert "written down" in (tmp_path / "agent.log").read_text(encoding="utf-8")
