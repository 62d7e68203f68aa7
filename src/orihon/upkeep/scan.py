"""``scan_tasks``: what should never have been written, found in old histories and taken out.

Looks at every task that has records here with the rules that are in force now, or with another ``Cleaner``. A fix
takes the task's lease, redacts its records (``store.redaction``), its files and its row in the catalogue, and makes
what is derived anew. Packed tasks are unpacked for a look; to be mended, one is brought back, redacted, and put away
again, and ``repacking.json`` names it until it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from orihon.audit.record import actor
from orihon.audit.trail import audited
from orihon.catalogue.rows import CLEANED
from orihon.drivers.sqlite import database_errors, open_existing, write_anew
from orihon.errors import IllegalTransition, OrihonError, TaskBusy
from orihon.search import forget
from orihon.store.factory import open_for_reading
from orihon.store.redaction import Hit, Redaction
from orihon.store.redaction_traces import REPACKING, Begun, leftovers
from orihon.store.task_store import TaskStore
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace
from orihon.transfer.archive.archive import archive_task, unarchive, unpacked_for_reading
from orihon.values.task import TaskStatus

_PATIENCE = 30.0
_MOST_NOTICES = 10_000
#: Where hits are that no record has.
_ROW, _NOTICE = "catalogue", "notice"


class Cleaner(Protocol):
    """Finds what has to go, and says what stands in its place."""

    #: What it takes out, as records say it afterwards: ``secrets``, ``people``.
    purpose: ClassVar[str]

    def mask(self, text: str) -> str:
        """The text without it; the same object when there is nothing."""

    def clean(self, value: Any) -> Any:
        """A JSON value with all its texts masked; the same object when there is nothing."""


LeftOut = Literal["archived", "busy", "unreadable", "unpacked"]


@dataclass(frozen=True, slots=True)
class Scanned(AsJson):
    """One task: what was found, whether it was taken out, and why it was not looked at, if so."""

    json_fields = "task found=hits fixed=is_fixed left_out reason"

    task: str
    hits: tuple[Hit, ...] = ()
    is_fixed: bool = False
    #: ``archived``: packed, and left so; ``busy``: somebody works on it, and nothing was taken out; ``unreadable``:
    #: packed, and not looked at; ``unpacked``: mended, but not put away again.
    left_out: LeftOut | None = None
    reason: str = ""  # why, where an error is

    @property
    def is_in_catalogue_only(self) -> bool:
        """Was something found, and nothing of it in the records?"""
        return bool(self.hits) and all(hit.where in (_ROW, _NOTICE) for hit in self.hits)

    @property
    def is_clean(self) -> bool:
        """Is it known that nothing is there any more?"""
        return self.is_fixed or not (self.hits or self.left_out == "unreadable")


def scan_tasks(
    base: OpenBase,
    tasks: Iterable[str] | None = None,
    *,
    fix: bool = False,
    cleaner: Cleaner | None = None,
    packed: bool = True,
) -> list[Scanned]:
    """Look through the tasks with these UUIDs, or through all; ``fix`` takes out what is found.

    Without a ``cleaner`` these are secrets. Without ``packed``, packed tasks are left out.
    """
    base.open_catalogue_if_sound()
    redactor = cleaner or base.redactor
    uuids = base.uuids() if tasks is None else list(tasks)
    begun = Begun(base.path) if fix else None
    left_before = set() if begun is None else set(begun.tasks)
    scanned = [_scanned(base, uuid, redactor, begun, packed=packed) for uuid in uuids]
    is_changed = begun is not None and bool(begun.tasks)
    if is_changed and base.database.exists():
        base.close_catalogue()
        _wipe(base.database)
    if begun is not None and is_changed:
        # Only these: words of packed tasks could not be read again.
        sound = {one.task for one in scanned if one.is_in_catalogue_only} - left_before
        if stale := begun.tasks - sound:
            forget(base, *stale)
        begun.forget(one.task for one in scanned if one.left_out in (None, "unpacked"))
    return scanned if begun is None else _put_away_again(base, scanned)


def _put_away_again(base: OpenBase, scanned: list[Scanned]) -> list[Scanned]:
    """Pack what was unpacked to be mended, also by a run that did not come so far."""
    repacking = Begun(base.path, REPACKING)
    put_away: list[Scanned] = []
    for one in scanned:
        reason = ""
        if one.task in repacking.tasks and one.left_out is None:
            try:
                archive_task(base, one.task)
                repacking.forget([one.task])
            except IllegalTransition as error:  # somebody has taken it up again: it is theirs to put away
                repacking.forget([one.task])
                reason = str(error)
            except OrihonError as error:
                reason = str(error)
        put_away.append(replace(one, left_out="unpacked", reason=reason) if reason else one)
    return put_away


def _wipe(database: Path) -> None:
    """What was replaced in a database of SQLite lies on in its log and in free places until it is made anew."""
    with database_errors(database, _PATIENCE), closing(open_existing(database, timeout=_PATIENCE)) as connection:
        write_anew(connection)


def _scanned(base: OpenBase, uuid: str, redactor: Cleaner, begun: Begun | None, *, packed: bool) -> Scanned:
    """Look through one task; with ``begun`` it is mended, also where an earlier run did not come to the end."""
    place, row = base.folders.find(uuid), base.row(uuid)
    if place is None and row is None:
        raise base.missing(uuid)
    is_packed = place is None and row is not None and row.status is TaskStatus.ARCHIVED and CLEANED not in row.metadata
    if is_packed and not packed:
        return Scanned(uuid, left_out="archived")
    in_catalogue = _catalogue_hits(base, uuid, redactor)
    try:
        if is_packed:
            hits = _packed_hits(base, uuid, redactor)
        else:
            hits = () if place is None else _hits(base.read_store(place), redactor)
    except OrihonError as error:
        if not is_packed:
            raise
        return Scanned(uuid, in_catalogue, left_out="unreadable", reason=str(error))
    found = (*hits, *in_catalogue)
    if begun is None or not (found or uuid in begun.tasks):
        return Scanned(uuid, found)
    try:
        repacking = Begun(base.path, REPACKING)
        if (is_packed and hits) or (place is not None and uuid in repacking.tasks):
            if base.settings.context_storage.backend == "postgres" and base.settings.archive.url is None:
                return Scanned(uuid, found, left_out="archived")  # it could not be packed here again
            repacking.add(uuid)
            unarchive(base, uuid)
        _mend(base, uuid, redactor, begun, places=len(found))
    except TaskBusy:  # the others are seen to all the same
        return Scanned(uuid, found, left_out="busy")
    return Scanned(uuid, found, is_fixed=True)


def _hits(opened: TaskStore, redactor: Cleaner) -> tuple[Hit, ...]:
    """What is in the records and files of a task."""
    with closing(opened) as store:
        hits = tuple(Redaction(store, redactor.mask, by="").hits())
    return (*hits, *(Hit(path.name, 0, ()) for path in leftovers(store.records.folder, redactor.mask)))


def _packed_hits(base: OpenBase, uuid: str, redactor: Cleaner) -> tuple[Hit, ...]:
    with unpacked_for_reading(base, uuid) as folder:
        return _hits(open_for_reading(folder, base.settings, name=uuid), redactor)


def _catalogue_hits(base: OpenBase, uuid: str, redactor: Cleaner) -> tuple[Hit, ...]:
    return (
        *(Hit(_ROW, 0, (column,)) for column in _row_hits(base, uuid, redactor)),
        *(Hit(_NOTICE, number, ()) for number, _ in _notice_hits(base, uuid, redactor)),
    )


def _mend(base: OpenBase, uuid: str, redactor: Cleaner, begun: Begun, *, places: int) -> None:
    """Take everything out of one task, wherever it is; it may have been brought back for that a moment ago."""
    with (
        base.own_if_registered(uuid) as owned,
        audited(base.path, base.settings, "redact", uuid, begun=True, places=places),
    ):
        begun.add(uuid)
        place = base.folders.find(uuid)
        if place is not None:
            _redact(base, place, redactor, None if owned is None else owned.epoch)
        if base.catalogue is not None:
            if row_hits := _row_hits(base, uuid, redactor):
                base.catalogue.tasks.update(uuid, **row_hits)
            for (_, event), body in _notice_hits(base, uuid, redactor).items():
                base.catalogue.outbox.rewrite(event, body)


def _redact(base: OpenBase, place: TaskPlace, redactor: Cleaner, epoch: int | None) -> None:
    """Take everything out of the records, and make what is derived from them anew."""

    def opened() -> TaskStore:
        store = base.store(place, epoch=epoch)
        base.audit.watch(store, place.uuid)  # it is attested as it is now when it is closed
        return store

    with closing(opened()) as store:
        store.claim()
        Redaction(store, redactor.mask, by=actor(base.settings).user, purpose=redactor.purpose).apply()
        store.records.save("index", b"{}")
    with closing(opened()) as store:
        store.change(lambda tail: store.save_index())
    for path in leftovers(place.folder, redactor.mask):
        path.unlink()


def _notice_hits(base: OpenBase, uuid: str, redactor: Cleaner) -> dict[tuple[int, str], Any]:
    """What notices about the task should say instead, by their numbers and events."""
    if base.catalogue is None:
        return {}
    old = {(one.id, one.event): dict(one.body) for one in base.catalogue.outbox.rows(limit=_MOST_NOTICES, task=uuid)}
    new = {one: redactor.clean(body) for one, body in old.items()}
    return {one: body for one, body in new.items() if body != old[one]}


def _row_hits(base: OpenBase, uuid: str, redactor: Cleaner) -> dict[str, Any]:
    """The columns of the task's row that have something to take out, as they should be."""
    row = base.row(uuid)
    if row is None:
        return {}
    old = {"prompt": row.prompt, "error_message": row.error_message, "metadata": dict(row.metadata)}
    new = {column: redactor.clean(value) for column, value in old.items()}
    return {column: value for column, value in new.items() if value != old[column]}
