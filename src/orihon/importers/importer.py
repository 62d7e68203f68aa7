"""``import_transcripts``: files and folders of other agents' transcripts, each thread a task.

Reads one file after the other and holds one batch of one file at a time. What cannot be read is reported, and the rest
is imported; only what our own storage refuses stops an import.

One file of another agent, read from front to back, its threads handed to their writers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from orihon.errors import DamagedStore, InvalidInput, OrihonError, StateError
from orihon.importers.files import FileFingerprint, FoundFile, NotFound, Search, SeenFiles, head_of, total_size
from orihon.importers.identity import task_uuid
from orihon.importers.ownership import ImportTarget, Restorer
from orihon.importers.registry import (
    Importer,
    Problem,
    ReadingBounds,
    Thread,
    ThreadEnd,
    TranscriptEvent,
    bounded,
    importer,
    is_companion,
    is_like_transcript,
    parts_of,
    recognised,
)
from orihon.importers.report import FileProblems, ImportedTask, ImportReport
from orihon.importers.tool_pairs import Mended
from orihon.importers.writer import TaskWriter, ThreadSource
from orihon.search.maintenance import invalidate_bookmark
from orihon.system import ProgressObserver
from orihon.system.files import make_private_folder
from orihon.tasks.base import OpenBase


def import_transcripts(
    base: OpenBase,
    paths: Sequence[Path | str],
    *,
    format: str | None = None,  # noqa: A002 - the word of the command line
    user: str = "",
    again: bool = False,
    dry_run: bool = False,
    progress: ProgressObserver | None = None,
) -> ImportReport:
    """Import transcripts; every thread becomes a completed task, and a task that is there already grows.

    ``format`` forces one (see ``importers.registry.FORMATS``), otherwise each file's is found by its content. A thread
    whose past has changed since it was imported is reported; ``again`` imports it anew, as a task of its own.
    """
    forced = None if format is None else importer(format)
    wanted = [Path(path).expanduser().absolute() for path in paths]
    if not wanted:
        raise InvalidInput("import_nothing")
    with ExitStack() as at_end:
        if not dry_run:
            make_private_folder(base.path)
        elif base.open_catalogue() is None:
            # Nothing shall be made there: it would be the same in an empty place.
            empty = at_end.enter_context(TemporaryDirectory(prefix="orihon-"))
            base = at_end.enter_context(OpenBase(empty, base.settings))
        target = ImportTarget(base, base.needed_catalogue(), base.redactor, user, dry_run)
        seen = SeenFiles(base.path, user, read_only=dry_run)
        at_end.callback(seen.close)
        run = _Run(target, seen, forced, again, ImportReport(dry_run))
        size = total_size(wanted, base.path) if progress is not None else 0
        done = 0
        for found in Search(wanted, base.path):
            run.read(found)
            if progress is not None and isinstance(found, FoundFile):
                done += found.status.st_size
                progress(done, max(size, done))
    if run.report.imported and not dry_run:
        invalidate_bookmark(base)  # rows of an export come with the times that they had
        told = {"files": run.report.imported, "tasks": run.report.new_tasks, "messages": run.report.messages}
        base.audit.record("import", details=told)
    return run.report


@dataclass(frozen=True, slots=True)
class _Run:
    """One import on its way."""

    place: ImportTarget
    seen: SeenFiles
    forced: Importer | None
    again: bool
    report: ImportReport

    def read(self, found: FoundFile | NotFound) -> None:
        self.report.files += 1
        problems = FileProblems(found.path)
        if isinstance(found, NotFound):
            problems.add(found.problem)
            self.report.skipped += 1
        else:
            self._read_file(found, problems)
        self.report.add_problems(problems)

    def _read_file(self, found: FoundFile, problems: FileProblems) -> None:
        path, report = found.path, self.report
        head = head_of(path)
        if isinstance(head, Problem):
            problems.add(head)
            report.skipped += 1
            return
        fingerprint = FileFingerprint.of(path, found.status, head)
        if self._is_known(path, fingerprint) or not head.strip():
            report.unchanged += 1
            return
        reader = self.forced or recognised(head, path)
        if reader is None:
            if found.is_named or not is_companion(path):
                if found.is_named or is_like_transcript(head, path):
                    problems.add(Problem("unrecognised"))
                else:
                    report.add_other(path)
                report.skipped += 1
            return
        report.formats[reader.name] += 1
        report.size += found.status.st_size
        source = ThreadSource(reader.name, path, found.status.st_mtime, found.status.st_size)
        self._import(reader, source, fingerprint, problems)

    def _is_known(self, path: Path, fingerprint: FileFingerprint) -> bool:
        task = self.seen.task_of(path, fingerprint, None if self.forced is None else self.forced.name)
        return bool(task) and self.place.catalogue.tasks.find(task or "") is not None

    def _import(
        self, reader: Importer, source: ThreadSource, fingerprint: FileFingerprint, problems: FileProblems
    ) -> None:
        file = ReadFile(self.place, reader, source, problems)
        tasks = 0
        for task in file.imported():
            self.report.add_task(task)
            tasks += 1
        if self.again and file.changed:
            file = ReadFile(self.place, reader, source, problems, anew=file.changed)
            problems.clear()  # everything is read a second time
            for task in file.imported():
                self.report.add_task(task)
                tasks += 1
        for problem in file.changed.values():
            problems.add(problem)
        self.report.mended.add(file.mended)
        self.report.imported += bool(tasks)
        self.report.growing += file.is_growing
        if not problems.count:
            self.report.unchanged += not tasks
            if not file.is_growing:
                self.seen.keep(source.path, fingerprint, source.format, file.first)


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
        self._bounds = ReadingBounds.of(place.settings.importing, source.size)
        self._writers: dict[str, TaskWriter | None] = {}  # None: nothing more is wanted of this thread

    def imported(self) -> Iterator[ImportedTask]:
        """Reads everything; gives the tasks that were made or have grown."""
        if isinstance(self._reader, Restorer):
            for task in self._kept(bounded(self._reader.restore(self._source.path, self._place), self._bounds)):
                self.first = self.first or task.uuid
                yield task
            return
        try:
            for found in parts_of(self._reader, self._source.path, self._bounds):
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
