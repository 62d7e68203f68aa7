"""The task's folder: permissions, ``metadata.json``, the writer's place, torn tails and what a crash left behind."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import is_about, read_metadata
from orihon.errors import DamagedStore
from orihon.store.contract import DERIVED, NUMBER_FIELD, REQUEST, SEALED, STREAMS, RecordStore
from orihon.store.jsonl import GONE, JsonlFile, lost_end, settled_sizes
from orihon.store.kept_files import DIGESTS, are_digests_damaged, intact_file
from orihon.store.sealed import SealedRecords
from orihon.store.writer_place import NAME as WRITER
from orihon.store.writer_place import holder_in
from orihon.system.files import find_leftovers, folder_size, is_abandoned, is_regular, storage_error, wrapping
from orihon.tasks.verify.findings import Finding, Report
from orihon.values.records import FINAL_SUMMARY


@dataclass(frozen=True, slots=True)
class Exposed:
    """A file or folder that is not for its owner alone, with the mode it has and the mode it should have."""

    path: Path
    mode: int
    wanted: int


def check_folder(folder: Path, *, in_use: bool, report: Report) -> None:
    """Look at everything in the folder but the records. ``in_use``: what is under way is not left over."""
    _refuse_pipes(folder)
    check_permissions("folder", everything_in(folder), folder.parent, report)
    if in_use:
        return
    if os.path.lexists(folder / WRITER) and not _is_readable_place(folder / WRITER):
        report(Finding("folder", "writer", WRITER, severity="warning"))
    _check_torn_tails(folder, report)
    if is_abandoned(folder / REQUEST):
        report(Finding("folder", "request", REQUEST, severity="warning"))
    report_leftovers("folder", find_leftovers(folder), folder, report)


def _is_readable_place(path: Path) -> bool:
    with wrapping(path):
        return is_regular(path) and holder_in(path.read_bytes()) is not None


def _refuse_pipes(folder: Path) -> None:
    """Opening one would wait for ever. In the place of what is derived it is looked at there, and put aside."""
    derived = {"current.jsonl", WRITER, "writer.lock", METADATA, *(f"{name}.json" for name in DERIVED)}
    with wrapping(folder):
        for path in folder.iterdir():
            if path.is_fifo() and path.name not in derived:
                raise storage_error(OSError(errno.ESPIPE, os.strerror(errno.ESPIPE)), path)


def report_leftovers(check: str, found: Sequence[Path], root: Path, report: Report) -> None:
    """One finding for all unfinished files; it names the first, as seen from ``root``."""
    if found:
        fields = {"count": len(found), "bytes": sum(map(folder_size, found))}
        report(Finding(check, "temporary", str(found[0].relative_to(root)), severity="warning", fields=fields))


def everything_in(folder: Path) -> list[Path]:
    """A folder and all that is below it."""
    with wrapping(folder):
        return [folder, *sorted(folder.rglob("*"))]


def open_to_others(paths: Iterable[Path]) -> list[Exposed]:
    """Which of these are not for their owner alone. One that has gone since it was listed is not."""
    found = []
    for path in paths:
        with wrapping(path):
            try:
                mode = path.lstat().st_mode
            except FileNotFoundError:
                continue
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) != wanted:
            found.append(Exposed(path, stat.S_IMODE(mode), wanted))
    return found


def check_permissions(check: str, paths: Iterable[Path], root: Path, report: Report) -> None:
    """One finding for all of these that others can read; it names the first, as seen from ``root``."""
    found = open_to_others(paths)
    if found:
        first = found[0]
        fields = {"mode": f"{first.mode:04o}", "wanted": f"{first.wanted:04o}", "count": len(found)}
        report(Finding(check, "permissions", str(first.path.relative_to(root)), fields=fields))


def check_metadata(records: RecordStore, report: Report) -> None:
    """``metadata.json``: is it there, and about this task? And is the final summary what was written?"""
    metadata = read_metadata(records)
    if metadata is None:
        report(Finding("folder", "no_metadata", METADATA, severity="warning"))
    elif not is_about(metadata, records.folder.name):
        report(Finding("folder", "metadata", METADATA))
    if are_digests_damaged(records):
        report(Finding("folder", "digests", DIGESTS, severity="warning"))
    try:
        intact_file(records, FINAL_SUMMARY)
    except DamagedStore:
        report(Finding("folder", "file", FINAL_SUMMARY))


def check_seals(records: RecordStore, report: Report) -> None:
    """Of a sealed task: is what it keeps about its seals the last that was written, and do its files open?"""
    if not isinstance(records, SealedRecords) or not records.is_sealed:
        return
    if records.is_put_back():
        report(Finding("seal", "put_back", SEALED))
    if records.has_other_metadata():
        report(Finding("seal", "metadata", METADATA))
    for name, error in records.unopened():
        report(Finding("seal", "file", name, fields={"why": error.cause}))


def _check_torn_tails(folder: Path, report: Report) -> None:
    if (folder / "context.db").exists():
        return  # what is left there of another back end counts for nothing
    settled = settled_sizes(folder)
    for stream in STREAMS:
        file = JsonlFile(folder / f"{stream}.jsonl", NUMBER_FIELD[stream])
        if lost := lost_end(file, settled) or settled.get(GONE, {}).get(stream):
            report(Finding("stream", "short", file.path.name, fields={"size": lost[0], "settled": lost[1]}))
        torn = b""
        with suppress(DamagedStore):  # who reads the records reports it
            torn = file.torn_tail()
        if torn:
            fields = {"size": len(torn)}
            report(Finding("stream", "torn", f"{stream}.jsonl", severity="warning", fields=fields))
