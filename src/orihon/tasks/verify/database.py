"""What SQLite itself can say about a database file. Opened by the same library as everywhere, and closed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from orihon.drivers.sqlite import SqliteConnection, connect, database_errors

_PATIENCE = 30.0


def damage_in(path: Path) -> str | None:
    """What is wrong with the structure of a database; ``None`` when nothing is, or when there is no file.

    ``DamagedStore`` when it is so wrong that SQLite does not open it.
    """
    if not path.exists():
        return None
    with _opened(path) as connection:
        try:
            answer = str(connection.rows("PRAGMA quick_check(1)")[0][0])
        except apsw.SQLError as error:  # a table definition that has become nonsense
            answer = str(error)
    return None if answer == "ok" else answer


@contextmanager
def _opened(path: Path) -> Iterator[SqliteConnection]:
    connection = connect(path, timeout=_PATIENCE)
    try:
        with database_errors(path, _PATIENCE):
            yield connection
    finally:
        connection.close()
