"""Owning a task: acquire its lease, claim its records, keep both by a heartbeat, act, write its statistics, release.

``Ownership`` is the one way to a lease. ``TaskOpening`` opens a task that is owned: its row, the checks, its place, its
store, in an order that a failure leaves nothing half done. Everything that can refuse comes first. A task that cannot
be opened keeps its status and its place; one that could not be stored is never registered.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Protocol, Self
from weakref import WeakValueDictionary

from orihon.catalogue import Catalogue, Lease, TaskRow
from orihon.catalogue.leases import lease_in
from orihon.catalogue.metadata import restore_metadata
from orihon.errors import DamagedStore, IllegalTransition, OrihonError, StaleWriter, StorageUnavailable
from orihon.guard.masking.redaction import refuse_secret_in
from orihon.store.take_over import LOCKED, PATIENCE
from orihon.store.task_store import TaskStore
from orihon.tasks.heartbeat import Heartbeat
from orihon.tasks.place import TaskPlace
from orihon.tasks.quotas import admission, check_new_task
from orihon.values.task import TaskKey, TaskStatus, check_change

if TYPE_CHECKING:
    from orihon.tasks.base import OpenBase

logger = logging.getLogger("orihon.context")


class OpenStore(Protocol):
    """Opens the records at a place with an epoch."""

    def __call__(self, place: TaskPlace, *, epoch: int | None = None) -> TaskStore: ...


class Claim(Protocol):
    """A task that a queue has handed out to this process, with the lease that goes with it."""

    lease: Lease


_CLAIMS: WeakValueDictionary[tuple[int, str, str], Claim] = WeakValueDictionary()


def remember_claim(catalogue: Catalogue, claim: Claim) -> None:
    """Whoever opens the task in this process opens it with this claim."""
    _CLAIMS[os.getpid(), catalogue.where, claim.lease.uuid] = claim


def claim_of(catalogue: Catalogue, uuid: str) -> Claim | None:
    """The claim that this process has on a task, if it is still good."""
    found = _CLAIMS.get((os.getpid(), catalogue.where, uuid))
    if found is None:
        return None
    row = catalogue.tasks.find(uuid)
    return found if row is not None and row.lease_owner == found.lease.owner else None


class Ownership:
    """A task that this process owns; nobody else may open or change it until it is released."""

    def __init__(self, catalogue: Catalogue, lease: Lease, opened_by: OpenStore | None = None) -> None:
        self.catalogue = catalogue
        self.lease = lease
        self._open = opened_by
        self._heartbeat: Heartbeat | None = None

    @classmethod
    def take(
        cls,
        catalogue: Catalogue,
        uuid: str,
        seconds: float,
        *,
        take_over: bool = False,
        opened_by: OpenStore | None = None,
    ) -> Self:
        """The lease of a task that nobody holds, or whose holder is dead (``take_over``: alive or not)."""
        return cls(catalogue, catalogue.leases.acquire(uuid, seconds=seconds, take_over=take_over), opened_by)

    def __enter__(self) -> Self:
        self.keep()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def uuid(self) -> str:
        return self.lease.uuid

    @property
    def epoch(self) -> int:
        """The fencing token that everything is written with."""
        return self.lease.epoch

    def row(self) -> TaskRow:
        """The task's row as its last owner left it."""
        return self.catalogue.tasks.get(self.uuid)

    def keep(self, beat: Callable[[], object] | None = None) -> None:
        """Renew the lease from now on, by ``beat`` where there is more to do than that."""
        self._heartbeat = Heartbeat(beat or self.renew, self.lease.seconds / 3, self.uuid, group=self.catalogue.where)

    def rest(self) -> None:
        """No beat starts any more: the lease runs out unless it is renewed by hand."""
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None

    def renew(self) -> None:
        """Say that this process is alive; ``StaleWriter`` when another has taken the task over."""
        self.lease = self.catalogue.leases.renew(self.lease)

    def raise_epoch(self, above: int) -> int:
        """The lease with a higher fencing token than the records have."""
        self.lease = self.catalogue.leases.raise_epoch(self.lease, above=above)
        return self.lease.epoch

    def claim(self, place: TaskPlace) -> TaskStore:
        """The records there, claimed: a former owner is refused from here on.

        A store that was opened on the folder alone raises the folder's epoch and not the catalogue's: then the lease
        follows, once, for the catalogue and nobody else says who owns the task.
        """
        assert self._open is not None
        try:
            return _claimed(self._open(place, epoch=self.epoch))
        except StaleWriter as refusal:
            if refusal.reason != "taken_over":
                raise
            self.raise_epoch(refusal.fields["epoch"])
            return _claimed(self._open(place, epoch=self.epoch))

    def release(self) -> None:
        """Let go of the task."""
        self.rest()
        self.catalogue.leases.release(self.lease)


