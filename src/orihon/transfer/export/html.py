"""HTML: a task's history as one file that can be opened, sent and printed, and that is safe whatever the task holds.

Nothing in it runs: there is no script, and the content security policy would not let one run, nor fetch anything. All
text goes through ``html_text.escape``; links in it stay text; pictures are raster pictures, inside the file. Without a
script, folds and long outputs open and close as ``details``.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files

from orihon.store.checkpoints import Checkpoint, Phase
from orihon.texts import language, text
from orihon.transfer.export.about import (
    About,
    about,
    compression_cells,
    compression_columns,
    fold_statistics,
    fold_title,
    moment,
)
from orihon.transfer.export.html_message import long_prose, message, outcome, shortened
from orihon.transfer.export.html_text import Html, closing, escape, join, opening, tag
from orihon.transfer.export.pieces import pretty
from orihon.transfer.export.prose import code, prose
from orihon.transfer.export.source import OpenTask
from orihon.transfer.export.story import FoldBegins, FoldEnds, Story, StoryEvent, StoryMessage
from orihon.values.records import Fold


def html_page(task: OpenTask) -> Iterator[bytes]:
    """The page, piece by piece."""
    for piece in _page(Story(task)):
        yield piece.encode() + b"\n"


def _page(story: Story) -> Iterator[Html]:
    head = about(story.task)
    yield Html("<!DOCTYPE html>")
    yield opening("html", lang=language())
    yield _document_head(head)
    yield opening("body")
    yield opening("main")
    yield _header(head)
    yield from _before(story, head)
    yield opening("section", cls="conversation")
    yield tag("h2", text("export.conversation"))
    for event in story.events():
        yield from _event(event)
    yield closing("section")
    yield from _after(story)
    yield tag("footer", text("export.made_by"))
    yield Html("</main></body></html>")


@cache
def _style() -> tuple[str, str]:
    """The style sheet, and its hash as the policy names it."""
    sheet = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    return sheet, base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()


def _document_head(head: About) -> Html:
    sheet, digest = _style()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    # Of what stands here only the title is from outside; the policy has to come before everything that it governs.
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="robots", content="noindex"),
        tag("title", f"{head.title} · Orihon"),
        Html(f"<style>{sheet}</style>"),
    )


def _header(head: About) -> Html:
    status = tag("span", head.status, cls=f"status {head.status}") if head.status else ""
    facts = (tag("div", tag("dt", label), tag("dd", tag("bdi", value))) for label, value in head.facts)
    figures = (tag("li", tag("b", value), " ", tag("span", label)) for label, value in head.figures)
    budget = text("export.of_budget", percent=round(100 * head.view.usage), budget=head.view.budget)
    share = f"{min(max(head.view.usage, 0.0), 1.0):.4f}"
    return tag(
        "header",
        tag("h1", tag("bdi", head.title), " ", status),
        tag("dl", join(facts)),
        tag("ul", join(figures), cls="figures"),
        tag("p", tag("meter", budget, value=share, high="0.8", optimum="0"), " ", budget, cls="budget"),
    )


def _before(story: Story, head: About) -> Iterator[Html]:
    if head.error:
        yield tag("section", tag("h2", text("export.error")), code(head.error), cls="failure")
    if summary := story.final_summary:
        yield tag("section", tag("h2", text("export.final_summary")), long_prose(summary), cls="card")
    yield from _titled(text("export.plans"), (_plan(plan, is_open=not at) for at, plan in enumerate(story.plans())))
    yield from _titled(text("export.questions"), map(_question_line, story.ledger.checkpoints))


def _plan(plan: dict[str, object], *, is_open: bool) -> Html:
    content = plan["plan_content"]
    title = tag("summary", tag("bdi", plan["plan_type"]), " ", _time(plan.get("created_at")))
    return tag("details", title, prose(content) if isinstance(content, str) else code(pretty(content)), open=is_open)


def _question_line(asked: Checkpoint) -> Html:
    state = text("export.unanswered" if asked.answer is None else f"export.decisions.{asked.answer.decision}")
    return tag("p", tag("a", tag("bdi", asked.name), href=f"#q{asked.id}"), ": ", tag("b", state))


def _event(event: StoryEvent) -> Iterator[Html]:
    match event:
        case StoryMessage():
            yield message(event)
        case FoldBegins():
            yield opening("section", cls="fold", id=f"f{event.fold.id}")
            yield _fold(event.fold, fold_statistics(event.fold, event.made_in))
            yield opening("details")
            yield tag("summary", text("export.behind", count=event.fold.message_count))
        case FoldEnds():
            yield Html("</details></section>")
        case Phase():
            title = f"{text('export.phase', number=event.number)} "
            yield tag("h3", title, tag("bdi", event.name), cls="phase")
        case Checkpoint():
            yield _question(event)


def _fold(fold: Fold, figures: str) -> Html:
    return join((tag("h3", fold_title(fold)), tag("p", tag("bdi", figures), cls="notes"), long_prose(fold.text)))


def _question(asked: Checkpoint) -> Html:
    answer = asked.answer
    said = tag("p", tag("b", text("export.unanswered")))
    if answer is not None:
        decision = tag("b", text(f"export.decisions.{answer.decision}"))
        said = join((tag("p", decision, " ", tag("bdi", answer.by), " ", _time(answer.at)), prose(answer.comment)))
    return tag(
        "aside",
        tag("h3", text("export.question"), ": ", tag("bdi", asked.name)),
        prose(asked.question),
        prose(asked.context) if asked.context else "",
        said,
        cls="question",
        id=f"q{asked.id}",
    )


def _after(story: Story) -> Iterator[Html]:
    if story.compressions:
        yield _compressions(story)
    former = (tag("div", _fold(fold, fold_statistics(fold, None)), cls="fold") for fold in story.former_folds())
    yield from _titled(text("export.former_folds"), former, closed=True)
    yield from _titled(text("export.lone_calls"), map(_lone_call, story.lone_calls()), closed=True)
    names = (tag("p", tag("bdi", name), cls="file") for name in story.files)
    yield from _titled(text("export.files"), names, closed=True)


def _compressions(story: Story) -> Html:
    head = join(tag("th", column) for column in compression_columns())
    rows = (compression_cells(record, undone=undone) for record, undone in story.compressions)
    body = join((tag("tr", join(tag("td", cell) for cell in row)) for row in rows), "\n")
    table = tag("table", tag("thead", tag("tr", head)), tag("tbody", body))
    return tag("section", tag("h2", text("export.compressions")), tag("div", table, cls="wide"))


def _lone_call(record: dict[str, object]) -> Html:
    return tag(
        "article",
        tag("h3", tag("bdi", record.get("tool_name")), " ", outcome(record)),
        shortened(pretty(record.get("arguments"))),
        shortened(pretty(record.get("result"))),
        cls="message tool",
    )


def _titled(title: str, pieces: Iterable[Html], *, closed: bool = False) -> Iterator[Html]:
    """A section, if there is anything in it."""
    is_open = False
    for piece in pieces:
        if not is_open:
            yield opening("section")
            yield Html(opening("details") + tag("summary", tag("h2", title))) if closed else tag("h2", title)
            is_open = True
        yield piece
    if is_open:
        yield Html("</details></section>" if closed else "</section>")


def _time(value: object) -> Html:
    return tag("time", moment(str(value))) if value else escape("")
