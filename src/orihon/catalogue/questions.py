"""Questions of people to the catalogue, in SQL of their own: read-only, one at a time, answered as it is stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from orihon.drivers.sqlite import SqliteConnection, database_errors
from orihon.errors import InvalidInput

_FIRST_WORD = re.compile(r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*([a-z]+)", re.IGNORECASE | re.DOTALL)
_ASKING = frozenset({"select", "with", "values", "explain", "pragma", "show"})
#: What stands for itself in a statement, and the marks of parameters outside it.
_PARTS = re.compile(r"'[^']*'|\"[^\"]*\"|--[^\n]*|/\*.*?\*/|[?%]", re.DOTALL)
_ACTIONS = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE})
#: Pragmas that only tell something.
_PRAGMAS = frozenset(
    {
        *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo", "foreign_key_list"),
        *("database_list", "compile_options", "freelist_count", "page_count", "page_size", "user_version"),
    }
)


def refuse_changes(question: str) -> None:
    """``InvalidInput`` for what does not even look like a question; the database refuses the rest."""
    found = _FIRST_WORD.match(question)
    if found is None or found[1].lower() not in _ASKING:
        raise InvalidInput("sql_change")


def with_marks(question: str, parameters: Sequence[object]) -> str:
    """The question with its parameters marked as PostgreSQL's driver wants them."""
    if not parameters:
        return question
    return _PARTS.sub(lambda part: {"?": "%s"}.get(part[0], part[0].replace("%", "%%")), question)


def ask_file(path: Path, timeout: float, question: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
    """The rows that a ``tasks.db`` gives, by the name of their columns."""
    flags = apsw.SQLITE_OPEN_READONLY
    with database_errors(path, timeout), closing(SqliteConnection(path, timeout=timeout, flags=flags)) as connection:
        connection.authorizer = _is_allowed
        try:
            return connection.steadily(lambda: _answer(connection, question, parameters))
        except (apsw.AuthError, apsw.ReadOnlyError) as error:
            raise InvalidInput("sql_change") from error
        except (apsw.SQLError, apsw.BindingsError, TypeError, OverflowError) as error:
            raise InvalidInput("sql", detail=str(error)) from error


def _answer(connection: SqliteConnection, question: str, parameters: Sequence[Any]) -> list[dict[str, Any]]:
    statements = 0

    def only_one(*_: object) -> bool:
        nonlocal statements
        statements += 1
        if statements > 1:
            raise InvalidInput("sql_change")
        return True

    cursor = connection.cursor()
    cursor.exec_trace = only_one
    rows = cursor.execute(question, tuple(parameters))
    return [{column[0]: value for column, value in zip(cursor.get_description(), row, strict=True)} for row in rows]


def _is_allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    is_reading = action in _ACTIONS or (action == apsw.SQLITE_PRAGMA and first in _PRAGMAS)
    return apsw.SQLITE_OK if is_reading else apsw.SQLITE_DENY
