"""English and Japanese say the same things, and every error that is raised can be read."""

from __future__ import annotations

import ast
import pickle
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orihon.errors
from orihon.errors import DamagedStore, InvalidMessage, InvalidSettings, KeyUnavailable, OrihonError
from orihon.guard.logs import masked
from orihon.settings import schema
from orihon.texts import LANGUAGES, language, set_language, text

SOURCE = Path(orihon.errors.__file__).parent


def catalogue(lang: str) -> dict[str, str]:
    return {key: said for texts in files_of(lang).values() for key, said in texts.items()}


def files_of(lang: str) -> dict[str, dict[str, str]]:
    """The texts of each file."""
    paths = (SOURCE / "texts" / lang).glob("*.toml")
    return {path.stem: dict(_flat(tomllib.loads(path.read_text(encoding="utf-8")))) for path in paths}


def _flat(node: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            yield from zip((f"{prefix}{key}.cause", f"{prefix}{key}.remedy"), value, strict=True)
        else:
            yield prefix + key, value


def _fields(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


def raised() -> Iterator[tuple[str, str, set[str], bool]]:
    """Class, reason, field names and whether there may be more fields, of each error built in the source."""
    kinds = {name for name, kind in vars(orihon.errors).items() if isinstance(kind, type)}
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in kinds:
                for reason in _constants(node.args[0]) if node.args else ():
                    names = {keyword.arg for keyword in node.keywords}
                    yield node.func.id, reason, {name for name in names if name}, None in names


def _constants(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _constants(node.body)
        yield from _constants(node.orelse)


def test_both_catalogues_have_the_same_keys_and_fields() -> None:
    english, japanese = catalogue("en"), catalogue("ja")
    meanings = {f"settings.meanings.{key}" for key in schema()}  # in English the settings themselves have them
    assert english.keys() | meanings == japanese.keys()
    for key in english:
        assert _fields(english[key]) == _fields(japanese[key]), key


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_text_is_in_the_file_in_which_it_is_looked_for(lang: str) -> None:
    found = [key for texts in files_of(lang).values() for key in texts]
    assert len(found) == len(set(found)), "texts that are in two files"
    for key, said in catalogue(lang).items():
        fields = dict.fromkeys(_fields(said), 1)
        assert text(key, lang=lang, **fields) == said.format_map(fields), key


def test_every_error_in_the_source_has_its_texts_and_their_fields() -> None:
    texts = catalogue("en")
    found = list(raised())
    assert len(found) > 40
    for kind, reason, names, open_ended in found:
        for which in ("cause", "remedy"):
            template = texts.get(f"errors.{kind}.{reason}.{which}")
            assert template is not None, f"errors.{kind}.{reason}.{which} is missing"
            assert open_ended or _fields(template) <= names, f"{kind}.{reason} lacks {_fields(template) - names}"


@pytest.fixture
def _environment_language() -> Iterator[None]:
    set_language(None)
    yield
    set_language(None)


@pytest.mark.usefixtures("_environment_language")
def test_the_setting_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORIHON_LANG", raising=False)
    monkeypatch.setenv("LANG", "ja_JP.UTF-8")
    assert language() == "ja"
    monkeypatch.setenv("ORIHON_LANG", "en")
    assert language() == "en"
    set_language("ja")
    assert language() == "ja"
    with pytest.raises(ValueError, match="language"):
        set_language("fr")


def test_an_error_says_cause_and_remedy_in_both_languages() -> None:
    error = InvalidMessage("unknown_role", role="wizard", known="user, assistant")
    assert str(error) == "Unknown role wizard. Use one of: user, assistant."
    assert "不明なロール wizard" in text("errors.InvalidMessage.unknown_role.cause", lang="ja", role="wizard")
    assert LANGUAGES == ("en", "ja")


def test_an_error_survives_the_way_between_processes() -> None:
    error = pickle.loads(pickle.dumps(InvalidMessage("unknown_role", role="wizard", known="user")))
    assert isinstance(error, OrihonError)
    assert str(error) == "Unknown role wizard. Use one of: user."


def test_a_brace_can_be_written_whether_or_not_there_are_fields() -> None:
    assert text("cli.page.default") == "[default: {}]"
    assert text("errors.InvalidSettings.broken_pattern.remedy").endswith("to write '${' itself, write '$${'.")
    assert "${HOME:-default}" in text("errors.InvalidSettings.undefined_variable.remedy", variable="HOME")


def test_a_missing_text_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        text("errors.InvalidMessage")


def test_a_text_found_by_itself_is_the_one_of_the_whole_catalogue() -> None:
    for lang in LANGUAGES:
        whole = catalogue(lang)
        for key in whole:
            fields = dict.fromkeys(_fields(whole[key]), 7)
            assert text(key, lang=lang, **fields) == whole[key].format_map(fields), key


TASK, FINGERPRINT, KEYS = "d6bfa1f3-6696-4b6e-8ec4-c5af67d7229f", "6dd78404f38dab98", "/home/ana/contexts/keys"


@pytest.mark.parametrize(
    "error",
    [
        KeyUnavailable("other_master", key=TASK, wanted=FINGERPRINT, known=FINGERPRINT, task=TASK),
        KeyUnavailable("missing", key=TASK, where=KEYS),
        KeyUnavailable("erased", task=TASK, at="2026-11-15T09:12:03.123456+00:00"),
        KeyUnavailable("sealed", task=TASK),
        KeyUnavailable("not_in_keyring", service="orihon", name="master-2026"),
        DamagedStore("data_key", key=TASK, where=KEYS),
        InvalidSettings("broker_address"),
        InvalidSettings("broker_database"),
        InvalidSettings("broker_rabbitmq"),
    ],
    ids=lambda error: str(error.reason),
)
@pytest.mark.parametrize("lang", LANGUAGES)
def test_masking_leaves_what_an_error_about_keys_names(error: OrihonError, lang: str) -> None:
    """Errors are masked on the screen and in the log: "the key X" would hide which one is wanted."""
    set_language(lang)
    try:
        assert masked(str(error)) == str(error)
    finally:
        set_language(None)
