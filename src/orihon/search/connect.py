"""From a base folder to its index: in the database where there is one, else ``search.db``; made anew when damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from orihon.errors import DamagedStore
from orihon.search.index import SearchIndex
from orihon.tasks.base import OpenBase

logger = logging.getLogger("orihon.search")

_Result = TypeVar("_Result")
#: So long a damaged index is waited for that somebody else is making anew.
_PATIENCE = 30.0


def open_index(base: OpenBase) -> SearchIndex:
    """The index of a base folder, as it is."""
    if base.settings.database.url is not None:
        from orihon.drivers.postgres import postgres_of
        from orihon.search.postgres_index import PostgresIndex

        return PostgresIndex(postgres_of(base.settings))
    from orihon.search.sqlite_index import SqliteIndex

    return SqliteIndex(base.path, timeout=base.settings.context_storage.db_timeout)


def index_exists(base: OpenBase) -> bool:
    """Has anybody searched here before? Opening would make an index."""
    if base.settings.database.url is not None:
        return True  # tables of a server: it looks after itself
    from orihon.search.sqlite_index import FILE

    return (base.path / FILE).exists()


def with_index(base: OpenBase, action: Callable[[SearchIndex], _Result]) -> _Result:
    """Do something with the index; one that turns out to be damaged is thrown away, and the action done once more."""
    try:
        return _attempt(base, action)
    except DamagedStore as error:
        if not _is_about_index(base, error):
            raise
        logger.warning("the search index is made anew: %s", error.cause)
    throw_away(base)
    return _attempt(base, action)


def throw_away(base: OpenBase) -> None:
    """Take a damaged index away; it holds nothing that the logs do not have."""
    from orihon.search.sqlite_index import index_turn, remove_index

    with index_turn(base.path, _PATIENCE):
        if damage_in_index(base) is not None:  # somebody else may have made it anew meanwhile
            remove_index(base.path)


def damage_in_index(base: OpenBase) -> str | None:
    """What is wrong with the index; ``None`` when nothing is, or when there is none. May not be able to tell."""
    if not index_exists(base):
        return None
    try:
        with open_index(base) as index:
            return index.check()
    except DamagedStore as error:
        return error.cause


def _attempt(base: OpenBase, action: Callable[[SearchIndex], _Result]) -> _Result:
    with open_index(base) as index:
        return action(index)


def _is_about_index(base: OpenBase, error: DamagedStore) -> bool:
    from orihon.search.sqlite_index import FILE

    return base.settings.database.url is None and error.fields.get("path") == base.path / FILE
