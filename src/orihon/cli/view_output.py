"""How a view is printed: one line for each entry or all that it says; folds and pins marked; JSON as a stream.

What is printed comes from tasks: it never moves the cursor, and only one entry at a time is held.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from orihon.cli.output import shown
from orihon.system import jsonio
from orihon.system.json_shapes import to_json
from orihon.texts import text

if TYPE_CHECKING:
    from orihon.store.record_codec import StoredMessage
    from orihon.tasks.view_reader import ShownEntry
    from orihon.values.records import Compression, Fold, Pin

_STYLES = {"system": "magenta", "developer": "magenta", "user": "green", "assistant": "cyan", "tool": "yellow"}
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
