"""Sentences say what was decided, why, and what was not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.compression.documents.markdown import parse
from orihon.compression.documents.statements import decided, decisions, labelled, reason, rejection, sentences, trimmed


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
        ("Not something that was ever discarded", "Not something that was ever discarded"),
    ],
)
def test_rejections(sentence: str, found: str) -> None:
    assert rejection(sentence, "Option") == found


def test_reasons() -> None:
    assert reason("We chose it because it is small.") == "it is small"
    assert reason("開発者が慣れているため、採用した。") == "開発者が慣れている"
    assert reason("It is small.") == ""


def test_labels_in_both_languages() -> None:
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
    for block in parse(f"We decided to use {value}\n").blocks:
        for decision in decisions(block):
            (written,) = parse(f"- **Decision**: {decision}\n").blocks
            assert list(decisions(written))[:1] == [decision]
