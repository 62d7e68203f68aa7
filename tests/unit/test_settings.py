"""Settings: values and their precedence, the environment, ``${VAR}``."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import InvalidSettings, KeyUnavailable
from orihon.guard.sealer import read_master_key
from orihon.settings import Settings, load_settings, schema
from tests.configurations import Write, load, refused
from tests.helpers import Rule

KEYS = sorted(schema())

# --- Values, precedence, origins ---


def test_defaults() -> None:
    settings = load()
    assert settings == Settings()
    assert settings.context_storage.backend == "files"
    assert settings.context_storage.base_dir == Path("contexts")
    assert settings.context_storage.max_message_bytes == 64 * 1024 * 1024
    assert (settings.llm.openai.context_length, settings.llm.anthropic.context_length) == (128_000, 200_000)
    assert (settings.llm.ollama.context_length, settings.llm.lmstudio.context_length) == (32_768, 32_768)
    assert settings.compression.token_threshold is None
    assert settings.retention.days == 30
    assert settings.language is None


def test_every_default_is_a_value_that_its_own_kind_allows() -> None:
    defaults = {key: schema()[key].default for key in KEYS}
    with Rule() as rule:
        for key, default in defaults.items():
            with rule.case(key):
                assert default is None or load(flags={key: default}).get(key) == default


def test_flag_beats_environment_beats_file_beats_default(write: Write) -> None:
    path = write("compression: {threshold: 0.5, keep_recent: 3, min_to_compress: 7}")
    environ = {"COMPRESSION_THRESHOLD": "0.6", "ORIHON_COMPRESSION__KEEP_RECENT": "4"}
    settings = load(path, environ, {"compression.threshold": 0.9})
    assert settings.compression.threshold == 0.9
    assert settings.compression.keep_recent == 4
    assert settings.compression.min_to_compress == 7
    origins = [settings.origin(f"compression.{name}") for name in ("threshold", "keep_recent", "min_to_compress")]
    assert origins == ["flag", "environment ORIHON_COMPRESSION__KEEP_RECENT", str(path)]
    assert settings.origin("compression.preset") == "default"


def test_a_value_set_to_its_default_is_explicit() -> None:
    settings = load({"compression": {"threshold": 0.7}})
    assert settings.is_explicit("compression.threshold")
    assert not settings.is_explicit("compression.keep_recent")
    assert settings == Settings()


def test_settings_are_returned_as_they_are_unless_there_are_flags() -> None:
    settings = load({"memory": {"max_tokens": 6000}})
    assert load(settings, {"MAX_WORKERS": "9"}) is settings
    assert load(settings, flags={"language": None}) is settings
    changed = load(settings, flags={"language": "ja"})
    assert (changed.language, changed.memory.max_tokens) == ("ja", 6000)
    assert (changed.origin("language"), changed.origin("memory.max_tokens")) == ("flag", "config")


def test_replace_checks_and_leaves_the_original_alone() -> None:
    settings = load({"compression": {"token_threshold": 8000}})
    changed = settings.replace(**{"context_storage.backend": "jsonl", "compression.token_threshold": None})
    assert (changed.context_storage.backend, changed.compression.token_threshold) == ("files", None)
    assert settings.compression.token_threshold == 8000
    with pytest.raises(InvalidSettings):
        settings.replace(**{"context_storage.backend": "tape"})


def test_settings_are_frozen_hashable_and_picklable() -> None:
    settings = load({"masking": {"patterns": {"badge": "EMP-[0-9]{6}"}, "allow": ["^test"]}})
    with pytest.raises(dataclasses.FrozenInstanceError):
        settings.language = "ja"  # type: ignore[misc]
    copy = pickle.loads(pickle.dumps(settings))
    assert copy == settings
    assert hash(copy) == hash(settings)
    assert copy.origin("masking.patterns") == "config"
    assert dict(copy.masking.patterns) == {"badge": "EMP-[0-9]{6}"}
    assert (len(copy.masking.patterns), len(Settings().masking.patterns)) == (1, 0)


def test_secrets_are_shown_nowhere() -> None:
    settings = load({"llm": {"openai": {"api_key": "sk-very-secret"}}})
    assert settings.llm.openai.api_key == "sk-very-secret"
    assert "sk-very-secret" not in repr(settings)
    assert "sk-very-secret" not in json.dumps(settings.as_dict())
    assert settings.as_dict()["llm"]["openai"]["api_key"] == "***"
    assert settings.as_dict()["llm"]["ollama"]["api_key"] is None
    assert settings.as_dict(mask_secrets=False)["llm"]["openai"]["api_key"] == "sk-very-secret"
    assert "12345" not in str(refused({"llm": {"openai": {"api_key": 12345}}}))


@pytest.mark.parametrize("key", ["0a1B" * 16, "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="])
def test_a_master_key_that_was_written_in_place_of_its_source_is_not_shown(key: str) -> None:
    encryption = {"key": key, "former_keys": [f"env:{key}", "file:~/master.key"]}
    settings = load_settings({"encryption": encryption}, environ={})
    shown = settings.as_dict()["encryption"]
    assert (shown["key"], shown["former_keys"]) == ("***", ["env:***", "file:~/master.key"])
    assert settings.secret_values().count(key) == 2
    with pytest.raises(KeyUnavailable) as caught:
        read_master_key(key)
    assert key not in str(caught.value)


def test_the_chosen_provider_decides_model_window_and_reserve() -> None:
    settings = load({"llm": {"provider": "ollama", "ollama": {"model": "llama3", "context_length": 8192}}})
    assert settings.llm.active is settings.llm.ollama
    assert (settings.model, settings.context_length) == ("llama3", 8192)
    assert settings.reserve_output == 2048


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        ({}, 4096),
        ({"max_token": 1000}, 1000),
        ({"max_token": 128_000}, 32_000),
        ({"context_length": 8000}, 2000),
        ({"max_token": 1000, "reserve_output": 5000}, 5000),
        ({"reserve_output": 0}, 0),
    ],
)
def test_reserve_output(provider: dict[str, int], expected: int) -> None:
    assert load({"llm": {"openai": provider}}).reserve_output == expected


@pytest.mark.parametrize("days", [14, 14.0, "14", " 14 "])
def test_ways_to_write_a_whole_number(days: object) -> None:
    assert load({"retention": {"days": days}}).retention.days == 14


@pytest.mark.parametrize("word", ["true", "1", "yes", "on", "True", " ON "])
def test_words_for_true(word: str) -> None:
    assert load(environ={"MULTIPROCESS_ENABLED": word}).multiprocess.enabled


@pytest.mark.parametrize("word", ["false", "0", "no", "off", "FALSE"])
def test_words_for_false(word: str) -> None:
    assert not load(environ={"CONTEXT_STORAGE_ENABLED": word}).context_storage.enabled


@pytest.mark.parametrize("word", ["jsonlines", "jsonl", "files", "FILES"])
def test_words_for_files(word: str) -> None:
    assert load({"context_storage": {"backend": word}}).context_storage.backend == "files"


@pytest.mark.parametrize(("word", "expected"), [("ja", "ja"), ("ja_JP.UTF-8", "ja"), ("en-US", "en")])
def test_a_locale_names_a_language(word: str, expected: str) -> None:
    assert load(environ={"ORIHON_LANG": word}).language == expected


def test_a_home_folder_is_not_a_folder_called_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/somewhere")
    assert load({"context_storage": {"base_dir": "~/orihon"}}).context_storage.base_dir == Path("/somewhere/orihon")


# --- The environment ---

DESIGN_VARIABLES = {
    "CONTEXT_STORAGE_ENABLED": ("context_storage.enabled", "false", False),
    "CONTEXT_STORAGE_BACKEND": ("context_storage.backend", "sqlite", "sqlite"),
    "CONTEXT_STORAGE_BASE_DIR": ("context_storage.base_dir", "logs/contexts", Path("logs/contexts")),
    "MAX_MEMORY_MESSAGES": ("context_storage.max_memory_messages", "10", 10),
    "COMPRESSION_THRESHOLD": ("compression.threshold", "0.5", 0.5),
    "CLEANUP_DAYS": ("retention.days", "14", 14),
    "OPENAI_CONTEXT_LENGTH": ("llm.openai.context_length", "64000", 64_000),
    "OLLAMA_CONTEXT_LENGTH": ("llm.ollama.context_length", "16384", 16_384),
    "LMSTUDIO_CONTEXT_LENGTH": ("llm.lmstudio.context_length", "4096", 4096),
    "MULTIPROCESS_ENABLED": ("multiprocess.enabled", "true", True),
    "MAX_WORKERS": ("multiprocess.max_workers", "2", 2),
    "OPENAI_API_KEY": ("llm.openai.api_key", "k1", "k1"),
    "ANTHROPIC_API_KEY": ("llm.anthropic.api_key", "k2", "k2"),
    "OPENAI_BASE_URL": ("llm.openai.base_url", "http://localhost:8080/v1", "http://localhost:8080/v1"),
    "ORIHON_LANG": ("language", "ja", "ja"),
}


@pytest.mark.parametrize("variable", DESIGN_VARIABLES)
def test_variables_by_name(variable: str) -> None:
    key, text, value = DESIGN_VARIABLES[variable]
    settings = load(environ={variable: text})
    assert settings.get(key) == value
    assert settings.origin(key) == f"environment {variable}"
    assert load(environ={variable: ""}) == Settings()


_TEXTS = {
    "flag": "on",
    "whole": "10",
    "number": "0.75",
    "text": "some text",
    "url": "https://example.org",
    "path": "some/folder",
    "pattern_list": '["EMP"]',
    "pattern_map": '{"badge": "EMP"}',
    "ladder": '[{"usage": 0.8, "strategies": ["offload"]}]',
    "prices": '{"gpt-4o": {"input": 2.5}}',
    "quotas": '{"kim": {"tasks": 3}}',
    "roles": '["user"]',
    "speakers": '["owner"]',
    "name_list": '["acme/shop"]',
    "servers": '{"files": {"command": "files-server"}}',
    "identifier": "some_name",
}
_TEXTS_OF = {"context_storage.backend": "sqlite", "database.url": "postgresql://db", "archive.url": "s3://bucket"}


def test_every_key_has_a_variable() -> None:
    with Rule() as rule:
        for key in KEYS:
            with rule.case(key):
                kind = schema()[key].kind
                variable = "ORIHON_" + key.upper().replace(".", "__")
                value = _TEXTS_OF.get(key) or _TEXTS.get(kind.name) or kind.allowed.split(", ")[-1]
                assert load(environ={variable: value}).origin(key) == f"environment {variable}"


def test_the_longer_variable_wins() -> None:
    environ = {"MAX_WORKERS": "2", "ORIHON_MULTIPROCESS__MAX_WORKERS": "3"}
    assert load(environ=environ).multiprocess.max_workers == 3


def test_a_slip_in_a_variable_of_ours_is_refused() -> None:
    error = refused(environ={"ORIHON_CONTEXT_STORAGE__BACKND": "sqlite"})
    assert error.reason == "unknown_key"
    assert error.fields["nearest"] == "ORIHON_CONTEXT_STORAGE__BACKEND"
    assert load(environ={"ORIHON_TEST_REDIS_URL": "x", "ORIHON_CONFIG": "y"}) == Settings()


def test_without_an_environment_the_real_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_WORKERS", "7")
    assert load_settings().multiprocess.max_workers == 7


# --- ${VAR} ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${NAME}", "qwen"),
        ("a-${NAME}-b-${NAME}", "a-qwen-b-qwen"),
        ("${MISSING:-other}", "other"),
        ("${EMPTY:-other}", "other"),
        ("${NAME:-other}", "qwen"),
        ("$${NAME}", "${NAME}"),
        ("costs $5 {NAME} ${", "costs $5 {NAME} ${"),
        ("${MISSING:-}", "gpt-4o"),
    ],
)
def test_variables_expand(text: str, expected: str) -> None:
    settings = load({"llm": {"openai": {"model": text}}}, {"NAME": "qwen", "EMPTY": ""})
    assert settings.model == expected


def test_expanded_numbers_and_patterns() -> None:
    config = {
        "multiprocess": {"max_workers": "${N:-6}", "enabled": "${ON}"},
        "masking": {"patterns": {"badge": "${PREFIX}-[0-9]+"}, "allow": ["^${PREFIX}$"]},
    }
    settings = load(config, {"ON": "yes", "PREFIX": "EMP"})
    assert (settings.multiprocess.max_workers, settings.multiprocess.enabled) == (6, True)
    assert settings.masking.patterns["badge"] == "EMP-[0-9]+"
    assert settings.masking.allow == ("^EMP$",)


@pytest.mark.parametrize("environ", [{}, {"OPENAI_KEY": ""}])
def test_an_undefined_variable_is_named_with_its_key(environ: dict[str, str]) -> None:
    error = refused({"llm": {"openai": {"model": "${OPENAI_KEY}"}}}, environ)
    assert error.reason == "undefined_variable"
    assert error.fields["key"] == "llm.openai.model"
    assert "OPENAI_KEY" in str(error)


def test_a_key_whose_variable_is_not_set_is_missing_until_it_is_needed() -> None:
    settings = load_settings({"llm": {"openai": {"api_key": "${NOWHERE}"}}}, environ={})
    assert settings.llm.openai.api_key is None


def test_an_error_quotes_what_is_written_not_what_it_stands_for() -> None:
    error = refused({"llm": {"openai": {"base_url": "${TOKEN}"}}}, {"TOKEN": "very-secret"})
    assert "very-secret" not in str(error)
    assert "${TOKEN}" in str(error)


# --- Properties ---

_VALID = {
    "context_storage.backend": st.sampled_from(["files", "sqlite"]),
    "database.url": st.none() | st.just("postgresql://db/orihon"),
    "context_storage.base_dir": st.text("abc/", min_size=1).map(lambda text: "x" + text),
    "compression.threshold": st.floats(0, 1, exclude_min=True),
    "compression.token_threshold": st.none() | st.integers(1),
    "compression.summary_prompt": st.none() | st.text("あ$a{} \n", min_size=1).map(lambda text: "x" + text),
    "masking.patterns": st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.just("a+")),
    "masking.allow": st.lists(st.just("^a$")),
    "llm.openai.api_key": st.none() | st.text("abc", min_size=1),
    "language": st.sampled_from([None, "en", "ja"]),
}


@given(st.fixed_dictionaries({}, optional=_VALID))
def test_plain_data_come_back_as_the_same_settings(values: dict[str, Any]) -> None:
    settings = Settings().replace(**values)
    plain = json.loads(json.dumps(settings.as_dict(mask_secrets=False)).replace("${", "$${"))
    assert load(plain) == settings


# --- Other machines ---


def test_whoever_names_a_database_wants_the_messages_in_it() -> None:
    settings = load({"database": {"url": "postgresql://db/orihon"}})
    assert settings.context_storage.backend == "postgres"
    assert settings.origin("context_storage.backend") == "config"
    assert "db/orihon" not in str(settings.as_dict()) + repr(settings)


def test_a_back_end_that_is_named_stays_beside_a_database() -> None:
    settings = load({"database": {"url": "postgresql://db/orihon"}, "context_storage": {"backend": "files"}})
    assert settings.context_storage.backend == "files"


def test_a_back_end_without_its_database_is_refused() -> None:
    assert refused({"context_storage": {"backend": "postgres"}}).reason == "no_database_url"


# --- Import ---


def test_importing_is_cheap() -> None:
    code = "import sys, orihon.settings as s; s.load_settings({}); print('yaml' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
