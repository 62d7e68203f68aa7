"""One file of another agent, read from front to back, its threads handed to their writers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from orihon.errors import DamagedStore, OrihonError, StateError
from orihon.importers.base import Importer, Problem, Thread, ThreadEnd, TranscriptEvent, TranscriptPart
from orihon.importers.identity import task_uuid
from orihon.importers.ownership import ImportTarget
from orihon.importers.report import FileProblems, ImportedTask
from orihon.importers.restore import Restorer
from orihon.importers.tool_pairs import Mended
from orihon.importers.writer import TaskWriter, ThreadSource

#: So many tasks are held open at once; of a file with more threads, those that were silent longest are let go.
MOST_OPEN = 16


class ReadFile:
    """A file on its way; ``anew`` are the threads that become new tasks although they were imported before."""

    def __init__(
        self,
        place: ImportTarget,
        reader: Importer,
        source: ThreadSource,
        problems: FileProblems,
        *,
        anew: Mapping[str, Problem] | None = None,
    ) -> None:
        self.changed: dict[str, Problem] = {}  # threads whose past is another one than was imported
        self.mended = Mended()
        self.first = ""  # the task of the first thread
        self.is_growing = False  # somebody is writing it: it has to be read again
        self._place = place
        self._reader = reader
        self._source = source
        self._problems = problems
        self._anew = anew or {}
        self._writers: dict[str, TaskWriter | None] = {}  # None: nothing more is wanted of this thread

    def imported(self) -> Iterator[ImportedTask]:
        """Reads everything; gives the tasks that were made or have grown."""
        if isinstance(self._reader, Restorer):
            for task in self._kept(self._reader.restore(self._source.path, self._place)):
                self.first = self.first or task.uuid
                yield task
            return
        try:
            for found in self._found():
                if isinstance(found, TranscriptEvent):
                    self._receive(found)
                else:
                    yield from self._take(found)
            for thread in list(self._writers):
                yield from self._finish(thread)
        finally:
            for writer in self._writers.values():
                if writer is not None:
                    writer.close()

    def _found(self) -> Iterator[TranscriptPart]:
        reading = self._reader.read(self._source.path)
        while True:
            try:
                found = next(reading, None)
            except Exception as error:  # noqa: BLE001 - a format that fails on one file shall not stop the others
                found = Problem("failed", fields={"detail": f"{type(error).__name__}: {error}"})
                yield found
                return
            if found is None:
                return
            yield found

    def _take(self, found: Problem | Thread | ThreadEnd) -> Iterator[ImportedTask]:
        match found:
            case Problem("cut") if self._source.is_live:
                self.is_growing = True  # the rest of the line comes with the next import
            case Problem():
                self._problems.add(found)
            case Thread():
                self._meet(found)
            case ThreadEnd():
                yield from self._finish(found.thread)
                self._writers.pop(found.thread, None)

    def _receive(self, event: TranscriptEvent) -> None:
        writer = self._writers.get(event.thread)
        if writer is None:
            return
        try:
            writer.take(event.item, event.line)
        except (StateError, DamagedStore) as error:
            self._give_up(event.thread, writer, error)
        if writer.problems:
            self._collect(writer)
        if len(self._writers) > MOST_OPEN:
            self._make_room(event.thread)

    def _meet(self, thread: Thread) -> None:
        if (known := self._writers.get(thread.id)) is not None:
            known.meet(thread)
        if thread.id in self._writers:
            return
        form, place = self._source.format, self._place
        if thread.id in self._anew:
            uuid = task_uuid(form, thread.id, place.user, place.rounds(form, thread.id))
        else:
            uuid = place.uuid_of(form, thread.id)
        self.first = self.first or uuid
        try:
            self._writers[thread.id] = TaskWriter(place, self._source, thread, uuid)
        except (StateError, DamagedStore) as error:
            self._writers[thread.id] = None
            self._problems.add(Problem("task", fields={"uuid": uuid, "detail": error.cause}))

    def _finish(self, thread: str) -> Iterator[ImportedTask]:
        writer = self._writers.get(thread)
        if writer is None:
            return
        result: ImportedTask | None = None
        with self._guarding(thread, writer):
            result = writer.finish()
        self.is_growing = self.is_growing or writer.is_growing
        if writer.has_changed:
            self.changed[thread] = Problem("changed", fields={"uuid": writer.uuid})
        self.mended.add(writer.mended)
        writer.close()
        self._writers[thread] = None
        if result is not None:
            yield result

    @contextmanager
    def _guarding(self, thread: str, writer: TaskWriter) -> Iterator[None]:
        """What one task refuses concerns this thread alone; what the disk refuses, everybody."""
        try:
            yield
        except (StateError, DamagedStore) as error:
            self._give_up(thread, writer, error)
        finally:
            self._collect(writer)

    def _give_up(self, thread: str, writer: TaskWriter, error: OrihonError) -> None:
        self._writers[thread] = None
        writer.close()
        self._problems.add(Problem("task", fields={"uuid": writer.uuid, "detail": error.cause}))

    def _collect(self, writer: TaskWriter) -> None:
        for problem in writer.problems:
            self._problems.add(problem)
        writer.problems.clear()

    def _kept(self, results: Iterator[Problem | ImportedTask]) -> Iterator[ImportedTask]:
        for result in results:
            if isinstance(result, ImportedTask):
                yield result
            else:
                self._problems.add(result)

    def _make_room(self, newest: str) -> None:
        writer = self._writers.pop(newest)
        self._writers[newest] = writer  # the dict is in the order of who was heard last
        if writer is None or not writer.is_active:
            return
        active = [thread for thread, other in self._writers.items() if other is not None and other.is_active]
        for thread in active[:-MOST_OPEN]:
            other = self._writers[thread]
            if other is not None:
                with self._guarding(thread, other):
                    other.rest()
