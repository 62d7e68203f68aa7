"""Bringing an index up to date: which tasks have something new, and reading that.

Off the path of every append: done before a search, and by a worker that has nothing else to do. The rows of the
catalogue say which tasks to look at; a finished task whose row is as it was is not opened, one that is being worked on
is. What has been read is written in batches, so that a run that is interrupted, or has no more time, is gone on with by
the next one. A task that cannot be read is noted with the reason and keeps nobody from the others. Nor does one without
a folder: tasks that were begun come first, and folders that may be on the move are waited for all together.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta

from orihon.catalogue import ChangedTask
from orihon.errors import DamagedStore, OrihonError, StateError, StorageError, StorageUnavailable
from orihon.search.documents import KINDS, STREAM_OF, Document, DocumentKind, documents
from orihon.search.index import Changes, IndexedDocument, IndexProgress, SearchIndex, TaskMark
from orihon.store.task_store import TaskStore
from orihon.system import ProgressObserver
from orihon.system.clock import process_identity, utc_now
from orihon.tasks.base import OpenBase
from orihon.tasks.place import TaskPlace, tries_while_moved
from orihon.values.task import TaskStatus

logger = logging.getLogger("orihon.search")


#: Rows are looked at again for so long: a row is written after its time is taken, and clocks of machines differ.
_OVERLAP, _SHARED_OVERLAP = timedelta(minutes=1), timedelta(minutes=10)
#: How often all rows are compared, for what no time tells: rows that are gone, clocks that were set back.
_COMPARE_AGAIN = timedelta(hours=1)
_BATCH_DOCUMENTS, _BATCH_CHARACTERS = 2000, 4_000_000
#: How often a folder that must be somewhere is looked for, and how long is waited after the first look.
_LOOKS, _PAUSE = 3, 0.002
#: For so many folders together; were it for all, a run without the time for a first look at all would note none.
_TOGETHER = 200


class _OutOfTime(Exception):
    """There is more to read, and no time left for it."""


class _Moved(Exception):
    """The task's folder is not where it was."""


