"""What stands between a task's texts and a page: escaping, made-visible controls, fences, the little Markdown."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.transfer.export.html import _macros
from orihon.transfer.export.markdown import fenced, plain, quoted, table
from orihon.transfer.export.prose import code, escape, one_line, prose, visible
from tests.hostile import long

_TAG = re.compile(r"</?(?:div|pre|code|strong|ins|del)(?: (?:class|dir)=\"[a-z]+\")*>")
_NASTY = st.text(st.sampled_from("<>&\"'`*#~+- \n\r\t\x00\x1b\u202e\u2066\ud800ax/!=折"), max_size=60) | st.text(
    max_size=60
)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("plain\n\ttext 折本 👩‍💻", "plain\n\ttext 折本 👩‍💻"),
        ("a\r\nb\rc", "a\nb^Mc"),
        ("\x00\x1b[31m\x7f", "^@^[[31m^?"),
        ("abc\u202etxt", "abc⟦U+202E⟧txt"),
        ("\u2066\u200f\u061c\u200b\ufeff", "⟦U+2066⟧⟦U+200F⟧⟦U+061C⟧⟦U+200B⟧⟦U+FEFF⟧"),
        ("\ud83d\x85\u2028\U000e0041", "⟦U+D83D⟧⟦U+0085⟧⟦U+2028⟧⟦U+E0041⟧"),
    ],
)
def test_what_hides_is_written_out(said: str, shown: str) -> None:
    assert visible(said) == shown


@given(_NASTY)
def test_nothing_is_left_that_hides_or_turns_text_round(said: str) -> None:
    shown = visible(said)
    assert shown.encode().decode() == shown
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not [char for char in shown if unicodedata.bidirectional(char) in bidi]
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]
    assert visible(shown) == shown
    assert "\n" not in one_line(said)


@given(_NASTY)
def test_escaped_text_holds_no_markup_and_shows_the_text(said: str) -> None:
    escaped = escape(said)
    assert not set("<>\"'") & set(escaped)
    assert html.unescape(escaped) == visible(said)


@given(_NASTY, _NASTY)
def test_a_template_escapes_contents_and_attributes(said: str, attribute: str) -> None:
    made = _macros()[1].block({"kind": "picture", "text": attribute or "x"}) + _macros()[0].file(said)
    found = re.search(r'<img src="([^"<>]*)" alt="[^"]*">\s*<p class="file"><bdi>([^<>]*)</bdi></p>', made)
    assert found is not None
    assert html.unescape(found[1]) == visible(attribute or "x")
    assert html.unescape(found[2]) == visible(said)


@given(_NASTY)
def test_prose_holds_no_markup_but_ours_and_every_word(said: str) -> None:
    made = prose(said)
    rest = _TAG.sub("", made)
    assert not set("<>\"'") & set(rest)
    letters = [char for char in visible(said) if char.isalnum()]
    fences = re.compile(r"^ {0,3}(`{3,}|~{3,}).*$", re.MULTILINE)
    if not fences.search(said):  # the language of a code block is not shown
        assert [char for char in html.unescape(rest) if char.isalnum()] == letters


def test_the_markdown_that_is_known() -> None:
    assert prose("a `b` **c**\n## d") == (
        '<div class="prose" dir="auto">a <code>b</code> <strong>c</strong>\n<strong class="heading">d</strong></div>'
    )
    assert prose("```diff\n+a\n-b\n--- c\n```\nend") == (
        '<pre dir="auto"><ins>+a</ins>\n<del>-b</del>\n--- c</pre><div class="prose" dir="auto">end</div>'
    )
    assert prose("````\n```\n````") == '<pre dir="auto">```</pre>'
    assert prose("~~~\nnever closed") == '<pre dir="auto">never closed</pre>'
    assert prose("[x](javascript:a) <b>") == '<div class="prose" dir="auto">[x](javascript:a) &lt;b&gt;</div>'
    assert prose("\n \n") == ""
    assert code("+a") == '<pre dir="auto">+a</pre>'


@given(_NASTY)
def test_a_fence_is_longer_than_any_inside(said: str) -> None:
    first, *inside, last = fenced(said, "json").split("\n")
    assert first == last + "json"
    assert set(last) == {"`"}
    assert len(last) >= 3
    assert "\n".join(inside) == visible(said)
    assert last not in "\n".join(inside)


@given(_NASTY)
def test_a_quotation_holds_every_line(said: str) -> None:
    lines = quoted(said).split("\n")
    assert all(line == ">" or line.startswith("> ") for line in lines)
    assert [line[2:].rstrip() for line in lines] == [line.rstrip() for line in visible(said).strip("\n").split("\n")]


@given(_NASTY)
def test_names_are_one_line_without_markup(said: str) -> None:
    shown = plain(said)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(?:\\\\)*[<>`*\[\]|#]", shown)


def test_a_table_keeps_its_columns() -> None:
    assert table(["a", "b"], [["1|2", "x\ny"]]) == "| a | b |\n| --- | --- |\n| 1\\|2 | x y |"
    assert long("x").count("\n") == quoted(long("x")).count("\n")
