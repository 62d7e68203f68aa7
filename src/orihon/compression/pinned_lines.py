"""Pinned lines in the text of a fold: below a heading of their own, word for word."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from orihon.texts import LANGUAGES, text


def with_pinned_lines(summary: str, lines: Iterable[str]) -> str:
    """The summary followed by the lines that it must hold word for word and does not yet.

    Several lines that are pinned together always stand there: only below the heading they are found again.
    """
    missing = [line for line in lines if "\n" in line or line not in summary]
    return "\n".join([summary, "", _heading(), *missing]) if missing else summary


@cache
def pinned_headings() -> tuple[str, ...]:
    """The heading in every language: a fold may have been made in another."""
    return tuple(_heading(lang) for lang in LANGUAGES)


def _heading(lang: str | None = None) -> str:
    return f"## {text('notes.pinned', lang=lang)}"