class CatchingUp:
    """One run over the tasks of a base folder, by whoever has the index's turn."""

    def __init__(
        self, base: OpenBase, index: SearchIndex, *, seconds: float = math.inf, progress: ProgressObserver | None = None
    ) -> None:
        self._base = base
        self._index = index
        self._seconds = seconds
        self._give_up = math.inf
        self._progress = progress
        self._done = self._all = 0
        self._is_shared = base.settings.database.url is not None
        self._batch = _Batch(index)

    def run(self) -> bool:
        """Read what is new in every task; ``False`` when there was no time for all of it."""
        catalogue = self._base.open_catalogue()
        if catalogue is None:
            return True
        place = f"{process_identity().host} {self._base.path.absolute()}" if self._is_shared else ""
        before, now = self._index.progress(place), utc_now()
        # Times that are still to come were noted before the clock was set back: they would hide what comes now.
        is_whole = not _earlier(now, _COMPARE_AGAIN) <= before.compared <= now or before.since > now
        changed = catalogue.changes.tasks("" if is_whole else before.since)
        known = {task.uuid for task in changed}
        again = (catalogue.changes.task(uuid) for uuid in self._index.problems() if uuid not in known)
        changed += [task for task in again if task is not None]  # a repair may leave the row as it is
        marks = self._index.marks(None if is_whole else [task.uuid for task in changed])
        if is_whole and (gone := marks.keys() - known):
            self._index.write(Changes(dropped=sorted(gone)))
        if not self._read_all([task for task in changed if _is_new(task, marks.get(task.uuid))], marks):
            return False
        latest = max((task.updated_at for task in changed), default=before.since)
        overlap = _SHARED_OVERLAP if self._is_shared else _OVERLAP
        reliable = _earlier(min(latest, now), overlap) if latest else ""
        since = reliable if is_whole else max(before.since, reliable)
        reached = IndexProgress(since, now if is_whole else before.compared)
        if reached != before:
            self._index.note_progress(place, reached)
        return True

    def run_one(self, uuid: str) -> bool:
        """The same for one task."""
        catalogue = self._base.open_catalogue()
        task = None if catalogue is None else catalogue.changes.task(uuid)
        return task is None or self._read_all([task], self._index.marks([uuid]))

    def _read_all(self, tasks: Sequence[ChangedTask], marks: Mapping[str, TaskMark]) -> bool:
        self._give_up = time.monotonic() + self._seconds  # not before: the look for what is new must not use it up
        self._done, self._all = 0, len(tasks)
        begun_first, is_done = sorted(tasks, key=_was_never_begun), True
        try:
            for start in range(0, len(tasks), _TOGETHER):
                self._read_together(begun_first[start : start + _TOGETHER], marks)
        except _OutOfTime:
            is_done = False
        self._batch.flush()
        return is_done

    def _read_together(self, tasks: Sequence[ChangedTask], marks: Mapping[str, TaskMark]) -> None:
        for look in range(1, _LOOKS + 1):
            missing = []
            for task in tasks:
                mark = marks.get(task.uuid) or TaskMark(task.uuid)
                if not self._read(task, mark, is_last_look=look == _LOOKS):
                    missing.append(task)
                    continue
                self._done += 1
                if self._progress is not None:
                    self._progress(self._done, self._all)
            if not missing:
                return
            tasks = missing
            time.sleep(_PAUSE * look)  # once for all of them: there may be many whose folder never comes

    # ---- one task --------------------------------------------------------------------------------------------------

    def _read(self, task: ChangedTask, mark: TaskMark, *, is_last_look: bool) -> bool:
        """Read what is new in a task; ``False`` when its folder may be on the move and is to be looked for again."""
        self._refuse_late()
        if task.is_cleaned:
            self._drop(task, mark)
            return True
        reached, problem = dict(mark.reached), ""
        try:
            if not self._read_folder(task, reached):
                # What has been read of it by now would be read twice.
                if not is_last_look and reached == mark.reached and self._may_be_moving(task):
                    return False
                if not self._is_shared:
                    self._batch.mark(_noted(task, reached))
                return True  # in an archive, on another machine, or not begun: what is known of it stays
        except _OutOfTime:
            self._batch.mark(TaskMark(task.uuid, "", is_settled=False, reached=reached))
            raise
        except OrihonError as error:
            logger.warning("%s: not all of it can be searched: %s", task.uuid, error)
            problem = error.cause
        self._batch.mark(_noted(task, reached, problem))
        return True

    def _drop(self, task: ChangedTask, mark: TaskMark) -> None:
        if any(mark.reached.values()):
            self._batch.drop(task.uuid)
        self._batch.mark(TaskMark(task.uuid, task.state, is_settled=True))

    def _read_folder(self, task: ChangedTask, reached: dict[DocumentKind, int]) -> bool:
        """Read on from what is ``reached``; ``False`` when the task has no records here."""
        if task.status == TaskStatus.ARCHIVED:
            return False  # there may be very many, and to look for a folder that is not there takes long
        for number in tries_while_moved():
            place = self._base.folders.find(task.uuid)
            if place is None:
                if 1 < number < _LOOKS and self._may_be_moving(task):
                    continue  # it was there a moment ago
                return False
            try:
                with closing(self._base.read_store(place)) as store:
                    self._read_on(task.uuid, store, place, reached)
                return True
            except _Moved:
                continue
            except (StorageError, StateError) as error:
                # A folder that was gone when it was opened may be back by now.
                if error.reason != "gone" and self._base.folders.find(task.uuid) == place:
                    raise
        raise StorageUnavailable("gone", path=task.uuid)

    def _may_be_moving(self, task: ChangedTask) -> bool:
        """Must it have a folder here? A shared catalogue has tasks that are elsewhere."""
        has_none = task.status in (TaskStatus.QUEUED, TaskStatus.ARCHIVED) or _was_never_begun(task)
        return not self._is_shared and not has_none

    def _read_on(self, uuid: str, store: TaskStore, place: TaskPlace, reached: dict[DocumentKind, int]) -> None:
        ends = dict(zip(KINDS, store.records.lasts(*(STREAM_OF[kind] for kind in KINDS)), strict=True))
        if store.records.is_sealed:
            ends = dict.fromkeys(KINDS, 0)  # its words must not be in an index: whoever searches reads it
        if any(ends[kind] < reached[kind] for kind in KINDS):
            if self._base.folders.find(uuid) != place:
                raise _Moved
            self._batch.drop(uuid)  # another history than the one that was read: begun anew
            reached.update(dict.fromkeys(KINDS, 0))
        for kind in KINDS:
            if reached[kind] >= ends[kind]:
                continue
            for document in documents(store, kind, reached[kind] + 1, ends[kind]):
                self._batch.add(uuid, document)
                reached[kind] = document.number
                if self._batch.is_full:
                    self._batch.mark(TaskMark(uuid, "", is_settled=False, reached=dict(reached)))
                    self._batch.flush()
                self._refuse_late()
            if reached[kind] < ends[kind]:
                if self._base.folders.find(uuid) != place:
                    raise _Moved
                raise DamagedStore("no_record", stream=STREAM_OF[kind], number=reached[kind] + 1, where=uuid)

    def _refuse_late(self) -> None:
        if time.monotonic() >= self._give_up:
            raise _OutOfTime


class _Batch:
    """What is written together."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self._dropped: list[str] = []
        self._documents: list[IndexedDocument] = []
        self._marks: dict[str, TaskMark] = {}
        self._characters = 0

    @property
    def is_full(self) -> bool:
        return len(self._documents) >= _BATCH_DOCUMENTS or self._characters >= _BATCH_CHARACTERS

    def add(self, uuid: str, document: Document) -> None:
        self._documents.append(IndexedDocument.of(uuid, document))
        self._characters += len(document.text)

    def drop(self, uuid: str) -> None:
        """Everything of a task, also what waits to be written."""
        self._documents = [document for document in self._documents if document.uuid != uuid]
        self._dropped.append(uuid)

    def mark(self, mark: TaskMark) -> None:
        self._marks[mark.uuid] = mark
        if len(self._marks) >= _BATCH_DOCUMENTS or self.is_full:
            self.flush()

    def flush(self) -> None:
        if self._dropped or self._documents or self._marks:
            self._index.write(Changes(self._dropped, self._documents, list(self._marks.values())))
        self._dropped, self._documents, self._marks, self._characters = [], [], {}, 0


def _is_new(task: ChangedTask, mark: TaskMark | None) -> bool:
    return mark is None or not mark.is_settled or mark.state != task.state


def _was_never_begun(task: ChangedTask) -> bool:
    """Its row says where its records are from when it is first opened, which is before anything is said in it."""
    return task.backend is None


def _noted(task: ChangedTask, reached: Mapping[DocumentKind, int], problem: str = "") -> TaskMark:
    return TaskMark(task.uuid, task.state, not task.is_live and not problem, dict(reached), problem)


def _earlier(moment: str, by: timedelta) -> str:
    return (datetime.fromisoformat(moment) - by).astimezone(UTC).isoformat(timespec="microseconds")
