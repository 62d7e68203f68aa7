"""Texts taken apart: the same tokens with and without their places, in every script."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.search.query import LONGEST, folded, spans, tokens, wholes
from tests.strategies import MIXED_TEXTS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mend the VALVE!", "mend the valve"),
        ("get_user_name getUserName GetUserName", "get user name get user name get user name"),
        ("HTTPServer2 parseXML IDs", "http server2 parse xml i ds"),
        ("src/orihon/search.py:12", "src orihon search py 12"),
        ("pkg.mod.func(arg=1.5)", "pkg mod func arg 1 5"),
        ("移行計画。", "移行 行計 計画 画"),
        ("会", "会"),
        ("第3章のvalve修理", "第 3 章の の valve 修理 理"),
        ("カタカナｶﾀｶﾅ", "カタ タカ カナ ナカ カタ タカ カナ ナ"),
        ("ﾊﾞｸﾞ", "バグ グ"),
        ("ＡＢＣ１２３", "abc123"),
        ("Café naïve Straße Ærø Łódź", "cafe naive strasse aero lodz"),
        ("Cafe\u0301", "cafe"),
        ("Привет, мир", "привет мир"),
        ("한국어 검색", "한국 국어 어 검색 색"),
        ("ไทย", "ไท ทย ย"),
        ("ﬁle ½ ㌔", "file 1 2 キロ ロ"),
        ("● -- \0 '' ███", ""),
        ("done🎉 ✅👍🏽 👩\u200d💻 ❤\ufe0f", "done 🎉 ✅ 👍 🏽 👩 💻 ❤"),
        ("v1.2.3 V10.0-rc1 v2 rev1.2 v.1", "v 1 2 3 v 10 0 rc1 v2 rev1 2 v 1"),
        ("हिन्दी भाषा।", "हिन्दी भाषा"),
        ("שָׁלוֹם", "שלום"),
        ("\x1b[1;31mred\x1b[0m \x1b(Bplain \x1b]8;;url\x07link \x1b", "red plain 8 url link"),
        ("sha256:9ee0e44", "sha256 9ee0e44"),
    ],
)
def test_texts_fall_into_tokens(text: str, expected: str) -> None:
    assert tokens(text) == expected.split()


def test_names_in_camel_case_are_known_in_one_piece() -> None:
    assert wholes("call getUserName or HTTPServer, not get_user or Plain or ÜberMut") == [
        "getusername",
        "httpserver",
        "ubermut",
    ]
    assert wholes("nothing here, v2") == []
    assert wholes("since v1.2 and V10.0") == ["v1", "v10"]


def test_a_token_that_nobody_types_is_cut() -> None:
    assert tokens("a" * 500) == ["a" * LONGEST]
    assert tokens("é" * 500) == ["e" * LONGEST]


@given(MIXED_TEXTS)
def test_places_belong_to_the_same_tokens(text: str) -> None:
    found = list(spans(text))
    assert [span.token for span in found] == tokens(text)
    assert all(0 <= span.start < span.end <= len(text) for span in found)
    assert all(first.start <= second.start for first, second in pairwise(found))


@given(MIXED_TEXTS)
def test_a_token_is_one_for_every_database(text: str) -> None:
    for token in (*tokens(text), *wholes(text)):
        assert token
        assert len(token) <= LONGEST
        assert all(char.isalnum() or not char.isascii() for char in token)
        assert not any(char.isspace() for char in token)
        token.encode()


@given(st.text(alphabet=st.characters(categories=("Lu", "Ll", "Nd"), max_codepoint=0x24F), max_size=40))
def test_width_and_accents_make_no_difference(text: str) -> None:
    assert tokens(unicodedata.normalize("NFD", text)) == tokens(text)
    wide = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text)
    assert folded(wide) == folded(text)


def test_places_are_exact_where_characters_grow_or_shrink() -> None:
    text = "㌔ ﾊﾞｸﾞ in Straße, e\u0301cole"
    places = [text[span.start : span.end] for span in spans(text)]
    assert places == ["㌔", "㌔", "ﾊﾞｸﾞ", "ｸﾞ", "in", "Straße", "e\u0301cole"]
