"""What can be done with a task now, what the model saw at a step of it, and what one change did to that."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, cast

from orihon.catalogue import TaskRow
from orihon.errors import NothingToUndo, OrihonError
from orihon.reports.records import changed_runs
from orihon.system import jsonio
from orihon.tasks.editing import CHANGEABLE
from orihon.tasks.view_reader import ShownEntry, ViewReading
from orihon.transfer.export import FORMS, Form, export_task
from orihon.transfer.export.message_view import ContentBlock, entry_blocks, said_text, shown_message
from orihon.values.records import SUMMARY_PREFIX, Compression, Fold, Pin
from orihon.values.task import LEGAL_CHANGES, TaskStatus
from orihon.values.view import UNDOABLE, history
from orihon.web.call import Call, Download, Page, PageRoute, task_of
from orihon.web.conversation import ConversationRange, ConversationReader, spans_before
from orihon.web.fields import Field
from orihon.web.task_head import TaskHead, gauge_of, open_task_head, title_of
from orihon.web.task_memory import ChangeMark

ACTIONS = ("compress", "undo", "redo", "change", "pause", "resume", "cancel", "retry", "fork")
_FILES: dict[str, tuple[str, str]] = {
    "html": ("html", "text/html; charset=utf-8"),
    "markdown": ("md", "text/markdown; charset=utf-8"),
    "jsonl": ("jsonl", "application/jsonl"),
    "chat": ("chat.jsonl", "application/jsonl"),
}


def can_of(
    call: Call, row: TaskRow | None, compressions: Sequence[Compression], *, is_here: bool = True
) -> dict[str, bool]:
    """Which buttons make sense for this visitor now. ``change``: folds can be opened and edited, messages pinned.

    ``is_here``: the records can be read; without them there is nothing to change and nothing to fork.

    A button that makes no sense any more when it is pressed is refused by the library, with the reason.
    """
    if row is None or call.site.read_only or not call.visitor.may("operate"):
        return dict.fromkeys(ACTIONS, False)
    done, undone = history(compressions)
    changeable = is_here and row.status in CHANGEABLE
    endable = row.status is not TaskStatus.ARCHIVED and TaskStatus.CANCELLED in LEGAL_CHANGES[row.status]
    return {
        "compress": changeable,
        "undo": changeable and bool(done),
        "redo": changeable and bool(undone),
        "change": changeable,
        "pause": row.status in (TaskStatus.QUEUED, TaskStatus.RUNNING) and row.requested not in ("pause", "cancel"),
        # What waits is answered, and goes on by that.
        "resume": (row.status is TaskStatus.PAUSED and row.requested != "resume") or row.requested == "pause",
        "cancel": endable and row.requested != "cancel",
        "retry": TaskStatus.QUEUED in LEGAL_CHANGES[row.status],
        "fork": is_here,
    }


def standing(record: Compression, done: Sequence[int], undone: Sequence[int]) -> dict[str, bool]:
    """Whether a change has been undone, and whether it can be undone or redone now: see ``history``."""
    return {
        "is_undone": record.kind in UNDOABLE and record.id not in done,
        "can_undo": record.id in done,
        "can_redo": record.id in undone,
    }


def toolbar(call: Call) -> Page:
    """The buttons of a task, as they are now."""
    with open_task_head(call) as task:
        compressions: list[Compression] = []
        with suppress(OrihonError):  # the records are elsewhere, or there are none yet
            compressions = [change.record for change in task.followed.changes]
        is_here = task.store is not None
        can = can_of(call, task.row, compressions, is_here=is_here)
        return Page("task_toolbar.html", {"uuid": task.uuid, "row": task.row, "can": can, "is_here": is_here})


def export(call: Call) -> Download:
    """The task as a file. A sealed one is readable in the forms that are for people: nothing of it is written here."""
    form = cast("Form", call.given["format"])
    uuid = task_of(call)
    ending, media_type = _FILES[form]
    write: Any = partial(export_task, call.base, uuid, form, clear=form != "jsonl")
    return Download(f"{uuid}.{ending}", media_type, write)


# ---- views -----------------------------------------------------------------------------------------------------------

_ENTRIES = 60
#: Of one change: runs that are shown, and entries of each.
_MOST_RUNS = 40
_MOST_ENTRIES = 30
_LONGEST_LINE = 20_000


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """One entry of a view: a message, or a fold, as the model gets it."""

    entry: ShownEntry
    blocks: tuple[ContentBlock, ...]
    line: str
    line_left_out: int

    @property
    def fold(self) -> Fold | None:
        return self.entry.entry.fold


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run of the log that a change made stand otherwise."""

    start: int
    end: int
    gone: tuple[SeenEntry, ...]
    gone_count: int
    come: tuple[SeenEntry, ...]
    come_count: int
    pins: tuple[tuple[Pin, bool], ...]  # and whether each still stands word for word


