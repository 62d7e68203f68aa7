"""The piece of a text that is shown, and what stands out in it."""

from __future__ import annotations

import pytest
from hypothesis import given

from orihon.search.query import parse_query, tokens
from orihon.search.snippets import make_snippet
from tests.strategies import MIXED_TEXTS


def marked(text: str, query: str, length: int = 240) -> str:
    snippet = make_snippet(text, parse_query(query), length=length)
    shown = snippet.text
    for start, end in reversed(snippet.highlights):
        shown = f"{shown[:start]}[{shown[start:end]}]{shown[end:]}"
    return f"{'' if snippet.is_start else '…'}{shown}{'' if snippet.is_end else '…'}"


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("Mend the valve.", "VALVE", "Mend the [valve]."),
        ("Mend the valve, the valve!", "valve", "Mend the [valve], the [valve]!"),
        ("call getUserName now", "getusername", "call [getUserName] now"),
        ("call getUserName now", "get_user", "call [getUser]Name now"),
        ("移行計画を確認する", "計画", "移行[計画]を確認する"),
        ("移行計画を確認する", "移行計画", "[移行計画]を確認する"),
        ("移行計画を確認する", "確", "移行計画を[確]認する"),
        ("Café ﾊﾞｸﾞ", "cafe バグ", "[Café] [ﾊﾞｸﾞ]"),
        ("tank_controller.py", "tan*", "[tank]_controller.py"),
        ("one two three", '"two three" -four', "one [two three]"),
        ("nothing of it", "other", "nothing of it"),
    ],
)
def test_the_words_stand_out(text: str, query: str, shown: str) -> None:
    assert marked(text, query) == shown


def test_the_piece_with_the_most_of_it_is_shown() -> None:
    text = "apple " * 200 + "then an apple and a pear " + "plum " * 200
    assert "[apple] and a [pear] plum" in marked(text, "apple pear")
    assert marked(text, "apple pear").startswith("…")
    assert marked(text, "apple pear").endswith("…")


def test_a_long_text_is_looked_through_in_parts() -> None:
    text = "apple " * 20_000 + "an apple and a pear" + " plum" * 20_000
    snippet = make_snippet(text, parse_query("pear apple"))
    assert "apple and a pear" in snippet.text
    assert text[snippet.starts_at :].startswith(snippet.text)
    assert {snippet.text[start:end] for start, end in snippet.highlights} == {"apple", "pear"}
    assert not snippet.is_start
    assert not snippet.is_end


@given(MIXED_TEXTS)
def test_what_stands_out_is_within_the_text(text: str) -> None:
    snippet = make_snippet(text, parse_query(" ".join(tokens(text)[:3])), length=20)
    assert text[snippet.starts_at :].startswith(snippet.text)
    assert all(0 <= start < end <= len(snippet.text) for start, end in snippet.highlights)
