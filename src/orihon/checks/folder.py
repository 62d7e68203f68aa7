"""The task's folder: permissions, ``metadata.json``, the writer's place, torn tails and what a crash left behind."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable
from pathlib import Path

from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import key_in, read_metadata, read_object
from orihon.findings import Finding, Report
from orihon.folders import wrapping
from orihon.store.base import NUMBER_FIELD, STREAMS
from orihon.store.jsonl import JsonlFile

WRITER = "writer.json"
REQUEST = "request.json"

#: What ``folders.replace_file`` calls a file that it has not finished.
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}")


def check_folder(folder: Path, *, in_use: bool, report: Report) -> None:
    """Look at everything in the folder but the records. ``in_use``: what is under way is not left over."""
    _check_permissions(folder, report)
    _check_metadata(folder, report)
    if in_use:
        return
    if read_object(folder / WRITER) is None and (folder / WRITER).exists():
        report(Finding("folder", "writer", WRITER))
    _check_torn_tails(folder, report)
    for path in left_over(folder):
        detail = "request" if path.name == REQUEST else "temporary"
        report(Finding("folder", detail, str(path.relative_to(folder)), severity="warning"))


def left_over(folder: Path) -> list[Path]:
    """A request whose call is over, and files that were never finished."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        and "aside" not in path.relative_to(folder).parts
        and (path == folder / REQUEST or is_temporary(path))
    ]


def is_temporary(path: Path) -> bool:
    """Is this a file that was being written when its process died?"""
    return path.is_file() and _TEMPORARY.fullmatch(path.name) is not None


def open_to_others(paths: Iterable[Path]) -> list[tuple[Path, int]]:
    """Which of these are not for their owner alone, and the mode that they should have."""
    found = []
    for path in paths:
        with wrapping(path):
            mode = path.lstat().st_mode
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
        if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) != wanted:
            found.append((path, wanted))
    return found


def permissions_of(path: Path) -> str:
    """As ``ls`` and ``chmod`` write it: 0644."""
    return f"{stat.S_IMODE(path.lstat().st_mode):04o}"


def _check_permissions(folder: Path, report: Report) -> None:
    found = open_to_others([folder, *sorted(folder.rglob("*"))])
    if found:
        path, wanted = found[0]
        fields = {"mode": permissions_of(path), "wanted": f"{wanted:04o}", "count": len(found)}
        report(Finding("folder", "permissions", str(path.relative_to(folder.parent)), fields=fields))


def _check_metadata(folder: Path, report: Report) -> None:
    if not (folder / METADATA).exists():
        report(Finding("folder", "no_metadata", METADATA, severity="warning"))
        return
    metadata = read_metadata(folder)
    if key_in(metadata) is None or metadata.get("uuid") != folder.name:
        report(Finding("folder", "metadata", METADATA))


def _check_torn_tails(folder: Path, report: Report) -> None:
    for stream in STREAMS:
        torn = JsonlFile(folder / f"{stream}.jsonl", NUMBER_FIELD[stream]).torn_tail()
        if torn:
            fields = {"size": len(torn)}
            report(Finding("stream", "torn", f"{stream}.jsonl", severity="warning", fields=fields))
