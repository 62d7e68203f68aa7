"""Secrets in tables: what stands in a column whose head says so.

At the line below the head, ``|---|---|`` or ``------+------``, the head is read, and then row after row. Promises
linear time: a table is read once, and no row beyond a bound.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from orihon.guard.masking.anchors import Anchor
from orihon.guard.masking.judgement import is_quoted_secret
from orihon.guard.masking.text_forms import SecretSpan, Views

_LONGEST_ROW: Final = 400
_MOST_ROWS: Final = 64
_RULE = re.compile(r"[ \t]{0,8}[|+:-][ \t|+:-]{2,400}\r?(?:\n|$)")
_HEAD = re.compile(
    r"[ \t*`]*(?:[a-z_]{1,16}[ _-])?(?:(?P<password>pass(?:word|phrase|wd)|pwd?"
    r"|[ぁ-ヿ一-鿿]{0,8}(?:パスワード|パスフレーズ))"
    r"|api[ _-]?key|secret(?:[ _-]key)?|token|[a-z]{0,3}(?:[ぁ-ヿ一-鿿]{0,8}(?:トークン|シークレット)|キー))[ \t*`]*"
)
# Of a token more is wanted: there are tables of words, too.
_SHORTEST_TOKEN: Final = 16


@dataclass(frozen=True, slots=True)
class Tables:
    """Values in the columns of a table; the places are those in the line below its head."""

    anchors: tuple[Anchor, ...] = tuple(map(Anchor, ("|--", "| --", "|:-", "| :-", "-+-", "-|-")))

    def find(self, views: Views, places: Iterable[int], start: int, end: int) -> list[SecretSpan]:
        spans: list[SecretSpan] = []
        text, done = views.text, start
        for place in places:
            if place < done:
                continue
            below = text.rfind("\n", max(0, place - _LONGEST_ROW), place) + 1
            rule = _RULE.match(text, below, end) if below else None
            if rule is None:
                line = text.find("\n", place, place + _LONGEST_ROW)
                done = place + _LONGEST_ROW if line < 0 else line
                continue
            done = rule.end()
            columns = _columns(text, below)
            if columns:
                found, done = _cells(text, columns, done, end)
                spans += found
        return spans


def _columns(text: str, below: int) -> dict[int, bool]:
    """The numbers of the columns with secrets, and whether those are passwords."""
    first = text.rfind("\n", max(0, below - 1 - _LONGEST_ROW), below - 1) + 1
    head = text[max(first, below - 1 - _LONGEST_ROW) : below - 1]
    if "|" not in head:
        return {}
    names = map(_HEAD.fullmatch, head.lower().rstrip("\r").split("|"))
    return {number: name["password"] is not None for number, name in enumerate(names) if name is not None}


def _cells(text: str, columns: dict[int, bool], place: int, end: int) -> tuple[list[SecretSpan], int]:
    """The secrets in those columns, and where the table ends."""
    spans: list[SecretSpan] = []
    for _ in range(_MOST_ROWS):
        line = text.find("\n", place, min(place + _LONGEST_ROW, end))
        last = min(place + _LONGEST_ROW, end) if line < 0 else line
        row = text[place:last]
        if "|" not in row or _RULE.match(row):
            break
        for number, cell in enumerate(row.split("|")):
            value = cell.strip(" \t\r*`")
            if number in columns and _is_secret(value, is_password=columns[number]):
                first = place + cell.index(value)
                spans.append((first, first + len(value), "PASSWORD" if columns[number] else "SECRET"))
            place += len(cell) + 1
        place = last + 1
        if line < 0:
            break
    return spans, min(place, end)


def _is_secret(value: str, *, is_password: bool) -> bool:
    if not is_password and len(value) < _SHORTEST_TOKEN:
        return False
    return not value.isalpha() and is_quoted_secret(value, is_password=is_password)
