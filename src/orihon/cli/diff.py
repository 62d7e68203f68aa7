"""``orihon diff``: a view before and after one compression."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orihon.cli.options import CommandOptions, flag
from orihon.cli.output import print_json, shown
from orihon.cli.pager import paged
from orihon.cli.task_argument import MOST, TaskArgument, named_task
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.reports.view_diff import ViewDiff
    from orihon.tasks.view_reader import ShownEntry

_STYLES = {"-": "red", "+": "green", "@": "cyan"}
_MOST_OF_A_LINE = 300

_Compression = Annotated[
    int | None,
    typer.Option("--compression", metavar="N", min=1, max=MOST, help=text("cli.diff.compression"), show_default=False),
]


def diff(
    context: typer.Context,
    task: TaskArgument,
    compression: _Compression = None,
    full: Annotated[bool, flag("--full", help=text("cli.view.full"))] = False,
    no_pager: Annotated[bool, flag("--no-pager", help=text("cli.options.no_pager"))] = False,
    as_json: Annotated[bool, flag("--json", help=text("cli.options.json"))] = False,
) -> None:
    """What went out of the view, what came into it, and the tokens."""
    from orihon.reports.view_diff import view_diff

    options = context.ensure_object(CommandOptions)
    found = view_diff(options.base, named_task(context, task), compression)
    if as_json:
        print_json(found)
        return
    with paged(off=no_pager):
        _print(_lines(found, full=full))


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
                yield from (f"{mark} {line}" for line in _said(one, full=full))
    for mark, pins in (("-", found.unpinned), ("+", found.pinned)):
        for pin in pins:
            yield f"{mark} {text('cli.diff.pin', seq=pin.seq)} {shown(pin.line)}".rstrip()


def _said(one: ShownEntry, *, full: bool) -> list[str]:
    from orihon.cli.view_output import readable

    entry = one.entry
    place = str(entry.start) if entry.start == entry.end else f"{entry.start}-{entry.end}"
    is_summary = entry.fold is not None and entry.fold.form == "summary"
    said = entry.fold.text if entry.fold is not None and is_summary else readable(one.message)
    lines = said.splitlines() or [""]
    first = f"{place} {entry.role}: {lines[0] if full else lines[0][:_MOST_OF_A_LINE]}"
    if not full:
        return [first + (" …" if len(lines) > 1 or len(lines[0]) > _MOST_OF_A_LINE else "")]
    return [first, *lines[1:]]


def _print(lines: Iterator[str]) -> None:
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
