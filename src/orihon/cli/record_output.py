"""How what a task has recorded is printed: entries of a view, the card of a task, records one line each or in full.

What is printed comes from tasks: it never moves the cursor, and only one entry at a time is held.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import typer

from orihon.cli.output import human_bytes, short_time, shown
from orihon.system import jsonio
from orihon.system.json_shapes import to_json
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.catalogue import TaskRow
    from orihon.reports.overview import RecordStatistics, TaskOverview
    from orihon.tasks.inheritance import InheritanceContext
    from orihon.tasks.reader import StoredMessage
    from orihon.tasks.view_reader import ShownEntry
    from orihon.values.records import Compression, Fold, Pin

_STYLES = {"system": "magenta", "developer": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}
_TRUSTS = ("system", "user", "assistant", "tool")
_FOLD_STYLE = "bold blue"
_PIN_STYLE = "bold red"
_TIME_STYLE = "dim"
_WIDTH_FOR_TIMES = 60  # on a narrower terminal, what was said is worth more than when
_MOST_OF_A_LINE = 300
_INDENT = "    "


class EntryPrinter:
    """Prints entries to standard output: in columns on a terminal, otherwise with tabs between the fields."""

    def __init__(self, last_seq: int, *, full: bool) -> None:
        self._full = full
        self._place_width = 2 * len(str(last_seq)) + 1
        self._console = None
        if sys.stdout.isatty():
            from rich.console import Console

            self._console = Console(highlight=False)

    def title(self, line: str) -> None:
        """What stands above."""
        self._line([(shown(line), "bold")])

    def entry(self, shown_entry: ShownEntry) -> None:
        """One entry of the view."""
        entry = shown_entry.entry
        place = str(entry.start) if entry.start == entry.end else f"{entry.start}-{entry.end}"
        mark = "" if entry.fold is None else fold_title(entry.fold, shown_entry.made_in)
        is_summary = entry.fold is not None and entry.fold.form == "summary"
        said = entry.fold.text if entry.fold is not None and is_summary else readable(shown_entry.message)
        style = _FOLD_STYLE if is_summary else _STYLES.get(entry.role, "")
        pinned = (_pin_mark(shown_entry.pins), _PIN_STYLE)
        self._entry(place, (entry.role, style), entry.tokens, (pinned, mark), said)

    def original(self, stored: StoredMessage, *, timed: bool = False) -> None:
        """One message of the log."""
        role, said = stored.message.role, readable(stored.message.to_chat())
        when = (stored.timestamp[:19].replace("T", " "), _TIME_STYLE) if timed else ("", "")
        self._entry(str(stored.seq), (role, _STYLES.get(role, "")), stored.tokens, (when, ""), said)

    def field(self, name: str, said: str, width: int) -> None:
        """A name and what there is to say under it."""
        if self._console is None:
            self._line([(f"{shown(name)}\t{shown(said)}", "")])
            return
        from rich.cells import cell_len

        padding = " " * max(1, width - cell_len(name))
        self._line([(f"{shown(name)}{padding}", "dim"), (shown(said), "")], whole=True)

    def record(self, place: str, what: str, when: str, said: str) -> None:
        """One record that is no message."""
        first = "" if self._full else shown(_first_line(said))
        if self._console is None:
            self._line([("\t".join((place, shown(what), when, first)), "")])
        else:
            pieces = [(f"{place} ", "dim"), (f"{shown(what)} ", "cyan"), (f"{when} " if when else "", "dim")]
            self._line([*pieces, (first, "")])
        if self._full:
            self.body(said)

    def body(self, content: str) -> None:
        """A whole text, below its line."""
        for line in content.splitlines():
            self._line([(_INDENT + shown(line.expandtabs(4)), "")], whole=True)

    def _entry(
        self, place: str, role: tuple[str, str], tokens: int, marks: tuple[tuple[str, str], str], said: str
    ) -> None:
        (mark, mark_style), fold = marks
        name, style = role
        note = shown(f"[{fold}]") if fold else ""
        first = "" if self._full else shown(_first_line(said))
        has_room = self._console is None or self._console.width >= _WIDTH_FOR_TIMES
        if self._console is None:
            self._line([("\t".join((place, shown(name), str(tokens), mark, f"{note} {first}".strip())), "")])
        else:
            self._line(
                [
                    (f"{place:>{self._place_width}} ", "dim"),
                    (f"{shown(name):<10}", style),
                    (f"{tokens:>8,}  ", ""),
                    (f"{mark} " if mark and (has_room or mark_style != _TIME_STYLE) else "", mark_style),
                    (f"{note} " if note else "", _FOLD_STYLE),
                    (first, ""),
                ]
            )
        if self._full:
            self.body(said)

    def _line(self, pieces: list[tuple[str, str]], *, whole: bool = False) -> None:
        if self._console is None:
            typer.echo("".join(piece for piece, _ in pieces))
            return
        from rich.text import Text

        line = Text.assemble(*pieces)
        if whole or len(pieces) == 1:
            self._console.print(line, soft_wrap=True)
        else:
            self._console.print(line, no_wrap=True, overflow="ellipsis")


def fold_title(fold: Fold, made_in: Compression | None) -> str:
    """Which fold it is, what it stands for, and why it was made."""
    how = "" if made_in is None else " ".join(filter(None, (made_in.strategy or made_in.kind, made_in.level)))
    why = ": ".join(dict.fromkeys(filter(None, (how, fold.reason))))
    return text(
        f"cli.view.{fold.form}",
        fold=fold.id,
        messages=fold.message_count,
        before=fold.original_tokens,
        after=fold.tokens,
        why=f", {why}" if why else "",
    )


def readable(message: Mapping[str, Any]) -> str:
    """What a chat message says, for people: text, what else is in it by name, and the calls."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    lines = [part if isinstance(part, str) else _part(part) for part in parts if part]
    for call in message.get("tool_calls") or ():
        called = call.get("function") or call.get("custom") or call
        lines.append(f"→ {called.get('name', '?')} {called.get('arguments') or called.get('input') or ''}".rstrip())
    return "\n".join(lines)


