"""What settings refuse, and that they say why: keys, values, variables, contradictions, files."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import InvalidSettings
from orihon.settings import Settings, find_config, schema
from orihon.texts import set_language
from tests.configurations import Write, load, refused

KEYS = sorted(schema())

# --- Refusals ---


def test_two_spellings_must_agree() -> None:
    error = refused({"compression": {"threshold": 0.7}, "context_storage": {"compression_threshold": 0.8}})
    assert error.reason == "conflict"
    assert {error.fields["first"], error.fields["second"]} == {
        "compression.threshold",
        "context_storage.compression_threshold",
    }
    assert load({"context_storage": {"retention_days": 5, "cleanup_days": "5"}}).retention.days == 5
    assert refused({"context_storage": {"retention_days": 5, "cleanup_days": 6}}).reason == "conflict"


@pytest.mark.parametrize("written", ["", "  "])
def test_an_empty_secret_is_refused_and_none_is_not(written: str) -> None:
    error = refused({"notifications": {"webhook_secret": written}})
    assert error.reason == "empty_secret"
    assert "notifications.webhook_secret" in str(error)
    assert load({"notifications": {"webhook_secret": None}}).notifications.webhook_secret is None


def test_sections_of_others_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    config = {
        "mcp_servers": [],
        "notes": [],
        "github": {"token": "${NOT_SET}"},
        "rabbitmq": 1,
        "sources": None,
        True: {},
    }
    with caplog.at_level(logging.DEBUG, logger="orihon.settings"):
        assert load(config) == Settings()
    assert "notes" in caplog.text


@pytest.mark.parametrize(
    ("config", "key", "nearest"),
    [
        ({"contxt_storage": {}}, "contxt_storage", "context_storage"),
        ({"llms": {}}, "llms", "llm"),
        ({"langauge": "ja"}, "langauge", "language"),
        ({"context_storage": {"backnd": "x"}}, "context_storage.backnd", "context_storage.backend"),
        ({"llm": {"openai": {"modle": "x"}}}, "llm.openai.modle", "llm.openai.model"),
        ({"compression": {"base_dir": "x"}}, "compression.base_dir", "context_storage.base_dir"),
        ({"context": {"inheritance": {"enable": 1}}}, "context.inheritance.enable", "inheritance.enabled"),
        ({"context_storage.backnd": "x"}, "context_storage.backnd", "context_storage.backend"),
    ],
)
def test_unknown_keys_are_named_with_the_nearest(config: dict[str, Any], key: str, nearest: str) -> None:
    error = refused(config)
    assert error.reason == "unknown_key"
    assert error.fields["key"] == key
    assert key in str(error)
    assert error.fields["nearest"] == nearest


def test_unknown_flags_and_questions_are_refused() -> None:
    assert refused(flags={"compression.keep_recnt": 3}).fields["nearest"] == "compression.keep_recent"
    assert refused(flags={"context.base_dir": "x"}).fields["nearest"] == "context_storage.base_dir"
    with pytest.raises(InvalidSettings):
        Settings().origin("no.such.key")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("compression.threshold", 0, "not_number"),
        ("compression.threshold", 1.01, "not_number"),
        ("compression.threshold", float("nan"), "not_number"),
        ("compression.threshold", True, "not_number"),
        ("compression.threshold", [0.5], "not_number"),
        ("context_storage.db_timeout", float("inf"), "not_number"),
        pytest.param("context_storage.db_timeout", 10**400, "not_number", id="400 digits"),
        ("retention.days", -1, "not_whole"),
        ("retention.days", 1.5, "not_whole"),
        ("retention.days", "soon", "not_whole"),
        ("retention.days", True, "not_whole"),
        ("multiprocess.max_workers", 0, "not_whole"),
        pytest.param("multiprocess.max_workers", 1 << 20_000, "not_whole", id="20,000 bits"),
        ("context_storage.backend", "tape", "not_choice"),
        ("context_storage.backend", None, "not_choice"),
        ("context_storage.backend", ["files"], "not_choice"),
        ("context_storage.enabled", "maybe", "not_flag"),
        ("context_storage.enabled", 2, "not_flag"),
        ("context_storage.base_dir", "", "not_path"),
        ("context_storage.base_dir", "a\0b", "not_path"),
        ("context_storage.base_dir", "~no-such-user-here/x", "not_path"),
        ("llm.openai.model", 4, "not_text"),
        ("llm.openai.model", " ", "not_text"),
        ("llm.openai.base_url", "localhost:1234", "not_url"),
        ("llm.openai.base_url", "http://", "not_url"),
        ("language", "fr", "not_choice"),
        ("masking.patterns", ["a"], "not_pattern_map"),
        ("masking.patterns", {"two words": "a"}, "not_pattern_map"),
        ("masking.patterns", {"badge": 1}, "not_pattern_map"),
        ("masking.patterns", {"badge": "("}, "broken_pattern"),
        ("masking.patterns", "{", "not_pattern_map"),
        pytest.param("masking.allow", "[" * 100_000, "not_pattern_list", id="deep JSON"),
        ("masking.allow", {"a": "b"}, "not_pattern_list"),
        ("masking.allow", ["a{99999999999999999999}"], "broken_pattern"),
    ],
)
def test_wrong_values_are_refused_by_name(key: str, value: object, reason: str) -> None:
    error = refused({key: value})
    assert error.reason == reason
    assert error.fields["key"] == key
    assert len(str(error)) < 500


@pytest.mark.parametrize("section", ["llm", "context_storage", "llm.openai", "context_storage.archive"])
def test_a_section_is_a_mapping_or_nothing(section: str) -> None:
    assert refused({section: "text"}).fields == {"key": section, "value": "'text'", "origin": "config"}
    assert load({section: None}) == Settings()


def test_values_that_contradict_each_other() -> None:
    error = refused({"memory": {"pruning_threshold": 0.6}})
    assert (error.fields["low"], error.fields["high"]) == ("memory.target_usage", "memory.pruning_threshold")
    assert refused({"llm": {"openai": {"reserve_output": 128_000}}}).reason == "wrong_order"
    beat = {"multiprocess": {"enabled": True, "heartbeat_interval": 90}}
    assert refused(beat).fields["high"] == "context_storage.lease_seconds"
    assert load({**beat, "context_storage": {"lease_seconds": 300}}).context_storage.lease_seconds == 300
    assert load({"context_storage": {"lease_seconds": 1}}).context_storage.lease_seconds == 1


def test_an_overridden_value_is_checked_all_the_same() -> None:
    config = {"compression": {"threshold": 7}}
    assert refused(config, flags={"compression.threshold": 0.5}).fields["origin"] == "config"


@pytest.mark.parametrize("language", ["en", "ja"])
def test_errors_are_explained_in_both_languages(language: str, write: Write) -> None:
    errors = [
        refused({"compression": {"threshold": 7}}),
        refused(environ={"MAX_WORKERS": "auto"}),
        refused({"context_storage": {"backend": "tape"}}),
        refused({"llm": {"openai": {"model": "${NOWHERE}"}}}),
        refused({"context_storage": {"retention_days": 5, "cleanup_days": 6}}),
        refused({"masking": {"allow": ["("]}}),
        refused(write("a: [")),
    ]
    set_language(language)
    try:
        told = " ".join(map(str, errors))
    finally:
        set_language(None)
    names = [
        "0 < x ≤ 1",
        "MAX_WORKERS",
        "files, sqlite, postgres",
        "${NOWHERE:-",
        "retention.days",
        "config.yaml",
    ]
    assert [name for name in names if name not in told] == []
    assert ("指定できません" in told) == (language == "ja")


# --- The file ---


def test_an_empty_file_sets_nothing(write: Write) -> None:
    assert load(write("")) == load(write("# nothing\n")) == load(write("---\nnull\n")) == Settings()


def test_a_byte_order_mark_is_no_part_of_a_name(write: Write) -> None:
    assert load(write("\ufefflanguage: ja\n")).language == "ja"


def test_paths_may_be_text(write: Write) -> None:
    assert load(str(write("language: ja"))).language == "ja"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: 1\nb: [1, 2\nc: 3\n", 3),
        ("language: ja\n\tllm: x\n", 2),
        ("language: ja\nx: !!python/object/apply:os.system [ls]\n", 2),
        ("x: 1\ny: !!bool maybe\n", 2),
        ("x: 1\ny: 2024-13-01\n", 2),
        ("x: !!int ''\n", 1),
        ("a: 1\n---\nb: 2\n", 2),
        ("x: 1\ny: \x07\n", 2),
        ("context_storage:\n  db_timeout: 60\ncontext_storage:\n  max_retries: 5\n", 3),
    ],
)
def test_broken_yaml_is_refused_with_its_line(write: Write, text: str, line: int) -> None:
    path = write(text)
    error = refused(path)
    assert (error.reason, error.fields["line"], error.fields["path"]) == ("broken_yaml", line, str(path))


def test_bytes_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes("language: ja\n# 設定\n".encode("shift_jis"))
    assert (refused(path).reason, refused(path).fields["line"]) == ("broken_yaml", 2)


@pytest.mark.parametrize("text", ["- a\n- b\n", "just text", "3"])
def test_a_file_without_sections(write: Write, text: str) -> None:
    assert refused(write(text)).reason == "not_mapping"


def _laughs(template: str) -> str:
    lines = ["a0: &a0 {k: lol}"]
    lines += [template.format(n=n, refs=", ".join([f"*a{n - 1}"] * 9)) for n in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        _laughs("a{n}: &a{n} [{refs}]"),
        _laughs("a{n}: &a{n} {{<<: [{refs}]}}"),
        "a: &a [*a]",
        "a: " + "[" * 2000,
    ],
    ids=["aliases", "merges", "circle", "nesting"],
)
def test_bombs_are_refused(write: Write, text: str) -> None:
    assert refused(write(text)).reason == "yaml_too_big"


def test_too_many_values_are_refused(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orihon.settings.config_file.MAX_VALUES", 100)
    assert load(write("a: [" + "1," * 90 + "]")) == Settings()
    assert refused(write("a: [" + "1," * 110 + "]")).reason == "yaml_too_big"


def test_a_few_aliases_are_welcome(write: Write) -> None:
    text = "shared: &local {context_length: 8192}\nllm: {ollama: *local, lmstudio: {<<: *local, model: m}}"
    settings = load(write(text))
    assert (settings.llm.ollama.context_length, settings.llm.lmstudio.context_length) == (8192, 8192)


def test_a_huge_file_is_refused(write: Write) -> None:
    assert refused(write("# " + "x" * 1024 * 1024)).reason == "file_too_large"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.yaml").reason == "missing_file"
    assert refused(tmp_path).reason == "unreadable_file"
    assert refused("a\0b").reason == "unreadable_file"


def test_find_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_config({}) is None
    Path("config.yaml").write_text("language: ja", encoding="utf-8")
    assert find_config({}) == find_config({"ORIHON_CONFIG": ""}) == Path("config.yaml")
    assert find_config({"ORIHON_CONFIG": "other.yaml"}) == Path("other.yaml")
    assert load() == Settings(), "the library reads no file that it is not given"


# --- Anything at all ---

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=12), _JSON, max_size=4))
def test_whatever_is_given_is_taken_or_refused(config: dict[str, Any]) -> None:
    try:
        told = str(load(config).compression.threshold)
    except InvalidSettings as error:
        told = str(error)
    assert told


@given(st.text(st.sampled_from("ab:{}[]-&*!?|>'\"%@`#, \n\t0~<"), max_size=60))
def test_whatever_a_file_holds_is_taken_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        told = str(load(path).origins)
    except InvalidSettings as error:
        told = str(error)
    assert told
