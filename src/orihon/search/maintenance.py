"""What others tell the index: a task is about to be packed, its records are gone, rows came with times of their own.

The index is derived, so it keeps nobody from their work: where it cannot be used now, that is logged, and the next run
that compares all rows finds what there is to find. Waits only a moment for a process that is catching up. Whoever has
promised that nothing is left (``erase_words``, ``erase_traces``) waits longer, and is told when it cannot be done.

From a base folder to its index: in the database where there is one, else ``search.db``; made anew when damaged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from orihon.errors import DamagedStore, OrihonError, StorageUnavailable
from orihon.search.index import SearchIndex
from orihon.search.indexer import CatchingUp
from orihon.tasks.base import OpenBase

logger = logging.getLogger("orihon.search")

#: Seconds that a process which is catching up is waited for.
_WAIT = 2.0
_BUSY = "index_busy"


def read_before_packing(base: OpenBase, uuid: str) -> None:
    """A packed task cannot be read any more: what it says is read now, if ``search.archived`` says so."""
    if base.settings.search.archived:
        _with_turn(base, uuid, lambda index: CatchingUp(base, index).run_one(uuid))


def drop_words(base: OpenBase, uuid: str) -> None:
    """A task whose row says that its records are gone is not found any more."""
    if index_exists(base):
        _with_turn(base, uuid, lambda index: CatchingUp(base, index).run_one(uuid))


def remove_traces(base: OpenBase) -> None:
    """Nothing is left on the disk of the words of tasks that are gone."""
    if index_exists(base):
        _with_turn(base, str(base.path), lambda index: index.purge())


def erase_words(base: OpenBase, uuid: str, seconds: float) -> None:
    """As ``drop_words``, or an error: this task's words must be gone."""
    if index_exists(base):
        _in_turn(base, lambda index: CatchingUp(base, index).run_one(uuid), max(seconds, _WAIT))


def erase_traces(base: OpenBase, seconds: float) -> None:
    """As ``remove_traces``, or an error."""
    if index_exists(base):
        _in_turn(base, lambda index: index.purge(), max(seconds, _WAIT))


def invalidate_bookmark(base: OpenBase) -> None:
    """The next search compares all rows, for some came that no time tells apart from old ones."""
    if index_exists(base):
        _with_turn(base, str(base.path), lambda index: index.compare_again())


def _with_turn(base: OpenBase, what: str, action: Callable[[SearchIndex], object]) -> None:
    try:
        _in_turn(base, action, _WAIT)
    except OrihonError as error:
        if error.reason == _BUSY:
            logger.info("%s: the search index is in use, and learns of it later", what)
        else:
            logger.warning("%s: the search index cannot be used: %s", what, error)


def _in_turn(base: OpenBase, action: Callable[[SearchIndex], object], seconds: float) -> None:
    def in_turn(index: SearchIndex) -> None:
        with index.turn(seconds) as is_ours:
            if not is_ours:
                raise StorageUnavailable(_BUSY, where=index.where, seconds=round(seconds, 1))
            action(index)

    with_index(base, in_turn)


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
