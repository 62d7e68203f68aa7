"""Records of a user that the catalogue does not know.

A fork or an import that died just before its row was written leaves them, or somebody who copied a folder here. Nobody
holds them, for there is no lease without a row: whoever is about to write the row finds the name buried. A run that
died while it removed them may have taken the description first: what has a buried name goes, whosever it was.
"""

from __future__ import annotations

import logging
import shutil
from contextlib import closing

from orihon.catalogue.metadata import key_in, read_metadata
from orihon.errors import OrihonError, StorageUnavailable
from orihon.store.factory import open_bare
from orihon.store.key_places import erase_key
from orihon.system.files import wrapping
from orihon.tasks.base import OpenBase, is_id
from orihon.tasks.place import TaskPlace
from orihon.transfer.staging import FORK, IMPORT, remove_from_database, remove_unfinished, unfinished_in_database

logger = logging.getLogger("orihon.privacy")


def unlisted_of(base: OpenBase, user: str) -> list[TaskPlace]:
    """Tasks without a row whose own description says that they are the user's, or whose removal was begun."""
    with OpenBase(base.path, base.settings, for_removal=True) as base:
        catalogue = base.open_catalogue()
        if catalogue is None:
            return []
        known = {row.uuid for row in base.rows()}
        unknown = [place for place in base.folders.all() if is_id(place.uuid) and place.uuid not in known]
        buried = {stone.uuid for stone in catalogue.tombstones.all()} if unknown else set()
        return [
            place
            for place in unknown
            # Once more: a task may have begun between the two looks.
            if base.row(place.uuid) is None and (place.uuid in buried or _user_in(base, place) == user)
        ]


def erase_unlisted(base: OpenBase, place: TaskPlace, *, by: str) -> None:
    """Bury the name, then remove the records."""
    name = place.uuid
    with OpenBase(base.path, base.settings, for_removal=True) as base:
        catalogue = base.open_catalogue()
        assert catalogue is not None
        if catalogue.tombstones.find(name) is None:
            catalogue.tombstones.bury(name, erased_by=by)
        erase_key(base.path, base.settings, name)
        if place.is_in_database:
            remove_from_database(place, base.settings, fenced=True)
        else:
            with wrapping(place.folder):
                shutil.rmtree(place.folder)


def erase_unfinished(base: OpenBase, user: str) -> None:
    """Remove what forks and imports have left that died; an error while one may be at work: nobody can tell whose."""
    for place in unfinished_in_database(base.folders):
        if _user_in(base, place) == user:  # a copy that is at work fails then, as it must
            remove_from_database(place, base.settings, fenced=False)
    left = [*remove_unfinished(base.path / "paused", FORK), *remove_unfinished(base.path / "completed", IMPORT)]
    if left:
        raise StorageUnavailable("unfinished", path=left[0])


def _user_in(base: OpenBase, place: TaskPlace) -> str | None:
    try:
        with closing(open_bare(place.folder, base.settings)) as records:
            key = key_in(read_metadata(records) or {})
    except OrihonError as error:  # nobody can tell whose it is
        logger.warning("%s: %s", place.uuid, error)
        return None
    return None if key is None else key.user
