"""How ``orihon show`` prints: the card of a task, and its records one line each or in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from orihon.cli.output import human_bytes, short_time
from orihon.cli.view_output import EntryPrinter
from orihon.system import jsonio
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.catalogue import TaskRow
    from orihon.reports.overview import RecordStatistics, TaskOverview
    from orihon.tasks.inheritance import InheritanceContext

_LABEL_WIDTH = 14
_MOST_LINES = 12
_MOST_OF_A_LINE = 200
_DONE = "success"


def print_card(overview: TaskOverview) -> None:
    """The task at a glance."""
    printer = EntryPrinter(0 if overview.figures is None else overview.figures.messages, full=False)
    row = overview.row
    printer.title(text("cli.show.title", label="-" if row is None else row.key.label, uuid=overview.uuid))
    for name, said in _card_lines(overview):
        printer.field(text(f"cli.show.{name}"), said, width=_LABEL_WIDTH)
    for child in overview.children:
        printer.field(text("cli.show.child"), f"{child.uuid} {child.status.value} {child.key.label}", _LABEL_WIDTH)
    if overview.final_summary:
        printer.title(text("cli.show.final_summary"))
        printer.body(_beginning(overview.final_summary))
    if overview.last_messages:
        printer.title(text("cli.show.last_messages"))
        for stored in overview.last_messages:
            printer.original(stored, timed=True)


def _beginning(summary: str) -> str:
    """As much of it as belongs on a card; ``--json`` has all."""
    lines = summary.splitlines()
    kept = [line if len(line) <= _MOST_OF_A_LINE else line[:_MOST_OF_A_LINE] + " …" for line in lines[:_MOST_LINES]]
    return "\n".join([*kept, *(["…"] if len(lines) > _MOST_LINES else [])])


def _card_lines(overview: TaskOverview) -> Iterator[tuple[str, str]]:
    row = overview.row
    if row is not None:
        yield from _row_lines(row)
    if overview.figures is None:
        yield "records", text(f"cli.show.records_{overview.records}")
    else:
        yield from _statistics_lines(overview.figures)
    if row is not None and row.inherits_from is not None:
        yield "inherits", _inherited_line(overview, row.inherits_from)
    if row is not None and row.parent_uuid is not None:
        yield "parent", row.parent_uuid


def _row_lines(row: TaskRow) -> Iterator[tuple[str, str]]:
    owner = "" if row.lease_owner is None else text("cli.show.held_by", owner=row.lease_owner)
    yield "status", f"{row.status.value}{owner}"
    if row.error_message:
        yield "error", row.error_message
    if row.user:
        yield "user", row.user
    yield "created", short_time(row.created_at)
    times = [short_time(stamp) for stamp in (row.started_at, row.completed_at)]
    yield "worked", text("cli.show.from_to", started=times[0], ended=times[1])
    if row.model:
        yield "model", " ".join(filter(None, (row.llm_provider, row.model)))
    yield (
        "calls",
        text("cli.show.called", calls=row.llm_call_count, tokens=row.total_tokens, compressions=row.compression_count),
    )


def _statistics_lines(figures: RecordStatistics) -> Iterator[tuple[str, str]]:
    yield (
        "records",
        text("cli.show.recorded", messages=figures.messages, summaries=figures.summaries, plans=figures.plans),
    )
    failed = figures.tool_errors
    done = "-" if failed is None else f"{figures.tools - failed:,}"
    yield (
        "tools",
        text("cli.show.tools_called", tools=figures.tools, done=done, failed="-" if failed is None else f"{failed:,}"),
    )
    yield "size", human_bytes(figures.bytes)
    yield (
        "view",
        text(
            "cli.show.view_line",
            percent=round(100 * figures.view.usage),
            tokens=figures.view.tokens,
            budget=figures.view.budget,
            entries=figures.view.entries,
        ),
    )


def _inherited_line(overview: TaskOverview, giver: str) -> str:
    found = overview.inherited
    if found is None:
        return text("cli.show.from_gone", uuid=giver)
    return text(
        "cli.show.from_task",
        uuid=giver,
        summary=text("cli.show.yes" if found.final_summary else "cli.show.no"),
        plans=found.plans,
        problems=found.open_problems,
    )


class RecordPrinter:
    """Records of one task, list after list."""

    def __init__(self, last_seq: int, *, full: bool) -> None:
        self._entries = EntryPrinter(last_seq, full=full)

    def print_all(self, name: str, items: Iterable[Any], *, titled: bool) -> None:
        """One list; its title where there are several."""
        if titled:
            self._entries.title(text(f"cli.show.titles.{name}"))
        is_empty = True
        for item in items:
            is_empty = False
            if name == "messages":
                self._entries.original(item, timed=True)
            else:
                self._entries.record(*_LINES[name](item))
        if is_empty:
            typer.echo(text("cli.show.nothing", what=text(f"cli.show.titles.{name}")), err=True)

    def print_inherited(self, given: InheritanceContext | None, *, titled: bool) -> None:
        """What another task has left, in words."""
        if titled:
            self._entries.title(text("cli.show.titles.inherited"))
        if given is None:
            self._entries.title(text("cli.show.nothing_inherited"))
            return
        self._entries.title(text("cli.show.given_by", uuid=given.uuid, status=given.status.value))
        self._entries.body(given.final_summary)
        for plan in given.planning_history:
            self._entries.record(*_plan(plan))
        for problem in given.open_problems:
            self._entries.record("!", "", "", problem)


def _summary(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    place = f"{record['start_seq']}-{record['end_seq']}"
    tokens = f"{record['original_tokens']} → {record['summary_tokens']}"
    return (
        f"[{record['id']}] {place}",
        tokens,
        str(record.get("created_at", ""))[:19].replace("T", " "),
        record["summary"],
    )


def _tool(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    mark = "✓" if record["status"] == _DONE else "✗"
    took = record.get("duration_ms")
    duration = "" if took is None else f"({took / 1000:.1f}s) "
    result = record.get("error") or record.get("result")
    said = result if isinstance(result, str) else "" if result is None else jsonio.encode(result).decode()
    when = str(record.get("timestamp", ""))[:19].replace("T", " ")
    return f"#{record['seq']}", f"{record['tool_name']} {duration}{mark}", when, said


def _plan(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    content = record["plan_content"]
    said = content if isinstance(content, str) else jsonio.encode(content).decode()
    when = str(record.get("created_at", ""))[:19].replace("T", " ")
    return f"[{record.get('id', '-')}]", str(record["plan_type"]), when, said


_LINES = {"summaries": _summary, "folds": _summary, "tools": _tool, "plans": _plan}
