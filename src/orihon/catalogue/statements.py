"""The texts of the statements, by name.

``sql/queries.sql`` is for every database; ``sql/sqlite.sql`` and ``sql/postgres.sql`` hold what must differ.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from typing import Literal

Dialect = Literal["sqlite", "postgres"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_BINDING = re.compile(r"(?<![:\w]):([a-z_]+)")


@cache
def queries(dialect: Dialect) -> dict[str, str]:
    """The texts that a database runs, by name; bindings as its driver writes them."""
    texts = _by_name("queries.sql") | _by_name(f"{dialect}.sql")
    if dialect == "sqlite":
        return texts
    return {name: _BINDING.sub(r"%(\1)s", text.replace("%", "%%")) for name, text in texts.items()}


def statement(dialect: Dialect, name: str, conditions: tuple[str, ...]) -> str:
    """One text; ``conditions`` name texts that are joined by AND in the place of ``{conditions}``."""
    texts = queries(dialect)
    text = texts[name]
    if "{conditions}" not in text:
        return text
    joined = "\nAND ".join(texts[each] for each in conditions)
    return text.replace("{conditions}", f"{joined or 'true'}\n")  # on lines of their own: a text may end with a comment


def sql_text(name: str) -> str:
    """A file of ``sql/``."""
    return files(__package__).joinpath("sql", name).read_text(encoding="utf-8")


def _by_name(file: str) -> dict[str, str]:
    _, *parts = _NAME.split(sql_text(file))
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
