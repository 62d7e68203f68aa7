"""What is derived from the records: the counters, and the file that the next request is made of."""

from __future__ import annotations

import os
from pathlib import Path

from orihon.store.contract import DERIVED, RecordStore
from orihon.store.documents import is_usable
from orihon.store.folder_store import FormerView
from orihon.store.task_store import TaskStore
from orihon.system.files import is_regular, wrapping
from orihon.tasks.verify.findings import Finding, Report
from orihon.tasks.verify.folds import FoldFacts, saved
from orihon.tasks.verify.log import LogFacts

_ATTEMPTS = 3


def check_counters(store: TaskStore, log: LogFacts, folds: FoldFacts, report: Report) -> None:
    """The counters that the store goes by, against the log and the visible folds."""
    tail = store.tail
    if (store.count("messages"), store.count("compressions")) != (log.count, len(folds.records)):
        return  # somebody has written meanwhile
    kept = {
        "seq": tail.seq,
        "log_tokens": tail.log_tokens,
        "view_tokens": tail.view_tokens,
        "view_entries": tail.view_entries,
        "open_calls": list(tail.open_calls),
        "used_calls": tail.used_calls.covers(log.calls),
    }
    derived = {
        "seq": log.count,
        "log_tokens": log.tokens,
        "view_tokens": log.tokens - sum(saved(fold, log) for fold in folds.visible),
        "view_entries": log.count - sum(fold.message_count - 1 for fold in folds.visible),
        "open_calls": log.open_calls,
        "used_calls": True,
    }
    for name, value in derived.items():
        if kept[name] != value:
            fields = {"name": name, "stored": kept[name], "derived": value}
            report(Finding("view", "counters", "index", severity="warning", fields=fields))


def check_documents(records: RecordStore, report: Report) -> None:
    """The documents that save work: is there one that cannot be used?"""
    for name in sorted(DERIVED):
        if not is_usable(records.load(name)):
            report(Finding("view", "document", name, severity="warning"))


def check_view_file(store: TaskStore, folder: Path, report: Report) -> None:
    """``current.jsonl``, where the back end keeps it, against the view as it is rendered now."""
    if store.records.kept_view is None or not store.count("messages"):
        return
    for _ in range(_ATTEMPTS):  # a writer may be at work while we look
        before = store.count("messages"), store.count("compressions")
        finding = _compared(store, folder / "current.jsonl")
        if finding is None:
            return
        if before == (store.count("messages"), store.count("compressions")):
            report(finding)
            return


def _compared(store: TaskStore, path: Path) -> Finding | None:
    with wrapping(path):
        if not is_regular(path):  # asked first: opening a FIFO would wait for ever
            detail = "no_file" if os.path.lexists(path) else "missing"
            return Finding("view", detail, path.name, severity="warning")
        former = FormerView(path)
        try:
            for _ in former.along(store.view_lines()):
                pass
        except FileNotFoundError:
            return Finding("view", "missing", path.name, severity="warning")
    if not former.first_difference:
        return None
    if strange := former.strange_lines(store.all_lines):
        return Finding("view", "unknown_lines", path.name, severity="warning", fields={"surplus": strange})
    return Finding("view", "lines", path.name, severity="warning", fields={"line": former.first_difference})
