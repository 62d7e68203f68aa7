"""PostgreSQL as Orihon uses it: connections that are pooled and survive forks, errors of our own tree, one schema.

Shared by the catalogue and by the ``postgres`` back end. Nothing here knows what is stored; ``psycopg`` is imported
only by who comes further in.

Statements by name: a ``.sql`` file with a line ``-- name: …`` above each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from orihon.errors import InvalidSettings
from orihon.settings import Settings

if TYPE_CHECKING:
    from orihon.drivers.postgres.pool import Postgres


def postgres_of(settings: Settings) -> Postgres:
    """The pool that all parts of this process share for one database, with its tables there."""
    try:
        from orihon.drivers.postgres.pool import shared_postgres
    except ImportError as error:
        raise InvalidSettings("database_extra", extra="postgres") from error
    return shared_postgres(settings)


@contextmanager
def connections_kept(settings: Settings) -> Iterator[None]:
    """Connections that are made in this block stay for the next one who asks, until it ends. Makes none itself."""
    if settings.database.url is None:
        yield
        return
    from orihon.drivers.postgres.pool import pool_of

    pool = pool_of(settings)
    pool.join()
    try:
        yield
    finally:
        pool.leave()


def has_tables(settings: Settings) -> bool:
    """Are there tables of ours in the database? Makes none."""
    try:
        from orihon.drivers.postgres.pool import pool_of
    except ImportError as error:
        raise InvalidSettings("database_extra", extra="postgres") from error
    return pool_of(settings).has_tables()


_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


@cache
def statements(package: str, name: str) -> dict[str, bytes]:
    """The statements of ``sql/<name>`` in a package, without their comments, as the driver takes them."""
    text = files(package).joinpath("sql", name).read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return {
        found: _COMMENT.sub("", body.lstrip("\n")).strip().encode()
        for found, body in zip(parts[::2], parts[1::2], strict=True)
    }
