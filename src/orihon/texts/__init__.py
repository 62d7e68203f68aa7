"""Everything Orihon says to people, in English and Japanese.

Owns the two catalogue files beside it and the choice between them: ``set_language`` (the setting), then
``ORIHON_LANG``, then ``LANG``; English when none of them says Japanese. ``speaking`` chooses for one block, such as
the answer to one reader of a page. A text is found by a dotted key and filled with named fields. A missing key is a
programming error and raises ``KeyError``; a test compares both catalogues.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

LANGUAGES = ("en", "ja")
#: How many names of a key say which tables it is looked for in.
_DEPTH = 2

_chosen: str | None = None
_spoken: ContextVar[str | None] = ContextVar("orihon_language", default=None)


def set_language(language: str | None) -> None:
    """Fix the language for this process (``None``: back to the environment)."""
    global _chosen
    if language is not None and language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, not {language!r}")
    _chosen = language


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Fix the language inside this block, for this thread or asynchronous task alone."""
    if language not in LANGUAGES:
        raise ValueError(f"language must be one of {', '.join(LANGUAGES)}, not {language!r}")
    before = _spoken.set(language)
    try:
        yield
    finally:
        _spoken.reset(before)


def language() -> str:
    """The language in force."""
    chosen = _spoken.get() or _chosen
    if chosen is not None:
        return chosen
    wanted = os.environ.get("ORIHON_LANG") or os.environ.get("LANG") or ""
    return "ja" if wanted.lower().startswith("ja") else "en"


def text(key: str, /, *, lang: str | None = None, **fields: object) -> str:
    """The text under ``key``, with ``{field}`` places filled in; ``{{`` stands for a brace."""
    node: Any = _tables(lang or language(), ".".join(key.split(".")[:_DEPTH]))
    for part in key.split("."):
        node = node[part]
    if not isinstance(node, str):
        raise KeyError(key)
    return node.format_map(fields)


@cache
def _tables(lang: str, name: str) -> dict[str, Any]:
    """As much of a catalogue as has the texts below ``name``: to read all of it takes a tenth of a quick command."""
    import tomllib  # only when something has to be said

    pieces = _pieces(lang)
    head = name.partition(".")[0]
    return tomllib.loads("".join(pieces.get(one, "") for one in dict.fromkeys((head, name))))


@cache
def _pieces(lang: str) -> dict[str, str]:
    """The catalogue cut at its tables, by the first names of each."""
    from importlib.resources import files

    pieces: dict[str, list[str]] = {}
    here: list[str] = []
    is_inside = False  # of a text of several lines, which may look like a table
    for line in files(__package__).joinpath(f"{lang}.toml").read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("[") and not is_inside:
            name = ".".join(line.strip(" \n[]").split(".")[:_DEPTH])
            here = pieces.setdefault(name, [])
        here.append(line)
        is_inside ^= line.count('"""') % 2 == 1
    return {name: "".join(lines) for name, lines in pieces.items()}
