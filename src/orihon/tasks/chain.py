"""The tasks on one key, one after another, and what each inherited from whom: ``task_chain``.

For people who want to know how a piece of work came to where it is. Only looks: claims nothing, changes nothing.
What a task inherited is read from the task that gave it, so it is not told where that one is archived, cleaned up or
damaged. A task that inherits from one on another key names it; that one's own chain is another one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from orihon.catalogue import Catalogue, TaskRow
from orihon.errors import StorageError, TaskNotFound
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.inheritance import INHERIT, ContextInheritanceManager, InheritanceContext
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.inheritance")

MOST_LINKS = 50
#: A task was pointed away from inheriting; found nothing to inherit; has not been begun; names its source.
Heritage = Literal["off", "none", "undecided", "from"]


@dataclass(frozen=True, slots=True)
class Inherited:
    """What one task has left for the next ones."""

    final_summary: bool
    plans: int
    open_problems: int
    earlier: int  # summaries of tasks before it
    imported: bool = False  # others have written it

    @classmethod
    def of(cls, found: InheritanceContext) -> Inherited:
        """Counted, without its text."""
        plans, problems, earlier = map(len, (found.planning_history, found.open_problems, found.earlier))
        return cls(bool(found.final_summary), plans, problems, earlier, found.is_imported)


@dataclass(frozen=True, slots=True)
class ChainLink(AsJson):
    """One task of a chain. Times are as in the catalogue: ISO 8601, UTC."""

    uuid: str
    status: TaskStatus
    created_at: str
    started_at: str | None
    completed_at: str | None
    heritage: Heritage
    inherits_from: str | None
    inherited: Inherited | None  # None where there is nothing, or the giver can no longer be read


def task_chain(base: OpenBase, task: str, *, limit: int = MOST_LINKS, user: str | None = None) -> list[ChainLink]:
    """The last ``limit`` tasks on one key, the oldest first.

    ``task`` names any of them as everywhere (``task_name``), or the key (``github:owner/repo#27``).
    Tasks of other users on the same subject have a key of their own; to a ``user`` no giver is named that is another's.
    """
    catalogue = base.open_catalogue()
    if catalogue is None:
        raise TaskNotFound("uuid", uuid=task)
    rows = catalogue.tasks.of_key(catalogue.tasks.get(base.resolve(task)).key, limit)
    givers = _Givers(ContextInheritanceManager(base.path, base.settings, catalogue=catalogue))
    return [_link(row, givers) for row in reversed(without_others(rows, catalogue, user))]


def without_others(rows: Sequence[TaskRow], catalogue: Catalogue, user: str | None) -> list[TaskRow]:
    """The rows as a ``user`` may see them: without the names of other users' tasks."""
    linked = {uuid for row in rows for uuid in (row.inherits_from, row.parent_uuid) if uuid is not None}
    if user is None or not linked:
        return list(rows)
    own = {row.uuid for row in catalogue.tasks.find_all(sorted(linked)) if row.user == user}
    return [
        replace(
            row,
            inherits_from=row.inherits_from if row.inherits_from in own else None,
            parent_uuid=row.parent_uuid if row.parent_uuid in own else None,
        )
        for row in rows
    ]


class _Givers:
    """What tasks have left, each read once."""

    def __init__(self, manager: ContextInheritanceManager) -> None:
        self._manager = manager
        self._known: dict[str, Inherited | None] = {}

    def left_by(self, uuid: str) -> Inherited | None:
        if uuid not in self._known:
            self._known[uuid] = self._read(uuid)
        return self._known[uuid]

    def _read(self, uuid: str) -> Inherited | None:
        try:
            found = self._manager.get_inheritance_context(uuid)
        except StorageError as error:  # the list is about the others, too
            logger.warning("%s: what it left cannot be read: %s", uuid, error)
            return None
        return None if found is None else Inherited.of(found)


def _link(row: TaskRow, givers: _Givers) -> ChainLink:
    heritage: Heritage = "none"
    if row.metadata.get(INHERIT) is False:
        heritage = "off"
    elif row.inherits_from is not None:
        heritage = "from"
    elif row.started_at is None and row.status is TaskStatus.QUEUED:
        heritage = "undecided"
    return ChainLink(
        uuid=row.uuid,
        status=row.status,
        created_at=row.created_at,
        started_at=row.started_at,
        completed_at=row.completed_at,
        heritage=heritage,
        inherits_from=row.inherits_from,
        inherited=None if row.inherits_from is None else givers.left_by(row.inherits_from),
    )
