"""A document is read as sections and blocks, and nothing of it is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orihon.compression.documents.markdown import line_end, parse

_SIGNS = "#`~-=>|*+ \t\n\r1.[]ax決。\x0b\u3000\ud800"


@given(st.text(alphabet=_SIGNS, max_size=80) | st.text())
def test_the_tree_is_the_text(text: str) -> None:
    assert parse(text).text == text


def titles(text: str) -> list[tuple[int, str]]:
    return [(section.level, section.title) for section in parse(text).walk()][1:]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# A\n## B ##\n### C # d\n", [(1, "A"), (2, "B"), (3, "C # d")]),
        ("#A\n####### B\n    # C\n\t# D\n", []),
        ("A\n=\n\nB\n---\n", [(1, "A"), (2, "B")]),
        ("# A\nB\n===\n", [(1, "A"), (1, "B")]),
        ("# A\nB\n---\nC\n", [(1, "A")]),  # a dividing line, most likely
        ("one\ntwo\n---\n", []),
        ("***\nA\n---\n", [(2, "A")]),
        ("- a\n---\n\n> b\n---\n\n| c |\n---\n", []),
        ("```\n# A\n```\n# B\n", [(1, "B")]),
        ("~~~~ py\n# A\n~~~\n# B\n~~~~~\n# C\n", [(1, "C")]),
        ("1. ```sh\n   # A\n   ```\n# B\n", [(1, "B")]),
        ("```not `code`\n# A\n", [(1, "A")]),
        ("```\n# A\n", [(1, "A")]),  # never closed
        ("> ```\n# A\n", [(1, "A")]),
        ("# A\r\n\r\nB\r\n-\r\n", [(1, "A"), (2, "B")]),
        ("#\n##\t\n", [(1, ""), (2, "")]),
    ],
)
def test_headings(text: str, found: list[tuple[int, str]]) -> None:
    assert titles(text) == found


def test_deeper_sections_lie_inside() -> None:
    root = parse("x\n## A\n#### B\n### C\n# D\n")
    assert [child.title for child in root.children] == ["A", "D"]
    assert [child.title for child in root.children[0].children] == ["B", "C"]


def test_blocks() -> None:
    text = (
        "para\ngoes on\n- item\n  goes on\n  - inner\n1. one\n\n\n> quote\n> more\n| a | b |\n|---|---|\n"
        "a | b\n--|--\n\n***\n```\ncode\n\n```\nc | d\n--|--\n1 | 2\n"
    )
    kinds = [block.kind for block in parse(text).blocks]
    assert kinds == [
        *("paragraph", "item", "item", "item", "blank", "quote", "table", "blank", "rule", "fence", "table"),
    ]


def test_a_protected_section_ends_where_its_level_does() -> None:
    root = parse("# Keep\na\n## b\n# c\n## Keep\n### d\n## e\n", lambda heading: heading.endswith("# Keep"))
    assert [section.text for section in root.protected_sections()] == ["# Keep\na\n## b\n", "## Keep\n### d\n"]
    assert [section.title for section in root.open_sections()] == ["", "c", "e"]


def test_an_open_fence_in_a_protected_section_protects_to_the_end() -> None:
    text = "# a\n# Keep\n```\n# b\n## c\n"
    root = parse(text, lambda heading: heading == "# Keep")
    assert "".join(section.text for section in root.protected_sections()) == "# Keep\n```\n# b\n## c\n"


def test_many_open_fences_do_not_slow_it_down() -> None:
    assert len(parse("```a\n" * 100_000).blocks) == 1


@pytest.mark.parametrize(("text", "end"), [("", "\n"), ("a\nb\r\n", "\n"), ("a\r\nb\n", "\r\n"), ("a\rb\r", "\r")])
def test_line_ends(text: str, end: str) -> None:
    assert line_end(text) == end
