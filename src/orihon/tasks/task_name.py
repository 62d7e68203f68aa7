"""How people name a task, in one place for every entrance: ``named_task``.

====================================  ====================================================================
a UUID, or the beginning of one       that task; a beginning has to fit one task only
``owner/repo#27``, ``owner/repo!27``  the newest task on that key; ``github:`` may stand before it
``#27``, ``!27``                      the same in whatever repository, if that is clear
``@last``, ``@last:running``          the newest task, or the newest of a status
``hello``                             the newest task of that name, as a program gave it
====================================  ====================================================================

Only looks. A damaged catalogue hides no task that has a folder. Refuses to guess between tasks of two keys. For one
user there are no tasks but that user's: nothing is said of any other, not even that it is there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from orihon.catalogue import Catalogue, TaskRow
from orihon.catalogue.rows import may_go_on
from orihon.errors import DamagedStore, InvalidId, TaskNotFound
from orihon.tasks.place import TaskFolders
from orihon.values.message.extra import wrong_type
from orihon.values.task import TaskIdentity, TaskKey, check_id, new_uuid, parse_status

_LAST = "@last"
_MOST_SHOWN = 5
_MOST_QUOTED = 200
_MOST_ON_A_KEY = 1000
_KEY = re.compile(r"(?:(?P<source>[^:#!]+):)?(?P<place>[^#!]*)(?P<mark>[#!])(?P<number>.+)", re.DOTALL)


#: How a program names a task that it wants to work on.
KeyOrName = TaskKey | TaskIdentity | Mapping[str, Any] | str
_OWN_SOURCE = "local"
_UNFINISHED = frozenset(("queued", "running", "paused", "waiting"))


def key_named(key: KeyOrName | None, user: str = "") -> TaskKey:
    """The key that a program means: ``owner/repo#27`` is an issue, any other name stands for itself."""
    if isinstance(key, TaskKey):
        return key
    if isinstance(key, TaskIdentity):
        return key.key
    if isinstance(key, Mapping):
        return TaskKey.from_dict(key)
    if key is not None and not isinstance(key, str):
        raise wrong_type(key, "TaskKey, dict or str", "key")
    parts = None if key is None else _KEY.fullmatch(key)
    if parts is None:
        return TaskKey(_OWN_SOURCE, "", "", "task", new_uuid() if key is None else key, user)
    source, place, mark, number = parts.group("source", "place", "mark", "number")
    owner, _, repo = (place or "").rpartition("/")
    return TaskKey(source or _OWN_SOURCE, owner, repo, "merge_request" if mark == "!" else "issue", number, user)


def unfinished_task(key: KeyOrName, wanted: TaskKey, catalogue: Catalogue, user: str = "") -> TaskRow | None:
    """The youngest task of that key that is not over: by its UUID, by the key itself, or by what it is about.

    One that was imported is meant by its UUID only.
    """
    named = key.uuid if isinstance(key, TaskKey | TaskIdentity) else key if isinstance(key, str) else None
    row = catalogue.tasks.find(named) if named and is_id(named) else None
    if row is not None and row.status.value in _UNFINISHED and user in ("", row.user):
        return row
    found = [row for row in catalogue.tasks.unfinished(wanted) if may_go_on(row)]
    if not found and isinstance(key, str) and _KEY.fullmatch(key):  # another source may have begun it
        on_it = (row for row in rows_on(key, catalogue) if may_go_on(row) and user in ("", row.user))
        found = [row for row in on_it if row.status.value in _UNFINISHED]
        if len({row.key for row in found}) > 1:
            matches = ", ".join(row.uuid for row in found[:_MOST_SHOWN])
            raise InvalidId("many_keys", value=key[:_MOST_QUOTED], matches=matches)
    return found[0] if found else None


def is_id(name: str) -> bool:
    """Can this be the name of a task's folder?"""
    try:
        check_id(name)
    except InvalidId:
        return False
    return True


@dataclass(frozen=True, slots=True)
class NamedTask:
    """The task that a name means; ``of`` says among how many tasks on its key it is the newest."""

    uuid: str
    name: str
    of: int = 1