def view_page(call: Call) -> Page:
    """The view that message ``at`` was the last one of; without a number, as it is now."""
    with open_task_head(call) as task:
        at = call.given["at"] or task.records.count("messages") or None
        reading = task.reading(at)
        memory = task.memory
        memory.follow(task.records)
        run = ConversationRange(1, reading.last_seq, reading.folds)
        last = min(call.given["before"] - 1 if call.given["before"] else run.last, run.last)
        spans = spans_before(run, last, _ENTRIES)
        first = (spans[0].start_seq if isinstance(spans[0], Fold) else spans[0][0]) if spans else 1
        tokens = memory.tokens_at(reading.last_seq)
        answer = reading.answer()
        shows = {
            **_named(task),
            "at": reading.last_seq,
            "end": task.records.count("messages"),
            "tokens": tokens,
            "usage": gauge_of(task.row, task.settings).usage(tokens),
            "count": run.last - sum(fold.message_count - 1 for fold in reading.folds),
            "folds": reading.folds,
            "compression": reading.compression,
            "entries": [seen(entry) for entry in reading.entries(first, last)] if spans else [],
            "more": first if first > 1 else None,
            "answer": None if answer is None else _answer(task, answer.seq),
        }
        return Page("task_view.html", shows)


def view_lines(call: Call) -> Download:
    """The same, byte for byte: one message on each line."""

    def write(out: BinaryIO) -> None:
        with open_task_head(call) as task:
            for line in task.reading(call.given["at"]).lines():
                out.write(line + b"\n")

    with open_task_head(call) as task:
        at = task.reading(call.given["at"]).last_seq
        return Download(f"{task.uuid}.{at}.jsonl", "application/jsonl", write)


def compare_page(call: Call) -> Page:
    """A view before and after one change of it."""
    with open_task_head(call) as task:
        memory = task.followed
        change = _wanted(memory.changes, call.given["number"])
        reading = task.reading()
        before, after = (reading.as_of(number, change.seq) for number in (change.id - 1, change.id))
        runs = changed_runs(before.folds, after.folds)
        records = [one.record for one in memory.changes]
        shows = {
            **_named(task),
            "change": change,
            "record": change.record,
            "last": len(memory.changes),
            "runs": [_run(before, after, *run) for run in runs[:_MOST_RUNS]],
            "runs_left_out": max(0, len(runs) - _MOST_RUNS),
            "pinned": tuple(pin for pin in after.pins if pin not in before.pins),
            "unpinned": tuple(pin for pin in before.pins if pin not in after.pins),
            "before_entries": _entries(before),
            "after_entries": _entries(after),
            "can": can_of(call, task.row, records),
            **standing(change.record, *history(records)),
        }
        return Page("task_compare.html", shows)


def seen(entry: ShownEntry) -> SeenEntry:
    """An entry, ready for a template."""
    line = jsonio.encode(entry.message).decode("utf-8", "replace")
    fold = entry.entry.fold
    is_summary = fold is not None and fold.form == "summary"
    blocks = (said_text(_text(entry)),) if is_summary else tuple(entry_blocks(entry.message))
    return SeenEntry(entry, blocks, line[:_LONGEST_LINE], max(0, len(line) - _LONGEST_LINE))


def _named(task: TaskHead) -> dict[str, Any]:
    return {"uuid": task.uuid, "title": title_of(task), "row": task.row}


def _answer(task: TaskHead, seq: int) -> Any:
    told = ConversationReader(task.records).after(ConversationRange(seq, seq), seq, 1).items[0]
    return shown_message(told)  # type: ignore[arg-type]  # it has been read just before


def _wanted(changes: list[ChangeMark], number: int) -> ChangeMark:
    if not 1 <= number <= len(changes):
        raise NothingToUndo("no_compression", compression=number, last=len(changes))
    return changes[number - 1]


def _run(before: ViewReading, after: ViewReading, first: int, last: int) -> ShownRun:
    gone, come = (
        tuple(seen(entry) for entry in islice(reading.entries(first, last), _MOST_ENTRIES))
        for reading in (before, after)
    )
    pins = tuple((pin, _survives(pin, after)) for pin in before.pins_in(first, last))
    return ShownRun(first, last, gone, _entries(before, first, last), come, _entries(after, first, last), pins)


def _survives(pin: Pin, after: ViewReading) -> bool:
    """Does what is pinned still stand in the view, word for word?"""
    fold = next((fold for fold in after.folds if fold.start_seq <= pin.seq <= fold.end_seq), None)
    return fold is None or (bool(pin.line) and pin.line in fold.text)


def _entries(reading: ViewReading, first: int = 1, last: int | None = None) -> int:
    """How many entries a view has for a run of the log, which ends where entries end."""
    end = reading.last_seq if last is None else last
    inside = (fold for fold in reading.folds if first <= fold.start_seq and fold.end_seq <= end)
    return end - first + 1 - sum(fold.message_count - 1 for fold in inside)


def _text(entry: ShownEntry) -> str:
    return str(entry.message.get("content") or "").removeprefix(SUMMARY_PREFIX)


_AT = Field("at", "whole")
PAGES = (
    PageRoute("/tasks/{task}/actions", toolbar),
    PageRoute("/tasks/{task}/export", export, query=(Field("format", choices=FORMS, default="html"),)),
    PageRoute("/tasks/{task}/view", view_page, "tasks", query=(_AT, Field("before", "whole"))),
    PageRoute("/tasks/{task}/view/lines", view_lines, "tasks", query=(_AT,)),
    PageRoute("/tasks/{task}/compare/{number}", compare_page, "tasks"),
)
