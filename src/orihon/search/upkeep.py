"""What others tell the index: a task is about to be packed, its records are gone, rows came with times of their own.

The index is derived, so it keeps nobody from their work: where it cannot be used now, that is logged, and the next run
that compares all rows finds what there is to find. Waits only a moment for a process that is catching up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from orihon.base_folder import BaseFolder
from orihon.errors import OrihonError
from orihon.search.catching_up import CatchingUp
from orihon.search.index import SearchIndex
from orihon.search.opening import index_exists, with_index
from orihon.settings import Settings

logger = logging.getLogger("orihon.search")

#: Seconds that a process which is catching up is waited for.
_WAIT = 2.0


def read_before_packing(base: BaseFolder, uuid: str) -> None:
    """A packed task cannot be read any more: what it says is read now, if ``search.archived`` says so."""
    if base.settings.search.archived:
        _with_turn(base, uuid, lambda index: CatchingUp(base, index).run_one(uuid))


def drop_words(base: BaseFolder, uuid: str) -> None:
    """A task whose row says that its records are gone is not found any more."""
    if index_exists(base):
        _with_turn(base, uuid, lambda index: CatchingUp(base, index).run_one(uuid))


def remove_traces(base: BaseFolder) -> None:
    """Nothing is left on the disk of the words of tasks that are gone."""
    if index_exists(base):
        _with_turn(base, str(base.path), lambda index: index.purge())


def look_again(base_dir: Path | str, settings: Settings) -> None:
    """The next search compares all rows, for some came that no time tells apart from old ones."""
    with BaseFolder(Path(base_dir).absolute(), settings) as base:
        if index_exists(base):
            _with_turn(base, str(base.path), lambda index: index.compare_again())


def _with_turn(base: BaseFolder, what: str, action: Callable[[SearchIndex], object]) -> None:
    def in_turn(index: SearchIndex) -> None:
        with index.turn(_WAIT) as is_ours:
            if is_ours:
                action(index)
            else:
                logger.info("%s: the search index is in use, and learns of it later", what)

    try:
        with_index(base, in_turn)
    except OrihonError as error:
        logger.warning("%s: the search index cannot be used: %s", what, error)
