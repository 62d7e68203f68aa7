"""A task's records for who only looks: no lease is taken, nothing made, also while an agent works on the task.

What a looker gets is named here too: pages and commands take it from this door, never from the room of the store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from orihon.audit.trail import audit_of
from orihon.catalogue import TaskRow
from orihon.errors import DamagedStore, InvalidInput, TaskNotFound
from orihon.store.checkpoints import Checkpoint, Ledger, Phase, read_ledger
from orihon.store.contract import STREAMS, Stream
from orihon.store.reader import TaskReader
from orihon.store.record_codec import StoredMessage
from orihon.store.steps import length_at
from orihon.store.task_store import TaskStore
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace
from orihon.values.task import shortened

__all__ = ["STREAMS", "Checkpoint", "Choice", "FollowedTask", "Ledger", "Phase", "StoredMessage", "Stream"]
__all__ += ["TaskReader", "TaskStore", "chosen_messages", "chosen_records", "length_at", "read_anew", "read_ledger"]
__all__ += ["reading_task"]

_Given = ParamSpec("_Given")
_Read = TypeVar("_Read")

_RUN = re.compile(r"(?P<first>[0-9]{1,15})?(?P<dash>-)?(?P<last>[0-9]{1,15})?")
_ENDLESS = 10**15
_BLOCK = 256  # messages that are looked at in one go, from the end


@contextmanager
def reading_task(base: OpenBase, uuid: str) -> Iterator[tuple[TaskStore, TaskRow | None]]:
    """The records of a task, in whatever state it is, and its row; a lost or damaged catalogue does not hide them."""
    row: TaskRow | None = None
    with suppress(DamagedStore):
        base.open_catalogue()
        row = base.row(uuid)
    here = base.folders.find(uuid)
    if here is None and row is not None:
        raise base.missing(uuid)
    if here is None:
        raise TaskNotFound("no_folder", uuid=uuid, status="-")
    audit_of(base.path, base.settings).record("read", uuid)
    with closing(base.read_store(here)) as store:
        yield store, row


def read_anew(
    read: Callable[Concatenate[OpenBase, str, _Given], _Read],
) -> Callable[Concatenate[OpenBase, str, _Given], _Read]:
    """What gives a value from the records of a task begins anew when the owner has moved that meanwhile."""

    @wraps(read)
    def anew(base: OpenBase, task: str, /, *given: _Given.args, **named: _Given.kwargs) -> _Read:
        return base.folders.where_it_lies(base.resolve(task), lambda: read(base, task, *given, **named))

    return anew


class FollowedTask:
    """The records of one task for who goes on looking, wherever its folder is at the moment."""

    def __init__(self, base: OpenBase, uuid: str) -> None:
        self._base = base
        self._uuid = uuid
        self._place: TaskPlace | None = None
        self._store: TaskStore | None = None

    def row(self) -> TaskRow | None:
        """Its row, if the catalogue is there and sound."""
        catalogue = self._base.open_catalogue_if_sound()
        return None if catalogue is None else catalogue.tasks.find(self._uuid)

    def store(self) -> TaskStore | None:
        """Open until the folder moves; ``None`` where there is none."""
        place = self._base.folders.find(self._uuid)
        if place != self._place:
            self.close()
            if place is not None:
                self._store = self._base.read_store(place)
            self._place = place
        return self._store

    def close(self) -> None:
        """Let go of the records; a later look opens them again."""
        self._place = None  # it may come back to the same place
        if self._store is not None:
            self._store.close()
            self._store = None


@dataclass(frozen=True, slots=True)
class Choice:
    """Which records of a stream are wanted: a run of numbers, the newest of those, messages of a role."""

    first: int = 1
    last: int | None = None
    newest: int | None = None
    role: str | None = None

    @classmethod
    def parse(cls, run: str | None = None, *, newest: int | None = None, role: str | None = None) -> Choice:
        """``run`` is ``A-B``, ``A-``, ``-B`` or ``A``."""
        if run is None:
            return cls(newest=newest, role=role)
        found = _RUN.fullmatch(run.strip())
        if found is None or not (found["first"] or found["last"]):
            raise InvalidInput("range", value=shortened(run))
        first, last = int(found["first"] or 1), int(found["last"]) if found["last"] else None
        if not found["dash"]:
            last = first
        if first < 1 or (last is not None and last < first):
            raise InvalidInput("range", value=shortened(run))
        return cls(first, last, newest, role)


def chosen_messages(store: TaskReader, choice: Choice) -> Iterator[StoredMessage]:
    """The messages that were chosen, in order; the newest ones cost no more in a longer log."""
    end = min(store.count("messages"), choice.last or _ENDLESS)
    if choice.newest is None:
        yield from (one for one in store.messages(choice.first, end) if choice.role in (None, one.message.role))
        return
    found: list[StoredMessage] = []
    while end >= choice.first and len(found) < choice.newest:
        # Without a role, each message counts: no more are read than are wanted.
        step = choice.newest - len(found) if choice.role is None else _BLOCK
        start = max(choice.first, end - step + 1)
        found[:0] = [one for one in store.messages(start, end) if choice.role in (None, one.message.role)]
        end = start - 1
    yield from found[-choice.newest :]


def chosen_records(store: TaskReader, stream: Stream, choice: Choice) -> Iterator[dict[str, Any]]:
    """The same for any other stream, as records."""
    end = min(store.count(stream), choice.last or _ENDLESS)
    first = choice.first if choice.newest is None else max(choice.first, end - choice.newest + 1)
    return store.read(stream, first, end)
