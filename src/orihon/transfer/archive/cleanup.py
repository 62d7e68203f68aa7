"""Old tasks whose records go for good: what is left is a row that says what there was.

The row is marked before anything is removed, and the mark has everything that the tombstone will say. Until the records
are gone, the task is complete where it was, and ``restore_task`` takes the mark back; from then on it is a tombstone.
A second run goes on where the first one ended. Refuses tasks that are not finished.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from orihon.catalogue.rows import CLEANED
from orihon.errors import KeyUnavailable, TaskNotFound
from orihon.search.maintenance import drop_words
from orihon.settings import Settings
from orihon.store.factory import open_for_reading
from orihon.store.key_places import erase_key
from orihon.system.clock import process_identity, utc_now
from orihon.system.files import folder_size, make_private_folder
from orihon.tasks.place import TaskPlace
from orihon.transfer.archive.archive import ended_before
from orihon.transfer.archive.archive_store import ArchivedTask, key_of
from orihon.transfer.archive.work import ARCHIVED, CLEANING, FINAL_SUMMARY, Work, shortened_summary
from orihon.values.task import TaskStatus, check_change


@dataclass(frozen=True, slots=True)
class CleanedTask:
    """A task that is a tombstone now."""

    uuid: str
    bytes: int  # that its records took
    final_summary: str


class Cleaning(Work):
    """One task on its way out."""

    def clean(self, moment: datetime) -> CleanedTask | None:
        """Remove the task's records, wherever they are; ``None`` when it did not end before that moment, after all."""
        self._refuse_tombstone()
        if self._row.status is not TaskStatus.ARCHIVED:
            check_change(self._row.status, TaskStatus.ARCHIVED)
        if not ended_before(self._row, moment):  # run once more, or marked to be kept, since it was listed
            return None
        make_private_folder(self._place)
        self._clear_leftovers()
        place, packed = self.place(), self._shelf.find(self._uuid)
        tombstone = self._tombstone(place, packed)
        self._mark_cleaning(tombstone)
        self._done("marked")
        self._owned.renew()
        if place is not None and place.is_in_database:
            self._remove_records(place)
        elif place is not None:
            self._remove_folder(place.folder)
        self._remove_packed(packed)
        self._done("removed")
        self._remove_mirror()
        erase_key(self._base.path, self._settings, self._uuid)  # so copies that others have made say nothing either
        metadata = {**self._other_metadata(), CLEANED: tombstone}
        self._catalogue.tasks.set_totals(self._uuid, size_bytes=0, epoch=self.lease.epoch)
        self._catalogue.tasks.update(self._uuid, metadata=metadata, epoch=self.lease.epoch)
        self._done("cleaned")
        drop_words(self._base, self._uuid)
        return CleanedTask(self._uuid, tombstone["bytes"], tombstone["final_summary"])

    def _tombstone(self, place: TaskPlace | None, packed: ArchivedTask | None) -> dict[str, Any]:
        noted = self._row.metadata.get(CLEANING)
        begun = noted if isinstance(noted, dict) and self._row.status is TaskStatus.ARCHIVED else None
        if place is None and packed is None:
            self._refuse_missing(begun)
        if begun is not None:
            return begun  # by a run that was interrupted
        size, summary = (0, self._noted("final_summary", "")) if place is None else read_task(place, self._settings)
        return {
            "at": utc_now(),
            "status": self._status_before(packed).value,
            "bytes": size + (0 if packed is None else packed.bytes),
            "final_summary": summary,
            "host": process_identity().host,
        }

    def _refuse_missing(self, begun: dict[str, Any] | None) -> None:
        """Nothing is found, which is as it should be after an interrupted run, if we would see what it has left."""
        if self._row.status is not TaskStatus.ARCHIVED:
            raise TaskNotFound("no_folder", uuid=self._uuid, status=self._row.status.value)
        here = self._shelf.storage.place
        if begun is None or self._noted("place", here) != here:
            raise self._no_archive()
        is_shared = self._row.backend == "postgres" or (
            ARCHIVED in self._row.metadata and self._settings.archive.url is not None
        )
        if not is_shared and begun.get("host") != process_identity().host:
            raise TaskNotFound("no_folder", uuid=self._uuid, status=self._row.status.value)

    def _mark_cleaning(self, tombstone: dict[str, Any]) -> None:
        metadata = {**self._row.metadata, CLEANING: tombstone}
        if self._row.status is TaskStatus.ARCHIVED:
            self._catalogue.tasks.update(self._uuid, metadata=metadata, epoch=self.lease.epoch)
            return
        self._catalogue.tasks.change_status(
            self._uuid, TaskStatus.ARCHIVED, epoch=self.lease.epoch, metadata=metadata, keep_lease=True
        )

    def _remove_packed(self, packed: ArchivedTask | None) -> None:
        """The packed task, and what is left of one whose description is gone."""
        storage = self._shelf.storage
        usual = key_of(self._uuid, self._settings.archive.format)
        keys = (usual, self._noted("key", usual), usual if packed is None else packed.key)
        self._shelf.take_off(self._uuid)
        self._done("taken off")
        for key in dict.fromkeys(keys):
            storage.delete(key)

    def _noted(self, name: str, default: str) -> str:
        """What the row says about the packed task."""
        noted = self._row.metadata.get(ARCHIVED)
        return str(noted.get(name, default)) if isinstance(noted, dict) else default


def read_task(place: TaskPlace, settings: Settings) -> tuple[int, str]:
    """The bytes of a task that is not packed, and its final summary."""
    size, summary = 0 if place.is_in_database else folder_size(place.folder), ""
    # What is sealed with a key that is gone can still be removed.
    with suppress(KeyUnavailable), closing(open_for_reading(place.folder, settings)) as store:
        size = size or store.records.size()
        summary = shortened_summary(store.records.kept_file(FINAL_SUMMARY))
    return size, summary
