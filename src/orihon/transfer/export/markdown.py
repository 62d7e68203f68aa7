"""Markdown: a task's history to read, to keep beside the code, to paste into an issue.

What was said stands in quotes, so that headings or open code blocks in it end with it. Tool calls and results stand in
fences that are longer than any in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from orihon.store.checkpoints import Checkpoint, Phase
from orihon.texts import text
from orihon.transfer.export.about import (
    about,
    call_statistics,
    compression_cells,
    compression_columns,
    fold_statistics,
    fold_title,
    moment,
    role_name,
)
from orihon.transfer.export.message_view import MessagePiece, call_arguments, call_name, pieces_of, pretty
from orihon.transfer.export.prose import one_line, visible
from orihon.transfer.export.story import FoldBegins, FoldEnds, OpenTask, Story, StoryMessage
from orihon.values.message.message import Message
from orihon.values.records import Fold

_TICKS = re.compile("`+")
_SHORTEST_FENCE = 3
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown_text(task: OpenTask) -> Iterator[bytes]:
    """The document, block by block."""
    for block in _blocks(Story(task)):
        yield block.encode() + b"\n\n"


def _blocks(story: Story) -> Iterator[str]:
    yield from _head(story)
    yield f"## {text('export.conversation')}"
    for event in story.events():
        match event:
            case StoryMessage():
                yield from _message(event)
            case FoldBegins():
                yield f"### ⟪ {fold_title(event.fold)}"
                yield plain(fold_statistics(event.fold, event.made_in))
                yield quoted(event.fold.text)
                yield f"*{text('export.behind', count=event.fold.message_count)}*"
            case FoldEnds():
                yield f"*⟫ {text('export.fold_ends', fold=event.fold.id)}*"
            case Phase():
                yield f"### § {text('export.phase', number=event.number)} {plain(event.name)}"
            case Checkpoint():
                yield from _question(event)
    yield from _rest(story)


def _head(story: Story) -> Iterator[str]:
    head = about(story.task)
    yield f"# {plain(head.title)}" + (f" ({plain(head.status)})" if head.status else "")
    usage = text("export.of_budget", percent=round(100 * head.view.usage), budget=head.view.budget)
    facts = [*head.facts, *head.figures, (text("export.usage_of_view"), usage)]
    yield "\n".join(f"- {label}: {plain(value)}" for label, value in facts)
    if head.error:
        yield f"**{text('export.error')}**"
        yield fenced(head.error)
    if summary := story.final_summary:
        yield f"## {text('export.final_summary')}"
        yield quoted(summary)
    for number, plan in enumerate(story.plans()):
        if not number:
            yield f"## {text('export.plans')}"
        yield f"### {plain(plan['plan_type'])} · {plain(moment(plan.get('created_at')))}"
        content = plan["plan_content"]
        yield quoted(content) if isinstance(content, str) else fenced(pretty(content), "json")


def _message(told: StoryMessage) -> Iterator[str]:
    stored, message = told.stored, told.stored.message
    name = message.tool_name or message.name or (told.tool or {}).get("tool_name") or ""
    title = [str(stored.seq), role_name(message.role), plain(name)]
    yield "### " + " · ".join(filter(None, title))
    yield f"<sub>{' · '.join(filter(None, _notes(told)))}</sub>"
    yield from content_blocks(message)
    if told.preview is not None:
        yield f"*{text('export.preview', fold=told.preview.id)}*"
        yield fenced(told.preview.text)


def content_blocks(message: Message, shortened: str | None = None) -> Iterator[str]:
    """What a message says, or what stands for that, and the calls that it makes."""
    if shortened is None:
        for piece in pieces_of(message):
            yield _piece(piece, in_fence=message.role == "tool")
    else:
        yield fenced(shortened)
    for call in message.tool_calls:
        yield f"→ **{plain(call_name(call))}** {plain(call.id)}".rstrip()
        yield fenced(call_arguments(call), "json" if call.name else "")


def _notes(told: StoryMessage) -> Iterator[str]:
    stored = told.stored
    yield plain(moment(stored.timestamp))
    yield text("export.token_count", tokens=stored.tokens)
    if stored.message.tool_call_id is not None:
        yield plain(stored.message.tool_call_id)
    if stored.call is not None:
        yield plain(call_statistics(stored.call))
    if told.tool is not None:
        yield plain(tool_outcome(told.tool))
    if told.pins:
        yield text("export.pinned")


def tool_outcome(record: dict[str, object]) -> str:
    """How a call went and how long it took."""
    duration = record.get("duration_ms")
    took = f"{duration:,.0f} ms" if isinstance(duration, int | float) else ""
    return " · ".join(filter(None, (str(record.get("status") or ""), took, str(record.get("error") or ""))))


def _piece(piece: MessagePiece, *, in_fence: bool) -> str:
    match piece.kind:
        case "text":
            return fenced(piece.text) if in_fence else quoted(piece.text)
        case "thought":
            return f"*{text('export.thought')}*\n\n{quoted(piece.text)}"
        case "picture":
            assert piece.picture is not None
            return f"*{text('export.unshown', what=piece.picture.type)}*"
        case "unshown":
            return f"*{text('export.unshown', what=plain(piece.text))}*"


def _question(asked: Checkpoint) -> Iterator[str]:
    yield f"### ? {text('export.question')} · {plain(asked.name)}"
    yield quoted(asked.question)
    if (answer := asked.answer) is None:
        yield f"**{text('export.unanswered')}**"
        return
    said = text(f"export.decisions.{answer.decision}")
    yield f"**{said}** · {plain(answer.by)} · {plain(moment(answer.at))}"
    if answer.comment:
        yield quoted(answer.comment)


def _rest(story: Story) -> Iterator[str]:
    if story.compressions:
        yield f"## {text('export.compressions')}"
        rows = (compression_cells(record, undone=undone) for record, undone in story.compressions)
        yield table(compression_columns(), rows)
    yield from _titled(text("export.former_folds"), (_former(fold) for fold in story.former_folds()))
    yield from _titled(text("export.lone_calls"), (_lone(record) for record in story.lone_calls()))
    yield from _titled(text("export.files"), (f"- {plain(name)}" for name in story.files))


def _titled(title: str, blocks: Iterable[str]) -> Iterator[str]:
    for number, block in enumerate(blocks):
        if not number:
            yield f"## {title}"
        yield block


def _former(fold: Fold) -> str:
    return f"### {fold_title(fold)}\n\n{plain(fold_statistics(fold, None))}\n\n{quoted(fold.text)}"


def _lone(record: dict[str, object]) -> str:
    title = f"### {plain(record.get('tool_name'))} · {plain(tool_outcome(record))}"
    return "\n\n".join((title, fenced(pretty(record.get("arguments")), "json"), fenced(pretty(record.get("result")))))


def plain(value: object) -> str:
    """A name or the like in running text: one line, and nothing in it is markup."""
    return _SPECIAL.sub(r"\\\1", one_line(value))


def quoted(said: str) -> str:
    """A text as a quotation: whatever it opens, it ends with it."""
    return "\n".join(f"> {line}".rstrip() for line in visible(said).strip("\n").split("\n"))


def fenced(said: str, language: str = "") -> str:
    """A text as it is, in a fence longer than any that it holds."""
    shown = visible(said)
    longest = max((len(run) for run in _TICKS.findall(shown)), default=0)
    fence = "`" * max(_SHORTEST_FENCE, longest + 1)
    return f"{fence}{language}\n{shown}\n{fence}"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, one line for each row."""
    lines = [columns, ["---"] * len(columns), *([plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
