"""HTML: a task's history as one file that can be opened, sent and printed, and that is safe whatever the task holds.

Nothing in it runs: there is no script, and the content security policy would not let one run, nor fetch anything. All
text goes through the templates, which write out what hides and escape the rest; links in it stay text; pictures are
raster pictures, inside the file. Without a script, folds and long outputs open and close as ``details``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from orihon.store.checkpoints import Checkpoint, Phase
from orihon.texts import language, text
from orihon.transfer.export.about import (
    about,
    compression_cells,
    compression_columns,
    fold_statistics,
    fold_title,
    moment,
)
from orihon.transfer.export.message_view import outcome, output, pretty, said_text, shown_message
from orihon.transfer.export.prose import code, prose, visible
from orihon.transfer.export.story import FoldBegins, FoldEnds, OpenTask, Story, StoryEvent, StoryMessage
from orihon.values.records import Fold


def html_page(task: OpenTask) -> Iterator[bytes]:
    """The page, piece by piece."""
    for piece in _page(Story(task)):
        yield piece.encode() + b"\n"


@cache
def _macros() -> tuple[Any, Any]:
    """Those of exported files, and those that they share with the pages of the site."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # takes a while to import

    made = Environment(
        loader=PackageLoader("orihon.transfer.export"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_visible,
    )
    made.globals.update(t=text, language=language)
    made.filters.update(plain=visible, moment=moment, prose=prose, code=code, size=str)
    return made.get_template("export.html").module, made.get_template("message_parts.html").module


def _visible(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _style() -> tuple[Markup, str]:
    """The style sheet, and its hash as the policy names it."""
    sheet = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return Markup(sheet), base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()  # noqa: S704 - our own


def _page(story: Story) -> Iterator[str]:
    made, _ = _macros()
    head = about(story.task)
    yield made.begin(head.title, *_style()).lstrip()
    yield made.header(head)
    yield from _before(story)
    yield made.conversation()
    for event in story.events():
        yield from _event(event)
    yield "</section>"
    yield from _after(story)
    yield made.end()


def _before(story: Story) -> Iterator[str]:
    made, _ = _macros()
    if summary := story.final_summary:
        yield made.card(text("export.final_summary"), said_text(summary, None))
    yield from _titled("plans", (_plan(plan, is_open=not at) for at, plan in enumerate(story.plans())))
    yield from _titled("questions", map(made.question_line, story.ledger.checkpoints))


def _plan(plan: dict[str, Any], *, is_open: bool) -> str:
    made, _ = _macros()
    content = plan["plan_content"]
    block = said_text(content, None) if isinstance(content, str) else output(pretty(content), None)
    return str(made.plan({"created_at": None, **plan}, block, is_open))


def _event(event: StoryEvent) -> Iterator[str]:
    made, shown = _macros()
    match event:
        case StoryMessage():
            yield shown.message(shown_message(event, whole=True))
        case FoldBegins():
            figures = fold_statistics(event.fold, event.made_in)
            yield made.fold_begins(event.fold, fold_title(event.fold), figures, said_text(event.fold.text, None))
        case FoldEnds():
            yield "</details></section>"
        case Phase():
            yield made.phase(event)
        case Checkpoint():
            yield made.question(event)


def _after(story: Story) -> Iterator[str]:
    made, _ = _macros()
    if story.compressions:
        rows = (compression_cells(record, undone=undone) for record, undone in story.compressions)
        yield made.compressions(compression_columns(), rows)
    yield from _titled("former_folds", map(_former_fold, story.former_folds()), closed=True)
    yield from _titled("lone_calls", map(_lone_call, story.lone_calls()), closed=True)
    yield from _titled("files", map(made.file, story.files), closed=True)


def _former_fold(fold: Fold) -> str:
    made, _ = _macros()
    return str(made.former_fold(fold_title(fold), fold_statistics(fold, None), said_text(fold.text, None)))


def _lone_call(record: dict[str, Any]) -> str:
    made, _ = _macros()
    blocks = [output(pretty(record.get(name)), None) for name in ("arguments", "result")]
    return str(made.lone_call(record.get("tool_name"), outcome(record, whole=True), blocks))


def _titled(title: str, pieces: Iterable[str], *, closed: bool = False) -> Iterator[str]:
    """A section, if there is anything in it."""
    made, _ = _macros()
    is_open = False
    for piece in pieces:
        if not is_open:
            yield made.section(text(f"export.{title}"), closed)
            is_open = True
        yield piece
    if is_open:
        yield "</details></section>" if closed else "</section>"
