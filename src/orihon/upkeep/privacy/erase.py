"""``erase_user``: everything of a user goes, for good.

A task is erased in steps that a second run goes on with: its name is buried first, so that nobody begins it anew; then
its data key goes, its records wherever they are, packed copies and mirrors, its words in the search index, and last its
row with notices and figures. What remains is a tombstone: a name, a time, and who asked. A task that a live process
works on is asked to stop, and refused if it does not. What could not be done is in the result: a second run does it.
No master key is needed: users and names of tasks are readable, and what is sealed goes unread.

Records of a user that the catalogue does not know.

A fork or an import that died just before its row was written leaves them, or somebody who copied a folder here. Nobody
holds them, for there is no lease without a row: whoever is about to write the row finds the name buried. A run that
died while it removed them may have taken the description first: what has a buried name goes, whosever it was.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from orihon.audit import audited, forget_person
from orihon.catalogue import TaskRow
from orihon.catalogue.connect import open_for_removal
from orihon.catalogue.metadata import key_in, read_metadata
from orihon.catalogue.rows import CLEANED, UNREAD
from orihon.errors import InvalidInput, OrihonError, StateError, StorageUnavailable, TaskBusy, TaskNotFound
from orihon.importers.files import forget_imports
from orihon.llm.response_cache import clear_cache
from orihon.runtime.queue import TaskQueue
from orihon.search.maintenance import erase_traces, erase_words
from orihon.store.factory import open_bare
from orihon.store.files import FilesRecords
from orihon.store.key_places import erase_key
from orihon.store.sqlite_copies import DATABASE, set_fence
from orihon.system.clock import utc_now
from orihon.system.files import make_private_folder, wrapping
from orihon.system.json_shapes import AsJson
from orihon.tasks.base import OpenBase, is_id
from orihon.tasks.mirror.manifest import MIRRORS
from orihon.tasks.place import TaskPlace
from orihon.transfer.archive.cleanup import Cleaning
from orihon.transfer.archive.work import at_work
from orihon.transfer.staging import FORK, IMPORT, remove_from_database, remove_unfinished, unfinished_in_database
from orihon.upkeep.retention.vacuum import overwrite_deleted
from orihon.values.task import FINISHED, TaskStatus

logger = logging.getLogger("orihon.privacy")

_PAGE = 500
_SECONDS_BETWEEN_LOOKS = 0.2
_ASIDE = "aside"
#: What is cleared when the tasks are gone, in this order.
PLACES = ("unfinished", "search", "answers", "imports", "catalogue")


class TaskLeft(NamedTuple):
    """A task of which something could not be erased or read, and why."""

    task: str
    reason: str

    @classmethod
    def each(cls, reasons: Mapping[str, str]) -> tuple[TaskLeft, ...]:
        return tuple(cls(*one) for one in reasons.items())


class PlaceLeft(NamedTuple):
    """One of ``PLACES`` where traces are left, and why."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class Erasure(AsJson):
    """What was erased, and what could not be: tasks, and ``PLACES`` where traces are left, each with the reason."""

    json_fields = "user tasks failed left grants audit_names=names unread"

    user: str
    tasks: tuple[str, ...]
    failed: tuple[TaskLeft, ...] = ()
    left: tuple[PlaceLeft, ...] = ()
    grants: int = 0
    names: int = 0  # entries of the audit that no longer name the user
    unread: tuple[TaskLeft, ...] = ()  # tasks whose notes are sealed and could not be opened, and why

    @property
    def is_complete(self) -> bool:
        return not (self.failed or self.left)


def erase_user(base: OpenBase, user: str, *, by: str = "", wait: float = 30.0, dry_run: bool = False) -> Erasure:
    """Erase every task of a user, their grants, and their name in the audit. Workers get so long to let go."""
    if not user:
        raise InvalidInput("no_user")
    unread: dict[str, str] = {}
    tasks = _tasks_of(base, user, unread)
    if dry_run:
        tasks += [place.uuid for place in unlisted_of(base, user)]
        return Erasure(user, tuple(tasks), unread=TaskLeft.each(unread))
    erased: list[str] = []
    failed: dict[str, str] = {}
    while tasks:
        _ask_to_stop(base, tasks)
        for uuid in tasks:
            try:
                with audited(base.path, base.settings, "erase", uuid, begun=True):
                    erase_task(base, uuid, by=by, wait=wait)
                erased.append(uuid)
            except OrihonError as error:  # the others go all the same
                failed[uuid] = str(error)
        # A task that was at work may have begun parts of it meanwhile.
        tasks = [uuid for uuid in _tasks_of(base, user, unread) if uuid not in failed]
    for place in unlisted_of(base, user):
        try:
            with audited(base.path, base.settings, "erase", place.uuid, begun=True):
                erase_unlisted(base, place, by=by)
            erased.append(place.uuid)
        except OrihonError as error:
            failed[place.uuid] = str(error)
    done = Erasure(user, tuple(erased), TaskLeft.each(failed), unread=TaskLeft.each(unread))
    return _finish(base, done, wait)


def erase_task(base: OpenBase, uuid: str, *, by: str = "", wait: float = 0.0) -> None:
    """Erase one task, whatever its state; what an earlier run has begun is finished."""
    until, is_removed = time.monotonic() + wait, False
    while not is_removed:
        _let_go(base, uuid, wait, until)
        try:
            with at_work(base, uuid, Erasing) as work:
                work.erase(by)
            is_removed = True
        except TaskBusy:  # somebody took it up in this moment
            if time.monotonic() >= until:
                raise
    with OpenBase(base.path, base.settings, for_removal=True) as emptied:
        catalogue = emptied.open_catalogue()
        assert catalogue is not None
        erase_words(emptied, uuid, until - time.monotonic())
        catalogue.tasks.erase(uuid)


