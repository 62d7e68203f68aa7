"""How commands print: JSON, findings and tables; colour only on a terminal, and never what a task's text asks for."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer

from orihon.texts import text

if TYPE_CHECKING:
    from orihon.findings import Finding

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
#: Cells that the column which gives way must have left; a terminal that has fewer gets one line for each field.
_LEAST_WIDTH = 8
_CELL_EDGES = 3
_STYLES = {"error": "red", "warning": "yellow", "done": "green"}


def shown(value: object) -> str:
    """A text from outside on one line: what would move the cursor or turn the line round is made visible."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], str(value))


def print_json(value: Any) -> None:
    """For programs."""
    from orihon import jsonio

    typer.echo(jsonio.encode_pretty(value).decode().rstrip())


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
            console.print(*(Text(f"{name}: {field}") for name, field in zip(columns, row, strict=True)), "", sep="\n")
        return
    table = Table(box=box.SIMPLE_HEAD)
    for index, name in enumerate(columns):
        width = None if index == flexible else widths[index]
        table.add_column(name, min_width=width, no_wrap=index != flexible, overflow="ellipsis")
    for row in cells:
        table.add_row(*map(Text, row))
    console.print(table)
