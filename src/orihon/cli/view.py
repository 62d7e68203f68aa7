"""``orihon view`` and ``diff``: the context as the model sees it, its compressions, and what one of them did."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.arguments import MOST, AsJson, TaskArgument, named_task
from orihon.cli.options import base_of, flag, option
from orihon.cli.output import print_json, print_table, shown
from orihon.cli.streams import paged
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.reports.records import ViewDiff
    from orihon.tasks.view_reader import ShownEntry, ViewReading
    from orihon.values.records import Compression

_COLUMNS = ("number", "kind", "how", "folds", "tokens", "by", "created", "state")


def view(
    context: typer.Context,
    uuid: TaskArgument,
    folds: Annotated[bool, flag("--folds", help=text("cli.view.folds"))] = False,
    fold: Annotated[int | None, option("--fold", metavar="N", min=1, max=MOST, help=text("cli.view.fold"))] = None,
    original: Annotated[bool, flag("--original", help=text("cli.view.original"))] = False,
    at: Annotated[int | None, option("--at", metavar="SEQ", min=1, max=MOST, help=text("cli.view.at"))] = None,
    full: Annotated[bool, flag("--full", help=text("cli.view.full"))] = False,
    no_pager: Annotated[bool, flag("--no-pager", help=text("cli.options.no_pager"))] = False,
    as_json: AsJson = False,
) -> None:
    """Look and print; nothing is changed."""
    from orihon.errors import InvalidInput
    from orihon.tasks.view_reader import reading_view

    if folds and fold is not None:
        raise InvalidInput("options_together", first="--folds", second="--fold")
    if original and fold is None:
        raise InvalidInput("option_alone", option="--original", needs="--fold")
    if at is not None and (folds or fold is not None):
        raise InvalidInput("options_together", first="--at", second="--folds" if folds else "--fold")
    task = named_task(context, uuid)
    reading_it = reading_view(base_of(context), task, at=at)
    with paged(off=no_pager or as_json), reading_it as reading:
        if folds:
            _print_compressions(task, reading, as_json=as_json)
        elif fold is not None:
            _print_fold(reading, fold, original=original, as_json=as_json)
        else:
            _print_view(task, reading, at=at, full=full, as_json=as_json)


def _print_view(task: str, reading: ViewReading, *, at: int | None, full: bool, as_json: bool) -> None:
    from orihon.cli.record_output import EntryPrinter, print_json_stream

    if as_json:
        print_json_stream(reading.head(), "view", reading.entries())
        return
    figures, row = reading.figures(), reading.row
    status, label = ("-", "-") if row is None else (row.status.value, row.key.label)
    printer = EntryPrinter(reading.last_seq, full=full)
    printer.title(
        text(
            "cli.view.header",
            task=task,
            label=label,
            status=status,
            entries=figures.entries,
            tokens=figures.tokens,
            percent=round(100 * figures.usage),
            budget=figures.budget,
        )
    )
    if at is not None:
        printer.title(_step_line(at, reading))
    for shown_entry in reading.entries():
        printer.entry(shown_entry)


def _step_line(at: int, reading: ViewReading) -> str:
    answer = reading.answer()
    key = "cli.view.step" if answer is None else "cli.view.step_answered"
    return text(key, seq=at, compression=reading.compression or "-", answer=at + 1)


def _print_fold(reading: ViewReading, number: int, *, original: bool, as_json: bool) -> None:
    from orihon.cli.record_output import EntryPrinter, fold_title, print_json_stream

    fold = reading.fold(number)
    if as_json and original:
        print_json_stream(reading.known_fold(number), "originals", reading.originals(fold))
        return
    if as_json:
        print_json(reading.known_fold(number))
        return
    printer = EntryPrinter(reading.last_seq, full=True)
    place = text("cli.view.place", start=fold.start_seq, end=fold.end_seq)
    gone = "" if fold in reading.folds else text("cli.view.gone")
    printer.title(f"{fold_title(fold, reading.made_in(number))} {place}{gone}")
    printer.body(fold.text)
    if original:
        for stored in reading.originals(fold):
            printer.original(stored)


def _print_compressions(task: str, reading: ViewReading, *, as_json: bool) -> None:
    from orihon.tasks.view_reader import UndoableCompression

    records = reading.compressions()
    if as_json:
        print_json({"task": task, "compressions": [UndoableCompression(*one) for one in records]})
    elif records:
        names = [text(f"cli.view.columns.{column}") for column in _COLUMNS]
        cells = (_cells(record, undone=undone) for record, undone in records)
        print_table(names, cells, flexible=_COLUMNS.index("how"))
    else:
        typer.echo(text("cli.view.none"), err=True)


def _cells(record: Compression, *, undone: bool) -> tuple[object, ...]:
    kind = record.kind if record.parent is None else f"{record.kind} {record.parent}"
    how = " ".join(filter(None, (record.trigger, record.strategy, record.level)))
    return (
        record.id,
        kind,
        how,
        ", ".join(map(str, record.folds)) or "-",
        f"{record.before_tokens} → {record.after_tokens}",
        record.made_by or "-",
        record.created_at[:19].replace("T", " "),
        text("cli.view.undone") if undone else "-",
    )


# ---- before and after ------------------------------------------------------------------------------------------------

_STYLES = {"-": "red", "+": "green", "@": "cyan"}
_MOST_OF_A_LINE = 300

_Compression = Annotated[
    int | None, option("--compression", metavar="N", min=1, max=MOST, help=text("cli.diff.compression"))
]


def diff(
    context: typer.Context,
    task: TaskArgument,
    compression: _Compression = None,
    full: Annotated[bool, flag("--full", help=text("cli.view.full"))] = False,
    no_pager: Annotated[bool, flag("--no-pager", help=text("cli.options.no_pager"))] = False,
    as_json: AsJson = False,
) -> None:
    """What went out of the view, what came into it, and the tokens."""
    from orihon.reports.records import view_diff

    found = view_diff(base_of(context), named_task(context, task), compression)
    if as_json:
        print_json(found)
        return
    with paged(off=no_pager):
        _print_diff(_lines(found, full=full))


def _lines(found: ViewDiff, *, full: bool) -> Iterator[str]:
    record, before, after = found.compression, found.before, found.after
    how = " ".join(filter(None, (record.kind, record.strategy, record.level)))
    yield text("cli.diff.title", task=found.uuid, compression=record.id, how=how, created=record.created_at[:19])
    sides: dict[str, Any] = {"entries": before.entries, "tokens": before.tokens, "percent": round(100 * before.usage)}
    yield "--- " + text("cli.diff.side", **sides)
    sides = {"entries": after.entries, "tokens": after.tokens, "percent": round(100 * after.usage)}
    yield "+++ " + text("cli.diff.side", **sides)
    for hunk in found.hunks:
        lost, won = (sum(one.entry.tokens for one in entries) for entries in (hunk.gone, hunk.come))
        run = text("cli.diff.hunk", start=hunk.start_seq, end=hunk.end_seq, before=lost, after=won)
        yield f"@@ {run} @@"
        for mark, entries in (("-", hunk.gone), ("+", hunk.come)):
            for one in entries:
                yield from (f"{mark} {line}" for line in _entry_lines(one, full=full))
    for mark, pins in (("-", found.unpinned), ("+", found.pinned)):
        for pin in pins:
            yield f"{mark} {text('cli.diff.pin', seq=pin.seq)} {shown(pin.line)}".rstrip()


def _entry_lines(one: ShownEntry, *, full: bool) -> list[str]:
    from orihon.cli.record_output import readable

    entry = one.entry
    place = str(entry.start) if entry.start == entry.end else f"{entry.start}-{entry.end}"
    is_summary = entry.fold is not None and entry.fold.form == "summary"
    said = entry.fold.text if entry.fold is not None and is_summary else readable(one.message)
    lines = said.splitlines() or [""]
    first = f"{place} {entry.role}: {lines[0] if full else lines[0][:_MOST_OF_A_LINE]}"
    if not full:
        return [first + (" …" if len(lines) > 1 or len(lines[0]) > _MOST_OF_A_LINE else "")]
    return [first, *lines[1:]]


def _print_diff(lines: Iterator[str]) -> None:
    if not sys.stdout.isatty():
        for line in lines:
            typer.echo(shown(line))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        style = "bold" if line.startswith(("---", "+++")) else _STYLES.get(line[:1], "")
        console.print(Text(shown(line), style=style), soft_wrap=True)