class Erasing(Cleaning):
    """One task on its way out, of which nothing is to be left."""

    for_removal = True

    def erase(self, by: str) -> None:
        """Remove whatever holds something of the task, but for its row."""
        make_private_folder(self._place)
        self._catalogue.tombstones.bury(self._uuid, erased_by=by)
        self._done("buried")
        erase_key(self._base.path, self._settings, self._uuid)
        self._clear_leftovers()
        for place in self._base.folders.places(self._uuid):
            self._owned.renew()
            if place.is_in_database:
                self._remove_records(place)
            else:
                self._shut_out(place.folder)
                self._remove_folder(place.folder)
        self._clear_leftovers()
        self._remove_packed(self._shelf.find(self._uuid))
        self._remove_copies()
        self._done("removed")
        mark = {"at": utc_now(), "status": self._row.status.value, "bytes": 0, "final_summary": "", "host": ""}
        self._catalogue.tasks.update(self._uuid, metadata={CLEANED: mark}, epoch=self.lease.epoch)

    def _shut_out(self, place: Path) -> None:
        """A writer that has the files open, and does not know that it lost its lease, is refused from here on."""
        try:
            if (place / DATABASE).exists():
                set_fence(place / DATABASE, self.lease.epoch)
            else:
                with closing(FilesRecords(place, durability="normal")) as records:
                    records.claim(self.lease.epoch)
        except OrihonError as error:  # what is damaged is erased all the same
            logger.warning("%s: %s", self._uuid, error)

    def _remove_copies(self) -> None:
        """The mirror, where there is one: here a failure is one. And what the doctor has put aside."""
        storage = self._storage()
        if storage is not None:
            for name in list(storage.names(f"{MIRRORS}/{self._uuid}")):
                storage.delete(name)
        for path in (self._base.path / _ASIDE).glob(f"{self._uuid}*"):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


def rows_of(base: OpenBase, user: str, *, for_removal: bool = False) -> Iterator[TaskRow]:
    """The tasks of a user, newest first, a page at a time."""
    with OpenBase(base.path, base.settings, for_removal=for_removal) as base:
        catalogue = base.open_catalogue()
        last: str | None = None
        while catalogue is not None:
            page = catalogue.tasks.page(user=user, limit=_PAGE, before=last)
            yield from page
            if len(page) < _PAGE:
                return
            last = page[-1].uuid


def _tasks_of(base: OpenBase, user: str, unread: dict[str, str]) -> list[str]:
    """The tasks of a user, by what is readable of their rows; ``unread`` learns of which something was not."""
    rows = list(rows_of(base, user, for_removal=True))
    unread |= {row.uuid: str(row.metadata[UNREAD]) for row in rows if UNREAD in row.metadata}
    return [row.uuid for row in rows]


def _ask_to_stop(base: OpenBase, tasks: Iterable[str]) -> None:
    """Whoever has one of these tasks is asked to give it up; all at once, so that they stop at the same time."""
    with closing(TaskQueue(base.path, base.settings, catalogue=open_for_removal(base.path, base.settings))) as queue:
        for uuid in tasks:
            row = queue.catalogue.tasks.find(uuid)
            if row is None or row.status in FINISHED or row.status is TaskStatus.ARCHIVED:
                continue
            if queue.catalogue.leases.is_held(row):
                try:
                    queue.cancel(uuid)
                except StateError as error:  # not a worker's: whoever has it is waited for
                    logger.info("%s: %s", uuid, error)


def _let_go(base: OpenBase, uuid: str, wait: float, until: float) -> None:
    """Wait for whoever has the task."""
    with OpenBase(base.path, base.settings, for_removal=True) as emptied:
        catalogue = emptied.open_catalogue()
        row = None if catalogue is None else catalogue.tasks.find(uuid)
        if catalogue is None or row is None:
            raise TaskNotFound("uuid", uuid=uuid)
        while catalogue.leases.is_held(row):
            if time.monotonic() >= until:
                held_by = {"owner": row.lease_owner, "host": row.lease_host, "pid": row.lease_pid}
                raise TaskBusy("erase", uuid=uuid, seconds=round(wait, 1), **held_by)
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            row = catalogue.tasks.get(uuid)


def _finish(base: OpenBase, done: Erasure, wait: float) -> Erasure:
    """What belongs to the user and to no task. Also where no task is left: a run that died may have come so far."""
    left: list[PlaceLeft] = []
    grants = 0
    with OpenBase(base.path, base.settings, for_removal=True) as base:
        catalogue = base.open_catalogue()
        if catalogue is not None:
            grants = catalogue.grants.forget_user(done.user)
            catalogue.statistics.merge_rollups()  # sums that are merged later would name the user until then
        steps: dict[str, Callable[[], object]] = {
            "unfinished": lambda: erase_unfinished(base, done.user),
            "search": lambda: None if catalogue is None else erase_traces(base, wait),
            "answers": lambda: clear_cache(base.settings, base.path),  # they do not say whose they were
            "imports": lambda: forget_imports(base.path, done.user),
            "catalogue": lambda: overwrite_deleted(base),
        }
        for place in PLACES:
            try:
                steps[place]()
            except OrihonError as error:  # the other places are cleared all the same
                left.append(PlaceLeft(place, str(error)))
    done = replace(done, left=tuple(left), grants=grants)
    return replace(done, names=forget_person(base.path, base.settings, done.user)) if done.is_complete else done


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