def named_task(name: str, catalogue: Catalogue | None, folders: TaskFolders, *, user: str | None = None) -> NamedTask:
    """The task that is meant; ``TaskNotFound`` when there is none, ``InvalidId`` when it might be several.

    ``user``: among that user's tasks alone.
    """
    if is_subject(name):
        return task_about(name, catalogue, user=user)
    try:
        return _by_id(name, catalogue, folders) if user is None else _by_id_of(user, name, catalogue)
    except (TaskNotFound, InvalidId) as error:
        own = None if error.reason == "ambiguous" else _by_own_name(name, catalogue, user)
        if own is None:
            raise
        return own


def is_subject(name: str) -> bool:
    """Is this something else than a UUID?"""
    return name.startswith("@") or "#" in name or "!" in name


def task_about(name: str, catalogue: Catalogue | None, *, user: str | None = None) -> NamedTask:
    """The task that a key or ``@last`` means."""
    return _newest(name, catalogue, user) if name.startswith("@") else _on_key(name, catalogue, user)


def rows_on(name: str, catalogue: Catalogue, *, limit: int = _MOST_ON_A_KEY) -> list[TaskRow]:
    """The tasks on the subject that is named, the newest first, whatever their keys."""
    parts = _KEY.fullmatch(name)
    if parts is None:
        raise TaskNotFound("key", key=name[:_MOST_QUOTED])
    source, place, mark, number = parts.group("source", "place", "mark", "number")
    return catalogue.tasks.about(number, source=source, place=place or None, is_merge_request=mark == "!", limit=limit)


def _newest(name: str, catalogue: Catalogue | None, user: str | None) -> NamedTask:
    last, _, status = name.partition(":")
    if last != _LAST:
        raise InvalidId("unknown_mark", value=name[:_MOST_QUOTED])
    wanted = parse_status(status) if status else None
    rows = [] if catalogue is None else catalogue.tasks.page(status=wanted, user=user, limit=1)
    if not rows:
        raise TaskNotFound("last", name=name[:_MOST_QUOTED])
    return NamedTask(rows[0].uuid, name)


def _on_key(name: str, catalogue: Catalogue | None, user: str | None) -> NamedTask:
    rows = [] if catalogue is None else rows_on(name, catalogue)
    rows = [row for row in rows if user is None or row.user == user]
    if not rows:
        raise TaskNotFound("key", key=name[:_MOST_QUOTED])
    newest = {row.key: row.uuid for row in reversed(rows)}
    if len(newest) > 1:
        raise InvalidId("many_keys", value=name[:_MOST_QUOTED], matches=", ".join(list(newest.values())[:_MOST_SHOWN]))
    return NamedTask(rows[0].uuid, name, of=len(rows))


def _by_own_name(name: str, catalogue: Catalogue | None, user: str | None) -> NamedTask | None:
    """The task that a program has called so."""
    rows: list[TaskRow] = []
    with suppress(DamagedStore):
        rows = [] if catalogue is None else catalogue.tasks.about(name, source=_OWN_SOURCE, place="task")
    rows = [row for row in rows if user is None or row.user == user]
    return NamedTask(rows[0].uuid, name, of=len(rows)) if rows else None


def _by_id(name: str, catalogue: Catalogue | None, folders: TaskFolders) -> NamedTask:
    check_id(name)
    found = set(folders.beginning_with(name))
    with suppress(DamagedStore):
        found |= set() if catalogue is None else {row.uuid for row in catalogue.tasks.find_by_prefix(name)}
    return _only(name, found)


def _by_id_of(user: str, name: str, catalogue: Catalogue | None) -> NamedTask:
    """By the catalogue alone: a folder does not say whose it is."""
    check_id(name)
    rows = [] if catalogue is None else catalogue.tasks.find_by_prefix(name, user=user)
    return _only(name, {row.uuid for row in rows})


def _only(name: str, found: set[str]) -> NamedTask:
    if name in found:
        return NamedTask(name, name)
    if len(found) > 1:
        raise InvalidId("ambiguous", value=name, matches=", ".join(sorted(found)[:_MOST_SHOWN]))
    if not found:
        raise TaskNotFound("uuid", uuid=name)
    return NamedTask(found.pop(), name)
