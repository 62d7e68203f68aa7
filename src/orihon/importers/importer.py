"""``import_transcripts``: files and folders of other agents' transcripts, each thread a task.

Reads one file after the other and holds one batch of one file at a time. What cannot be read is reported, and the rest
is imported; only what our own storage refuses stops an import.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from orihon.errors import InvalidInput
from orihon.importers.base import Importer, Problem
from orihon.importers.files import FoundFile, NotFound, Search, head_of, total_size
from orihon.importers.ownership import ImportTarget
from orihon.importers.reader import ReadFile
from orihon.importers.registry import importer, is_companion, is_like_transcript, recognised
from orihon.importers.report import FileProblems, ImportReport
from orihon.importers.seen_files import FileFingerprint, SeenFiles
from orihon.importers.writer import ThreadSource
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
        self._import(reader, ThreadSource(reader.name, path, found.status.st_mtime), fingerprint, problems)

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
