"""Sentences say what was decided, why, and what was not."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.compression.documents.choices import decided, reason, rejection
from orihon.compression.documents.findings import section_decisions
from orihon.compression.documents.markdown import parse
from orihon.compression.documents.statements import (
    failed,
    is_approval,
    is_chosen_row,
    is_rule,
    labelled,
    language_of,
    paths,
    sentences,
    succeeded,
    trimmed,
)
from tests import document_sentences as said
from tests.helpers import Rule


def option(statement: str) -> str:
    """What a sentence rejects, without the reason."""
    return re.split(r" ?[（(]", rejection(statement))[0]


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (decided, said.DECISIONS),
        (decided, said.LABELLED),
        (option, said.REJECTIONS),
        (succeeded, said.SUCCESSES),
        (failed, said.FAILURES),
        (is_rule, said.RULES),
        (is_approval, said.APPROVALS),
        (reason, said.REASONS),
        (paths, said.PATHS),
        (is_chosen_row, said.CHOSEN_ROWS),
    ],
    ids=["decision", "label", "rejection", "success", "failure", "rule", "approval", "reason", "path", "chosen row"],
)
def test_each_kind_of_sentence_is_told_from_what_only_looks_like_it(
    kind: Callable[[str], object], table: dict[str, object]
) -> None:
    traps = [sentence for sentence, found in table.items() if not found]
    assert len(table) >= 40
    assert abs(len(table) - 2 * len(traps)) <= len(table) / 4
    with Rule() as rule:
        for sentence, found in table.items():
            with rule.case(sentence):
                assert kind(sentence) == found


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("検討の結果、Unityを採用することにしました。", ["Unity"]),
        ("調査の結果、Xを採用", ["X"]),  # 004, level 2
        ("データベースはPostgreSQLに決定した", ["データベースはPostgreSQL"]),
        ("SQLiteを使うことにしました", ["SQLiteを使う"]),
        ("UIにはXを採用し、DBにはYを採用した", ["UIにはX", "DBにはY"]),
        ("Unityを採用し、Godotは見送った", ["Unity"]),
        ("Unityを採用すべきか検討する", []),
        ("Unityを採用する理由", []),
        ("Unityは不採用とした", []),
        ("Unityを採用しませんでした", []),
        ("**決定**: Unity", ["Unity"]),
        ("最終決定：Unity。", ["Unity"]),
        ("We decided to use Unity because the team knows it.", ["Unity"]),
        ("PostgreSQL was chosen over MySQL.", ["PostgreSQL"]),
        ("Chose apsw, since it is current", ["apsw"]),
        ("We chose Unity and rejected Godot.", ["Unity"]),
        ("**Decision:** Use Unity.", ["Use Unity"]),
        ("We decided against Redis.", []),
        ("We have not yet decided on a name.", []),
        ("The selected file is open.", []),
        ("Reason: we decided to use it", []),
    ],
)
def test_decisions(sentence: str, found: list[str]) -> None:
    assert decided(sentence) == found


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Godotはリソース不足のため不採用とした。", "Godot（リソース不足）"),
        ("A, B, Cは不採用（理由: 遅い）", "A, B, C（遅い）"),  # 004, level 2
        ("リソース不足のため、Godotは見送った。", "Godot（リソース不足）"),
        ("リソース不足のため不採用。", "Option（リソース不足）"),
        ("Godot was rejected because few assets exist.", "Godot (few assets exist)"),
        ("We ruled out Phaser due to its speed.", "Phaser (its speed)"),
        ("It was rejected because of cost.", "Option (cost)"),
        ("Rejected because of cost.", "Option (cost)"),
        ("今回は、リソース不足のためGodotを却下した。", "Godot（リソース不足）"),
        ("A、B、Cは却下した。", "A、B、C"),
        ("A patch was made, but it was rejected because it is long.", ""),  # "it" is not what the section is about
        ("Not something that was ever discarded", ""),
    ],
)
def test_rejections(sentence: str, found: str) -> None:
    assert rejection(sentence, "Option") == found


def test_reasons() -> None:
    assert reason("We chose it because it is small.") == "it is small"
    assert reason("開発者が慣れているため、採用した。") == "開発者が慣れている"
    assert reason("It is small.") == ""


def test_labels() -> None:
    assert labelled("否决：太贵") == ("rejected", "太贵")
    assert labelled("**理由**: 速い") == ("reason", "速い")
    assert labelled("Rationale: fast.") == ("reason", "fast")
    assert labelled("**Rejected:**") == ("rejected", "")
    assert labelled("https://example.org: x") is None
    assert labelled("note: x") is None


def test_sentences_of_both_languages() -> None:
    assert sentences("一つ。二つ！（三つ。）Four. Five? v1.2 stays.") == [
        "一つ。",
        "二つ！",
        "（三つ。）Four.",
        "Five?",
        "v1.2 stays.",
    ]
    assert sentences("1. one. - two") == ["one.", "two"]


@given(st.text(alphabet="**__。.;、 決定採用をUa:", max_size=20))
def test_a_decision_written_down_is_the_same_decision(value: str) -> None:
    assert trimmed(trimmed(value)) == trimmed(value)
    for decision in section_decisions(parse(f"We decided to use {value}\n")):
        assert list(section_decisions(parse(f"- **Decision**: {decision}\n")))[:1] == [decision]


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("We chose it.", "en"),
        ("これを採用した。", "ja"),
        ("决定采用这个方案。", "zh"),
        ("最終決定", "ja"),
        ("The word 折本 is Japanese, the rest of this sentence is not.", "en"),
        ("", "en"),
    ],
)
def test_labels_are_written_in_the_language_of_the_text(text: str, lang: str) -> None:
    assert language_of(text) == lang


@pytest.mark.parametrize(
    "piece",
    [
        "Aを採用し、",
        "we chose a, ",
        "a.",
        "a/",
        "「",
        '"',
        "却下、",
        "the reason is ",
        "a.b.",
        "must ",
        "因为",
        "~/",
        "理由は",
    ],
)
def test_time_is_linear_in_a_sentence(piece: str) -> None:
    """Regular expressions that look back and forth would take hours for these."""
    sentence = piece * (200_000 // len(piece))
    started = time.process_time()
    for kind in (decided, rejection, succeeded, failed, is_rule, is_approval, reason, paths, is_chosen_row):
        kind(sentence)
    assert time.process_time() - started < 20
