"""Queries: anything can be asked, and what it means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.search.index import text_tokens
from orihon.search.query import MOST_TERMS, Term, parse_query, tokens
from tests.strategies import MIXED_TEXTS


def has(text: str, query: str) -> bool:
    return parse_query(query).matches(*text_tokens(text))


def test_terms_are_read_as_people_write_them() -> None:
    assert parse_query('valve "shut it" -broken tan* -"not this"').terms == (
        Term(("valve",)),
        Term(("shut", "it")),
        Term(("broken",), is_without=True),
        Term(("tan",), is_prefix=True),
        Term(("not", "this"), is_without=True),
    )
    assert parse_query("getUser").terms == (Term(("get", "user"), whole="getuser"),)
    assert parse_query("--rebuild").terms == (Term(("rebuild",)),)
    assert parse_query("移行 会").terms == (Term(("移行",)), Term(("会",), is_prefix=True))
    assert parse_query('"open end').terms == (Term(("open", "end")),)
    assert parse_query("same Same").terms == (Term(("same",)),)


@pytest.mark.parametrize("query", ["", " ", '"', '""', "-", "*", "🎉", "\0", "' OR 1=1 --", "(", 'a"b"c', "^", "{}:"])
def test_no_text_is_a_wrong_query(query: str) -> None:
    parse_query(query)


@given(st.text(max_size=200))
def test_anything_can_be_asked(query: str) -> None:
    assert len(parse_query(query).terms) <= MOST_TERMS


def test_a_very_long_query_is_cut() -> None:
    assert len(parse_query(" ".join(f"w{number}" for number in range(5000))).terms) == MOST_TERMS
    (term,) = parse_query("-".join("x" for _ in range(5000))).terms
    assert len(term.tokens) == 64


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("call getUserName now", "getusername"),
        ("call getUserName now", "user"),
        ("call getUserName now", "get_user"),
        ("call getusername now", "getUserName"),
        ("find snake_case_by_part", "case"),
        ("find snake_case_by_part", "snake_case"),
        ("see src/orihon/view.py", "orihon/view.py"),
        ("移行計画を確認する", "移行"),
        ("移行計画を確認する", "計画"),
        ("移行計画を確認する", "画"),
        ("移行計画を確認する", "移行計画"),
        ("大移行v2計画書", "移行v2計画"),
        ("第3章", "第3章"),
        ("the valve is shut", '"valve is"'),
        ("the valve is shut", "val* shut"),
        ("the valve is shut", "shut -open"),
        ("Straße", "strasse"),
        ("ﾊﾞｸﾞを直す", "バグ"),
        ("fixed since v1.2.3", "1.2.3"),
        ("fixed since v1.2.3", "v1.2"),
        ("fixed since v1.2.3", "v1"),
        ("commit 3f2a9bc7d81e4f00aa11bb22cc33dd44ee55ff66", "3f2a9bc"),
        ("commit 3F2A9BC7D81E4F00", "3f2a9bc"),
        ("✅ tests, ❌ types", "❌"),
        ("good 👍🏽", "👍"),
    ],
)
def test_what_is_there_is_found(text: str, query: str) -> None:
    assert has(text, query)


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the valve is shut", "valve open"),
        ("the valve is shut", '"is valve"'),
        ("the valve is shut", "valve -shut"),
        ("the valve is shut", "alve"),
        ("the valve is shut", "-open"),
        ("移行計画", "行移"),
        ("移行 計画", "移行計画"),
        ("計画の移行", "移行計画"),
        ("call getUserName", '"call getusername"'),
        ("the number 1234567890", "1234567"),
        ("a feedback", "feedbac"),
        ("✅ tests", "❌"),
    ],
)
def test_what_is_not_there_is_not(text: str, query: str) -> None:
    assert not has(text, query)


@given(MIXED_TEXTS)
def test_every_token_of_a_text_finds_it(text: str) -> None:
    words, whole_words = text_tokens(text)
    for token in (*words, *whole_words):
        assert parse_query(token).matches(words, whole_words)


@given(MIXED_TEXTS, st.integers(0, 50), st.integers(1, 6))
def test_words_that_follow_each_other_find_it_as_a_phrase(text: str, start: int, length: int) -> None:
    said = " ".join(text.replace('"', " ").split()[start : start + length])
    if tokens(said):
        assert has(text.replace('"', " "), f'"{said}"')
