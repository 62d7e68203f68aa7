"""What the model saw at a step of a task, message by message; and what one change did to that: before and after."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

from orihon.errors import NothingToUndo
from orihon.reports.view_diff import changed_runs
from orihon.system import jsonio
from orihon.tasks.view_reader import ShownEntry, ViewReading
from orihon.transfer.export.message_view import ContentBlock, entry_blocks, said_text, shown_message
from orihon.values.records import SUMMARY_PREFIX, Fold, Pin
from orihon.values.view import history
from orihon.web.call import Call, Download, Page, PageRoute
from orihon.web.conversation import ConversationRange, ConversationReader, spans_before
from orihon.web.fields import Field
from orihon.web.pages.actions import can_of, standing
from orihon.web.task_head import TaskHead, gauge_of, open_task_head, title_of
from orihon.web.task_memory import ChangeMark

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
    PageRoute("/tasks/{task}/view", view_page, "tasks", query=(_AT, Field("before", "whole"))),
    PageRoute("/tasks/{task}/view/lines", view_lines, "tasks", query=(_AT,)),
    PageRoute("/tasks/{task}/compare/{number}", compare_page, "tasks"),
)