def _claimed(store: TaskStore) -> TaskStore:
    with ExitStack() as on_failure:
        on_failure.callback(store.close)
        store.claim()
        on_failure.pop_all()
    return store


def totals_of(store: TaskStore, *, final: bool = True) -> dict[str, int]:
    """The statistics of a task that follow from its records; ``final``: also those of one at rest."""
    tail = store.tail
    totals = {
        "total_messages": tail.seq,
        "total_summaries": store.count("summaries"),
        "total_tool_calls": store.count("tools"),
        "view_tokens": tail.view_tokens,
    }
    at_rest = {"final_token_count": tail.view_tokens, "final_message_count": tail.view_entries}
    return totals | at_rest if final else totals


def write_statistics(
    catalogue: Catalogue, row: TaskRow, store: TaskStore, *, compressions: int = 0, final: bool = True
) -> None:
    """What lists show of a task. Its work is done and recorded: nothing fails because of these figures."""
    try:
        if compressions:
            catalogue.tasks.add_statistics(row.uuid, compressions=compressions, epoch=row.epoch)
        catalogue.tasks.set_totals(row.uuid, **totals_of(store, final=final), epoch=row.epoch)
    except OrihonError as error:
        logger.warning("%s: the figures could not be written: %s", row.uuid, error)


class TaskOpening:
    """Opens owned tasks of one base."""

    def __init__(
        self, base: OpenBase, *, fetch: Callable[[Lease, TaskPlace | None, TaskPlace], bool] | None = None
    ) -> None:
        """``fetch`` makes the folder of a task that another machine had meanwhile, if there is a mirror of it."""
        self._base = base
        self._catalogue = base.needed_catalogue()
        self._folders = base.folders
        self._settings = base.settings
        self._fetch = fetch
        self._is_fetched = False
        self._begun: tuple[TaskRow, TaskStore] | None = None  # what was registered here just now

    def find_or_register(
        self, uuid: str, key: TaskKey | None, is_resumed: bool | None, **columns: Any
    ) -> tuple[TaskRow, Ownership | None]:
        """The row of the task; a new one when there is none, a key is given and no old task is insisted on.

        ``columns`` are what a new row says besides. A task of which nothing was there is owned at once: its row and its
        lease are one change of the catalogue.
        """
        row = self._catalogue.tasks.find(uuid)
        if row is not None:
            if is_resumed is False:
                raise IllegalTransition("exists", uuid=uuid, status=row.status.value)
            return row, None
        if is_resumed or key is None:
            return self._catalogue.tasks.get(uuid), None  # raises: there is no such task
        check_new_task(self._catalogue, self._settings, key.user)
        refuse_secret_in(key, self._base.redactor)
        is_fresh = not self._folders.places(uuid)
        is_lasting = not is_fresh or self._settings.context_storage.backend != "files"
        # Before it is registered: what cannot be stored is never a task.
        begun = self._base.store(self._folders.create(uuid, durable=is_lasting))
        begun.close()
        seconds = self._settings.context_storage.lease_seconds
        row = self._catalogue.tasks.register(
            key,
            uuid,
            status=TaskStatus.RUNNING,
            admit=admission(self._settings, key.user),
            owned_for=seconds if is_fresh else None,
            **{**self._means(), **columns},
        )
        if not is_fresh:
            return row, None
        self._begun = row, begun
        return row, Ownership(self._catalogue, lease_in(row, seconds), self._base.store)

    def _means(self) -> dict[str, Any]:
        """What the settings say a task is worked on with."""
        return {
            "llm_provider": self._settings.llm.provider,
            "model": self._settings.model,
            "context_length": self._settings.context_length,
            "backend": self._settings.context_storage.backend,
        }

    def to_run(self, owned: Ownership) -> tuple[TaskRow, TaskStore]:
        """The task's row and claimed store, once it is running and its folder lies where running tasks do."""
        if self._begun is not None:
            return self._begin(owned, *self._begun)
        # Read under the lease: the one that was found before it may have been changed by the last owner.
        row = owned.row()
        if row.status is not TaskStatus.RUNNING:
            self._refuse_finished(owned, row)
        with ExitStack() as on_failure:
            store = self._claimed(owned, row)
            on_failure.callback(store.close)
            if row.status is not TaskStatus.RUNNING:
                row = self._catalogue.tasks.change_status(row.uuid, TaskStatus.RUNNING, epoch=owned.epoch)
            if row.model is None:  # queued by somebody who did not know what would work on it
                row = self._catalogue.tasks.update(row.uuid, epoch=owned.epoch, **self._means())
            self._settle(owned, row, store)
            restore_metadata(store.records, row, self._settings)
            on_failure.pop_all()
        return row, store

    def _begin(self, owned: Ownership, row: TaskRow, store: TaskStore) -> tuple[TaskRow, TaskStore]:
        """A task that nobody else has ever seen: it lies where we have made its place."""
        with ExitStack() as on_failure:
            on_failure.callback(store.close)
            store.begin_again(owned.epoch, store.records.folder)
            restore_metadata(store.records, row, self._settings)
            on_failure.pop_all()
        return row, store

    def in_place(self, owned: Ownership) -> tuple[TaskRow, TaskStore]:
        """The task's row and claimed store, in the state that it has and where tasks of that state lie."""
        row = owned.row()
        with ExitStack() as on_failure:
            store = self._claimed(owned, row, is_begun=True)
            on_failure.callback(store.close)
            row = owned.row()
            restore_metadata(store.records, row, self._settings)
            on_failure.pop_all()
        return row, store

    def _claimed(self, owned: Ownership, row: TaskRow, *, is_begun: bool = False) -> TaskStore:
        """The claimed store where the task lies; ``is_begun``: settled there, and missed where there is none."""

        def claimed() -> TaskStore:
            here = self._place_of(row, owned.lease)  # another machine may have had it since
            if is_begun:
                here = self._folders.settle(row.uuid, row.status, still=owned.renew)
            is_seen = self._refuse_lost_log(row, here)
            if here is None and is_begun:
                raise self._base.missing(row.uuid)
            store = owned.claim(here or self._folders.create(row.uuid))
            if not is_seen:
                with ExitStack() as on_failure:
                    on_failure.callback(store.close)
                    self._refuse_lost_log(row, here)
                    on_failure.pop_all()
            return store

        return self._folders.where_it_lies(row.uuid, claimed)

    def beside_owner(self, row: TaskRow) -> TaskStore | None:
        """The store of a running task that a live process owns, with that one's epoch: taken over, both are refused.

        ``None`` where the back end takes one writer.
        """

        def joined() -> TaskStore | None:
            here = self._folders.find(row.uuid)
            if row.status is not TaskStatus.RUNNING or here is None:
                return None
            store = self._base.store(here, epoch=row.epoch)
            if store.records.many_writers:
                return _claimed(store)  # now, while it is known where the task lies
            store.close()
            return None

        return self._folders.where_it_lies(row.uuid, joined)

    def _place_of(self, row: TaskRow, lease: Lease) -> TaskPlace | None:
        """Where the task lies; ``None`` for one that nobody has worked on.

        A task of this catalogue may have been another machine's: then it is fetched from its mirror, or refused where
        there is none. To begin it anew would give it two histories.
        """
        here, place = self._folders.unite(row.uuid, row.status), self._folders.new_place(row.uuid)
        if here is None and lease.epoch > 1:
            here = self._folders.put_back(row.uuid)
        if lease.epoch <= 1 or self._settings.database.url is None or (here or place).is_in_database:
            return here
        if self._fetch is not None and self._fetch(lease, here, place):
            logger.info("%s: fetched from its mirror", row.uuid)
            self._is_fetched = True
            return place
        if here is None and row.model is not None:
            raise StorageUnavailable("elsewhere", uuid=row.uuid)
        return here

    def _refuse_finished(self, owned: Ownership, row: TaskRow) -> None:
        try:
            check_change(row.status, TaskStatus.RUNNING)
        except IllegalTransition:
            # A crash may have come between the end of the task and its folder's move.
            self._folders.settle(row.uuid, row.status, still=owned.renew)
            raise

    def _refuse_lost_log(self, row: TaskRow, place: TaskPlace | None) -> bool:
        """``False``: one who stands still keeps readers out too; a claim takes the task from there."""
        try:
            stored = 0 if place is None else self._count_messages(place)
        except StorageUnavailable as error:
            if error.reason not in LOCKED:
                raise
            return False
        if stored >= row.total_messages:
            return True
        may_lose = self._is_fetched or self._settings.context_storage.durability == "os"
        if place is None or not may_lose or row.status is not TaskStatus.RUNNING:
            where = (place or self._folders.new_place(row.uuid)).folder
            raise DamagedStore("log_lost", path=where, stored=stored, known=row.total_messages)
        # Its owner has crashed, and the settings leave it to the operating system or the mirror what survives that.
        logger.warning("%s: %d of %d messages have survived", row.uuid, stored, row.total_messages)
        return True

    def _count_messages(self, place: TaskPlace) -> int:
        """By a look that changes nothing: a claim would already put things right that a person should see first."""
        with closing(self._base.read_store(place, most=PATIENCE)) as store:
            return store.count("messages")

    def _settle(self, owned: Ownership, row: TaskRow, store: TaskStore) -> None:
        """Move the folder to where running tasks lie; the store, already claimed, follows it."""
        here = self._folders.find(row.uuid)
        if here is None or here.is_right_for(row.status):
            return
        store.close()
        moved = self._folders.settle(row.uuid, TaskStatus.RUNNING, still=owned.renew) or here
        store.records.moved_to(moved.folder)
        store.claim()