def _part(part: Mapping[str, Any]) -> str:
    said = part.get("text")
    return said if isinstance(said, str) else f"[{part.get('type', '?')}]"


def _first_line(said: str) -> str:
    start = said[: 10 * _MOST_OF_A_LINE].lstrip()[:_MOST_OF_A_LINE]
    line = next(iter(start.splitlines()), "")
    rest = "" if len(line) == len(said.strip()) else " …"
    return line.rstrip().expandtabs(4) + rest


def _pin_mark(pins: tuple[Pin, ...]) -> str:
    if not pins:
        return ""
    return text("cli.view.pinned" if any(not pin.line for pin in pins) else "cli.view.pinned_line")


def print_json_stream(head: object, name: str, items: Iterable[object]) -> None:
    """One JSON object whose last field is a list that is never held as a whole; one item on each line."""
    print_json_streams(head, {name: items})


def print_json_streams(head: object, lists: Mapping[str, Iterable[object]]) -> None:
    """The same with several lists, one after the other."""
    out = sys.stdout.buffer
    out.write(jsonio.encode(to_json(head)).removesuffix(b"}"))
    for name, items in lists.items():
        out.write(b"," + jsonio.encode(name) + b":[")
        for position, item in enumerate(items):
            out.write((b",\n" if position else b"\n") + jsonio.encode(to_json(item)))
        out.write(b"\n]")
    out.write(b"}\n")
    out.flush()


# ---- cards and records -----------------------------------------------------------------------------------------------

_LABEL_WIDTH = 14
_MOST_LINES = 12
_LONGEST_LINE = 200
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
    kept = [line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " …" for line in lines[:_MOST_LINES]]
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
        origin = f" ({text('inheritance.from_import')})" if given.is_imported else ""
        self._entries.title(text("cli.show.given_by", uuid=given.uuid, status=given.status.value) + origin)
        self._entries.body(given.final_summary)
        for plan in given.planning_history:
            self._entries.record(*_plan(plan))
        for problem in given.open_problems:
            self._entries.record("!", "", "", problem)


def _summary(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    place = f"{record['start_seq']}-{record['end_seq']}"
    tokens = f"{record['original_tokens']} → {record['summary_tokens']}"
    if record.get("trust") in _TRUSTS:
        tokens = ", ".join(filter(None, (tokens, record.get("made_by"), text(f"web.task.trust.{record['trust']}"))))
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
