"""The catalogue's row against the task's folder: is it there, once, in the right place, and as long as it was?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orihon.catalogue import TaskRow
from orihon.catalogue.metadata import NAME as METADATA
from orihon.catalogue.metadata import key_in, read_metadata
from orihon.catalogue.rows import FOLDER_LOST, IN_MOVE
from orihon.store.contract import Stream
from orihon.store.copy import whole_ones
from orihon.store.sealed import SealedRecords
from orihon.store.task_store import TaskStore
from orihon.tasks.place import TaskPlace, reached_epoch, undecided
from orihon.tasks.verify.findings import Finding, Report
from orihon.values.task import TaskStatus, folder


def check_placement(
    row: TaskRow | None, places: Sequence[TaskPlace], report: Report, *, in_use: bool, is_known_beside: bool = False
) -> None:
    """Where the folder is, against where the row's status says that it is. ``in_use``: its owner may just move it.

    ``is_known_beside``: the catalogue is in a database, and ``tasks.db`` of the base folder has the task's row, or one
    that is on its way.
    """
    if len(places) > 1:
        _check_twins(places, report)
    elif row is None:
        kind = "no_row" if not is_known_beside else "half_moved" if places[0].is_in_database else "not_moved"
        report(Finding("catalogue", kind, f"{places[0].position}/", severity="warning"))
    elif not places:
        _check_absence(row, report)
    else:
        wanted = folder(row.status)
        if wanted is not None and not in_use and not places[0].is_right_for(row.status):
            fields = {"status": row.status.value, "place": places[0].position, "wanted": wanted}
            report(Finding("catalogue", "misplaced", f"{places[0].position}/", severity="warning", fields=fields))
        is_marked = (row.requested or "").startswith(IN_MOVE)
        if (is_known_beside or is_marked) and not in_use:
            report(Finding("catalogue", "half_moved", "tasks.db", severity="warning"))
        if FOLDER_LOST in row.metadata:
            report(Finding("catalogue", "found_again", f"{places[0].position}/", severity="warning"))


def _check_twins(places: Sequence[TaskPlace], report: Report) -> None:
    """A folder with nothing of its own is out of the way as soon as somebody owns the task."""
    if whole_ones([place.folder for place in places]):
        fields = {"places": ", ".join(f"{place.position}/" for place in places)}
        report(Finding("catalogue", "two_folders", "tasks.db", severity="warning", fields=fields))
        return
    refusal = undecided(places)
    report(Finding("catalogue", "two_histories", "tasks.db", fields=refusal.fields))


def _check_absence(row: TaskRow, report: Report) -> None:
    if folder(row.status) is None or FOLDER_LOST in row.metadata:
        return
    if (row.requested or "").startswith(IN_MOVE):
        return  # its records have gone ahead: ``orihon migrate`` takes the row after them
    if row.model is None and not row.total_messages:
        return  # ended before anybody opened it
    if row.status is TaskStatus.RUNNING and not row.total_messages:
        return  # registered a moment ago, or by a process that died then: opening the task makes the folder
    report(Finding("catalogue", "no_folder", "tasks.db", fields={"status": row.status.value}))


def check_row(row: TaskRow, place: Path, store: TaskStore, report: Report) -> None:
    """What the row says about the task, against the folder."""
    key = key_in(read_metadata(store.records) or {})
    if key is not None and key != row.key:
        labels = {"row": row.key.label, "folder": key.label}
        records = store.records  # where the file is proven it is the row that somebody has changed
        is_proven = isinstance(records, SealedRecords) and records.has_proven_metadata()
        report(Finding(*(("seal", "row") if is_proven else ("folder", "other_key")), METADATA, fields=labels))
    stored = store.count("messages")
    if stored < row.total_messages:
        counts = {"stored": stored, "known": row.total_messages}
        report(Finding("catalogue", "lost_messages", "tasks.db", fields=counts))
    _check_other_totals(row, store, report)
    reached = reached_epoch(place)
    if reached > row.epoch:
        report(Finding("catalogue", "epoch", "tasks.db", fields={"epoch": row.epoch, "reached": reached}))


def _check_other_totals(row: TaskRow, store: TaskStore, report: Report) -> None:
    totals: dict[Stream, int] = {"summaries": row.total_summaries, "tools": row.total_tool_calls}
    for stream, known in totals.items():
        stored = store.count(stream)
        if stored < known:
            fields = {"stream": stream, "stored": stored, "known": known}
            report(Finding("catalogue", "lost_records", "tasks.db", fields=fields))
