"""The table of the design documents' sections: none with an example is left out, and every file in it is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.seeds.copies import BLOCKS

_ROOT = Path(__file__).parents[2]
_PAGES = ["docs/seeds.md", "docs/ja/seeds.md"]
_SECTIONS = re.compile(r"(\d+(?:\.\d+)*)(?:–(\d+(?:\.\d+)*))?[,、]? ?")


#: How many sections each chapter has, chapter by chapter; 004's chapters are counted.
_CHAPTERS = {
    "000": (3, 2, 4, 4, 2, 6, 3, 4, 3, 3, 3, 3, 5, 6, 4),
    "001": (3, 2, 6, 7, 4, 4, 3, 3, 2, 2, 3, 0),
    "002": (3, 1, 21, 7, 5, 4, 12, 12, 2, 5, 7, 1, 1, 2, 2, 0),
    "003": (3, 3, 3, 5, 3, 3, 3, 2, 3, 3, 3, 0, 0, 0),
    "004": (0, 0, 2, 3, 2, 2, 2, 2, 2, 2),
}


def _number(section: str) -> tuple[int, ...]:
    return tuple(map(int, section.split(".")))


def _ranges(page: str, document: str) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The sections that the rows of a document begin with: ``1.1, 1.2 purpose``, ``3.2–3.6 parts``."""
    part = re.search(rf"^## {document}(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert part is not None
    found = []
    for row in re.findall(r"^\| (\d[^|]*)\|", part[1], re.M):
        place = 0
        while match := _SECTIONS.match(row, place):
            found.append((_number(match[1]), _number(match[2] or match[1])))
            place = match.end()
    return found


@pytest.mark.parametrize("page", _PAGES)
@pytest.mark.parametrize("document", _CHAPTERS)
def test_every_section_has_a_row(page: str, document: str) -> None:
    ranges = _ranges((_ROOT / page).read_text(encoding="utf-8"), document)

    def is_listed(section: tuple[int, ...]) -> bool:
        return any(low <= section[: len(low)] <= high or low[: len(section)] == section for low, high in ranges)

    sections = {_number(path.name.partition("-")[0]) for path in (BLOCKS / document).iterdir()}
    for chapter, count in enumerate(_CHAPTERS[document], 1):
        sections |= {(chapter, section) for section in range(1, count + 1)} or {(chapter,)}
    assert sorted(section for section in sections if not is_listed(section)) == []


def test_both_languages_list_the_same_sections() -> None:
    english, japanese = ((_ROOT / page).read_text(encoding="utf-8") for page in _PAGES)
    for document in ("000", "001", "002", "003", "004"):
        assert _ranges(english, document) == _ranges(japanese, document)


@pytest.mark.parametrize("page", _PAGES)
def test_every_file_of_the_table_is_there(page: str) -> None:
    text = (_ROOT / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_0-9*]+/)+(?:[\w-]+\.(?:py|toml|sql|yaml))?)`", text))
    named -= {"archives/", "paused/", "archive/"}  # folders of a base, not of ours
    named = {one for one in named if not one.startswith("tests/seeds/")}
    homes = (_ROOT, _ROOT / "src/orihon")
    assert len(named) > 50
    assert sorted(one for one in named if not any(list(home.glob(one)) for home in homes)) == []
