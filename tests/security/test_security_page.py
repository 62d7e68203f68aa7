"""SECURITY.md names a test for every promise, and each of those tests is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("SECURITY.md", "docs/ja/security.md")
_ROW = re.compile(r"^\| (?!-|Against|相手)(.+) \| (.+) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def promises(page: str) -> list[str]:
    """The tests of each row of the first table."""
    text = (ROOT / page).read_text(encoding="utf-8")
    table = text[text.index("|---|---|---|") :].split("\n\n")[0]
    return [row[3] for row in _ROW.finditer(table)]


@pytest.mark.parametrize("page", PAGES)
def test_every_promise_has_a_test_that_is_there(page: str) -> None:
    rows = promises(page)
    assert len(rows) > 15
    for row in rows:
        named = _TEST.findall(row)
        assert named, row
        for file, test in named:
            assert (ROOT / file).is_file(), file
            if test:
                assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), (file, test)


def test_both_languages_promise_the_same() -> None:
    english, japanese = (promises(page) for page in PAGES)
    assert [_TEST.findall(row) for row in english] == [_TEST.findall(row) for row in japanese]
