"""How commands print: JSON, findings and tables; colour only on a terminal, and never what a task's text asks for."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from orihon.texts import text

if TYPE_CHECKING:
    from orihon.tasks.verify.findings import Finding

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: What stands in a column of figures, which are read from the right.
_FIGURE = re.compile(r"-|[-+$]?[0-9][0-9,.]*(?: ?(?:%|[KMGT]?B))?")
#: Cells that the column which gives way must have left; a terminal that has fewer gets one line for each field.
_LEAST_WIDTH = 8
_CELL_EDGES = 3
_BYTES_STEP = 1024
#: Seconds after which somebody begins to wonder.
_A_WHILE = 0.7
_STYLES = {"error": "red", "warning": "yellow", "done": "green"}


def shown(value: object) -> str:
    """A text from outside on one line: what would move the cursor or turn the line round is made visible."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], str(value))


def short_time(stamp: str | None) -> str:
    """A time of the catalogue for people, to the minute."""
    return "-" if stamp is None else stamp[:16].replace("T", " ")


def human_bytes(size: float) -> str:
    """A number of bytes as people say it: ``4.2 MB``."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < _BYTES_STEP:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= _BYTES_STEP
    return f"{size:,.1f} TB"


def print_json(value: Any) -> None:
    """For programs."""
    from orihon.system import jsonio
    from orihon.system.json_shapes import to_json

    typer.echo(jsonio.encode_pretty(to_json(value)).decode().rstrip())


def say(value: Any, told: str | Callable[[Any], object], *, as_json: bool) -> None:
    """What was found or done: for programs, or for people, in one line or by what prints it."""
    if as_json:
        print_json(value)
    elif isinstance(told, str):
        typer.echo(shown(told))
    else:
        told(value)


@contextmanager
def progress_bar(label: str, *, hidden: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on the terminal with the time left, for work that tells how much of how much is done.

    It appears when the work has lasted a while: what is done at once needs none.
    """
    if hidden or not sys.stderr.isatty():
        yield None
        return
    import threading

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    job = bar.add_task(text(label), total=None)
    appearing = threading.Timer(_A_WHILE, bar.start)
    appearing.daemon = True
    appearing.start()
    try:
        yield lambda done, of: bar.update(job, completed=done, total=of)
    finally:
        appearing.cancel()
        appearing.join()
        bar.stop()


def print_findings(findings: Iterable[Finding]) -> None:
    """One line for each, with the task it is about."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        state = finding.repair if finding.repair in ("done", "failed") else finding.severity
        line = Text.assemble(
            (text(f"cli.findings.{state}"), _STYLES.get(state, "red")),
            f" {shown(finding.task)}".rstrip(),
            (f" {shown(finding.where)}", "bold"),
            f": {shown(finding.cause)}",
        )
        if finding.repair != "done":
            line.append(f" {shown(finding.remedy)}")
        if finding.note:
            line.append(f" {shown(finding.note)}")
        console.print(line)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, flexible: int) -> None:
    """A table on a terminal, where one column gives way; otherwise a line for each row, its fields parted by tabs.

    On a terminal too narrow for that, each field has its own line.
    """
    cells = [[shown(field) for field in row] for row in rows]
    if not sys.stdout.isatty():
        for row in cells:
            typer.echo("\t".join(row))
        return
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    widths = [max(map(cell_len, column)) for column in zip(columns, *cells, strict=True)]
    fixed = sum(widths) - widths[flexible] + _CELL_EDGES * len(widths) + 2
    if console.width - fixed < min(widths[flexible], _LEAST_WIDTH):
        for row in cells:
            lines = [Text(f"{name}: {field}") for name, field in zip(columns, row, strict=True)]
            console.print(*lines, "", sep="\n", soft_wrap=True)
        return
    table = Table(box=box.SIMPLE_HEAD)
    for index, name in enumerate(columns):
        width = None if index == flexible else widths[index]
        table.add_column(name, min_width=width, no_wrap=index != flexible, overflow="ellipsis")
        if all(_FIGURE.fullmatch(row[index]) for row in cells):
            table.columns[-1].justify = "right"
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)
