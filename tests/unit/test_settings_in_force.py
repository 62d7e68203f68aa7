"""The settings as people look at them, and the file that a new base folder begins with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from orihon.catalogue import Catalogue
from orihon.errors import InvalidInput
from orihon.settings import Settings, load_settings, schema
from orihon.settings.in_force import config_template, meaning_of, settings_in_force
from orihon.texts import set_language
from orihon.upkeep.init import set_up
from tests.helpers import refused


@pytest.fixture(params=["en", "ja"])
def lang(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ORIHON_LANG", request.param)
    set_language(None)
    return str(request.param)


def test_every_setting_says_where_it_came_from(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("llm:\n  provider: ollama\ncompression:\n  keep_recent: 7\n", encoding="utf-8")
    environ = {"ORIHON_COMPRESSION__KEEP_RECENT": "9", "OPENAI_API_KEY": "sk-very-secret"}
    settings = load_settings(config, flags={"language": "ja"}, environ=environ)
    found = {one.key: one for one in settings_in_force(settings)}
    assert list(found) == list(schema())
    origins = {key: one.origin for key, one in found.items() if one.origin != "default"}
    assert origins == {
        "llm.provider": str(config),
        "compression.keep_recent": "environment ORIHON_COMPRESSION__KEEP_RECENT",
        "llm.openai.api_key": "environment OPENAI_API_KEY",
        "language": "flag",
    }
    assert (found["compression.keep_recent"].value, found["compression.keep_recent"].default) == (9, 10)
    assert "very-secret" not in repr(list(found.values()))
    assert found["llm.openai.api_key"].value == "***"


def test_every_setting_has_a_meaning(lang: str) -> None:
    japanese = re.compile("[ぁ-んァ-ヶ一-龠]")
    for key in schema():
        assert bool(japanese.search(meaning_of(key))) is (lang == "ja"), key


@pytest.mark.usefixtures("lang")
def test_a_template_changes_nothing_but_the_base_folder(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    template = config_template(Path("elsewhere"))
    assert max(map(len, template.splitlines())) <= 200
    config.write_text(template, encoding="utf-8")
    settings = load_settings(config, environ={})
    assert settings == Settings().replace(**{"context_storage.base_dir": "elsewhere"})
    assert dict(settings.origins) == {"context_storage.base_dir": str(config)}


@pytest.mark.usefixtures("lang")
def test_every_line_of_a_template_can_be_used(tmp_path: Path) -> None:
    """Taking away the "# " before each name gives the defaults again."""
    config = tmp_path / "config.yaml"
    names = "|".join(sorted({key.rpartition(".")[2] for key in schema()}))
    opened = re.sub(rf"^( *)# (({names}): .*)$", r"\1\2", config_template(Path("contexts")), flags=re.MULTILINE)
    config.write_text(opened, encoding="utf-8")
    settings = load_settings(config, environ={})
    assert settings == Settings()
    assert set(settings.origins) == set(schema())


def test_setting_up_makes_both_and_overwrites_nothing(tmp_path: Path) -> None:
    config, base = tmp_path / "config.yaml", tmp_path / "deep" / "contexts"
    set_up(config, base)
    assert (config.stat().st_mode & 0o777, base.stat().st_mode & 0o777) == (0o600, 0o700)
    with Catalogue(base / "tasks.db") as catalogue:
        assert catalogue.tasks.page() == []
    before = config.read_bytes()
    with refused(InvalidInput, "config_exists"):
        set_up(config, tmp_path / "other")
    assert config.read_bytes() == before
    assert not (tmp_path / "other").exists()
    set_up(tmp_path / "second.yaml", base)
